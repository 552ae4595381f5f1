"""A stand-in for an agent CLI: an executable that does what a test tells it, and keeps what it was given."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

SCRIPT = """#!{python} -SE
import json, os, signal, subprocess, sys, time
here = {here!r}
with open(here + "/behaviour.json") as file:
    told = json.load(file)
argv = sys.argv[1:]
told = told.get(" ".join(argv[:2])) or told.get(argv[0]) or told.get("*") or {{}}
def text_after(flag):
    return open(argv[argv.index(flag) + 1]).read() if flag in argv else None
call = dict(argv=argv, stdin=sys.stdin.read(), env=dict(os.environ), cwd=os.getcwd(),
            files=os.listdir("."), system=text_after("--system-prompt-file"),
            schema=text_after("--output-schema"), pid=os.getpid(),
            settings=[argv[i + 1] for i, each in enumerate(argv) if each == "-c"],
            instructions=[open(json.loads(each.partition("=")[2])).read() for each in argv
                          if each.startswith("model_instructions_file=")])
told = next((other for words, other in told.get("at", {{}}).items() if words in call["stdin"]), told)
with open(here + "/calls.jsonl", "a+") as file:
    file.write(json.dumps(call) + "\\n")
    file.seek(0)
    number = sum(json.loads(line)["argv"][:1] == argv[:1] for line in file)
if "hang_every" in told and number % told["hang_every"] == 0:
    told = dict(hang=True)
if "world" in told and number <= told.get("until", number):
    sys.path[:0] = {path!r}
    from tests.fakes import agent
    told = dict(stdout=getattr(agent, os.path.basename(sys.argv[0]))(call, told["world"]))
sys.stdout.write(told.get("stdout", ""))
sys.stderr.write(told.get("stderr", ""))
sys.stdout.flush()
if told.get("leaves"):
    subprocess.Popen([sys.executable, "-SE", "-c", "import time; time.sleep(60)"], start_new_session=True)
if told.get("kill"):
    os.kill(os.getpid(), told["kill"])
if told.get("hang"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
while told.get("flood"):
    sys.stdout.write("x" * 65536)
sys.exit(told.get("status", 0))
"""


@dataclass(frozen=True)
class FakeCli:
    """``command`` is the executable; ``env`` has it on PATH and is otherwise empty."""

    command: str
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """What the backend under test is given."""
        return {"PATH": str(self.folder), "HOME": str(self.folder / "home")}

    def behave(self, *, on: str = "*", **told: object) -> None:
        """From now on, when the first arguments are ``on``: print ``stdout``, ``stderr``, end with ``status``, ...

        ``hang_every``: of so many calls of its kind the last one hangs, time and again.
        ``at`` has the same for calls whose prompt holds certain words; ``leaves``: something is left running, detached.
        ``world`` is the path of a world file: the answer is the simulated agent's, in the words of this CLI; with
        ``until``, only up to that call of its kind, and all else holds for the later ones.
        """
        path = self.folder / "behaviour.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {on: told}))

    @property
    def calls(self) -> list[dict[str, object]]:
        """What each call was given, in order."""
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_cli(folder: Path, command: str) -> FakeCli:
    """A fake CLI of that name in a new folder; until it is told more it prints nothing and ends well."""
    (folder / "home").mkdir(parents=True)
    (folder / "behaviour.json").write_text("{}")
    script = folder / command
    path = [str(Path(__file__).parents[2]), *(each for each in sys.path if each.endswith("site-packages"))]
    script.write_text(SCRIPT.format(python=sys.executable, here=str(folder), path=path))
    script.chmod(0o755)
    return FakeCli(command=command, folder=folder)
