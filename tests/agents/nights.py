"""A person with a real agent CLI in front of the loopback model, and whole nights of hers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from skillopt_sleep.model.session import Command, Feedback
from skillopt_sleep.model.task import ExactReference, TaskRecord
from skillopt_sleep.settings import load
from skillopt_sleep.usecases.plan import plan_night
from skillopt_sleep.usecases.run import run_night
from skillopt_sleep.usecases.workspace import Workspace
from tests.agents.conftest import Agents
from tests.agents.working import at_work
from tests.benchmarks.worlds import make_sessions
from tests.fakes.home import Person, make_person
from tests.fakes.repository import make_project

MODELS = {"claude": "claude-sonnet-4-5", "codex": "gpt-5.5"}
CHECK = "sh check.sh"


@dataclass(frozen=True)
class Sleeper:
    """One person, one CLI."""

    cli: str
    agents: Agents
    person: Person
    more: dict[str, str] = field(default_factory=dict)

    @property
    def world(self) -> Path:
        """Her world as a file."""
        return self.person.folder / "world.json"

    def workspace(self, **changed) -> Workspace:
        """The program as she would start it, with this CLI as its backend."""
        backends = {
            "claude": {"timeout": 60},
            "codex": {"timeout": 60, "config": list(self.agents.codex_config())},
            **changed.pop("backends", {}),
        }
        model = MODELS[self.cli]
        flags = self.person.flags(
            **{
                "backend": self.cli,
                "agent": self.cli,
                "target_model": model,
                "optimizer_model": model,
                "miner": "heuristic",
                "workers": 2,
                "max_train": 2,
                "max_val": 10,
                "evolve_memory": False,
                **changed,
            }
        )
        flags["backends"] = backends
        env = self.agents.env(**self.more)
        return Workspace(*load(env, flags), env, self.person.project)

    def night(self, **changed):
        """One night; its report."""
        workspace = self.workspace(**changed)
        return run_night(workspace, plan_night(workspace))

    def serve(self, mind=None):
        """What stands behind the CLI from now on: the simulated agent of her world, at work, or the one named."""
        self.agents.loopback.mind = mind or at_work(self.world)


def sleeper(cli, agents, folder, **more) -> Sleeper:
    """A person whose one rule fourteen tasks have in common, and a loopback model that knows her world."""
    person = make_person(folder, rules=1, tasks_per_rule=14)
    made = Sleeper(cli, agents, person, more)
    made.serve()
    return made


def with_project(cli, agents, folder, **more) -> Sleeper:
    """The same with a git project: each answer belongs into a file of it, and a check tells right from wrong ones."""
    person = make_person(folder, rules=1, tasks_per_rule=14, sessions=False)
    first, second = ordered(person.world)
    (person.project / "check.sh").write_text(f"grep -q '{first}.*{second}' answer.txt\n")
    (person.project / "answer.txt").write_text(f"{second} {first}\n")
    make_project(person.project)
    sessions = [replace(each, turns=tuple(map(checked, each.turns))) for each in make_sessions(person.world, 1)]
    person.write(sessions)
    made = Sleeper(cli, agents, person, more)
    made.serve(at_work(made.world, writes="answer.txt"))
    return made


def checked(turn):
    """A turn at whose end the agent ran the check: it failed where the person was about to complain."""
    right = "Thanks" in turn.prompt or turn.feedback is Feedback.CORRECTION
    return replace(turn, commands=(Command(line=CHECK, exit_status=0 if right else 1),))


def ordered(world) -> tuple[str, str]:
    """The two words whose order the rule of her world is about."""
    return world.rules[0].states[0]


def as_task(task) -> TaskRecord:
    """A task of her world, judged by its literal answer."""
    return TaskRecord(id=task.id, intent=task.asks[0], reference=ExactReference(answer=task.good))


__all__ = ["CHECK", "MODELS", "Sleeper", "as_task", "ordered", "sleeper", "with_project"]
