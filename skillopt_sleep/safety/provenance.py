"""Decides whether each sentence of a rule rests on words that the person typed.

Sessions and model replies are hostile input, and a rule can carry a harmful sentence behind an honest one. So every
sentence is judged alone: its particulars (commands, paths, addresses, flags, names) must have been typed as they are,
and enough of what it speaks of must have been typed in some form. A sentence that fails is taken out of the rule; the
rest goes on. There is no list of bad words: what nobody typed has no place in a rule, whatever it says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import msgspec
from msgspec import Struct

from skillopt_sleep.model.lexicon import is_standing_wish, strip_pasted
from skillopt_sleep.model.near_duplicates import LIGHT, all_terms
from skillopt_sleep.model.task import ChecksReference, ExactReference, RubricReference, TaskRecord
from skillopt_sleep.model.text import excerpt, fold
from skillopt_sleep.safety.function_words import FUNCTION_WORDS, STAKES, read_polarity
from skillopt_sleep.safety.guard import LONGEST, find_danger
from skillopt_sleep.safety.redaction.prose import list_secret_words

LEAST_SHARE = 0.32
"""Weight of a sentence's terms that one typed sentence must share, from 0 to 1; measured by ``scripts/bench guard``."""
LEAST_SHARE_UNSPACED = 0.4
"""The same for scripts written without blanks, where single characters are compared and some match by chance."""
MOST_STRANGE_TERMS = 4
"""Terms of full weight in a sentence that nobody typed in any form: a paraphrase adds a few, a new demand more."""
LONGEST_STRANGE_CLAUSE = 1.6
"""Weight of a clause of which no term was typed: so much rides on the rest of the sentence."""
SAME_STEM = 0.6
"""Share of a longer term that it must begin alike with a shorter one to be a form of the same word."""
SHORTEST_STEM = 4
"""Letters that two forms of one word begin with."""
REVERSED_SHARE = 0.6
"""Share of a sentence's terms that a prohibition holds when the sentence is that prohibition without its "not"."""
SHARED_WORDS = 2
"""Content words of a rule that must have been typed in a request for it to be evidence: one may be common by chance."""
SHORT_WORD = 2
"""Letters of a word that is often a particle in some language; it weighs as little as a verb of everyday work."""

