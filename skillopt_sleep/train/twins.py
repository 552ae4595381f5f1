"""Which items of a data set ask the same: such twins are of one split, or the test teaches what it is to test."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from skillopt_sleep.model.near_duplicates import group_near_duplicates, group_recurrences
from skillopt_sleep.model.text import fold
from skillopt_sleep.train.environments.answers import normal_form
from skillopt_sleep.train.ports import Item

QUESTION = ("question", "input", "prompt", "intent", "instruction", "task", "query")
ANSWERS = ("answers", "answer", "ground_truth", "expected", "target", "output")
BOILERPLATE = 0.5
"""A word that more than this share of the items have says nothing about any one of them."""
MANY = 8
"""Items from which on there can be boilerplate."""
RARE = 4
"""Items up to which an answer is rare, so that sharing it is evidence; yes and no are not."""

_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[-+*/=<>%^]")
_IZE = re.compile(r"(?<=..)is(e|ed|es|ing|ation|ations)$")

CONTAINED = 5
"""Words that a text must have to be found again within another one."""
MOST_OF = 0.6
"""Share of the longer text that the shorter one must be."""
FILLERS = frozenset({"a", "an", "the", "please", "s"})
COUNTED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty"
)
NUMBERS = {word: str(number) for number, word in enumerate(COUNTED.split())}
MATERIAL = ("choices", "options", "passage", "document", "table", "code", "image", "images", "file", "files", "path")
"""Names under which an item keeps what its question is about, besides a context."""


def question_of(item: Item) -> str:
    """What an item asks, under any of the usual names; "" when it has none of them."""
    return next((str(item[name]) for name in QUESTION if item.get(name)), "")


def answers_of(item: Item) -> tuple[str, ...]:
    """The answers an item names, under any of the usual names; one that is no text is written out."""
    return tuple(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in _answers(item))


def odd_answer(item: Item) -> str:
    """The first answer of an item that is neither a text nor a number, written out; "" for none."""
    for one in _answers(item):
        plain = isinstance(one, str | int) or (isinstance(one, float) and math.isfinite(one))
        if not plain:
            return repr(one)
    return ""


def _answers(item: Item) -> Sequence[object]:
    found = next((item[name] for name in ANSWERS if item.get(name) not in (None, "", [])), ())
    return found if isinstance(found, list | tuple) else [found]


def group_numbers(items: Sequence[Item]) -> list[int]:
    """A number for each item, the same within a group: items that ask the same, as far as can be told.

    They do when they are of one ``group`` by name; when they ask the same word for word, whatever the answers say; or
    when they share an answer (or have none) and all figures, and are one request made twice (``group_recurrences``);
    where that answer is rare, twins by wording do. Questions of one form ("capital of …", "invoice 12") are no
    duplicates of each other: their words or figures differ.
    """
    texts = _without_boilerplate([_wording(item) for item in items])
    figures = [frozenset(_FIGURE.findall(text)) for text in texts]
    material = [_material(item) for item in items]
    sharing: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, item in enumerate(items):
        if item.get("group"):
            sharing["group", str(item["group"])].append(index)
        for answer in {normal_form(each) or fold(each) for each in answers_of(item)} or {""}:
            sharing["answer", answer].append(index)
    twins = list(range(len(items)))
    """The item that each item is put with, itself at first."""
    for index, other in _repeated(items, texts, material):
        twins[_first(twins, index)] = _first(twins, other)
    for (what, said), members in sharing.items():
        if len(members) == 1:
            continue
        wordings = [texts[index] for index in members]
        if what == "group":
            ways = [(0,) * len(members)]
        else:
            ways = [group_recurrences(wordings)]
            ways += [group_near_duplicates(wordings)] if said and len(members) <= RARE else []
        for groups in ways:
            first: dict[tuple[object, ...], int] = {}
            for index, group in zip(members, groups, strict=True):
                key = (group,) if what == "group" else (group, figures[index], material[index])
                twins[_first(twins, index)] = _first(twins, first.setdefault(key, index))
    return [_first(twins, index) for index in range(len(twins))]


def _repeated(
    items: Sequence[Item], texts: Sequence[str], material: Sequence[tuple[str, ...]]
) -> Iterator[tuple[int, int]]:
    """Pairs of items that ask the same word for word, or of which one's words stand in the other's, beside little else.

    ``texts`` are the wordings without boilerplate: an instruction that every item begins with is no repetition. The
    ``material`` of both, such as choices in any order, is the same.
    """
    first: dict[tuple[object, ...], int] = {}
    starts: dict[tuple[str, ...], list[int]] = defaultdict(list)
    words = [_words(text) for text in texts]
    for index, item in enumerate(items):
        yield index, first.setdefault((*_words(_wording(item)), "|", *material[index]), index)
        if len(words[index]) >= CONTAINED:
            starts[words[index][:CONTAINED]].append(index)
    for index, mine in enumerate(words):
        for start in range(len(mine) - CONTAINED + 1):
            for other in starts.get(mine[start : start + CONTAINED], ()):
                its = words[other]
                whole = len(mine) * MOST_OF <= len(its) and mine[start : start + len(its)] == its
                if whole and other != index and material[other] == material[index]:
                    yield index, other


def _words(text: str) -> tuple[str, ...]:
    """The words and signs in order, without articles; numbers in figures, -ise and -ize alike."""
    found = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return tuple(NUMBERS.get(word, _IZE.sub(r"iz\1", word)) for word in found if word not in FILLERS)


def _material(item: Item) -> tuple[str, ...]:
    """What an item asks about, besides its words; choices in an order of their own, so that a shuffle is nothing."""
    found = []
    for name in MATERIAL:
        value = item.get(name)
        if value not in (None, "", [], {}):
            parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
            found.append(name + "|".join(sorted(fold(str(part)) for part in parts)))
    return tuple(found)


def _first(twins: Sequence[int], index: int) -> int:
    while twins[index] != index:
        index = twins[index]
    return index


def _wording(item: Item) -> str:
    question = question_of(item)
    if not question:
        return json.dumps({key: value for key, value in item.items() if key != "id"}, default=str, ensure_ascii=False)
    return f"{question}\n{item.get('context') or ''}".strip()


def _without_boilerplate(texts: Sequence[str]) -> list[str]:
    """The texts less the words that most of them share; a text of nothing else stays as it is."""
    if len(texts) < MANY:
        return list(texts)
    counts = Counter(word for text in texts for word in set(fold(text).split()))
    common = {word for word, count in counts.items() if count > BOILERPLATE * len(texts)}
    return [" ".join(word for word in text.split() if fold(word) not in common) or text for text in texts]
