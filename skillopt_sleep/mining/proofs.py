"""A task that a model proposes is proven against the session it names, or refused.

Everything it rests on must stand there: the words that ask, what was said about the answer, the evidence of its
reference. White space and case apart, a quote is found or it is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from skillopt_sleep.mining.commands import checks_of
from skillopt_sleep.mining.episodes import LONGEST, episodes
from skillopt_sleep.mining.heuristic import WORDS, cut, origin
from skillopt_sleep.mining.recurrences import COMMANDS, task_id
from skillopt_sleep.model import Json
from skillopt_sleep.model.near_duplicates import terms
from skillopt_sleep.model.session import Session, Turn
from skillopt_sleep.model.task import (
    Check,
    CheckKind,
    ChecksReference,
    ExactReference,
    Reference,
    RubricReference,
    TaskRecord,
    parse_check,
)
from skillopt_sleep.model.text import contains_words, excerpt

QUOTED = frozenset({CheckKind.CONTAINS, CheckKind.NOT_CONTAINS, CheckKind.SECTION_CONTAINS})
"""Checks for a literal text, which nobody but the session may supply."""

TELLING = 4
"""Words from which what was said afterwards gives an answer away when the intent repeats it."""


class _Reference(Struct, frozen=True, kw_only=True):
    kind: str
    evidence: str = ""
    rubric: str = ""
    answer: str = ""
    checks: tuple[Json, ...] = ()


class _Proposal(Struct, frozen=True, kw_only=True):
    session: str
    words: str
    reference: _Reference
    intent: str = ""
    system: str = ""
    feedback: tuple[str, ...] = ()


class _Evidence:
    """What may be quoted of a session: what the person typed, and what was answered."""

    def __init__(self, session: Session) -> None:
        self.turns = tuple(turn for turn in session.turns if not turn.kind.weak)
        self._typed = "\n".join(turn.prompt for turn in self.turns)
        self._answered = "\n".join(turn.final for turn in session.turns)

    def asked(self, words: str) -> Turn:
        """The turn in which the person typed these words."""
        found = next((turn for turn in self.turns if contains_words(turn.prompt, words)), None)
        if found is None:
            raise ValueError(f"its words are not among those the person typed: {words!r:.80}")
        return found

    def require_typed(self, quote: str, what: str) -> None:
        if not contains_words(self._typed, quote):
            raise ValueError(f"{what} is not among the words the person typed: {quote!r:.80}")

    def require_said(self, quote: str, what: str) -> None:
        if not (contains_words(self._typed, quote) or contains_words(self._answered, quote)):
            raise ValueError(f"{what} does not stand in the session: {quote!r:.80}")


def prove(raw: Json, sessions: Mapping[str, Session]) -> TaskRecord:
    """The task that was proposed, from one of ``sessions`` by the names they were shown under.

    Raises ``ValueError`` with one line that says what does not hold.
    """
    proposal = msgspec.convert(raw, _Proposal)  # its ValidationError is a ValueError
    if proposal.session not in sessions:
        raise ValueError(f"it names a session that was not shown: {proposal.session!r:.80}")
    session = sessions[proposal.session]
    evidence = _Evidence(session)
    ask = evidence.asked(proposal.words)
    intent = proposal.intent.strip() or ask.prompt
    _check_intent(intent, proposal)
    for said in proposal.feedback:
        evidence.require_typed(said, "what it gives as feedback")
    episode = next(each for each in episodes(session) if ask in (each.ask, *each.later))
    asked_at = origin(session, ask, proposal.words)
    return TaskRecord(
        id=task_id(intent, asked_at),
        intent=intent,
        system=proposal.system.strip(),
        reference=_reference(proposal.reference, evidence),
        feedback=tuple(excerpt(said, WORDS) for said in proposal.feedback),
        accepted=cut(episode.stood),
        rejected=cut(episode.wrong),
        outcome=episode.outcome,
        origins=(asked_at,),
        skill_hint=next(iter(episode.skills), ""),
        project=session.cwd,
        commands=checks_of(episode.commands, session.cwd)[:COMMANDS],
        commit=session.commit,
    )


def _check_intent(intent: str, proposal: _Proposal) -> None:
    if len(intent) > LONGEST:
        raise ValueError(f"its intent is longer than {LONGEST:,} characters")
    if set(terms(intent)).isdisjoint(terms(proposal.words)):
        raise ValueError(f"its intent has nothing of the words it stands on: {intent!r:.80}")
    for said in proposal.feedback:
        if len(said.split()) >= TELLING and contains_words(intent, said):
            raise ValueError(f"its intent gives away what was said afterwards: {said!r:.80}")


def _reference(proposed: _Reference, evidence: _Evidence) -> Reference:
    match proposed.kind:
        case "rubric":
            if not proposed.rubric.strip():
                raise ValueError("its rubric is empty")
            evidence.require_typed(proposed.evidence, "the evidence of its rubric")
            return RubricReference(rubric=proposed.rubric.strip())
        case "checks":
            evidence.require_typed(proposed.evidence, "the evidence of its checks")
            return ChecksReference(checks=_checks(proposed.checks, evidence))
        case "exact":
            evidence.require_said(proposed.answer, "its exact answer")
            evidence.require_said(proposed.evidence, "the evidence of its answer")
            return ExactReference(answer=proposed.answer.strip())
        case _:
            raise ValueError(
                f"its reference is of an unknown kind, {proposed.kind!r:.40}; known are rubric, checks, exact"
            )


def _checks(proposed: Sequence[Json], evidence: _Evidence) -> tuple[Check, ...]:
    checks = tuple(map(parse_check, proposed))
    if not checks:
        raise ValueError("it has no checks")
    for check in checks:
        if check.kind in QUOTED:
            evidence.require_said(str(check.value), f"the text of its check {check.kind}")
        if check.section:
            evidence.require_said(check.section, f"the section of its check {check.kind}")
    return checks
