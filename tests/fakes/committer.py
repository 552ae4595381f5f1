"""A person whose agent commits on the main branch: one correction, and the same decision in many other sessions."""

from __future__ import annotations

from skillopt_sleep.backends.simulated_world import Rule, World, WorldTask, write_world
from tests.fakes.home import Person
from tests.sources.writing import CodexFile, LinkedFile

ASKS = ("commit this now", "ship what we have", "put it into git", "save that state for the team")
COMPLAINT = "No, never on main: cut a branch first, then commit."
CANARY = "SAID-AFTERWARDS"

GOOD = "A branch first.\n\n```sh\ngit switch -c work && git commit -am done\n```"
BAD = "```sh\ngit commit -am done\n```"

COMMIT = {"feature": "runs", "pattern": "git commit", "path": ""}
CHECK = {
    "trigger": [COMMIT],
    "required": [{"feature": "runs", "pattern": "git switch -c", "path": "", "order": "before", "mark": COMMIT}],
    "forbidden": [],
}


def make_world(*, checked: bool = True) -> World:
    """One rule, which a program can check or not, and one kind of request that never makes sense alone."""
    return World(
        rules=(
            Rule(
                id="branch",
                text="Before every commit cut a branch first.",
                states=(("branch", "commit"),),
                complaints=(COMPLAINT,),
                check=CHECK if checked else None,
            ),
        ),
        tasks=(WorldTask(id="commit", asks=ASKS, rules=("branch",), good=GOOD, bad=BAD),),
    )


class Recording(LinkedFile):
    """A session file of this person, one day's work."""

    def __init__(self, person, number):
        super().__init__(sessionId=f"session-{number}", cwd=str(person.project))
        self._number = number
        self._calls = 0

    def record(self, kind, /, **fields):
        """Any record, of a day and with ids of its own."""
        number = len(self.lines) + 1
        stamp = f"2026-05-{self._number + 1:02}T08:00:{number:02}.000Z"
        return super().record(kind, **{"uuid": f"s{self._number}-{number}", "timestamp": stamp, **fields})

    def runs(self, command):
        """A command with its result."""
        self._calls += 1
        name = f"call-{self._number}-{self._calls}"
        return self.call("Bash", name, command=command).result("done", name)


class CodexRecording(CodexFile):
    """The same of a person who works with Codex."""

    def __init__(self, person, number):
        self._number, self._calls = number, 0
        self._frame = {"id": f"0199a213-81c0-7800-8aa1-{number:012}", "cwd": str(person.project)}
        self.path = (
            f"sessions/2026/05/{number + 1:02}/rollout-2026-05-{number + 1:02}T08-00-00-{self._frame['id']}.jsonl"
        )
        super().__init__()

    def record(self, kind, /, **payload):
        """Any record, of a day and a thread of its own."""
        super().record(kind, **(payload | self._frame if kind == "session_meta" else payload))
        self.lines[-1] = self.lines[-1].replace(b"2026-05-04", f"2026-05-{self._number + 1:02}".encode())
        return self

    def user(self, text):
        """A prompt."""
        return self.record("turn_context", cwd=self._frame["cwd"], model="gpt-5").prompt(text)

    def runs(self, command):
        """A command with its result."""
        self._calls += 1
        output = "Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\ndone\n"
        return self.shell(f"call_{self._number}_{self._calls}", output, cmd=command)


def make_committer(folder, *, others=14, corrected=1, checked=True, agent="claude"):
    """Make the person; in ``corrected`` sessions she stepped in, in ``others`` nobody said anything."""
    folder.mkdir(parents=True)
    person = Person(folder, make_world(checked=checked))
    (folder / "world.json").write_bytes(write_world(person.world))
    person.project.mkdir()
    home = person.claude / "projects" / "project" if agent == "claude" else folder / "codex"
    for number in range(corrected + others):
        session = Recording(person, number) if agent == "claude" else CodexRecording(person, number)
        session.user(f"Where do the labels of shelf {number} come from?").assistant("From the printer table.")
        session.user(f"{ASKS[number % len(ASKS)]}, shelf {number}")
        session.runs("git status")
        if number < corrected:
            session.runs(f"git commit -am done{number}").assistant("Committed.")
            session.user(COMPLAINT)
            session.assistant("A branch first.").runs(f"git switch -c work && git commit -am done{number}")
            session.assistant(f"Committed on a branch. {CANARY}")
            session.user("perfect, push it").runs("git push").assistant("Pushed.")
        else:
            session.runs("git switch -c own && git commit -am done" if number % 5 == 0 else "git commit -am done")
            session.assistant("Committed.")
        path = home / (session.path if agent == "codex" else f"session-{number}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line + b"\n" for line in session.lines))
    return person
