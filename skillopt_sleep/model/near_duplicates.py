"""Finds texts that ask for the same thing in different words, without a model.

Recurring tasks, splits without leaks and reports of repeated requests all need the same answer to that question.

A text is reduced to a set of weighted *terms*: words without endings, synonyms of everyday work folded into one. Two
texts are as similar as the cosine of their terms, or as their spelling if that says more.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from skillopt_sleep.model.text import MATTER, PHRASES, STOPSIGNS, STOPWORDS, WORK, fold

MIN_SIMILARITY = 0.45
"""Similarity from which two texts are near-duplicates: different wordings of what may be one intent.

Chosen on a table of paraphrases (tests/model/test_text.py), and low on purpose: a near-duplicate in another split
leaks an answer, while grouping unrelated texts only costs a pair.
"""

SAME = 0.6
"""Similarity from which two texts are one request made twice, if at most one has content words that the other lacks.

A wrong match would cost more here: "explain the fuel module" and "explain the valve module" are alike, but each has a
word of its own.
"""

SLIP = 0.8
"""Similarity from which two texts are one request although each has words of its own: slips of the pen, or details."""

COHESION = 0.3
"""Mean similarity to the other members of a group that a new member must have."""

SPOKESMEN = 8
"""Number of members of a group that a new text is compared with."""

SHORT = 8
"""Maximum terms of a text that is compared by its spelling as well."""

READ = 1_500
"""Characters of a text that are read, from its beginning."""

TERMS = 24
"""Number of terms of a text that count: the first ones, as requests come early and pasted logs late."""

PARTS = 2
"""Factor by which ``TERMS`` grows for scripts without spaces, where one word makes about so many terms."""

STEM = 3
"""Minimum letters that are left of a word when an ending is removed."""

LIGHT = 0.4
"""Weight of a word that says what to do but not with what ("fix", "write"), and of a number; other terms weigh 1."""

_PHRASE = re.compile("|".join(rf"\b{re.escape(phrase)}" for phrase in PHRASES))
_UNSPACED = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Character ranges of scripts that are cut into characters or pairs: written without spaces, or with long endings."""
_RUN = re.compile(rf"[{_UNSPACED}]")
_HAN = r"\u3400-\u4dbf\u4e00-\u9fff"
_SIGN = re.compile(rf"[{_HAN}]")
_HIRAGANA = r"\u3040-\u309f"
_SCRIPT = re.compile(rf"(?P<han>[{_HAN}]+)|[^{_HAN}{_HIRAGANA}]+")
"""Runs of one script, without the hiragana."""
_WORD = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|[^\W_{_UNSPACED}]+(?:-[^\W_{_UNSPACED}]+)*")
_LINK = re.compile(r"\w{2,9}://\S+")
"""Links, which are dropped: they say where something is, not what it is."""
_HEX = re.compile(r"(?=.*\d)[0-9a-f]{7,}")
_ENDINGS = (
    "isations", "izations", "isation", "ization", "ations", "ation", "ments", "ment", "ingly",
    "ising", "izing", "ised", "ized", "ise", "ize", "ings", "ing", "ers", "er", "ies", "ied", "ed", "es", "ly", "s",
)  # fmt: skip


def terms(text: str) -> Mapping[str, float]:
    """Return the terms that say what a text is about, in order, with weights.

    A text of nothing but stop words yields these.
    """
    read = text[:READ]
    most = TERMS if read.isascii() or not _RUN.search(read) else TERMS * PARTS
    meant = all_terms(read)
    return dict(itertools.islice(meant.items(), most)) if meant else dict.fromkeys(_words(read)[:most], 1.0)


def all_terms(text: str, ignored: frozenset[str] = frozenset()) -> Mapping[str, float]:
    """Return every term of a whole text with its weight, in order, without stop words and ``ignored`` words."""
    meant = dict.fromkeys(_term(word) for word in _words(text, _signs) if word not in STOPWORDS and word not in ignored)
    return {term: LIGHT if term in _LIGHT_TERMS or term.isdecimal() else 1.0 for term in meant}


def matter(text: str) -> frozenset[str]:
    """Return the content words of a text: no stop words, verbs of everyday work, numbers or single letters."""
    return frozenset(
        word
        for word in _words(text[:READ])
        if word not in STOPWORDS
        and _term(word) not in _LIGHT_TERMS
        and not word.isdecimal()
        and (len(word) > 2 or not word.isascii())  # noqa: PLR2004  "ci", "q7": names too short to say anything alone
    )


