"""A stand-in for an agent CLI: an executable that prints what a test tells it, and keeps what it was given."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = """#!{python} -SE
import json, os, signal, subprocess, sys, time
here = {here!r}
with open(here + "/behaviour.json") as file:
    told = json.load(file)
argv = sys.argv[1:]
told = told.get(" ".join(argv[:2])) or told.get(argv[0]) or told.get("*") or {{}}
def text_after(flag):
    return open(argv[argv.index(flag) + 1]).read() if flag in argv else None
with open(here + "/calls.jsonl", "a") as file:
    file.write(json.dumps(dict(argv=argv, stdin=sys.stdin.read(), env=dict(os.environ), cwd=os.getcwd(),
                               files=os.listdir("."), system=text_after("--system-prompt-file"),
                               schema=text_after("--output-schema"), pid=os.getpid(),
                               settings=[argv[i + 1] for i, each in enumerate(argv) if each == "-c"],
                               instructions=[open(json.loads(each.partition("=")[2])).read() for each in argv
                                             if each.startswith("model_instructions_file=")])) + "\\n")
sys.stdout.write(told.get("stdout", ""))
sys.stderr.write(told.get("stderr", ""))
sys.stdout.flush()
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
        """From now on, when the first arguments are ``on``: print ``stdout``, ``stderr``, end with ``status``, ..."""
        path = self.folder / "behaviour.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {on: told}))

    @property
    def calls(self) -> list[dict[str, object]]:
        """What each call was given, in order."""
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def fake_cli(tmp_path, request) -> FakeCli:
    """A fake of the CLI that the test module is named after."""
    name = request.module.__name__.rpartition("test_")[2]
    folder = tmp_path / "bin"
    (folder / "home").mkdir(parents=True)
    (folder / "behaviour.json").write_text("{}")
    script = folder / name
    script.write_text(SCRIPT.format(python=sys.executable, here=str(folder)))
    script.chmod(0o755)
    return FakeCli(command=name, folder=folder)
