"""Figures in words: counts with their nouns, scores, money, moments, and what went wrong with calls."""

from __future__ import annotations

from collections import Counter

from skillopt_sleep.domain.budget import Caps, Spend
from skillopt_sleep.domain.report import NightReport
from skillopt_sleep.reports.plain import plain

__all__ = [
    "DOCUMENTS",
    "ERRORS",
    "PHASES",
    "earlier",
    "errors",
    "expected",
    "money",
    "number",
    "score",
    "sentence",
    "spending",
    "when",
    "whole",
]

DOCUMENTS = {"skill": "skill", "memory": "memory file"}
"""What the kinds of documents are called."""

ERRORS = {
    "BadReply": "reply that could not be read",
    "BudgetSpent": "cap reached",
    "EmptyReply": "empty reply",
    "ModelRefused": "model not available",
    "NotAllowed": "not agreed to",
    "NotInstalled": "not installed",
    "NotLoggedIn": "not logged in",
    "Overloaded": "service overloaded or out of reach",
    "QuotaExhausted": "quota used up",
    "RateLimited": "too many calls at once",
    "TimedOut": "no answer in time",
    "TooLong": "prompt or answer too long",
    "TooOld": "agent too old",
}
"""What the error classes of calls mean."""

PHASES = {
    "mine": "finds tasks in your sessions",
    "train": "replays some of them to see what goes wrong",
    "reflect": "writes rules",
    "val": "tests the rules on other tasks",
    "load": "sees whether the agent itself loads what is proposed",
    "test": "scores an adopted change on sealed tasks",
    "judge": "scores answers",
}
"""What the phases of a night are for."""

SCORED = frozenset({"train", "val", "test"})
"""Phases whose expected calls have those of the judge in them."""


def number(count: int, noun: str = "", plural: str = "") -> str:
    """A count with its noun: ``1 task``, ``12,400 tokens``."""
    if not noun:
        return f"{count:,}"
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def score(value: float | None) -> str:
    """A score to two decimals."""
    return "not measured" if value is None else f"{value:.2f}"


def money(spend: Spend) -> str:
    """Dollars spent, and whether that is all of it: not every provider names a price."""
    if spend.unpriced and not spend.usd:
        return "no price known"
    return f"at least ${spend.usd:,.2f}" if spend.unpriced else f"${spend.usd:,.2f}"


def earlier(report: NightReport) -> str:
    """What a night had spent in sittings before this one, "" for nothing."""
    whole, now = report.spend_night, report.spend
    if whole.calls <= now.calls:
        return ""
    return f"{number(whole.calls)} calls and {number(whole.tokens)} tokens in all sittings of this night"


def expected(report: NightReport) -> str:
    """What the tasks were expected to take beside what they took, retries not counted, "" where nobody could know."""
    if not report.expected:
        return ""
    took = _made(report)
    least, usual, most = (sum(getattr(each, end) for each in report.expected) for end in ("least", "usual", "most"))
    said = f"about {number(usual)}" if usual else f"{number(least)} to {number(most)}"
    return f"{said} calls were expected once the tasks were known, {number(took)} were made"


def _made(report: NightReport) -> int:
    """How many calls were made of those that were expected, retries apart.

    A judge's calls are expected with what it scores and a reflection's without its document; the ledger files both
    under phases of their own.
    """
    counted = {each.phase for each in report.expected}
    if counted & SCORED:
        counted.add("judge")
    return sum(each.calls - each.retries for each in report.phases if each.phase.split()[0] in counted)


def whole(report: NightReport) -> Spend:
    """What a night has cost in all its sittings."""
    return report.spend_night if report.spend_night.calls > report.spend.calls else report.spend


def spending(caps: Caps, spend: Spend) -> tuple[tuple[str, str, str], ...]:
    """What was spent against each cap: (what, used, cap)."""
    return (
        ("model calls", number(spend.calls), number(caps.calls)),
        ("tokens", number(spend.tokens), number(caps.tokens)),
        ("money", money(spend), f"${caps.usd:,.2f}"),
        ("minutes", f"{spend.seconds / 60:.1f}", f"{caps.minutes:g}"),
    )


def errors(report: NightReport) -> str:
    """What went wrong with calls, the most frequent first; "" when nothing did."""
    total: Counter[str] = Counter()
    for phase in report.phases:
        total.update(phase.errors)
    return ", ".join(f"{count} x {ERRORS.get(name, plain(name))}" for name, count in total.most_common())


def when(moment: str) -> str:
    """An ISO 8601 moment in UTC, to the minute."""
    return f"{moment[:10]} {moment[11:16]} UTC" if len(moment) > len("2026-01-01T00:00") else plain(moment)


def sentence(text: str) -> str:
    """``text`` as a sentence: a capital letter and a full stop; "" stays ""."""
    line = plain(text)
    return line and line[0].upper() + line[1:] + ("" if line[-1] in ".!?…" else ".")
