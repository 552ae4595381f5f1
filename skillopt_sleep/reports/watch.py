"""After adoption: whether a person corrects the agent less often in what a rule is about. Counting only, no model.

A rule is proven on replays; whether it helps in daily work shows in the sessions alone. A correction is of a rule's
kind when it reads like the rule, or like the words the rule was learnt from, in more than the frame that people put
around anything they complain of.

What became of the adopted rules, in plain words.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from skillopt_sleep.model.edit import EditRecord
from skillopt_sleep.model.near_duplicates import TWINS, similar, terms
from skillopt_sleep.model.session import Feedback, Session, Turn
from skillopt_sleep.reports.words import number, plain

ENOUGH = 3.0
"""Corrections to be expected, had nothing changed, from which their absence says anything."""

HALF = 0.5
"""Share of a rule's own terms that a correction of its kind names at least."""

CHANCE = 0.05
"""Probability up to which fewer corrections are taken for more than chance."""


class WatchState(enum.StrEnum):
    """What the counts say of a rule."""

    FELL = "fell"
    """Fewer corrections than chance explains."""
    UNCLEAR = "unclear"
    """Fewer, but chance may do that."""
    DID_NOT_FALL = "did not fall"
    """As many as before, or more: the rule is obeyed in vain, or not at all."""
    EARLY = "early"
    """Too little was typed since."""
    NEVER_SAID = "never said"
    """Nothing of its kind was said before, so there is nothing to compare with."""


class LiveRule(Struct, frozen=True, kw_only=True):
    """One adopted edit. ``words`` are the person's own it was learnt from; ``adopted_at`` is ISO 8601, UTC.

    ``lived`` holds when it was live before that and was taken out again, from and until.
    """

    edit: EditRecord
    night: str
    path: str
    adopted_at: str
    words: tuple[str, ...] = ()
    lived: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The rule, or the one that was taken out."""
        return self.edit.text or self.edit.anchor


class Period(Struct, frozen=True, kw_only=True):
    """Corrections of one kind among all prompts typed in a stretch of time."""

    prompts: int = 0
    corrections: int = 0

    @property
    def rate(self) -> float | None:
        """Corrections per 100 prompts; None where nothing was typed."""
        return 100 * self.corrections / self.prompts if self.prompts else None


class Watched(Struct, frozen=True, kw_only=True):
    """A rule and the corrections of its kind, before and since it went live.

    ``p`` is the chance of so few since, had nothing changed; None where nothing can be said. ``missing`` prompts are
    still to be typed before anything can.
    """

    rule: LiveRule
    before: Period
    after: Period
    state: WatchState
    p: float | None = None
    missing: int = 0


def watch(rules: Sequence[LiveRule], sessions: Iterable[Session]) -> tuple[Watched, ...]:
    """Count for each rule, in the order given, over sessions of the project it is live in.

    Words whose time is not recorded count nowhere, and neither do choices in dialogues or headless runs. What was typed
    while a rule was live an earlier time is neither before nor since.
    """
    turns = [
        (moment, turn)
        for session in sessions
        for turn in session.turns
        if not turn.kind.weak and (moment := _moment(turn.at)) is not None
    ]
    return tuple(_watched(rule, turns, _marks(rule, rules)) for rule in rules)


def _watched(rule: LiveRule, every: Sequence[tuple[datetime, Turn]], marks: tuple[frozenset[str], float]) -> Watched:
    since = _moment(rule.adopted_at) or datetime.max.replace(tzinfo=UTC)
    spans = [(_moment(start), _moment(end)) for start, end in rule.lived]
    turns = [each for each in every if not any(a and b and a <= each[0] < b for a, b in spans)]
    kind = [each for each in turns if each[1].feedback is Feedback.CORRECTION and _is_of(each[1].prompt, rule, marks)]
    before = Period(prompts=_until(turns, since), corrections=_until(kind, since))
    after = Period(prompts=len(turns) - before.prompts, corrections=len(kind) - before.corrections)
    state, p, missing = _judged(before, after)
    return Watched(rule=rule, before=before, after=after, state=state, p=p, missing=missing)


def _until(turns: Sequence[tuple[datetime, Turn]], moment: datetime) -> int:
    return sum(at < moment for at, _ in turns)


def _is_of(prompt: str, rule: LiveRule, marks: tuple[frozenset[str], float]) -> bool:
    own, needed = marks
    if len(own & _heavy(prompt)) < needed:
        return False
    return any(similar(prompt, words) >= TWINS for words in (rule.text, *rule.words))


def _marks(rule: LiveRule, rules: Sequence[LiveRule]) -> tuple[frozenset[str], float]:
    """The terms that tell a rule's complaints from others in the same frame, and how many it takes.

    They are what the rule and the person's words for it share: a frame ("you forgot ... again") is no part of a rule.
    What another rule has too tells nothing, unless nothing else is left. Where rule and words share none, one of the
    words' own has to do.
    """
    own = _heavy(rule.text) & _heavy(*rule.words)
    others = [_heavy(each.text, *each.words) for each in rules if each.text != rule.text]
    if own:
        own = own.difference(*others) or own
        return own, HALF * len(own)
    own = _heavy(*rule.words).difference(*others)
    return own, min(1, len(own)) if others else 0


def _heavy(*texts: str) -> frozenset[str]:
    return frozenset(term for text in texts for term, weight in terms(text).items() if weight >= 1)


def _judged(before: Period, after: Period) -> tuple[WatchState, float | None, int]:
    """What the counts say, how likely chance makes so few, and how many prompts are missing.

    Given all n corrections of the kind, and nothing changed, those since are binomial in n with the share of prompts
    typed since (the conditional test of two Poisson rates, Przyborowski and Wilenski 1940). A rule is learnt from what
    was corrected often of late, so some fall comes by itself: "fell" is the weaker claim of the two.
    """
    if not before.corrections or not before.prompts:
        came_up = after.corrections >= ENOUGH
        return (WatchState.DID_NOT_FALL if came_up else WatchState.NEVER_SAID), None, 0
    expected = before.corrections * after.prompts / before.prompts
    if after.corrections >= max(ENOUGH, expected):
        return WatchState.DID_NOT_FALL, None, 0
    if expected < ENOUGH:
        return WatchState.EARLY, None, math.ceil(ENOUGH * before.prompts / before.corrections) - after.prompts
    share = after.prompts / (before.prompts + after.prompts)
    total = before.corrections + after.corrections
    p = math.fsum(
        math.exp(_log_choose(total, count) + count * math.log(share) + (total - count) * math.log1p(-share))
        for count in range(after.corrections + 1)
    )
    return (WatchState.FELL if p <= CHANCE else WatchState.UNCLEAR), p, 0


def _log_choose(total: int, count: int) -> float:
    """Logarithm of the number of ways to choose ``count`` of ``total``."""
    return math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)


def _moment(at: str) -> datetime | None:
    """A recorded time, in UTC where it names no zone; None where it is no time at all."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


