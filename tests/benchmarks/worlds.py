"""Seeded worlds in words nobody has seen, and the sessions of a person who lives there.

What works in such a world works by what the prompt says: nothing can have been learnt by heart, in the program or in
its author's head.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from skillopt_sleep.backends.simulated_world import HarmfulRule, Rule, World, WorldTask
from skillopt_sleep.model.session import Feedback, Session, Turn

ONSETS = "b br d dr f fl g gl j k kl l m n p pl r s sk t tr v w z".split()  # noqa: SIM905  readable as one line
VOWELS = "a e i o u ai ou".split()  # noqa: SIM905  as above
CODAS = ["", "l", "m", "n", "r", "x"]

NAMESPACE = uuid.UUID("2b1c3f7e-5a04-4d0c-9b57-5d9c1f0a6e21")
"""Any fixed one: ids of sessions and turns are digests of their seed and place."""

FIRST_DAY = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
TURN_GAP = timedelta(minutes=3)


def make_world(
    seed: int,
    *,
    rules: int = 4,
    tasks_per_rule: int = 5,
    base_pass: float = 0.0,
    useless: int = 6,
    harmful: int = 2,
) -> World:
    """A sound world of nonsense words: each rule has its own tasks, each harmful rule breaks one rule's tasks."""
    words = fresh_words(random.Random(seed))
    made = tuple(_make_rule(f"r{number}", words) for number in range(rules))
    return World(
        rules=made,
        tasks=tuple(
            _make_task(f"{rule.id}-t{number}", rule, words, base_pass)
            for rule in made
            for number in range(tasks_per_rule)
        ),
        useless=tuple(f"Keep each {next(words)} as it comes." for _ in range(useless)),
        harmful=tuple(
            HarmfulRule(
                text=f"Turn every {next(words)} that comes into a {next(words)}.", breaks=(made[number % rules].id,)
            )
            for number in range(harmful)
        ),
    )


def make_sessions(world: World, seed: int, *, tasks_per_session: int = 2) -> tuple[Session, ...]:
    """Every task of the world asked once, in random order, answered badly, complained about and done again."""
    rng = random.Random(seed)
    rules = {rule.id: rule for rule in world.rules}
    order = rng.sample(world.tasks, len(world.tasks))
    return tuple(
        make_session(
            f"{seed}/{number}",
            FIRST_DAY + timedelta(days=number),
            [
                turn
                for task in order[start : start + tasks_per_session]
                for turn in (
                    *correction(rng.choice(task.asks), rng.choice(rules[task.rules[0]].complaints), task),
                    thanks("Thanks.", "You are welcome."),
                )
            ],
        )
        for number, start in enumerate(range(0, len(order), tasks_per_session))
    )


def make_session(
    name: str,
    started: datetime,
    turns: Sequence[Turn],
    *,
    source: str = "claude",
    cwd: str = "/home/nobody/project",
    branch: str = "main",
    model: str = "simulated",
) -> Session:
    """A session of these turns, which get their ids from ``name`` and their times from ``started``."""
    session_id = str(uuid.uuid5(NAMESPACE, name))
    dated = tuple(
        replace(
            turn,
            id=str(uuid.uuid5(NAMESPACE, f"{name}/{number}")),
            at=stamp(started + number * TURN_GAP),
        )
        for number, turn in enumerate(turns)
    )
    return Session(
        source=source,
        path=f"{session_id}.jsonl",
        session_id=session_id,
        cwd=cwd,
        branch=branch,
        model=model,
        started_at=stamp(started),
        ended_at=dated[-1].at if dated else stamp(started),
        turns=dated,
    )


def correction(ask: str, complaint: str, task: WorldTask) -> tuple[Turn, Turn]:
    """Two turns: the ask with the bad reply, and the complaint with the good one."""
    return (
        Turn(id="", prompt=ask, final=task.bad),
        Turn(id="", prompt=complaint, feedback=Feedback.CORRECTION, final=task.good),
    )


def thanks(words: str, final: str) -> Turn:
    """A turn in which the person approves of what was done."""
    return Turn(id="", prompt=words, feedback=Feedback.APPROVAL, final=final)


def stamp(moment: datetime) -> str:
    """A moment as session files write it: UTC, milliseconds, Z."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fresh_words(rng: random.Random) -> Iterator[str]:
    """Nonsense words of two or three syllables, none of them twice."""
    seen: set[str] = set()
    while True:
        syllables = [rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(rng.choice((2, 2, 3)))]
        word = "".join(syllables) + rng.choice(CODAS)
        if word not in seen:
            seen.add(word)
            yield word


def _make_rule(name: str, words: Iterator[str]) -> Rule:
    thing, first, second = next(words), next(words), next(words)
    return Rule(
        id=name,
        text=f"Put {first} before {second} wherever a {thing} is named.",
        states=((first, second),),
        complaints=(
            f"No, {first} comes before {second}, as with every {thing}.",
            f"That's wrong: {first} comes before {second}, you forgot it again.",
        ),
    )


def _make_task(name: str, rule: Rule, words: Iterator[str], base_pass: float) -> WorldTask:
    subject = f"the {next(words)} {next(words)} of {next(words)} and {next(words)}"
    body, tail = f"{next(words)} {next(words)} {next(words)}", f"{next(words)} {next(words)}"
    return WorldTask(
        id=name,
        asks=(f"Write {subject}.", f"Please write {subject}, as before."),
        rules=(rule.id,),
        good=f"{body} {' '.join(rule.states[0])} {tail}",
        bad=f"{body} {tail}",
        base_pass=base_pass,
    )