COMMAND_VERBS = frozenset({"commit", "exec", "init", "install", "push", "status", "test"})
"""Words of commands that name nothing, beside the verbs of everyday work."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+|\s+[\u2013\u2014]\s+|\s--\s")
_CLAUSE_WORDS = "and then und dann et puis y e и so because but weil aber mais car pero porque но".replace(" ", "|")
_CONTRAST = "instead of|rather than|statt|anstatt|au lieu|en vez|em vez|invece|zamiast|вместо"
_BEFORE_NOT = "do does did is are was were must should shall can could will would may if why or has have please"
_CLAUSE_END = re.compile(
    rf"[,;:()\uff0c\u3001\uff1a]|\b(?:{_CLAUSE_WORDS})\b|(?=\b(?:{_CONTRAST})\b|\u800c\u4e0d)", re.IGNORECASE
)
"""Where a clause ends; of "pnpm instead of npm" the halves demand contrary things."""
_TYPED_CLAUSE_END = re.compile(
    rf"{_CLAUSE_END.pattern}|{''.join(f'(?<!{word})' for word in _BEFORE_NOT.split())}(?<=\w)\s+(?=not\s)",
    re.IGNORECASE,
)
"""The same in words that were typed, where "colour not color" often lacks the comma."""
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_TERM = re.compile(r"[\w-]+")

_ADDRESS = (
    r"\w{2,9}://[^\s`\"'<>)\]]+|\bwww\.[^\s`\"'<>)\]]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|\b(?:[a-z0-9-]+\.)+[a-z]{2,24}/[^\s`\"'<>)\]]*"
    r"|\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|sh|ai|co|app|xyz|info|me|cc|site|top|cloud|tools)\b"
)
_PATH = (
    r"(?<!\w)(?:~|\.{1,2})?/[\w.~*/-]*\w|\b[\w.-]+/[\w./*-]*|(?<![\w.])\.[a-z]\w+(?:\.\w+)*\b|\b\w[\w-]*\.[a-z]{1,5}\b"
)
_FLAG = r"(?<![\w-])--?[A-Za-z][\w-]*"
_NAME = r"\b\w+(?:_\w+)+\b|\b[a-z]+[A-Z]\w*\b|\b(?:[A-Z][a-z0-9]+){2,}\b|\B[$@]\w[\w/-]*"
_PARTICULAR = re.compile("|".join(f"(?:{kind})" for kind in (_ADDRESS, _PATH, _FLAG, _NAME)))
_ACTED_ON = re.compile(rf"{_ADDRESS}|{_FLAG}|(?:^|(?<!\w))(?:~|\.{{0,2}})/|(?<!\w)\.\w")
"""Particulars that an agent could act on; an identifier alone only shows a form."""
_FILE_NAME = re.compile(r"\w[\w-]*\.[a-z]{1,5}")
"""A bare file name, which a person calls by its stem: "the changelog" is ``CHANGELOG.md``."""
_CODE = re.compile(r"`([^`\n]+)`")
_EXAMPLE = re.compile(
    r"[,(]?\s*\b(?:like|such as|as in|e\.g\.,?|for example,?|for instance,?)[ :]+"
    r"(?:`(?P<code>[^`\n]+)`|\"(?P<quoted>[^\"\n]+)\"|(?P<bare>\S+))",
    re.IGNORECASE,
)
"""What a sentence shows of the form it demands; it counts as claimed only when an agent could act on it."""


class Grounds(Struct, frozen=True, kw_only=True):
    """What a rule may rest on: words that persons typed, and rules that are already live."""

    typed: tuple[str, ...]

    @classmethod
    def of(cls, tasks: Sequence[TaskRecord], *, also: Sequence[str] = ()) -> Grounds:
        """Return the grounds of a rule: the typed words of the tasks it was written from, and ``also`` further ones."""
        return cls(typed=(*(words for task in tasks for words in _typed_words(task)), *also))


class DroppedSentence(Struct, frozen=True):
    """A sentence that was taken out of a rule."""

    text: str
    why: str
    """One line for the user."""


class GroundedRule(Struct, frozen=True):
    """A rule with only those of its sentences that rest on typed words."""

    text: str
    """The sentences that are left, in order; "" when there are none."""
    dropped: tuple[DroppedSentence, ...] = ()


def ground_rule(text: str, grounds: Grounds) -> GroundedRule:
    """Take out of a rule every sentence that does not rest on what a person typed.

    The order of words does not matter, nor do sentences vouch for each other.
    """
    typed = _Typed(grounds.typed)
    kept, dropped = [], []
    for sentence in split_sentences(text):
        if len(sentence) > LONGEST:
            why: str | None = f"length: {len(sentence):,} characters, a rule has at most {LONGEST:,}"
        else:
            why = find_danger(sentence) or next(typed.find_objections(sentence), None)
        if why is None:
            kept.append(sentence)
        else:
            dropped.append(DroppedSentence(sentence, why))
    if not dropped:
        return GroundedRule(text)
    return GroundedRule(" ".join(kept), tuple(dropped))


def is_evidence(task: TaskRecord, rule: str) -> bool:
    """Whether a person typed content words of a rule in this very request: in its corrections, if there were any.

    A model names the requests that its rule comes from, and may name others. One shared word is enough only where a
    correction, or the rule, has no more.
    """
    said = [strip_pasted(words) or words for words in task.feedback or _typed_words(task)]
    wanted, heard = (
        {term for term, mass in _weigh_terms(text).items() if mass == 1} for text in (rule, "\n".join(said))
    )
    needed = min(SHARED_WORDS, len(wanted), len(heard)) if task.feedback else min(SHARED_WORDS, len(wanted))
    typed = _Typed(said)
    return sum(typed.has_form(term) for term in wanted) >= max(needed, 1)


def rests_on_wishes(text: str, tasks: Sequence[TaskRecord]) -> bool:
    """Whether each sentence of a rule rests on standing wishes that the person typed in these tasks, and only on those.

    What was pasted is no wish.
    """
    wishes = tuple(
        sentence
        for task in tasks
        for words in _typed_words(task)
        for sentence in split_sentences(strip_pasted(words))
        if is_standing_wish(sentence)
    )
    return bool(wishes and text.strip()) and not ground_rule(text, Grounds(typed=wishes)).dropped


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, in every script; code spans are never split."""
    spans = [code.span() for code in _CODE.finditer(text)]
    sentences, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        if not any(begin < end.start() < stop for begin, stop in spans):
            sentences.append(text[start : end.start()])
            start = end.end()
    return [sentence for sentence in map(str.strip, (*sentences, text[start:])) if _TERM.search(sentence)]


