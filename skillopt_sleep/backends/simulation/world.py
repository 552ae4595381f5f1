"""The world of the simulated agent: what people ask there, their house rules, and how replies turn out.

A world is data, so that the agent in ``backends/simulated.py`` holds no knowledge of its own and can be put into one
it has never seen. ``flaws`` keeps a world honest: no task may give away the rule it is there to teach.

How the simulated agent reads: a prompt is text, and all it may use is what stands there.

It knows no template. It looks for statements, for words it knows, for what stands between tags of a telling name, and
for the id of the session or task that a passage belongs to, as these are written in any sensible prompt.

A number in [0, 1) that is a pure function of its name.

A resumed night must see the same luck as the night that was killed, in any order and from any thread, so nothing here
remembers a state: whoever needs a random number names what it is for.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from skillopt_sleep.errors import UsageError
from skillopt_sleep.model.text import fold

SCHEMA_VERSION = 1

Share = Annotated[float, Meta(ge=0, le=1)]


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One house rule. ``text`` is its canonical wording, as a good document would have it.

    ``states`` are the ways a document can state it: each a set of phrases that must all occur in one statement, as
    whole words, whatever their case, order and white space. ``complaints`` is what the person says when it is broken.
    """

    id: str
    text: str
    states: tuple[tuple[str, ...], ...]
    complaints: tuple[str, ...]

    def stated_in(self, statements: Iterable[str]) -> bool:
        """Whether one of these statements, folded, states the rule in one of its ways."""
        return any(all(_occurs(fold(phrase), each) for phrase in way) for each in statements for way in self.states)


class HarmfulRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule that reads well and does damage.

    A document that says it breaks every task in ``breaks``, and every task that needs a rule in ``breaks``.
    """

    text: str
    breaks: tuple[str, ...]

    def stated_in(self, statements: Iterable[str]) -> bool:
        """Whether one of these statements, folded, says this."""
        return any(fold(self.text) in each for each in statements)


class WorldTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something people ask for again and again, in the wordings ``asks``.

    The agent replies ``good`` when it follows all of ``rules`` (ids), else ``bad``; without having been told it still
    gets it right with probability ``base_pass``.
    """

    id: str
    asks: tuple[str, ...]
    rules: tuple[str, ...]
    good: str
    bad: str
    base_pass: Share = 0.0


