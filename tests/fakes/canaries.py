"""Plants secrets of every kind in every place of session files where an agent keeps words, names or output."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.secret_samples import KINDS, Sample, samples

_RECORDS = json.loads((Path(__file__).parents[1] / "benchmarks/corpora/agent_records.json").read_text(encoding="utf-8"))
STRUCTURE = frozenset(_RECORDS["structure"])
"""Fields that say what a record is, and hold no words."""
NAMES = frozenset(_RECORDS["names"])
"""Fields with one name, into which only a bare key fits."""
SOME = 8
"""Secrets in one place at a time."""


class Planter:
    """Writes session files again with secrets in them; over all files every place gets a secret of every kind."""

    def __init__(self, seed: int) -> None:
        by_kind: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples(seed, 2):
            if sample.setting != "split":
                by_kind[sample.kind].append(sample)
        self._samples = by_kind
        self._bare = {
            kind: bare
            for kind in KINDS
            if (bare := [s for s in by_kind[kind] if s.text.startswith(f"I pasted {s.pieces[0]} by")])
        }
        self._turns: dict[str, int] = defaultdict(int)
        self.pieces: set[str] = set()
        self.planted: dict[str, set[str]] = defaultdict(set)
        """Kinds by place."""

    def plant(self, path: Path) -> None:
        """Plant secrets in every record of a file."""
        records = _enrich([json.loads(line) for line in path.read_text().splitlines()])
        for record in records:
            inner = record.get("payload", record.get("attachment", {}))
            self._walk(record, f"{record['type']} {inner.get('type', inner.get('role', ''))}")
        path.write_text("".join(json.dumps(record) + "\n" for record in records))

    def _walk(self, value: object, place: str) -> None:
        if isinstance(value, list):
            for number, inner in enumerate(value):
                if isinstance(inner, str):
                    value[number] = self._fill(inner, place)
                else:
                    self._walk(inner, place)
        elif isinstance(value, dict):
            for key in [key for key in value if key not in STRUCTURE]:
                kind = value.get("type", "") if key in {"text", "content", "input"} else ""
                value[key] = self._change(value[key], key, f"{place}.{kind}{key}")
        else:
            return

    def _change(self, inner: object, key: str, place: str) -> object:
        if key == "arguments" and isinstance(inner, str):
            given = json.loads(str(inner))
            self._walk(given, place)
            return json.dumps(given)
        if not isinstance(inner, str):
            self._walk(inner, place)
            return inner
        return self._name(inner, place) if key in NAMES else self._fill(inner, place)

    def _fill(self, text: str, place: str) -> str:
        return "\n\n".join((text, *(sample.text for sample in self._draw(place, self._samples))))

    def _name(self, name: str, place: str) -> str:
        (sample,) = list(self._draw(place, self._bare, 1))
        return f"{name}/{sample.pieces[0]}/x.py"

    def _draw(self, place: str, samples_of: dict[str, list[Sample]], some: int = SOME) -> Iterator[Sample]:
        kinds = list(samples_of)
        for _ in range(some):
            turn = self._turns[place]
            self._turns[place] += 1
            kind = kinds[turn % len(kinds)]
            sample = samples_of[kind][turn // len(kinds) % len(samples_of[kind])]
            self.planted[place].add(kind)
            self.pieces.update(sample.pieces)
            yield sample


def _enrich(records: list[dict]) -> list[dict]:
    """Put what else an agent records into a session, before its first answer in words."""
    is_codex = records[0]["type"] == "session_meta"
    at = next(number for number, record in enumerate(records) if _speaks(record, is_codex=is_codex))
    if is_codex:
        stamp = records[at]["timestamp"]
        rich = [{"timestamp": stamp, "type": kind, "payload": payload} for kind, payload in _RECORDS["codex"]]
        return json.loads(json.dumps([*records[:at], *rich, *records[at:]]))
    rich = _RECORDS["claude"]
    made = [*records[:at], *(_make_claude(parts, records[at], number) for number, parts in enumerate(rich))]
    whole: list[dict] = json.loads(json.dumps([*made, *records[at:]]))
    last = None
    for record in whole:
        if "uuid" in record:
            record["parentUuid"], last = last, record["uuid"]
    return whole


def _speaks(record: dict, *, is_codex: bool) -> bool:
    if is_codex:
        return record["payload"].get("type") == "agent_message"
    return record["type"] == "assistant" and record["message"]["content"][0]["type"] == "text"


def _make_claude(parts: dict, near: dict, number: int) -> dict:
    """Make a record in the frame of the one beside it."""
    frame = {key: value for key, value in near.items() if key not in {"message", "type"}}
    frame["uuid"] = f"{near['uuid'][:-4]}{number + 0xA000:04x}"
    parts = dict(parts)
    if "kind" in parts:
        return frame | {"type": parts.pop("kind")} | parts
    if "result" in parts:
        block = {"type": "tool_result", "tool_use_id": parts["result"], "content": parts["content"]}
        message = {"role": "user", "content": [block | {"is_error": parts.get("is_error", False)}]}
        return frame | {"type": "user", "message": message, "toolUseResult": parts["toolUseResult"]}
    block = parts["content"][0] | ({"input": parts["input"]} if "input" in parts else {})
    message = {**near["message"], "id": f"rich-{number}", "content": [block]}
    return frame | {"type": "assistant", "message": message}
