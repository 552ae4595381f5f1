"""What ``watch`` prints: whether a person corrects the agent less often since a rule was adopted.

A rule is proven on replays; whether it helps in daily work shows only in the sessions. Nothing but counting happens
here, without a model. A prompt counts for a rule when it is one of the corrections that the rule was written from,
word for word, or when it is a correction that resembles the rule, or those words, in more than the phrases people use
around any complaint. What a rule was written from was said before it, even if no prompt with a time holds it any more.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from skillopt_sleep.gate.pending import SAID
from skillopt_sleep.model.edit import EditRecord
from skillopt_sleep.model.near_duplicates import MIN_SIMILARITY, similar, terms
from skillopt_sleep.model.session import Feedback, Session, Turn
from skillopt_sleep.model.text import STOPWORDS
from skillopt_sleep.reports.blocks import Cell, Items, Line, Page, Section, Tone, count_rest
from skillopt_sleep.reports.formatting import number, plain

ENOUGH = 3.0
"""Corrections that would have to be expected, had nothing changed, before their absence means anything."""

TERMS_NEEDED = 0.5
"""Share of a rule's own terms that a correction must name to count for it."""

CHANCE = 0.05
"""Probability up to which fewer corrections are taken for more than chance."""

CHARACTERS = 90
"""Characters shown of a rule."""

RULES = 4
"""Rules on the first page."""

TITLE = "How often you made corrections like each rule, per 100 prompts you typed in this project"

WORDS_OF_A_PART = 2
"""Words of content by which a correction is known within a longer prompt; with fewer it must be the whole prompt."""

READ = 4_000
"""Characters of a prompt in which a correction is looked for; what follows is pasted."""

_BETWEEN_WORDS = re.compile(r"[\W_]+")


class WatchState(enum.StrEnum):
    """What the counts say about a rule."""

    FELL = "fell"
    """Fewer corrections than chance explains."""
    UNCLEAR = "unclear"
    """Fewer, but chance may explain it."""
    DID_NOT_FALL = "did not fall"
    """As many as before or more: the rule does not help, or is ignored."""
    EARLY = "early"
    """Too little was typed since."""
    NEVER_SAID = "never said"
    """No earlier prompt is recognized as such a correction, so there is nothing to compare with."""


TONES = {WatchState.FELL: Tone.GOOD, WatchState.DID_NOT_FALL: Tone.BAD}


class LiveRule(Struct, frozen=True, kw_only=True):
    """One adopted edit."""

    edit: EditRecord
    night: str
    path: str
    adopted_at: str
    """ISO 8601, UTC."""
    words: tuple[str, ...] = ()
    """The person's own words it was learnt from."""
    how: str = ""
    """By whose word it went live, "" when a gate had accepted it."""
    lived: tuple[tuple[str, str], ...] = ()
    """Earlier times when it was live and was reverted again: from and until, ISO 8601."""

    @property
    def text(self) -> str:
        """The rule; for a deletion, the rule that was removed."""
        return self.edit.text or self.edit.anchor


class Period(Struct, frozen=True, kw_only=True):
    """Corrections that count for a rule among all prompts typed in a stretch of time."""

    prompts: int = 0
    corrections: int = 0

    @property
    def rate(self) -> float | None:
        """Corrections per 100 prompts; None when nothing was typed."""
        return 100 * self.corrections / self.prompts if self.prompts else None


class Watched(Struct, frozen=True, kw_only=True):
    """A rule and the corrections that count for it, before and since it went live."""

    rule: LiveRule
    before: Period
    after: Period
    state: WatchState
    p: float | None = None
    """The chance of so few since, had nothing changed; None when nothing can be said."""
    missing: int = 0
    """Prompts still to be typed before anything can be said."""