RULE = 90
"""Characters shown of a rule."""


def render(watched: Sequence[Watched]) -> str:
    """One paragraph a rule, the latest adopted first; not ended by a newline."""
    if not watched:
        return "No rule of this project is live, so there is nothing to watch."
    head = "Corrections of each rule's kind, per 100 prompts you typed in this project:"
    return "\n\n".join([head, *("\n".join(_paragraph(each)) for each in watched)])


def notes(watched: Sequence[Watched]) -> tuple[str, ...]:
    """What a night's report should say: only rules after which corrections did not fall."""
    return tuple(
        f"since “{plain(each.rule.text, RULE)}” went live, corrections of its kind did not fall"
        f" ({_period(each.before)} before, {_period(each.after)} since); to take it out: {_revert(each)}"
        for each in watched
        if each.state is WatchState.DID_NOT_FALL
    )


def _paragraph(each: Watched) -> Iterator[str]:
    yield f"{each.rule.edit.id}  “{plain(each.rule.text, RULE)}”"
    yield f"  live since {each.rule.adopted_at[:10]} (night {each.rule.night}), {each.rule.path}"
    yield f"  before: {_period(each.before)}; since: {_period(each.after)}"
    yield f"  {_said(each)}"


def _said(each: Watched) -> str:
    match each.state:
        case WatchState.FELL:
            return f"They fell: so few come by chance once in {round(1 / max(each.p or 0.0, 0.001)):,} times."
        case WatchState.UNCLEAR:
            return f"Fewer, but chance alone makes so few {each.p or 0:.0%} of the time: too little to tell."
        case WatchState.DID_NOT_FALL:
            return f"They did not fall: the rule does not help here. To take it out: {_revert(each)}"
        case WatchState.EARLY:
            return f"Too early to tell: about {number(each.missing, 'more prompt')} until it could show."
        case WatchState.NEVER_SAID:
            return "Nothing of its kind was said before it, so there is nothing to compare with."


def _period(period: Period) -> str:
    if period.rate is None:
        return "no prompt"
    return f"{period.rate:.1f} ({period.corrections} in {number(period.prompts, 'prompt')})"


def _revert(each: Watched) -> str:
    return f"skillopt-sleep revert {each.rule.night} --edit {each.rule.edit.id}"
