"""Figures in words: counts with their nouns, scores, money, moments, and what went wrong with calls.

Words from sessions, models and file names, made fit to be shown.

A report is read in a terminal and in a browser. What it quotes was written by others, so nothing quoted may drive the
terminal, hide from the reader, or break a file that must stay UTF-8.

Markdown out of words that others wrote: escaped, so that they read as written and can never become markup.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from skillopt_sleep.model.call import Caps, Spend
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.night.report import NightReport

_CSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]{0,40}[ -/]{0,8}[@-~]")
"""Colours and cursor movements, taken out whole; of any other escape the control characters are, the rest is shown."""

_JOINERS = "\u200c\u200d"
"""Invisible, but part of how Persian, Indic scripts and emoji are spelled."""


def plain(text: str, limit: int | None = None) -> str:
    """``text`` on one line without control, bidirectional and other unprintable characters, cut to ``limit``."""
    line = " ".join(_printable(text).split())
    return line if limit is None else excerpt(line, limit)


def plain_lines(text: str) -> list[str]:
    """The lines of ``text`` with their indentation, each without unprintable characters."""
    return [_printable(line.expandtabs(4)).rstrip() for line in text.rstrip("\n").split("\n")]


def to_json(value: msgspec.Struct) -> bytes:
    """JSON of one value on one line. A file name that is no UTF-8 (a lone surrogate in Python) gets question marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode(errors="replace")


def _printable(text: str) -> str:
    text = _CSI.sub("", text)
    return "".join(c if c.isprintable() or c in _JOINERS else " " if c.isspace() else "" for c in text)


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


_MARKUP = re.compile(r"[\\`*\[<~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
"""What could start markup inside a line; an underscore inside a word and a lone & could not."""
_BLOCK = re.compile(r"[-+#>=:]|\d+(?=[.)])")
"""What could start a heading, list, quote or table at the beginning of a line."""


def escape(text: str) -> str:
    """``text`` on one line, such that Markdown shows exactly its printable characters."""
    line = _MARKUP.sub(r"\\\g<0>", plain(text))
    if block := _BLOCK.match(line):
        at = block.end() if block[0].isdecimal() else 0
        line = f"{line[:at]}\\{line[at:]}"
    return line


def document(kind: str) -> str:
    """What a kind of document is called."""
    return DOCUMENTS.get(kind, escape(kind))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; cells are markup already."""
    yield _row(head)
    yield _row(["---"] * len(head))
    for cells in rows:
        yield _row([cell.replace("|", "\\|") for cell in cells])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def code(text: str) -> str:
    """A code span of the text on one line, whatever backticks it has; "" for nothing."""
    line = plain(text)
    fence = "`" * (1 + longest_run(line))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}" if line else ""


def longest_run(text: str) -> int:
    """The length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