class _Typed:
    """The typed words, prepared once for all sentences of a rule."""

    def __init__(self, texts: Sequence[str]) -> None:
        sentences = [sentence for text in texts for sentence in split_sentences(text)]
        self._text = fold(" \n ".join(texts))
        self._verbatim = frozenset(map(_without_mark, sentences))
        self._sentences = [frozenset(_weigh_terms(sentence)) for sentence in sentences]
        self._clauses = [
            (frozenset(_weigh_terms(clause)), read_polarity(clause))
            for sentence in sentences
            for clause in split_clauses(sentence, _TYPED_CLAUSE_END)
        ]
        self._stems: dict[str, set[str]] = {}
        for term in frozenset(term for terms in self._sentences for term in terms):
            self._stems.setdefault(term[:SHORTEST_STEM], set()).add(term)

    def find_objections(self, sentence: str) -> Iterator[str]:
        """Yield why a sentence does not rest on the typed words; nothing when it does."""
        if _without_mark(sentence) in self._verbatim:
            return
        claimed = _EXAMPLE.sub(_without_harmless_example, sentence)
        strange = [name for name in _find_particulars(claimed) if not self._was_typed(name)]
        if strange:
            yield f"provenance: you never typed {excerpt(', '.join(dict.fromkeys(strange)), 80)}"
        if (secret := _secret_words().search(claimed)) and not _secret_words().search(self._text):
            yield f"provenance: you never spoke of a password or key, as “{secret[0]}” does"
        for name, words in STAKES.items():
            if words.search(claimed) and not words.search(self._text):
                yield f"provenance: you never spoke of {name}"
        least = LEAST_SHARE_UNSPACED if len(_UNSPACED.findall(claimed)) * 2 > len(claimed) else LEAST_SHARE
        terms = {} if _UNSPACED.search(claimed) else _weigh_terms(claimed)
        shares = self._measure_shares(terms or _weigh_terms(claimed), self._sentences)
        if max(shares, default=0.0) < least:
            yield f"provenance: nothing you typed speaks of “{excerpt(sentence, 80)}”"
        elif sum(mass == 1 and not self._find_forms(term) for term, mass in terms.items()) > MOST_STRANGE_TERMS:
            yield f"provenance: most of “{excerpt(sentence, 80)}” is nothing you typed"
        clauses = split_clauses(claimed)
        for clause in clauses:
            yield from self._object_to_clause(clause, is_part=len(clauses) > 1)

    def _object_to_clause(self, clause: str, *, is_part: bool) -> Iterator[str]:
        """Yield why a clause has no place in its sentence: all of it is new, or it reverses what was typed."""
        terms, polarity = _weigh_terms(clause), read_polarity(clause)
        shares = self._measure_shares(terms, [typed for typed, _ in self._clauses])
        near = [(share, typed) for share, (_, typed) in zip(shares, self._clauses, strict=True) if share > 0]
        if not near:
            is_odd = polarity.omits or polarity.concedes or (polarity.is_marked and not terms)
            if is_odd or sum(terms.values()) >= LONGEST_STRANGE_CLAUSE:
                yield f"provenance: nothing you typed speaks of “{excerpt(clause.strip(), 80)}”"
            return
        if is_part and not polarity.is_marked and sum(terms.values()) < LONGEST_STRANGE_CLAUSE:
            return  # where or when, not what
        is_contrary = polarity.omits or polarity.concedes or max(share for share, _ in near) >= REVERSED_SHARE
        if is_contrary and not any(typed.allows(polarity) for _, typed in near):
            yield f"provenance: “{excerpt(clause.strip(), 80)}” is the contrary of what you typed"

    def _measure_shares(self, terms: Mapping[str, float], typed: Sequence[frozenset[str]]) -> list[float]:
        """Return, for each typed text, the share of the terms' weight that it holds in any form; 0 without terms."""
        weight = sum(terms.values())
        forms = [(mass, self._find_forms(term)) for term, mass in terms.items()]
        known = [(mass, form) for mass, form in forms if form]
        return [sum(mass for mass, form in known if form & words) / weight if known else 0.0 for words in typed]

    def has_form(self, term: str) -> bool:
        """Tell whether a term was typed, in any grammatical form."""
        return bool(self._find_forms(term))

    def _find_forms(self, term: str) -> frozenset[str]:
        """Return the typed terms that are this one, or another grammatical form of it (the same beginning)."""
        if len(term) < SHORTEST_STEM or _UNSPACED.match(term):
            return frozenset({term}) & self._stems.get(term[:SHORTEST_STEM], set())
        return frozenset(
            other
            for other in self._stems.get(term[:SHORTEST_STEM], ())
            if term[: (alike := math.ceil(SAME_STEM * max(len(term), len(other))))] == other[:alike]
        )

    def _was_typed(self, particular: str) -> bool:
        folded = fold(particular).strip(".,;:")
        if _FILE_NAME.fullmatch(particular) and len(stem := folded.rpartition(".")[0]) > SHORT_WORD and self._has(stem):
            return True
        return self._has(folded)

    def _has(self, folded: str) -> bool:
        """Tell whether the typed text holds these characters as whole words."""
        found = self._text.find(folded)
        while found >= 0:
            before, after = self._text[found - 1 : found], self._text[found + len(folded) :][:1]
            if not (before.isalnum() and folded[0].isalnum()) and not (after.isalnum() and folded[-1].isalnum()):
                return True
            found = self._text.find(folded, found + 1)
        return not folded