def similar(a: str, b: str) -> float:
    """Return how similar two requests are, from 0 (no common term) to 1 (the same terms); symmetric."""
    return _similarity(_Bag(a), _Bag(b))


def group_near_duplicates(texts: Sequence[str]) -> tuple[int, ...]:
    """Return each text's group number, counted from 0 by first appearance; a group may ask for one thing.

    A text joins the groups in which it has a near-duplicate (``MIN_SIMILARITY``) if it also resembles their other
    members (``COHESION``), so a chain of small steps does not join unrelated texts. Depends on the texts and their
    order alone.
    """
    return _group(texts, MIN_SIMILARITY, lambda one, other: _similarity(one, other) >= MIN_SIMILARITY)


def group_recurrences(texts: Sequence[str]) -> tuple[int, ...]:
    """Return each text's group number as ``group_near_duplicates``, but for one request made repeatedly (``SAME``).

    These groups lie within those of near-duplicates.
    """
    return _group(texts, SAME, _is_same)


def is_same_request(a: str, b: str) -> bool:
    """Whether two texts are one request made twice, by the test that ``group_recurrences`` applies to a pair."""
    return _is_same(_Bag(a), _Bag(b))


def _group(texts: Sequence[str], likeness: float, related: Callable[[_Bag, _Bag], bool]) -> tuple[int, ...]:
    bags = [_Bag(text) for text in texts]
    distinct = {bag.key: bag for bag in bags}
    groups = _Groups(likeness, related, Counter(term for bag in distinct.values() for term in bag.weights))
    for bag in sorted(distinct.values(), key=lambda bag: bag.mass):  # the barest wording first: it is the core
        groups.add(bag)
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(groups.of(bag), len(numbers)) for bag in bags)


class _Bag:
    """A text as the set of its terms."""

    __slots__ = ("heavy", "key", "light", "mass", "weights")

    def __init__(self, text: str) -> None:
        self.weights = terms(text) or {fold(text[:READ]): 1.0}
        self.light = frozenset(term for term, weight in self.weights.items() if weight < 1.0)
        self.heavy = frozenset(self.weights.keys() - self.light)
        self.mass = len(self.heavy) + LIGHT * len(self.light)
        self.key = " ".join(sorted(self.weights))


@functools.cache
def _load_ratio() -> Callable[..., float]:
    """Return rapidfuzz's ratio of two texts, 0 to 100; ``status`` compares none and need not wait for its import."""
    from rapidfuzz import fuzz  # noqa: PLC0415

    return fuzz.ratio


def _similarity(a: _Bag, b: _Bag) -> float:
    shared = len(a.heavy & b.heavy) + LIGHT * len(a.light & b.light)
    cosine = shared / math.sqrt(a.mass * b.mass)
    if len(a.weights) > SHORT or len(b.weights) > SHORT:
        return cosine
    spelling = (
        _load_ratio()(a.key, b.key, score_cutoff=75) / 50 - 1
    )  # unrelated words have half their letters in common
    return max(cosine, spelling)


def _is_same(a: _Bag, b: _Bag) -> bool:
    likeness = _similarity(a, b)
    if likeness < SAME:
        return False
    own, others = a.heavy - b.heavy, b.heavy - a.heavy
    if not own or not others:
        return True
    signs = any(map(_SIGN.fullmatch, own)) and any(map(_SIGN.fullmatch, others))
    return likeness >= SLIP and not signs  # a single character is no slip: it is half a word