def compare_corrections(rules: Sequence[LiveRule], sessions: Iterable[Session]) -> tuple[Watched, ...]:
    """Count for each rule, in the order given, over the sessions of the project where it is live.

    Prompts without a recorded time, choices in dialogues and headless runs do not count, nor does what was typed while
    a rule was live an earlier time.
    """
    turns = [
        (moment, turn)
        for session in sessions
        for turn in session.turns
        if not turn.kind.weak and (moment := _parse_moment(turn.at)) is not None
    ]
    folded = {turn.id: _fold(turn.prompt) for _, turn in turns}
    return tuple(_watch_rule(rule, turns, folded, _find_marks(rule, rules)) for rule in rules)


def _watch_rule(
    rule: LiveRule,
    every: Sequence[tuple[datetime, Turn]],
    folded: Mapping[str, str],
    marks: tuple[frozenset[str], float],
) -> Watched:
    since = _parse_moment(rule.adopted_at) or datetime.max.replace(tzinfo=UTC)
    spans = [(_parse_moment(start), _parse_moment(end)) for start, end in rule.lived]
    turns = [(at, turn) for at, turn in every if not any(a and b and a <= at < b for a, b in spans)]
    quotes = _list_quotes(rule)
    about = [
        at
        for at, turn in turns
        if any(quote.stands_in(folded[turn.id]) for quote in quotes)
        or (turn.feedback is Feedback.CORRECTION and _is_about(turn.prompt, rule, marks))
    ]
    prompts, corrections = sum(at < since for at, _ in turns), sum(at < since for at in about)
    after = Period(prompts=len(turns) - prompts, corrections=len(about) - corrections)
    own = 0 if corrections else len(quotes) - 1  # said before the rule, though in no prompt with a time
    before = Period(prompts=max(prompts, own), corrections=corrections or own)
    state, p, missing = _judge(before, after)
    return Watched(rule=rule, before=before, after=after, state=state, p=p, missing=missing)


class _Quote(Struct, frozen=True, kw_only=True):
    """Words to find in prompts, folded."""

    words: str
    is_cut: bool
    """Whether the end was cut off."""
    may_be_part: bool
    """Whether it says enough to be known within a longer prompt; "no, again" does not."""

    def stands_in(self, typed: str) -> bool:
        """Tell whether a folded prompt holds it."""
        if self.is_cut:
            return typed.startswith(self.words)
        return typed == self.words or (self.may_be_part and f" {self.words} " in f" {typed} ")


def _list_quotes(rule: LiveRule) -> tuple[_Quote, ...]:
    """Return the rule and the corrections it was written from.

    Corrections of its tasks that share no word with the rule are left out, unless none does, as after a translation.
    """
    about = _weighty_terms(rule.text)
    own = [words for words in rule.words if about & _weighty_terms(words)] or rule.words
    return tuple(
        _Quote(
            words=folded,
            is_cut=words.rstrip().endswith("…"),
            may_be_part=len(set(folded.split()) - STOPWORDS) >= WORDS_OF_A_PART,
        )
        for words in (rule.text, *own)
        if (folded := _fold(words))
    )


def _fold(words: str) -> str:
    """Return the words alone, without case, punctuation and spaces of any kind between them."""
    return _BETWEEN_WORDS.sub(" ", words[:READ].casefold()).strip()


def _is_about(prompt: str, rule: LiveRule, marks: tuple[frozenset[str], float]) -> bool:
    own, needed = marks
    if len(own & _weighty_terms(prompt)) < needed:
        return False
    return any(similar(prompt, words) >= MIN_SIMILARITY for words in (rule.text, *rule.words))


def _find_marks(rule: LiveRule, rules: Sequence[LiveRule]) -> tuple[frozenset[str], float]:
    """Return the terms that tell complaints about a rule from others phrased alike, and how many of them it takes.

    They are the terms that the rule and the person's words for it share: a phrase such as "you forgot ... again" is no
    part of a rule. A term that another rule has too tells nothing, unless no other is left. When rule and words share
    no term, one of the words' own is enough.
    """
    own = _weighty_terms(rule.text) & _weighty_terms(*rule.words)
    others = [_weighty_terms(other.text, *other.words) for other in rules if other.text != rule.text]
    if own:
        own = own.difference(*others) or own
        return own, TERMS_NEEDED * len(own)
    own = _weighty_terms(*rule.words).difference(*others)
    return own, min(1, len(own)) if others else 0


