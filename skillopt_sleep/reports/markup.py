"""Markdown out of words that others wrote: escaped, so that they read as written and can never become markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from skillopt_sleep.reports.phrases import DOCUMENTS
from skillopt_sleep.reports.plain import plain

__all__ = ["code", "document", "escape", "longest_run", "table"]

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