@cache
def _secret_words() -> re.Pattern[str]:
    """Return the pattern of words for passwords and keys in many languages: a rule may not bring them in."""
    words = (word for word in list_secret_words() if len(word) > SHORTEST_STEM or not word.isascii())
    return re.compile(
        "|".join(rf"(?<![^\W_]){re.escape(word)}" if word[0] < "\u0e00" else word for word in words), re.IGNORECASE
    )


def split_clauses(sentence: str, end: re.Pattern[str] = _CLAUSE_END) -> list[str]:
    """Split a sentence at commas, colons, brackets and conjunctions."""
    return [clause for clause in end.split(sentence) if _TERM.search(clause)]


def _without_mark(sentence: str) -> str:
    return fold(sentence).lstrip("-*+•> ").rstrip(".;!\u3002\uff01 ")


def _find_particulars(sentence: str) -> Iterator[str]:
    """Find what in a sentence names one thing exactly: words of commands, paths, addresses, flags, identifiers."""
    for code in _CODE.findall(sentence):
        yield from (word for word in code.split() if _TERM.search(word) and not _is_everyday(word))
    for found in _PARTICULAR.finditer(_CODE.sub(" ", sentence)):
        yield found[0].rstrip("/.,;:")


def _weigh_terms(sentence: str) -> Mapping[str, float]:
    """Return the terms of a sentence with their weights; short words of alphabetic scripts are light."""
    return {
        term: min(weight, LIGHT) if len(term) <= SHORT_WORD and not _UNSPACED.match(term) else weight
        for term, weight in all_terms(sentence, FUNCTION_WORDS).items()
    }


def _is_everyday(word: str) -> bool:
    """Whether a word of a command is only a verb of everyday work (add, run, install): it names nothing."""
    return word.isalpha() and (word in COMMAND_VERBS or all(weight < 1 for weight in all_terms(word).values()))


def _without_harmless_example(example: re.Match[str]) -> str:
    shown = example["code"] or example["quoted"] or example["bare"]
    return example[0] if _ACTED_ON.search(shown) else " "


def _typed_words(task: TaskRecord) -> tuple[str, ...]:
    """Return the words of a task that a person typed: quotes found in a session, or all of a reviewed task."""
    quoted = (*task.feedback, *(origin.words for origin in task.origins))
    if quoted and not task.reviewed:
        return quoted
    match task.reference:
        case RubricReference(rubric=rubric):
            demanded: tuple[str, ...] = (rubric,)
        case ExactReference(answer=answer):
            demanded = (answer,)
        case ChecksReference(checks=checks):
            demanded = tuple(f"{check.value} {check.section}" for check in checks)
        case other:
            demanded = tuple(_find_texts(msgspec.to_builtins(other)))
    return (*quoted, task.intent, task.system, *demanded)


def _find_texts(value: object) -> Iterator[str]:
    """Find every text in a reference of any kind, except the name of its kind."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from () if key == "kind" else _find_texts(inner)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _find_texts(item)
    elif isinstance(value, str):
        yield value
