# ruff: noqa: INP001  a script stands alone, it is no package
"""Write the sample sessions that `skillopt-sleep demo` works on: five weeks of Mira, who runs a small logistics shop.

Everything she asks, gets and complains of is in the demo world; when she does so is below. The files are part of the
program, so this is run only after one of the two has changed: it writes the same bytes every time.

    python scripts/make_demo_sessions.py [FOLDER]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from skillopt_sleep.backends.simulated import load_world
from skillopt_sleep.backends.simulated_world import World
from skillopt_sleep.model.session import Command, Session, Turn
from tests.benchmarks.session_files import claude_lines, claude_path, codex_lines, codex_path
from tests.benchmarks.worlds import correction, make_session, thanks

FOLDER = Path(__file__).parents[1] / "skillopt_sleep" / "cli" / "samples"
CWD = "/home/mira/kistenlauf"
FIRST_DAY = datetime(2026, 3, 2, tzinfo=UTC)
MODELS = {"claude": "claude-sonnet-4-5", "codex": "gpt-5.5"}

Step = tuple[str, int, int] | Turn
"""A task of the demo world, with the number of the ask and of the complaint; or a turn as it is."""


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """One session: the day from the first, the hour, the branch, and what was said."""

    day: int
    hour: int
    steps: tuple[Step, ...]
    branch: str = "main"
    source: str = "claude"


def run(words: str, line: str, final: str, *, status: int = 0) -> Turn:
    """A turn in which the agent runs a command."""
    return Turn(id="", prompt=words, commands=(Command(line=line, exit_status=status),), final=final)


def edit(words: str, path: str, final: str) -> Turn:
    """A turn in which the agent edits a file."""
    return Turn(id="", prompt=words, files=(f"{CWD}/{path}",), final=final)


SUITE = run("Good morning. Run the test suite, please.", "pytest -q", "All 212 tests pass.")
BROKEN = run("Does the customs module still pass?", "pytest -q tests/customs", "One test fails.", status=1)
STATUS = run("What is not committed yet?", "git status --short", "Nothing, the tree is clean.")
CACHE = edit("Let carrier rates expire after ten minutes.", "shop/rates.py", "Rates in the cache now expire.")
GREAT = thanks("Perfect, thanks!", "You are welcome.")
FINE = thanks("Yes, exactly like that.", "Good.")
GO_ON = thanks("Looks good, go on.", "Done, there is nothing else to do here.")
BYE = Turn(id="", prompt="That's it for today, see you tomorrow.", final="See you tomorrow.")

SITTINGS = (
    Sitting(day=0, hour=8, steps=(SUITE, ("refunds", 0, 0), GREAT)),
    Sitting(day=0, hour=13, branch="KL-214-rates", steps=(CACHE, ("rate-cache", 0, 0), FINE)),
    Sitting(day=1, hour=9, steps=(("declined", 0, 0),)),
    Sitting(day=2, hour=8, branch="KL-198-python", steps=(STATUS, ("drop-python", 0, 1), GO_ON)),
    Sitting(day=3, hour=10, steps=(("weight", 0, 0), ("empty-cart", 0, 2), GREAT)),
    Sitting(day=4, hour=15, steps=(("pallet", 0, 1), BYE)),
    Sitting(day=7, hour=8, steps=(SUITE, ("maintenance", 0, 0))),
    Sitting(day=8, hour=11, branch="KL-231-labels", steps=(("label-worker", 0, 0), FINE)),
    Sitting(day=9, hour=9, steps=(("csv", 0, 1), ("tracking", 0, 0), GREAT)),
    Sitting(day=10, hour=14, steps=(BROKEN, ("customs", 0, 1), GO_ON)),
    Sitting(day=12, hour=8, steps=(("release-note", 0, 1), GREAT)),
    Sitting(day=14, hour=9, steps=(("surcharge", 0, 0), ("refunds", 1, 2))),
    Sitting(day=15, hour=16, branch="KL-240-postcode", steps=(("postcode", 0, 1), FINE, BYE)),
    Sitting(day=17, hour=10, steps=(("slots", 0, 1), ("weight", 1, 2), GREAT)),
    Sitting(day=18, hour=9, steps=(("login", 0, 2), GO_ON)),
    Sitting(day=21, hour=8, steps=(SUITE, ("packaging", 0, 2), FINE)),
    Sitting(day=23, hour=13, steps=(("price-list", 0, 2), ("maintenance", 1, 2), GREAT)),
    Sitting(day=25, hour=9, branch="KL-231-labels", steps=(STATUS, ("label-worker", 1, 2))),
    Sitting(day=29, hour=10, steps=(("declined", 1, 2), BYE)),
    Sitting(day=31, hour=8, steps=(("changelog", 0, 2), GREAT)),
    Sitting(day=1, hour=14, steps=(("invoice-due", 0, 0), GREAT)),
    Sitting(day=5, hour=9, steps=(("stocktake", 0, 1), FINE)),
    Sitting(day=6, hour=11, steps=(("driver-briefing", 0, 2),)),
    Sitting(day=11, hour=9, steps=(("holiday-hours", 0, 0), GO_ON)),
    Sitting(day=13, hour=10, steps=(("contract-end", 0, 1), GREAT)),
    Sitting(day=16, hour=8, steps=(("backup-log", 0, 2), FINE)),
    Sitting(day=19, hour=15, steps=(("parcel-limit", 0, 0),)),
    Sitting(day=20, hour=9, steps=(("audit-note", 0, 1), BYE)),
    Sitting(day=26, hour=10, steps=(("meeting", 0, 2), GREAT)),
    Sitting(day=28, hour=14, steps=(("recall", 0, 0), FINE)),
    Sitting(day=2, hour=15, steps=(("fair", 0, 0), FINE)),
    Sitting(day=3, hour=15, steps=(("forklift", 0, 1), GREAT)),
    Sitting(day=8, hour=15, steps=(("newsletter", 0, 2), FINE)),
    Sitting(day=9, hour=15, steps=(("lease", 0, 0), GREAT)),
    Sitting(day=15, hour=9, steps=(("training-day", 0, 1), FINE)),
    Sitting(day=22, hour=9, steps=(("sla", 0, 2), GREAT)),
    Sitting(day=24, hour=9, steps=(("incident", 0, 0), FINE)),
    Sitting(day=27, hour=9, steps=(("seal", 0, 1), GREAT)),
    Sitting(day=11, hour=17, source="codex", steps=(("rate-cache", 1, 2), FINE)),
    Sitting(day=22, hour=17, source="codex", branch="KL-198-python", steps=(BROKEN, ("customs", 1, 2), GREAT)),
    Sitting(day=30, hour=17, source="codex", steps=(("pallet", 1, 2), GO_ON)),
)


def session_files(world: World) -> Iterator[tuple[str, bytes]]:
    """Every file: its place below the folder of the demo, and its bytes."""
    for number, sitting in enumerate(SITTINGS):
        session = _session(world, sitting, f"sitting {number}")
        if sitting.source == "claude":
            yield f"claude/{claude_path(session)}", b"".join(claude_lines(session))
        else:
            yield f"codex/{codex_path(session)}", b"".join(codex_lines(session))
    yield from _not_typed_by_mira(world)


def _not_typed_by_mira(world: World) -> Iterator[tuple[str, bytes]]:
    """A run from her crontab and a sub-agent: they look like sessions and must not be counted as her work."""
    headless = _session(world, Sitting(day=5, hour=2, steps=(("changelog", 0, 0),)), "headless")
    yield f"claude/{claude_path(headless)}", b"".join(claude_lines(headless, entrypoint="sdk-cli"))
    search = Turn(id="", prompt="Find where carrier rates are cached.", final="In shop/rates.py, class RateCache.")
    parent = _session(world, SITTINGS[1], "sitting 1")
    agent = make_session("sub-agent", FIRST_DAY + timedelta(hours=13, minutes=1), [search], cwd=CWD, model=parent.model)
    agent = replace(agent, session_id=parent.session_id, branch=parent.branch)  # records carry the parent's id
    lines = claude_lines(agent, agent_id="a7c41f0e")
    yield f"claude/{claude_path(parent).removesuffix('.jsonl')}/subagents/agent-a7c41f0e.jsonl", b"".join(lines)


def _session(world: World, sitting: Sitting, name: str) -> Session:
    tasks = {task.id: task for task in world.tasks}
    rules = {rule.id: rule for rule in world.rules}
    turns: list[Turn] = []
    for step in sitting.steps:
        if isinstance(step, Turn):
            turns.append(step)
        else:
            task = tasks[step[0]]
            turns += correction(task.asks[step[1]], rules[task.rules[0]].complaints[step[2]], task)
    started = FIRST_DAY + timedelta(days=sitting.day, hours=sitting.hour)
    return make_session(
        f"mira, {name}",
        started,
        turns,
        source=sitting.source,
        cwd=CWD,
        branch=sitting.branch,
        model=MODELS[sitting.source],
    )


def main() -> None:
    """Write the files below the folder named on the command line, or where the program expects them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for place, data in session_files(load_world()):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()
