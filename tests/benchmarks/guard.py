"""Measures how many hostile edits the guard holds back, and how many ordinary house rules.

``--hostile`` and ``--ordinary`` try lists of your own: text files with one rule a line (``\n`` in it for a line end),
or JSONL of strings. ``--typed`` names a file of words that a person typed; links and origins are then checked as well.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.safety.grounds import Grounds, find_unfounded
from skillopt_sleep.safety.guard import guard

CORPORA = Path(__file__).parent / "corpora"
_HOSTILE = json.loads((CORPORA / "guard_hostile.json").read_text(encoding="utf-8"))
_ORDINARY = json.loads((CORPORA / "guard_ordinary.json").read_text(encoding="utf-8"))

HOSTILE: dict[str, list[str]] = _HOSTILE["rules"]
"""Hostile rules, by what they would do; each must be held back, for whatever reason."""
TURNED: list[str] = _HOSTILE["reworded"]
"""Hostile rules in wordings that the guard once missed; none may pass."""
TYPED: list[str] = _HOSTILE["typed"]
"""What a person typed in the tasks that the unfounded rules claim to come from."""
UNFOUNDED: list[str] = _HOSTILE["unfounded"]
"""Rules that rest on nothing the person typed; each must be held back."""
ORDINARY: list[str] = _ORDINARY["rules"]
"""House rules as people have them; none may be held back."""
STRAIGHT: list[str] = _ORDINARY["reworded"]
"""Ordinary rules that the guard once held back, or might; none may be held back."""
FOUNDED: list[list[str]] = _ORDINARY["founded"]
"""What a person typed, and a rule made of it, which may not be held back."""
ALONE = "hostile, by grounds"
"""This row shows how much the check of grounds holds by itself; it need not be all of it."""


class Row(Struct, frozen=True, kw_only=True):
    """One list: how many of its rules were held back, and those that were decided wrongly, with the reason if any."""

    name: str
    rules: int
    held: int
    wrong: tuple[tuple[str, str], ...]


def main(argv: Sequence[str]) -> int:
    """Run the benchmark; ends with 1 when a rule was decided wrongly."""
    parser = argparse.ArgumentParser(prog="guard", description=__doc__)
    parser.add_argument("--hostile", type=Path, metavar="FILE", help="rules that must be held back")
    parser.add_argument("--ordinary", type=Path, metavar="FILE", help="rules that must not be")
    parser.add_argument("--typed", type=Path, metavar="FILE", help="words a person typed, for links and provenance")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    typed = Grounds(typed=(given.typed.read_text(encoding="utf-8"),)) if given.typed else None
    started = time.perf_counter()
    if given.hostile or given.ordinary:
        rows = [
            _row(name, _lines(path), hostile=name == "hostile", typed=typed)
            for name, path in (("hostile", given.hostile), ("ordinary", given.ordinary))
            if path is not None
        ]
    else:
        grounds = Grounds(typed=tuple(TYPED))
        rows = [_row(name, rules, hostile=True) for name, rules in HOSTILE.items()]
        rows.append(_row("in other turns", TURNED, hostile=True))
        rows.append(_row("links, provenance", UNFOUNDED, hostile=True, typed=grounds))
        rows.append(_row("ordinary", (*ORDINARY, *STRAIGHT), hostile=False))
        founded = [_row("", (rule,), hostile=False, typed=Grounds(typed=(words,))) for words, rule in FOUNDED]
        wrong = tuple(rule for row in founded for rule in row.wrong)
        rows.append(Row(name="of words just typed", rules=len(founded), held=len(wrong), wrong=wrong))
        every = [*(rule for rules in HOSTILE.values() for rule in rules), *TURNED]
        rows.append(_row(ALONE, every, hostile=True, typed=grounds, alone=True))
    seconds = time.perf_counter() - started
    if given.json:
        print(msgspec.json.encode(rows).decode())
    else:
        print(_table(rows, seconds))
    return int(any(row.wrong for row in rows if row.name != ALONE))


def _row(name: str, rules: Iterable[str], *, hostile: bool, typed: Grounds | None = None, alone: bool = False) -> Row:
    found = [
        (rule, (None if alone else guard(rule)) or (find_unfounded(rule, typed) if typed else None)) for rule in rules
    ]
    wrong = tuple((rule, why or "") for rule, why in found if (why is None) is hostile)
    return Row(name=name, rules=len(found), held=sum(why is not None for _, why in found), wrong=wrong)


def _lines(path: Path) -> list[str]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [str(json.loads(line)) if line.startswith('"') else line.replace("\\n", "\n") for line in lines]


def _table(rows: Sequence[Row], seconds: float) -> str:
    lines = [f"{'list':24}{'rules':>7}{'held':>7}{'wrong':>7}"]
    lines += [f"{row.name:24}{row.rules:7}{row.held:7}{len(row.wrong):7}" for row in rows]
    rules = sum(row.rules for row in rows)
    lines.append(f"{rules} rules in {seconds:.2f} s")
    for row in (row for row in rows if row.name != ALONE):
        lines += [f"wrong, {row.name}: {rule[:160]!r}{f' ({why})' if why else ''}" for rule, why in row.wrong]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    raise SystemExit(main(sys.argv[1:]))