class World(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything the simulated agent knows. ``useless`` are rules that read well and change nothing."""

    rules: tuple[Rule, ...]
    tasks: tuple[WorldTask, ...]
    useless: tuple[str, ...] = ()
    harmful: tuple[HarmfulRule, ...] = ()
    schema_version: int = SCHEMA_VERSION


def flaws(world: World) -> tuple[str, ...]:
    """What makes this world unfit to play in, one sentence each; () when it is sound and gives no rule away."""
    return (*_broken_references(world), *_broken_rules(world), *_leaks(world))


def read_world(data: bytes, *, origin: str) -> World:
    """Decode a world file; ``origin`` is what messages call it.

    Raises ``UsageError`` naming the field when the file cannot be decoded, and every flaw when it is not sound.
    """
    try:
        world = msgspec.json.decode(data, type=World)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{origin} is not a world file: {error}") from error
    if world.schema_version != SCHEMA_VERSION:
        raise UsageError(f"{origin} has schema_version {world.schema_version}, this program reads {SCHEMA_VERSION}")
    if found := flaws(world):
        raise UsageError(f"{origin} is not a sound world: {'; '.join(found)}")
    return world


def write_world(world: World) -> bytes:
    """Encode a world as a file a person can read and edit."""
    return msgspec.json.format(msgspec.json.encode(world), indent=2) + b"\n"


def _broken_references(world: World) -> Iterator[str]:
    rules, tasks = [rule.id for rule in world.rules], [task.id for task in world.tasks]
    for known in sorted({each for each in rules + tasks if (rules + tasks).count(each) > 1}):
        yield f"id {known!r} is used twice"
    for task in world.tasks:
        for unknown in sorted(set(task.rules) - set(rules)):
            yield f"task {task.id!r} needs rule {unknown!r}, which does not exist"
        if not task.rules or not task.asks:
            yield f"task {task.id!r} needs at least one rule and one ask"
        if fold(task.good) == fold(task.bad):
            yield f"task {task.id!r} has the same good and bad reply"
    for harmful in world.harmful:
        for unknown in sorted(set(harmful.breaks) - set(rules) - set(tasks)):
            yield f"harmful rule {harmful.text!r} breaks {unknown!r}, which does not exist"


def _broken_rules(world: World) -> Iterator[str]:
    for rule in world.rules:
        if not rule.states or not all(rule.states) or not all(fold(each) for way in rule.states for each in way):
            yield f"rule {rule.id!r} has an empty way of stating it"
        elif not rule.stated_in([fold(rule.text)]):
            yield f"rule {rule.id!r} is not stated by its own text"


def _leaks(world: World) -> Iterator[str]:
    """Texts the agent may see without having learnt anything, and that state a rule nevertheless."""
    sources = {f"an ask of task {task.id!r}": task.asks for task in world.tasks}
    sources |= {"a useless rule": world.useless, "a harmful rule": tuple(each.text for each in world.harmful)}
    for name, texts in sources.items():
        for rule in world.rules:
            if rule.stated_in([fold(text) for text in texts]):
                yield f"{name} states rule {rule.id!r}"


def _occurs(phrase: str, statement: str) -> bool:
    return phrase in statement and _as_words(phrase).search(statement) is not None


@functools.lru_cache(maxsize=4096)
def _as_words(phrase: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(phrase)}(?!\w)")


BULLET = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+")
DELIMITER = re.compile(r"\s*(?:</?[\w-][^<>]*>|[-=#`~*_]+)?\s*")
"""A line that says nothing: a tag, a rule, a fence, or empty."""


class Passage(Struct, frozen=True, kw_only=True):
    """A stretch of a prompt; ``words`` are exactly what stands there."""

    start: int
    end: int
    words: str


def statements(text: str) -> tuple[str, ...]:
    """The bullets of a text, each with its indented lines, and the other lines one by one; folded."""
    found: list[list[str]] = []
    in_bullet = False
    for line in text.splitlines():
        if BULLET.match(line):
            found.append([line])
            in_bullet = True
        elif in_bullet and line[:1].isspace() and line.strip():
            found[-1].append(line)
        else:
            in_bullet = False
            found.append([line])
    return tuple(statement for lines in found if (statement := fold(" ".join(lines))))


def occurrences(phrase: str, text: str) -> Iterator[Passage]:
    """Every place where the words of ``phrase`` stand in ``text``, whatever the case and white space."""
    if fold(phrase) not in _folded(text):  # most phrases of a world are in no prompt, and looking is quick here
        return
    for match in _words(phrase).finditer(text):
        yield Passage(start=match.start(), end=match.end(), words=match[0])


def tagged(text: str, *names: str) -> Iterator[Passage]:
    """What stands between a pair of tags whose name holds one of ``names``."""
    for match in _between(names).finditer(text):
        yield Passage(start=match.start("words"), end=match.end("words"), words=match["words"].strip())


def owner(text: str, position: int, *kinds: str) -> str:
    """The id that the nearest tag before ``position`` gives to one of ``kinds``, or without tags a label; else "".

    An id has a digit in it, which tells "task t-17" from "the task was".
    """
    for pattern in _owners(kinds):
        ids = [match["id"] for match in pattern.finditer(text, 0, position)]
        if named := [each for each in ids if any(character.isdigit() for character in each)]:
            return named[-1]
    return ""


def last_line(text: str) -> str:
    """The last line that says something: in a prompt of one request, the request or its end."""
    return next((line.strip() for line in reversed(text.splitlines()) if not DELIMITER.fullmatch(line)), "")


@functools.lru_cache(maxsize=64)
def _folded(text: str) -> str:
    return fold(text)


@functools.lru_cache(maxsize=4096)
def _words(phrase: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, phrase.split())) or r"(?!)", re.IGNORECASE)


@functools.lru_cache(maxsize=64)
def _between(names: tuple[str, ...]) -> re.Pattern[str]:
    name = "|".join(map(re.escape, names))
    return re.compile(
        rf"<(?P<tag>[\w-]*(?:{name})[\w-]*)[^<>]*>(?P<words>.*?)</(?P=tag)[^<>]*>", re.IGNORECASE | re.DOTALL
    )


@functools.lru_cache(maxsize=64)
def _owners(kinds: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    kind = "|".join(map(re.escape, kinds))
    tag = rf"""<(?:{kind})\b[^<>]*?\bid\s*=\s*["']?(?P<id>[^"'<>\s]+)"""
    label = rf"""\b(?:{kind})(?:[ _-]?id)?\W{{1,4}}(?P<id>\w[\w.:-]*)"""
    return re.compile(tag, re.IGNORECASE), re.compile(label, re.IGNORECASE)


RESOLUTION = 2**64


def uniform(*name: str | int) -> float:
    """Uniform over [0, 1); the same name gives the same number, on every machine."""
    joined = "\x1f".join(map(str, name))  # unit separator: ("a", "bc") and ("ab", "c") are different names
    digest = hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / RESOLUTION
