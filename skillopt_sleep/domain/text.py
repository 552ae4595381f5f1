"""Which texts ask for the same thing, in their authors' own words and without a model.

People ask for one thing in many ways. Everything that must not tell such twins apart (one task with its recurrences,
a split without leaks, what was asked again and again) asks here, so there is one answer to the question.

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
from collections.abc import Mapping, Sequence

from rapidfuzz import fuzz

__all__ = ["TWINS", "contains_words", "excerpt", "fold", "group_near_duplicates", "similar", "terms"]

TWINS = 0.45
"""Similarity from which two texts are taken for one intent. Chosen on a table of paraphrases (tests/domain/test_text.py):
putting twins apart lets an answer leak over a split, putting strangers together only costs a pair, so it leans low."""

COHESION = 0.3
"""Mean similarity to the other members of a group that a new member must have."""

SPOKESMEN = 8
"""Members that stand for their group in comparisons."""

READ = 4_000
"""Characters of a text that are looked at."""

TERMS = 40
"""Terms of a text that count, the first ones: what is asked comes early, pasted logs come after."""

STEM = 3
"""Letters that a stem keeps at least."""

LIGHT = 0.4
"""Weight of a word that says what to do but not with what ("fix", "write"), and of a number; other terms weigh 1."""

STOPWORDS = frozenset(
    """
    a about again all also am an and any are as at be been being but by can cannot could did do does doing done dont don
    down each else ever every everything everywhere for from further get gets getting give given go going got had has
    have having he help her here hey hi him his how i if im in into is isnt it its just kindly know let lets like ll
    look looks lot make makes making may maybe me might more most must my need needs no not now of off ok okay on once
    one only or other our out over own perhaps please pls possible properly put quite re really right s same say see
    shall she should so some something sort still such sure t take takes than thank thanks that the their them then
    there these they thing things this those through to too try up us use used using ve very via want was way we well
    were what when where whether which while who why will with wont would yes yet you your
    http https www com org net io html github gitlab
    aber alle als am an auch auf aus bei bin bitte da das dass dein dem den der des die dies diese doch du ein eine einem
    einen einer es für gib hast hat ich ihr im in ist ja jetzt kann kannst können mach machen man mein meine mit mir muss
    nach nicht noch nun nur oder ohne sich sie sind so soll und uns unser unsere vom von vor war was wenn wie wir wird wo
    zu zum zur über
    au aux avec ce ces cette dans de des du elle en est et il ils je la le les leur ma mais merci mes moi mon ne nos
    notre nous on ou par pas peux pour qu que qui sa se ses son sont sur ta te tes ton tu un une vos votre vous
    al como con cual de del el ella en es esta este esto favor hay la las lo los me mi mis no nos para pero por porque
    puedes que se si sin su sus te tu tus un una uno y ya
    """.split()  # noqa: SIM905 - a list of a few hundred quoted words is not more readable
)

WORK = """
    fix repair resolve solve correct rectify
    write draft compose author
    add create implement introduce build generate produce prepare support insert append
    update upgrade bump refresh renew modernise modernize
    change modify edit adjust adapt alter replace swap
    remove delete drop discard
    check verify validate inspect
    review audit
    show display list
    explain describe understand clarify walk
    find search locate investigate debug diagnose analyse analyze
    suggest propose recommend
    run execute start launch
    improve enhance optimise optimize tune
    move relocate
    convert turn transform port migrate
    clean cleanup tidy
    pull fetch
    push upload
"""
"""Verbs of everyday work, one family a line: each is folded into the first of its line and weighs ``LIGHT``."""

MATTER = """
    fail broken break broke red error crash
    pass green succeed
    fast faster slow slower slowness speed performance quick quickly
    small smaller big bigger huge large shrink slim size reduce trim
    dependency dep deps
    documentation doc docs document docstring
    repository repo
    configuration config configure setting
    database db
    authentication auth login logon signin
    directory folder dir
    application app
    environment env
    function fn func
    regex regexp
    latest newest recent
    flaky intermittent intermittently unreliable stable stabilise stabilize reliable
    summary summarise summarize summarisation summarization
    theme mode
    pr prs mr
    typo typos misspelling
    german deutsch
    test tests testing spec
    coverage cover
"""
"""Words for one matter, one family a line; they weigh as any other word."""

PHRASES = {
    "pull request": "pr",
    "merge request": "pr",
    "regular expression": "regex",
    "log in": "login",
    "sign in": "login",
    "up to date": "updated",
    "changelog": "release notes",
    "unit test": "test",
}
"""Words said in another number of words."""

_PHRASE = re.compile("|".join(rf"\b{re.escape(phrase)}" for phrase in PHRASES))
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
"""Scripts written without spaces, or with long endings: cut into pairs of characters."""
_HEX = re.compile(r"(?=.*\d)[0-9a-f]{7,}")
_ENDINGS = (
    "isations", "izations", "isation", "ization", "ations", "ation", "ments", "ment", "ingly",
    "ising", "izing", "ised", "ized", "ise", "ize", "ings", "ing", "ers", "er", "ies", "ied", "ed", "es", "ly", "s",
)  # fmt: skip


def fold(text: str) -> str:
    """The text for comparing quotes: compatibility forms and case folded, white space runs made one blank."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def contains_words(text: str, quote: str) -> bool:
    """Whether ``quote`` stands in ``text``, white space and case folded; an empty quote stands nowhere."""
    wanted = fold(quote)
    return bool(wanted) and wanted in fold(text)


