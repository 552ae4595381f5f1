"""Secrets: what redaction finds, what it takes for one in other texts, and how long it takes.

With ``--rule-sets`` it is tried on the examples of public rule sets (``secret_lists``), which nobody here wrote, each
in five contexts; half of their kinds are held out. The rest is our own, and reported apart: keys drawn from the rules
that redaction reads, other for every seed, and secrets in the notations that it knows. With ``--transcripts`` every hit
in files of yours is listed, to be looked at by a person: shortened, but still to be kept to oneself.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.safety.redaction.redactor import Redactor, _find, _locate, _read
from tests.benchmarks.corpus import Material
from tests.benchmarks.secret_lists import CONTEXTS, Example, read_examples
from tests.benchmarks.secret_samples import KINDS, innocents, samples

SETTINGS = ("prose", "code", "json", "split")
MEGABYTES = 10
TOUCHED = 0.01
"""Share of innocent texts that may be taken for a secret."""
LINEAR = 12.0
"""Times as long that ten times the text may take."""
SECONDS = 1.0
"""That ``MEGABYTES`` of text may take."""
AROUND = 48
"""Characters shown before a hit."""


class Kind(Struct, frozen=True, kw_only=True):
    """What was found of one kind: (found, made) by setting."""

    kind: str
    found: dict[str, tuple[int, int]]


class Outside(Struct, frozen=True, kw_only=True):
    """What was found of the examples of a rule set, by context, and of how many kinds everything."""

    name: str
    found: Mapping[str, int]
    examples: int
    whole: int
    kinds: int


class Speed(Struct, frozen=True, kw_only=True):
    """Seconds for a tenth of a text (the mean of all ten) and for all of it, and their ratio."""

    text: str
    megabytes: float
    tenth: float
    seconds: float
    ratio: float


class Hit(Struct, frozen=True, kw_only=True):
    """Something that was taken for a secret in a file."""

    file: str
    times: int
    before: str
    secret: str


def main(argv: Sequence[str]) -> int:
    """Run the benchmark; ends with 1 when a secret was missed, anything else taken, or the time is over the bar."""
    parser = argparse.ArgumentParser(prog="secrets", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="sets of secrets (default: %(default)s)")
    parser.add_argument("--rule-sets", type=Path, metavar="PATH", help="folder or archive with public rule sets")
    parser.add_argument("--missed", action="store_true", help="list the examples missed, but for those held out")
    parser.add_argument("--transcripts", type=Path, metavar="DIR", help="list what is taken for secrets in these files")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    missed: list[str] = []
    examples = read_examples(given.rule_sets) if given.rule_sets else []
    outside = _try_examples(examples)
    kinds = _kinds(given.seed, given.rounds, missed)
    touched = _touched(given.seed, given.rounds)
    speeds = [_speed(name, given.seed) for name in ("prose", "code", "log", "with secrets")]
    hits = [] if given.transcripts is None else list(_hits(given.transcripts))
    if given.json:
        print(
            msgspec.json.encode(
                {
                    "outside": outside,
                    "kinds": kinds,
                    "missed": missed,
                    "touched": touched,
                    "speeds": speeds,
                    "hits": hits,
                }
            ).decode()
        )
    else:
        print(_outside_table(outside) + _table(kinds, missed, touched, speeds))
        if given.missed:
            print("\n".join(f"missed: {each.rule}: {each.text[:160]!r}" for each in _list_missed(examples)))
        if given.transcripts is not None:
            print(f"\ntaken for secrets in {given.transcripts}: {len(hits)}")
            print("\n".join(f"  {hit.times:4} x {hit.file[:24]:24} …{hit.before!r} >>> {hit.secret!r}" for hit in hits))
    slow = any(each.seconds > SECONDS or each.ratio > LINEAR for each in speeds)
    return int(bool(missed) or len(touched) > given.rounds * TOUCHED * len([*innocents(0)]) or slow)


def _is_found(example: Example, context: str) -> bool:
    redacted = Redactor().redact(CONTEXTS[context](example.text))
    return any(secret not in redacted and json.dumps(secret)[1:-1] not in redacted for secret in example.secret)


def _try_examples(examples: Sequence[Example]) -> list[Outside]:
    """Try each example in each context, by its set and by whether it is held out."""
    groups: dict[str, list[Example]] = {}
    for each in examples:
        groups.setdefault(f"{each.set}{', held out' if each.held_out else ''}", []).append(each)
    return [_try_group(name, group) for name, group in sorted(groups.items())]


def _try_group(name: str, examples: Sequence[Example]) -> Outside:
    found = {context: [_is_found(each, context) for each in examples] for context in CONTEXTS}
    missed = {each.rule for oks in found.values() for each, ok in zip(examples, oks, strict=True) if not ok}
    rules = {each.rule for each in examples}
    counts = {context: sum(oks) for context, oks in found.items()}
    return Outside(name=name, found=counts, examples=len(examples), whole=len(rules - missed), kinds=len(rules))


def _list_missed(examples: Sequence[Example]) -> Iterator[Example]:
    yield from (each for each in examples if not each.held_out and not _is_found(each, "bare"))


def _outside_table(rows: Sequence[Outside]) -> str:
    if not rows:
        return ""
    lines = [f"{'rule set':24}{'examples':>9}" + "".join(f"{name:>9}" for name in CONTEXTS) + f"{'kinds whole':>14}"]
    for row in rows:
        cells = "".join(f"{row.found[context]:>9}" for context in CONTEXTS)
        lines.append(f"{row.name:24}{row.examples:>9}{cells}{f'{row.whole} of {row.kinds}':>14}")
    found, tried = sum(sum(row.found.values()) for row in rows), sum(row.examples * len(CONTEXTS) for row in rows)
    return "\n".join((*lines, f"found {found} of {tried} ({found / tried:.1%})", "", ""))


def _kinds(seed: int, rounds: int, missed: list[str]) -> list[Kind]:
    redactor = Redactor()
    made: Counter[tuple[str, str]] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    for sample in samples(seed, rounds):
        redacted = redactor.redact(sample.text)
        made[sample.kind, sample.setting] += 1
        if any(piece in redacted or json.dumps(piece)[1:-1] in redacted for piece in sample.pieces):
            missed.append(f"{sample.kind}, {sample.setting}: {sample.text[:200]!r}")
        else:
            found[sample.kind, sample.setting] += 1
    return [
        Kind(kind=kind, found={each: (found[kind, each], made[kind, each]) for each in SETTINGS if made[kind, each]})
        for kind in KINDS
    ]


def _touched(seed: int, rounds: int) -> list[str]:
    """Texts without a secret of which something was taken for one."""
    redactor = Redactor()
    return [text for each in range(seed, seed + rounds) for text in innocents(each) if redactor.redact(text) != text]


def _speed(name: str, seed: int) -> Speed:
    text = _text(name, seed)
    redactor = Redactor()
    redactor.redact(text[:10_000])
    size = len(text) // 10
    tenths = [text[at : at + size] for at in range(0, size * 10, size)]  # they differ in what they hold
    tenth = sum(min(_timed(redactor, each) for _ in range(3)) for each in tenths) / len(tenths)
    whole = min(_timed(redactor, text) for _ in range(3))
    return Speed(
        text=name,
        megabytes=round(len(text) / 1e6, 1),
        tenth=round(tenth, 4),
        seconds=round(whole, 3),
        ratio=round(whole / tenth, 1),
    )


def _text(name: str, seed: int) -> str:
    corpus = Material(seed)
    size = int(MEGABYTES * 1_000_000)
    if name != "with secrets":
        make = {"prose": corpus.prose, "code": corpus.code, "log": corpus.log}[name]
        return make(size)
    pieces: list[str] = []  # a secret every few kilobytes
    length = 0
    while length < size:
        for sample in samples(seed + len(pieces)):
            pieces += (corpus.prose(4_000), corpus.code(4_000), sample.text)
            length += len(pieces[-3]) + len(pieces[-2]) + len(pieces[-1])
    return "\n".join(pieces)[:size]


def _timed(redactor: Redactor, text: str) -> float:
    started = time.process_time()
    redactor.redact(text)
    return time.process_time() - started


def _hits(folder: Path) -> Iterator[Hit]:
    """What is taken for a secret in every file below a folder, each secret once, by the line it stands in."""
    times: Counter[str] = Counter()
    first: dict[str, tuple[str, str]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            readings = _read(line)
            for found in _find(readings[-1].text):
                start, stop = _locate(readings, (found.start, found.stop))
                secret = line[start:stop]
                times[secret] += 1
                first.setdefault(secret, (path.name, line[max(0, start - AROUND) : start]))
    for secret, count in times.most_common():
        name, before = first[secret]
        yield Hit(
            file=name, times=count, before=before, secret=secret if len(secret) < AROUND else secret[:AROUND] + "…"
        )


def _table(kinds: Sequence[Kind], missed: Sequence[str], touched: Sequence[str], speeds: Sequence[Speed]) -> str:
    lines = [f"{'kind':42}" + "".join(f"{name:>10}" for name in SETTINGS)]
    for each in kinds:
        cells = (f"{each.found[name][0]}/{each.found[name][1]}" if name in each.found else "" for name in SETTINGS)
        lines.append(f"{each.kind:42}" + "".join(f"{cell:>10}" for cell in cells))
    total = [sum(pair[at] for each in kinds for pair in each.found.values()) for at in (0, 1)]
    lines.append(f"{len(kinds)} kinds, {total[0]} of {total[1]} found")
    lines += [f"missed: {each}" for each in missed]
    lines.append(f"{len([*innocents(0)])} texts without a secret: {len(touched)} touched")
    lines += [f"touched: {each[:200]!r}" for each in touched]
    lines.append(f"\n{'text':16}{'MB':>6}{'a tenth':>10}{'seconds':>10}{'ratio':>8}")
    lines += [f"{s.text:16}{s.megabytes:6}{s.tenth:10.4f}{s.seconds:10.3f}{s.ratio:8.1f}" for s in speeds]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    raise SystemExit(main(sys.argv[1:]))
