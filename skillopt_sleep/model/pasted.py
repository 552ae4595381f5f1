"""Tells what a person typed in a prompt from what they pasted: terminal output, logs, diffs, code."""

from __future__ import annotations

import re

_PROMPT = re.compile(
    r"\s*(?:[\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}\u279c$%>]\s|[^\n]*[\ue000-\uf8ff])"
)
"""How a terminal's prompt begins; the lines after it, up to a blank one, are output."""

_PASTED = re.compile(
    r"""\s*(?:
      \[[\w:./ -]{2,40}\](?:\s|$)                            # [lint:go] …
    | (?:time|level|ts|msg)= | \d{4}-\d\d-\d\d[T ]\d | \d\d:\d\d:\d\d
    | at\s\S+\( | File\s" | Traceback | \w*(?:Error|Exception|Warning):\s | panic: | goroutine\s | npm\sERR
    | (?:env\s+)?[A-Z][A-Z_]+=\S | FAIL\b | PASS\b | ok\s+\S+\s+[\d.(] | ---\s | ===\s | \+\+\+\s | @@\s | diff\s--git
    | \S+\.\w{1,5}:\d+ | "[^"]*":\s | [{}\[\]();,]+$
    ) | \t | [ ]{4}""",
    re.VERBOSE,
)
"""How a line begins that was copied from a terminal, a log, a diff or a file."""

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


def strip_pasted(prompt: str) -> str:
    """Return what the person typed of a prompt, without pasted text; "" when all of it was pasted."""
    typed: list[str] = []
    in_output = False
    for line in _FENCE.sub("\n", prompt).splitlines():
        if not line.strip():
            in_output = False
        elif _PROMPT.match(line):
            in_output = True
        elif not in_output and not _PASTED.match(line):
            typed.append(line)
    return "\n".join(typed)
