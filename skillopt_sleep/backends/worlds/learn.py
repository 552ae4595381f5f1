"""What the simulated optimizer replies when a skill is trained: merges, rankings, guidance and notes.

Like the rest of the simulated agent it uses what stands in the prompt and nothing else: two edits mean the same when
they state the same rule of its world, guidance is written where a good and a bad answer can be compared, and what is
better is not known to it: it ranks by how many analysts said a thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from skillopt_sleep.backends.worlds.play import Luck, Traits, swapped, written_about
from skillopt_sleep.backends.worlds.reading import occurrences, tagged
from skillopt_sleep.backends.worlds.world import World
from skillopt_sleep.domain import Json
from skillopt_sleep.domain.words import fold

__all__ = ["merge_edits", "rank_edits", "write_guidance", "write_notes"]

MOST_GUIDANCE = 4
"""Rules that one guidance holds."""
MOST_NOTES = 12
"""Rejected edits that one set of notes holds."""

_NUMBERED = re.compile(r"^(?P<number>\d+)\.\s(?P<head>.*(?:\n\s+\S.*)*)", re.MULTILINE)
_SUPPORT = re.compile(r"\bproposed (\d+) x")
_TEXT = re.compile(r"^\s+text: (?P<text>.*)$", re.MULTILINE)
_BETWEEN = re.compile(r"\bfrom (\d+) to (\d+)\b")
_STEP = re.compile(r"\bstep \d+:")
_REJECTED = re.compile(r"\breject", re.IGNORECASE)


def merge_edits(world: World, text: str) -> dict[str, Json]:
    """Groups of edits that state the same rule, or hold the same other text of the world."""
    groups: dict[str, list[int]] = {}
    wordings: dict[str, str] = {}
    for number, edit in _numbered(text):
        for known in _known(world, edit):
            groups.setdefault(known, []).append(number)
            wordings.setdefault(known, known)
    same: list[Json] = [
        {"same": [*numbers], "text": wordings[known]} for known, numbers in groups.items() if len(numbers) > 1
    ]
    return {"groups": same}


def rank_edits(text: str) -> dict[str, Json]:
    """The edits by how often they were proposed; as many of them as more than one analyst proposed."""
    support = {number: int(found[1]) if (found := _SUPPORT.search(edit)) else 1 for number, edit in _numbered(text)}
    ranking = sorted(support, key=lambda number: (-support[number], number))
    asked = _BETWEEN.search(text)
    least, most = (int(asked[1]), int(asked[2])) if asked else (1, len(ranking))
    seconded = sum(1 for count in support.values() if count > 1)
    return {"ranking": [*ranking], "budget": max(least, min(most, seconded))}


def write_guidance(world: World, text: str, traits: Traits, luck: Luck) -> dict[str, Json]:
    """The rules that the cases tell of and the document does not state, and those of the guidance so far."""
    kept = [
        rule.text for rule in world.rules for each in tagged(text, "guidance") if fold(rule.text) in fold(each.words)
    ]
    document = fold("\n".join(each.words for each in tagged(text, "document")))
    learnt = [rule for rule in written_about(world, text) if fold(rule) not in document]
    lines: dict[str, None] = dict.fromkeys(kept)
    for number, rule in enumerate(learnt):
        lines[swapped(world, rule, number, traits, luck) or rule] = None
    return {"guidance": "\n".join(f"- {line}" for line in [*lines][:MOST_GUIDANCE])}


def write_notes(world: World, text: str) -> dict[str, Json]:
    """What was rejected, so that it is not tried again; and what earlier notes said of that."""
    tried = [
        known
        for step in _STEP.split(" ".join(each.words for each in tagged(text, "history")))
        if _REJECTED.search(step)
        for known in _known(world, step)
    ]
    before = [known for each in tagged(text, "notes") for known in _known(world, each.words)]
    accepted = {
        known
        for step in _STEP.split(" ".join(each.words for each in tagged(text, "history")))
        if not _REJECTED.search(step)
        for known in _known(world, step)
    }
    noted = [known for known in dict.fromkeys([*before, *tried]) if known not in accepted]
    return {"notes": "\n".join(f"- Rejected before: {known}" for known in noted[-MOST_NOTES:])}


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """The edits of a prompt, by their number; their text alone where it is marked."""
    edits = next((each.words for each in tagged(text, "edits")), text)
    for match in _NUMBERED.finditer(edits):
        marked = _TEXT.search(match["head"])
        support = _SUPPORT.search(match["head"])
        yield int(match["number"]), f"{support[0] if support else ''} {marked['text'] if marked else match['head']}"


def _known(world: World, text: str) -> list[str]:
    """The rules of the world, and its harmful and useless ones, that a text holds word for word."""
    every: Mapping[str, None] = dict.fromkeys(
        [*(rule.text for rule in world.rules), *(rule.text for rule in world.harmful), *world.useless]
    )
    return [known for known in every if any(True for _ in occurrences(known, text))]