def excerpt(text: str, limit: int) -> str:
    """At most ``limit`` characters on one line, cut between words, with an ellipsis where something is left out."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    return (head.rpartition(" ")[0] if " " in head[limit // 2 :] else head).rstrip(" ,;:") + "…"


def terms(text: str) -> Mapping[str, float]:
    """The terms that say what a text is about, in order, with their weights; stop words alone stand for themselves."""
    words = _words(text[:READ])
    meant = dict.fromkeys(_term(word) for word in words if word not in STOPWORDS)
    if not meant:
        return dict.fromkeys(words[:TERMS], 1.0)
    return {term: LIGHT if term in _LIGHT_TERMS or term.isdecimal() else 1.0 for term in list(meant)[:TERMS]}


def similar(a: str, b: str) -> float:
    """How far two texts ask for one thing: 0 (nothing shared) to 1 (the same terms); symmetric."""
    return _similarity(_Bag(a), _Bag(b))


def group_near_duplicates(texts: Sequence[str]) -> tuple[int, ...]:
    """The group number of each text, counted from 0 by first appearance; texts of one group ask for one thing.

    A text joins the groups in which it has a twin, if it also resembles their other members (``COHESION``): a chain
    of small steps does not tie strangers together. Depends on the texts and their order alone.
    """
    bags = [_Bag(text) for text in texts]
    distinct = {bag.key: bag for bag in bags}
    groups = _Groups(Counter(term for bag in distinct.values() for term in bag.weights))
    for bag in sorted(distinct.values(), key=lambda bag: len(bag.weights)):  # the barest wording first, as the core
        groups.add(bag)
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(groups.of(bag), len(numbers)) for bag in bags)


class _Bag:
    """A text as the set of its terms."""

    __slots__ = ("key", "mass", "weights")

    def __init__(self, text: str) -> None:
        self.weights = terms(text) or {fold(text[:READ]): 1.0}
        self.mass = sum(self.weights.values())
        self.key = " ".join(sorted(self.weights))


def _similarity(a: _Bag, b: _Bag) -> float:
    shared = sum(weight for term, weight in a.weights.items() if term in b.weights)
    cosine = shared / math.sqrt(a.mass * b.mass)
    spelling = fuzz.ratio(a.key, b.key, score_cutoff=75) / 50 - 1  # unrelated words have half their letters in common
    return max(cosine, spelling, 0.0)


class _Groups:
    """Groups in the making. A few members stand for each, so the work stays small however large a group grows.

    Members are found by their rarest terms: two texts whose cosine reaches ``TWINS`` share at least ``TWINS`` squared
    of the weight of either, so the commonest terms, up to that weight, need no index (prefix filtering).
    """

    def __init__(self, frequency: Counter[str]) -> None:
        self._frequency = frequency
        self._postings: defaultdict[str, list[_Bag]] = defaultdict(list)
        self._group: dict[str, int] = {}
        self._members: dict[int, list[_Bag]] = {}

    def of(self, bag: _Bag) -> int:
        return self._group[bag.key]

    def add(self, bag: _Bag) -> None:
        prefix = self._prefix(bag)
        near = {self.of(other) for term in prefix for other in self._postings[term]}
        homes = sorted(group for group in near if self._belongs(bag, self._members[group]))
        home = homes[0] if homes else len(self._group)
        self._group[bag.key] = home
        members = self._members.setdefault(home, [])
        members.append(bag)
        if len(members) <= SPOKESMEN:
            for term in prefix:
                self._postings[term].append(bag)
        for other in homes[1:]:
            self._unite(home, other)

    @staticmethod
    def _belongs(bag: _Bag, members: Sequence[_Bag]) -> bool:
        likeness = [_similarity(bag, member) for member in members[:SPOKESMEN]]
        return max(likeness) >= TWINS and sum(likeness) / len(likeness) >= COHESION

    def _unite(self, home: int, other: int) -> None:
        """Make two groups one that a new text belongs to both of, if they resemble each other."""
        pairs = itertools.product(self._members[home][:SPOKESMEN], self._members[other][:SPOKESMEN])
        likeness = [_similarity(a, b) for a, b in pairs]
        if sum(likeness) / len(likeness) >= COHESION:
            moved = self._members.pop(other)
            self._members[home].extend(moved)
            self._group.update((bag.key, home) for bag in moved)

    def _prefix(self, bag: _Bag) -> list[str]:
        """The rarest terms of a text, of which a twin shares at least one."""
        ordered = sorted(bag.weights, key=lambda term: (self._frequency[term], term))
        rest = bag.mass
        for count, term in enumerate(ordered, start=1):
            rest -= bag.weights[term]
            if rest < TWINS**2 * bag.mass:
                return ordered[:count]
        return ordered


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    words: list[str] = []
    for word in _WORD.findall(_PHRASE.sub(lambda match: PHRASES[match[0]], folded)):
        word = word.replace("-", "")
        if _UNSPACED.match(word):
            words.extend(word[i : i + 2] for i in range(max(len(word) - 1, 1)))
        elif not _HEX.fullmatch(word):
            words.append(word)
    return words


@functools.lru_cache(maxsize=65_536)
def _term(word: str) -> str:
    """The word without its ending, or the first word of its family."""
    return _FAMILIES.get(word) or _FAMILIES.get(_stem(word)) or _stem(word)


def _stem(word: str) -> str:
    """A light stem: one ending off if three letters stay, a final doubled consonant or e / i / y off, seven letters."""
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