def _weighty_terms(*texts: str) -> frozenset[str]:
    return frozenset(term for text in texts for term, weight in terms(text).items() if weight >= 1)


def _judge(before: Period, after: Period) -> tuple[WatchState, float | None, int]:
    """Return what the counts say, how likely chance makes so few, and how many prompts are missing.

    Given all n corrections, and had nothing changed, those since are binomial in n with the share of prompts typed
    since (the conditional test of two Poisson rates, Przyborowski and Wilenski 1940). A rule is learnt from what was
    corrected often of late, so some fall is to be expected anyway: "fell" claims less than "did not fall".
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
    """Compute the logarithm of the number of ways to choose ``count`` of ``total``."""
    return math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)


def _parse_moment(at: str) -> datetime | None:
    """Return a recorded time, taken as UTC when it names no zone; None when it is not a time."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def describe_watch(watched: Sequence[Watched], *, everything: bool = False) -> Page:
    """Return a paragraph for each rule, those that do not help first, then the latest adopted."""
    if not watched:
        return (Section("", ("No rule of this project is live, so there is nothing to watch.",)),)
    most = len(watched) if everything else RULES
    unhelpful_first = sorted(watched, key=lambda found: found.state is not WatchState.DID_NOT_FALL)
    items = Items([list(_describe_rule(found)) for found in unhelpful_first[:most]])
    return (Section(TITLE, (items, *count_rest(len(watched), most, "more rule"))),)


def list_unhelpful_rules(watched: Sequence[Watched]) -> tuple[str, ...]:
    """Return notes for a night's report on the rules whose corrections did not become fewer."""
    return tuple(
        f"since “{plain(found.rule.text, CHARACTERS)}” went live, you have corrected this as often as before"
        f" ({_rate(found.before)} before, {_rate(found.after)} since); to remove the rule: {_revert(found)}"
        for found in watched
        if found.state is WatchState.DID_NOT_FALL
    )


def _describe_rule(found: Watched) -> Iterator[Cell]:
    yield f"{found.rule.edit.id}  “{plain(found.rule.text, CHARACTERS)}”"
    yield Line(
        f"live since {found.rule.adopted_at[:10]} (night {found.rule.night}), {plain(found.rule.path)}", Tone.QUIET
    )
    if SAID in found.rule.how:
        yield f"{SAID}: adopted by your word alone"
    yield f"before: {_rate(found.before)}; since: {_rate(found.after)}"
    yield Line(_conclude(found), TONES.get(found.state, Tone.PLAIN))


def _conclude(found: Watched) -> str:
    match found.state:
        case WatchState.FELL:
            return f"They became fewer: by chance alone, once in {round(1 / max(found.p or 0.0, 0.001)):,} times."
        case WatchState.UNCLEAR:
            return f"Fewer, but chance alone does this {found.p or 0:.0%} of the time: too little to tell."
        case WatchState.DID_NOT_FALL:
            return f"They did not become fewer: the rule does not help here. To remove it: {_revert(found)}"
        case WatchState.EARLY:
            return f"Too early to tell: it takes about {number(found.missing, 'more prompt')}."
        case WatchState.NEVER_SAID:
            return "No earlier prompt of yours reads like this rule, so there is nothing to compare with."


def _rate(period: Period) -> str:
    if period.rate is None:
        return "no prompt"
    return f"{period.rate:.1f} ({period.corrections} in {number(period.prompts, 'prompt')})"


def _revert(found: Watched) -> str:
    return f"skillopt-sleep revert {found.rule.night} --edit {found.rule.edit.id}"
