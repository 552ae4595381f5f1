"""A person who never lived: a generated world, her sessions as files, a project, and a workspace over them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from msgspec.structs import replace

from skillopt_sleep.backends.simulated_world import World, write_world
from skillopt_sleep.settings import load
from skillopt_sleep.usecases.workspace import Workspace
from tests.benchmarks.session_files import claude_lines, claude_path
from tests.benchmarks.worlds import make_sessions, make_world

SEED = 2
"""Fixed, so that every run of a night draws the same tasks and makes the same calls."""


@dataclasses.dataclass(frozen=True)
class Person:
    """The folders of one person."""

    folder: Path
    world: World

    @property
    def project(self):
        return self.folder / "project"

    @property
    def claude(self):
        return self.folder / "claude"

    @property
    def data(self):
        return self.folder / "data"

    def flags(self, **changed):
        """Settings for a night with the simulated agent."""
        simulated = {"world": str(self.folder / "world.json"), **changed.pop("simulated", {})}
        return {
            "backend": "simulated",
            "source": "claude",
            "share_with": "openai",
            "data_dir": str(self.data),
            "max_calls": 1000,
            "seed": SEED,
            "sources": {"claude": {"homes": [str(self.claude)]}},
            "backends": {"simulated": simulated},
            **changed,
        }

    @property
    def places(self):
        """The command line arguments that name her folders."""
        return [
            f"--project={self.project}",
            f"--claude-home={self.claude}",
            f"--data-dir={self.data}",
            "--source=claude",
            "--set=share_with=openai",
        ]

    def arguments(self, *more, backend="simulated", **options):
        """The command line arguments of a night; ``options`` are the backend's."""
        options = {"world": str(self.folder / "world.json"), **options}
        return [
            *more,
            *self.places,
            f"--backend={backend}",
            "--max-calls=1000",
            f"--set=seed={SEED}",
            *(f"--set=backends.{backend}.{key}={value}" for key, value in options.items()),
        ]

    def workspace(self, **changed):
        settings, origins = load({"HOME": str(self.folder)}, self.flags(**changed))
        return Workspace(settings, origins, {"HOME": str(self.folder), "PATH": "/usr/bin:/bin"}, self.project)

    def write(self, sessions):
        """Write sessions of this project into her Claude Code home."""
        for session in (replace(session, cwd=str(self.project)) for session in sessions):
            path = self.claude / claude_path(session)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(claude_lines(session)))


def make_person(folder, *, seed=1, rules=1, tasks_per_rule=30, sessions=True, **world):
    """Make a person with a generated world; with ``sessions``, she asked every task once and corrected the answer."""
    folder.mkdir(parents=True, exist_ok=True)
    person = Person(folder, make_world(seed, rules=rules, tasks_per_rule=tasks_per_rule, **world))
    (folder / "world.json").write_bytes(write_world(person.world))
    person.project.mkdir()
    (person.claude / "projects").mkdir(parents=True)
    if sessions:
        person.write(make_sessions(person.world, seed))
    return person


def let_wish(person, begins="No. From now on, "):
    """Return the person as one who begins every correction like that, in the same words at each request."""
    rules = (replace(rule, complaints=(rule.complaints[0].replace("No, ", begins),)) for rule in person.world.rules)
    wishing = Person(person.folder, replace(person.world, rules=tuple(rules)))
    (person.folder / "world.json").write_bytes(write_world(wishing.world))
    return wishing
