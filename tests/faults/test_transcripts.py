"""Session files damaged in every way: read to the end, without an exception, and what was lost is said."""

from __future__ import annotations

import json
import random
import time

import pytest

from skillopt_sleep.model.session import SessionFile
from skillopt_sleep.sources.claude import ClaudeSource
from skillopt_sleep.sources.codex import CodexSource
from tests.benchmarks.corpus import write_claude_corpus, write_codex_corpus

FILES = 1_250
"""Damaged files a test reads; without ``--slow`` one in ten of them."""

CORPORA = {"claude": (write_claude_corpus, ClaudeSource()), "codex": (write_codex_corpus, CodexSource())}


def value(rng):
    """A JSON value where another type is expected."""
    return rng.choice(
        [None, True, 0, -1, 1e308, 10**30, "", "x", [], [[]], {}, {"type": {}}, [None], "\u202e\x00", {"content": [7]}]
    )


def changed(node, rng):
    """The same JSON with one value somewhere put in another's place, left out, or given another name."""
    if isinstance(node, dict) and node and rng.random() < 0.8:
        key = rng.choice(list(node))
        way = rng.random()
        if way < 0.4:
            return {**node, key: changed(node[key], rng)}
        if way < 0.7:
            return {**node, key: value(rng)}
        if way < 0.85:
            return {name: each for name, each in node.items() if name != key}
        return {(f"{name}_" if name == key else name): each for name, each in node.items()}
    if isinstance(node, list) and node and rng.random() < 0.8:
        index = rng.randrange(len(node))
        return [*node[:index], changed(node[index], rng), *node[index + 1 :]]
    return value(rng)


def rewritten(line, rng):
    """A line whose JSON is whole and means something else."""
    try:
        return json.dumps(changed(json.loads(line), rng)).encode() + b"\n"
    except ValueError:
        return line


def flipped(line, rng):
    """A line with some bytes changed."""
    data = bytearray(line)
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


LINES = {
    "value": rewritten,
    "bytes": flipped,
    "cut": lambda line, rng: line[: rng.randrange(len(line))],
    "cut with newline": lambda line, rng: line[: rng.randrange(len(line))] + b"\n",
    "twice": lambda line, _: line + line,
    "gone": lambda *_: b"",
    "noise": lambda line, rng: line + rng.randbytes(rng.randint(1, 300)).replace(b"\n", b"") + b"\n",
    "nul": lambda line, rng: line + b"\0" * rng.randint(1, 500) + b"\n",
    "deep": lambda line, rng: line + b"[" * rng.randint(10, 60_000) + b"\n",
    "windows": lambda line, _: line.replace(b"\n", b"\r\n"),
    "surrogate": lambda line, _: line.replace(b'"type"', b'"lone":"\\ud83d","type"', 1),
    "not an object": lambda line, rng: line + rng.choice([b"7\n", b"[]\n", b"null\n", b'"x"\n', b"\n", b"{}\n"]),
    "joined": lambda line, _: line.rstrip(b"\n"),
}
"""What happens to one line."""


def damaged(lines, rng):
    """The file with one to five lines harmed; at times the whole of it turned round, cut or drowned."""
    lines = list(lines)
    for _ in range(rng.randint(1, 5)):
        index = rng.randrange(len(lines))
        if lines[index]:
            lines[index] = LINES[rng.choice(list(LINES))](lines[index], rng)
    match rng.randrange(12):
        case 0:
            rng.shuffle(lines)
        case 1:
            data = b"".join(lines)
            return data[: rng.randrange(len(data) + 1)]
        case 2:
            return rng.randbytes(rng.randint(0, 4_000))
        case 3:
            return b"\xef\xbb\xbf" + b"".join(lines)
    return b"".join(lines)


def unreadable(data):
    """Whole lines that hold no JSON; bytes that are no UTF-8 count where they are read, and nowhere else."""
    count = 0
    for line in data.split(b"\n")[:-1]:
        try:
            json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            count += bool(line.strip(b"\0 \t\r\x0b\x0c")) or (b"\0" in line)
    return count


def read(source, path):
    """A session file read, with what was skipped."""
    skips = []
    status = path.stat()
    session = source.read(SessionFile(path=str(path), size=status.st_size, mtime_ns=status.st_mtime_ns), skips.append)
    return session, skips


@pytest.fixture(scope="module", params=CORPORA, ids=str)
def whole(request, tmp_path_factory):
    """A source, and the lines of some files as its agent writes them."""
    write, source = CORPORA[request.param]
    root = tmp_path_factory.mktemp(request.param)
    write(root, megabytes=3, seed=3)
    paths = sorted(root.rglob("*.jsonl"))
    return source, [beginning(path.read_bytes().splitlines(keepends=True)) for path in paths]


def beginning(lines, size=25_000):
    """The first lines of a session, as it was early on; no line that would fill it alone."""
    kept, total = [], 0
    for line in lines:
        total += len(line) if len(line) < size / 4 else 0
        if total > size:
            break
        if len(line) < size / 4:
            kept.append(line)
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_damaged_files(whole, tmp_path, part, request):
    """10,000 with ``--slow``: each is read to its end at once, and every line that is no JSON is counted and named."""
    source, files = whole
    rng = random.Random(f"{source.name}{part}")
    path = tmp_path / "session.jsonl"
    sessions = skipped = 0
    count = FILES if request.config.getoption("--slow") else FILES // 10
    for number in range(count):
        data = damaged(files[number % len(files)], rng)
        path.write_bytes(data)
        begun = time.monotonic()
        session, skips = read(source, path)
        assert time.monotonic() - begun < 5
        assert all(skip.path == str(path) and skip.reason for skip in skips)
        lost = sum(skip.count for skip in skips if skip.reason != "lone surrogate replaced")
        assert lost >= unreadable(data), (number, skips)
        sessions += session is not None
        skipped += bool(skips)
    assert sessions > count // 2, "the damage was so great that hardly anything was read"
    assert skipped > count // 5


def test_lines_between_that_are_no_records(whole, tmp_path):
    """They take nothing with them: every word a person typed is still there."""
    source, files = whole
    rng = random.Random(7)
    noise = [b"garbage\n", b"\xff\xfe\n", b"{\n", b"null\n", b"\n", b"[1, 2\n", b"\0\0\0\n", b'{"type": 7}\n']
    path = tmp_path / "session.jsonl"
    for lines in files:
        path.write_bytes(b"".join(lines))
        expected, none = read(source, path)
        assert none == []
        spoilt = [part for line in lines for part in (line, *rng.sample(noise, rng.randint(0, 2)))]
        path.write_bytes(b"".join(spoilt))
        session, _ = read(source, path)
        assert session == expected


@pytest.mark.parametrize("size", [0, 1, 100, 100_000, 3_000_000])
def test_random_bytes(size, tmp_path):
    """No session, no exception; what has a line in it is reported."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(random.Random(size).randbytes(size))
    for _, source in CORPORA.values():
        session, skips = read(source, path)
        assert session is None
        assert bool(skips) == (size > 100)
