"""Whether the calls of a night lie in the range that was printed before it: nights of many made-up people.

Archives, caps and settings vary, and so does what the simulated agent proposes. Every person has a few nights, with new
sessions before each, so that rules wait, are proven and are given up.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from skillopt_sleep.model import Json
from skillopt_sleep.usecases.plan import plan_night
from skillopt_sleep.usecases.run import forecast_night, run_night
from skillopt_sleep.usecases.workspace import Workspace
from tests.benchmarks.worlds import make_sessions
from tests.fakes.home import let_wish, make_person

NIGHTS = 60
NIGHTS_A_PERSON = 4
WISHING = 0.3
"""The share of people who say that what they correct holds from now on."""
HELD = 0.9
"""The share of nights whose calls lie in the range."""


@dataclass(frozen=True, kw_only=True)
class Night:
    """What was printed before a night, and what it made."""

    person: int
    night: int
    least: int
    most: int
    made: int
    cap: int
    details: dict[str, tuple[int, int]]
    """Calls of each phase: expected, made."""

    @property
    def held(self) -> bool:
        """Whether the calls lie in the range."""
        return self.least <= self.made <= self.most


def live(number: int, seed: int, folder: Path) -> Iterator[Night]:
    """Yield the nights of one made-up person."""
    luck = random.Random(f"{seed} {number}")
    person = make_person(
        folder,
        seed=luck.randrange(10**6),
        rules=luck.choice((1, 1, 2, 3, 4)),
        tasks_per_rule=luck.choice((4, 6, 8, 12, 16)),
        base_pass=luck.choice((0.0, 0.0, 0.3, 0.6)),
        sessions=False,
    )
    settings: dict[str, Json] = {
        "max_calls": luck.choice((40, 80, 120, 240, 400, 1000)),
        "rollouts_k": luck.choice((1, 1, 3)),
        "evolve_memory": luck.random() < 0.5,
        "seed": luck.randrange(1000),
    }
    simulated = {"useless": luck.choice((0.0, 0.3, 1.0)), "noise": luck.choice((0.0, 0.1))}
    if random.Random(f"{seed} {number} wishes").random() < WISHING:
        person = let_wish(person)
    sessions = list(make_sessions(person.world, luck.randrange(10**6)))
    for night in range(NIGHTS_A_PERSON):
        new = len(sessions) if luck.random() < 0.3 else luck.randint(0, 4)
        person.write([sessions.pop() for _ in range(min(new, len(sessions)))])
        workspace = person.workspace(**{**settings, "simulated": {**simulated}})
        yield _hold_night(workspace, number, night)


def _hold_night(workspace: Workspace, number: int, night: int) -> Night:
    expected = forecast_night(workspace)
    least, most = expected.range
    report = run_night(workspace, plan_night(workspace))
    made = {phase.phase: phase.calls for phase in report.phases}
    forecast = {phase.phase: phase.usual for phase in expected.expected}
    return Night(
        person=number,
        night=night,
        least=least,
        most=most,
        made=report.spend.calls,
        cap=workspace.settings.max_calls,
        details={name: (forecast.get(name, 0), made.get(name, 0)) for name in (*forecast, *made)},
    )


def hold_nights(count: int, seed: int) -> list[Night]:
    """Return so many nights that had anything to expect or made a call."""
    nights: list[Night] = []
    number = 0
    while len(nights) < count:
        with tempfile.TemporaryDirectory() as folder:
            nights += [night for night in live(number, seed, Path(folder) / "person") if night.most or night.made]
        number += 1
    return nights[:count]


def main(options: Sequence[str]) -> int:
    """Print every night, and 1 when fewer than nine in ten lie in their range, or a range is too wide."""
    parser = argparse.ArgumentParser(prog="bench forecast", description=__doc__)
    parser.add_argument("--nights", type=int, default=NIGHTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(options)
    nights = hold_nights(chosen.nights, chosen.seed)
    if chosen.json:
        print(json.dumps([asdict(night) for night in nights]))
    else:
        for night in nights:
            mark = " " if night.held else "*"
            said = f"{night.least:4} to {night.most:4} calls expected, {night.made:4} made, cap {night.cap:4}"
            print(f"{mark} person {night.person:2}, night {night.night}: {said}")
    held = sum(night.held for night in nights)
    wide = sum(night.most > 2 * night.least for night in nights)
    print(f"{held} of {len(nights)} nights within their range; {wide} ranges wider than a factor of two")
    return int(held < HELD * len(nights) or wide > 0)
