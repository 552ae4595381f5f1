"""Mining by a model: many sessions in one prompt, many prompts at once, and nothing taken on trust.

A model may invent, and it has read text that others wrote. So each task it names must quote the words it stands on,
and a quote that does not stand in the session, as words a person typed, refuses the task.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import BadReply, TransientBackend
from skillopt_sleep.mining.heuristic import WORDS, Mined, relates
from skillopt_sleep.mining.proofs import prove
from skillopt_sleep.mining.recurrences import merge
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Prompt
from skillopt_sleep.model.ports import Ask, Parallel
from skillopt_sleep.model.replies import Refusal, disarm, extract_json
from skillopt_sleep.model.session import Feedback, Session, Turn
from skillopt_sleep.model.task import CheckKind, TaskRecord
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.prompts import render

BATCH = 24_000
"""Characters of sessions in one prompt: about 6,000 tokens, so that a batch is read with care and in parallel."""

MOST = 3
"""Tasks of one session; more would let one long day outweigh a month."""

PROMPT, ANSWER = 3_000, 1_500
"""Characters shown of what a person typed, and of an answer."""

TRIES = 2
"""Times a batch is asked about before its reply counts as unreadable."""

TAGS = ("session", "person", "answer")

REFERENCE: dict[str, Json] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["kind", "rubric", "checks", "answer", "evidence"],
    "properties": {
        "kind": {"type": "string", "enum": ["rubric", "checks", "exact"]},
        "rubric": {"type": "string"},
        "checks": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["kind", "value", "section"],
                "properties": {
                    "kind": {"type": "string", "enum": [str(kind) for kind in CheckKind]},
                    "value": {"type": "string"},
                    "section": {"type": "string"},
                },
            },
        },
        "answer": {"type": "string"},
        "evidence": {"type": "string"},
    },
}
SCHEMA: dict[str, Json] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["tasks"],
    "properties": {
        "tasks": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["session", "words", "intent", "system", "feedback", "reference"],
                "properties": {
                    "session": {"type": "string"},
                    "words": {"type": "string"},
                    "intent": {"type": "string"},
                    "system": {"type": "string"},
                    "feedback": {"type": "array", "items": {"type": "string"}},
                    "reference": REFERENCE,
                },
            },
        }
    },
}


class Batch(Struct, frozen=True, kw_only=True):
    """Sessions, or stretches of long ones, shown in one prompt; the first is called s1 there."""

    sessions: tuple[Session, ...]

    @property
    def names(self) -> dict[str, Session]:
        """The sessions by the names they are shown under."""
        return {f"s{number}": session for number, session in enumerate(self.sessions, start=1)}


class _Reply(Struct, frozen=True, kw_only=True):
    tasks: tuple[Json, ...]


def mine_model(sessions: Sequence[Session], ask: Ask, parallel: Parallel, *, target_skill: str = "") -> Mined:
    """The tasks a model finds in these sessions, each proven; with ``target_skill``, those that are of that skill.

    Sessions of a batch that transport lost, or whose reply stays unreadable, come back as ``unmined``. Raises
    ``FatalBackend`` and ``BudgetSpent``.
    """
    work = functools.partial(_mine_batch, ask=ask, target_skill=target_skill)
    mined = parallel(work, batches(sessions))
    tasks = tuple(task for each in mined for task in each.tasks)
    return Mined(
        tasks=merge((), tasks),
        refused=tuple(refusal for each in mined for refusal in each.refused),
        unmined=tuple(dict.fromkeys(session for each in mined for session in each.unmined)),
        lost=next((each.lost for each in mined if each.lost), ""),
        found=len(tasks),
    )


def batches(sessions: Sequence[Session]) -> tuple[Batch, ...]:
    """Sessions in order, as many to a prompt as ``BATCH`` allows; a longer one is shown in stretches."""
    filled: list[list[Session]] = [[]]
    room = BATCH
    for session in sessions:
        for stretch in _stretches(session):
            size = sum(map(len, map(_shown, stretch.turns)))
            if size > room and filled[-1]:
                filled.append([])
                room = BATCH
            filled[-1].append(stretch)
            room -= size
    return tuple(Batch(sessions=tuple(batch)) for batch in filled if batch)


def _stretches(session: Session) -> Iterator[Session]:
    """The session in pieces that fit a prompt, without the turns in which nobody typed."""
    turns: list[Turn] = []
    size = 0
    for turn in session.turns:
        if turn.kind.weak:
            continue
        if turns and size + len(_shown(turn)) > BATCH:
            yield replace(session, turns=tuple(turns))
            turns, size = [], 0
        turns.append(turn)
        size += len(_shown(turn))
    if turns:
        yield replace(session, turns=tuple(turns))


def _shown(turn: Turn) -> str:
    person, answer = (disarm(text, *TAGS) for text in (turn.prompt[:PROMPT], turn.final[:ANSWER]))
    said = f' said="{turn.feedback}"' if turn.feedback is not Feedback.NEITHER else ""
    return f"<person{said}>\n{person}\n</person>\n" + (f"<answer>\n{answer}\n</answer>\n" if answer else "")


def batch_prompt(batch: Batch, target_skill: str = "") -> Prompt:
    """What the model is sent for one batch."""
    shown = (
        f'<session id="{name}">\n{"".join(map(_shown, session.turns))}</session>'
        for name, session in batch.names.items()
    )
    focus = (
        f"\nOnly requests that the skill {target_skill!r} is meant for count; leave out all others."
        if target_skill
        else ""
    )
    system, user = render("mine", focus=focus, sessions="\n\n".join(shown))
    return Prompt(system=system, user=user, schema=SCHEMA)


def _mine_batch(batch: Batch, *, ask: Ask, target_skill: str) -> Mined:
    try:
        proposals = _ask(batch_prompt(batch, target_skill), ask)
    except TransientBackend as error:
        ids = tuple(session.session_id for session in batch.sessions)
        lost = Refusal(subject=", ".join(ids), words="", why=f"not mined tonight: {type(error).__name__}: {error}")
        return Mined(unmined=ids, refused=(lost,), lost=f"{type(error).__name__}: {error}")
    tasks: dict[str, list[TaskRecord]] = {}
    refused: list[Refusal] = []
    for raw in proposals:
        name = str(raw.get("session", "")) if isinstance(raw, dict) else ""
        try:
            task = prove(raw, batch.names)
            _check_wanted(task, target_skill, tasks.setdefault(name, []))
        except ValueError as error:
            session = batch.names.get(name)
            words = str(raw.get("words", "")) if isinstance(raw, dict) else str(raw)
            refused.append(
                Refusal(subject=session.session_id if session else name, words=excerpt(words, WORDS), why=str(error))
            )
        else:
            tasks[name].append(task)
    return Mined(tasks=tuple(task for found in tasks.values() for task in found), refused=tuple(refused))


def _ask(prompt: Prompt, ask: Ask) -> tuple[Json, ...]:
    """The proposals of a readable reply. Raises ``BadReply`` after ``TRIES``, and what ``ask`` raises."""
    problem = ""
    for sample in range(TRIES):
        reply = ask(replace(prompt, sample=sample), phase="mine")
        try:
            return msgspec.convert(extract_json(reply.text), _Reply).tasks
        except ValueError as error:
            problem = str(error)
    raise BadReply(f"a mining reply cannot be read: {problem}")


def _check_wanted(task: TaskRecord, target_skill: str, found: Sequence[TaskRecord]) -> None:
    if target_skill and not relates(target_skill, (task.skill_hint,), task.intent):
        raise ValueError(f"not of the skill {target_skill!r}")
    if len(found) >= MOST:
        raise ValueError(f"more than {MOST} tasks of one session")