class _Groups:
    """Groups in the making. A few members stand for each, so the work stays small however large a group grows.

    Twins are looked for by their rarest terms (prefix filtering): the cosine of two texts reaches a likeness only if
    they share that much of the weight of the lighter one, and its square of the heavier one's. So the commonest terms
    up to that weight need not be looked at. Texts must come in order of their weight. ``related`` has the last word.
    """

    def __init__(self, likeness: float, related: Callable[[_Bag, _Bag], bool], frequency: Counter[str]) -> None:
        self._likeness = likeness
        self._related = related
        self._frequency = frequency
        self._postings: defaultdict[str, list[_Bag]] = defaultdict(list)
        self._group: dict[str, int] = {}
        self._members: dict[int, list[_Bag]] = {}

    def of(self, bag: _Bag) -> int:
        return self._group[bag.key]

    def add(self, bag: _Bag) -> None:
        """Put a text that is no lighter than those before into the group it belongs to, or into a new one."""
        homes = sorted(group for group in self._near(bag) if self._resembles(bag, self._members[group]))
        home = homes[0] if homes else len(self._group)
        self._group[bag.key] = home
        members = self._members.setdefault(home, [])
        members.append(bag)
        if len(members) <= SPOKESMEN:
            for term in self._rarest(bag, self._likeness):
                self._postings[term].append(bag)
        for other in homes[1:]:
            self._unite(home, other)

    def _near(self, bag: _Bag) -> set[int]:
        """Return the numbers of the groups that contain a near-duplicate of the text."""
        near: set[int] = set()
        lightest = self._likeness**2 * bag.mass
        for other in {other for term in self._rarest(bag, self._likeness**2) for other in self._postings[term]}:
            if other.mass >= lightest and self.of(other) not in near and self._related(bag, other):
                near.add(self.of(other))
        return near

    @staticmethod
    def _resembles(bag: _Bag, members: Sequence[_Bag]) -> bool:
        return fmean(_similarity(bag, member) for member in members[:SPOKESMEN]) >= COHESION

    def _unite(self, home: int, other: int) -> None:
        """Unite two groups that a new text belongs to, if they resemble one another."""
        pairs = itertools.product(self._members[home][:SPOKESMEN], self._members[other][:SPOKESMEN])
        if fmean(_similarity(a, b) for a, b in pairs) >= COHESION:
            moved = self._members.pop(other)
            self._members[home].extend(moved)
            self._group.update((bag.key, home) for bag in moved)

    def _rarest(self, bag: _Bag, share: float) -> list[str]:
        """Return the rarest terms of a text: so many that the others weigh less than ``share`` of the whole."""
        ordered = sorted(bag.weights, key=lambda term: (self._frequency[term], term))
        left = bag.mass
        for count, term in enumerate(ordered, start=1):
            left -= bag.weights[term]
            if left < share * bag.mass:
                return ordered[:count]
        return ordered


def _pairs(run: str) -> list[str]:
    """Split a run written without spaces into pairs of characters."""
    return [run[i : i + 2] for i in range(max(len(run) - 1, 1))]


def _signs(run: str) -> list[str]:
    """Split a run written without spaces into the shortest parts with a meaning, as the word order is free.

    A Chinese character is a word, or half of one; hiragana are endings and particles, and are dropped. Other scripts
    are letters, of which it takes two to tell anything.
    """
    return [
        sign
        for found in _SCRIPT.finditer(run)
        for sign in (found[0] if found["han"] else _pairs(found[0]))
        if sign not in STOPSIGNS
    ]


def _words(text: str, unspaced: Callable[[str], list[str]] = _pairs) -> list[str]:
    folded = _LINK.sub(" ", unicodedata.normalize("NFKC", text).casefold())
    words: list[str] = []
    for found in _WORD.finditer(_PHRASE.sub(lambda match: PHRASES[match[0]], folded)):
        word = found[0].replace("-", "")
        if found["unspaced"]:
            words.extend(unspaced(word))
        elif not _HEX.fullmatch(word):
            parts = found[0].split("-")
            words.append(word)
            if len(parts) > 1 and all(len(part) >= STEM and not part.isdecimal() for part in parts):
                words.extend(parts)  # "front-end" is said "frontend", and "rate-limit" "rate limit"
    return words


@functools.lru_cache(maxsize=65_536)
def _term(word: str) -> str:
    """Return the word without its ending, or the first word of its family of synonyms."""
    return _FAMILIES.get(word) or _FAMILIES.get(_stem(word)) or _stem(word)


def _stem(word: str) -> str:
    """Return the word without one ending (three letters stay) and a doubled or e / i / y end, at most seven letters."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= STEM:
            word = word.removesuffix(ending)
            break
    if len(word) > STEM:
        word = word[:-1] if word[-1] in "eiy" or word[-1] == word[-2] else word
    return word[:7]


def _families(table: str) -> dict[str, str]:
    lines = [line.split() for line in table.strip().splitlines()]
    return {form: line[0] for line in lines for word in line for form in (word, _stem(word))}


_FAMILIES = _families(MATTER) | _families(WORK)
_LIGHT_TERMS = frozenset(line.split()[0] for line in WORK.strip().splitlines())
