"""How right a short answer is: exact match, word F1, pattern, choice or number, all as pure rules.

What a model only thought is no part of its answer.

A reference that no answer could meet is told beforehand (``flaw``), so that nothing is paid to find it out.
"""

from __future__ import annotations

import enum
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from skillopt_sleep.model.json_schema import matches
from skillopt_sleep.model.replies import without_thinking
from skillopt_sleep.model.rollout import Score
from skillopt_sleep.model.text import excerpt, fold


class Scoring(enum.StrEnum):
    """What makes an answer right; the value is what settings and items call it."""

    EXACT = "exact"
    """Equal to one of the answers, without case, punctuation, articles and white space."""
    CONTAINS = "contains"
    """One of the answers stands in it. Kept for data that was scored so; an answer that lists everything wins."""
    F1 = "f1"
    """As many words in common with one of the answers as ``pass_at`` demands."""
    REGEX = "regex"
    """One of the answers, read as a pattern, is found in it within the time limit of a pattern."""
    CHOICE = "multiple_choice"
    """It names the right one of ``choices``, by letter or by text."""
    NUMERIC = "numeric"
    """Its number is within ``tolerance`` of one of the answers, relative to the answer."""


class Expected(Struct, frozen=True, kw_only=True):
    """What an answer is held against. ``choices`` is the texts of a multiple choice, by letter."""

    answers: tuple[str, ...]
    scoring: Scoring = Scoring.EXACT
    choices: Mapping[str, str] = {}
    tolerance: float = 1e-6
    pass_at: float = 0.8


_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)
_LABELLED = re.compile(r"^\W*(?:final\s+)?answer\W*?[:=]\s*(?P<said>\S.*)$", re.IGNORECASE | re.MULTILINE)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NUMBER = re.compile(r"[-+\N{MINUS SIGN}]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d)\.?)(?:[eE][-+]?\d+)?(?:\s*%)?")
_FRACTION = re.compile(
    r"(?<![\d/.,])(?P<over>[-+\N{MINUS SIGN}]?\d+(?:\.\d+)?)\s*/\s*(?P<under>\d+(?:\.\d+)?)(?!\s*/|\d)"
)
_HASHED = re.compile(r"^####[ \t]*(?P<said>\S*\d\S*)\s*\Z", re.MULTILINE)
"""How data sets of worked sums end: the number after four hashes."""
_LETTER_FIRST = re.compile(r"\A\W*(?P<letter>[A-Za-z])(?:\W|\Z)")
_LETTER_NAMED = re.compile(r"\b(?:option|choice|answer)\W+(?:is\W+)?(?P<letter>[A-Z])\b")
_MARKS = string.punctuation + "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u00bf\u00a1"
"""Punctuation of ASCII, and typographic quotes, dashes, ellipsis and the Spanish marks."""
_PUNCTUATION = str.maketrans(dict.fromkeys(_MARKS, " "))


def final_answer(response: str) -> str:
    """The answer in a response: what stands last in ``<answer>`` tags, after ``####`` or "Answer:", else all of it."""
    tagged = _TAGGED.findall(response)
    if tagged:
        return str(tagged[-1]).strip()
    if hashed := _HASHED.search(response):
        return hashed["said"]
    labelled = [match["said"] for match in _LABELLED.finditer(response)]
    return (labelled[-1] if labelled else response).strip()


def normal_form(text: str) -> str:
    """The text without case, punctuation, articles and spare white space, as SQuAD compares answers."""
    return " ".join(_ARTICLES.sub(" ", fold(text).translate(_PUNCTUATION)).split())


def word_f1(given: str, wanted: str) -> float:
    """F1 of the words of two texts in normal form, 0 to 1; two empty texts are equal."""
    a, b = normal_form(given).split(), normal_form(wanted).split()
    if not a or not b:
        return float(a == b)
    shared = (Counter(a) & Counter(b)).total()
    return 2.0 * shared / (len(a) + len(b))


def score_answer(response: str, expected: Expected) -> Score:
    """Score a response; ``rationale`` says what was wanted when it is wrong."""
    response = without_thinking(response)
    hard, soft = _RULES[expected.scoring](response, expected)
    if hard:
        return Score(hard=1.0, soft=1.0, rationale="the answer is right")
    said = excerpt(final_answer(response), 80)
    wanted = " or ".join(repr(excerpt(each, 60)) for each in expected.answers[:3])
    return Score(hard=0.0, soft=soft, rationale=f"answered {said!r}, wanted {wanted}")


def flaw(expected: Expected) -> str:
    """Why nothing could be scored against this, "" when it can."""
    if not any(answer.strip() for answer in expected.answers):
        return "it has no answer to compare with"
    return next((why for answer in expected.answers if (why := _FLAWS[expected.scoring](answer, expected))), "")


def _exact(response: str, expected: Expected) -> tuple[bool, float]:
    given = final_answer(response)
    if any(_same(given, answer) for answer in expected.answers):
        return True, 1.0
    return False, max(word_f1(given, answer) for answer in expected.answers)


def _same(given: str, answer: str) -> bool:
    """Equal in normal form; answers that are all punctuation are compared as they are."""
    wanted = normal_form(answer)
    return normal_form(given) == wanted if wanted else fold(given) == fold(answer)


def _contains(response: str, expected: Expected) -> tuple[bool, float]:
    held = any(wanted in fold(response) for answer in expected.answers if (wanted := fold(answer)))
    return held, max(word_f1(final_answer(response), answer) for answer in expected.answers)


def _f1(response: str, expected: Expected) -> tuple[bool, float]:
    best = max(word_f1(final_answer(response), answer) for answer in expected.answers)
    return best >= expected.pass_at, best


def _regex(response: str, expected: Expected) -> tuple[bool, float]:
    return any(matches(pattern, response) for pattern in expected.answers), 0.0


def _choice(response: str, expected: Expected) -> tuple[bool, float]:
    chosen = _letter(final_answer(response), expected.choices)
    return chosen is not None and chosen in {_letter(each, expected.choices) for each in expected.answers}, 0.0


def _letter(text: str, choices: Mapping[str, str]) -> str | None:
    """The letter of the choice a text names: its text, a leading letter, "option B"; else the one text it holds."""
    wanted = normal_form(text)
    exact = [letter for letter, choice in choices.items() if normal_form(choice) == wanted]
    if len(exact) == 1:
        return exact[0]
    for pattern in (_LETTER_FIRST, _LETTER_NAMED):
        found = pattern.search(text)
        if found and (letter := found["letter"].upper()) in choices and not _is_word(text, found):
            return letter
    held = [letter for letter, choice in choices.items() if f" {normal_form(choice)} " in f" {wanted} "]
    return held[0] if len(held) == 1 else None


def _is_word(text: str, found: re.Match[str]) -> bool:
    """Whether a leading letter is the word "A" or "I" of a sentence and not the name of a choice."""
    return found["letter"] in "AaIi" and re.match(r" +[a-z]", text[found.end("letter") :]) is not None


def _numeric(response: str, expected: Expected) -> tuple[bool, float]:
    given = _number(final_answer(response))
    if given is None:
        return False, 0.0
    wanted = [number for answer in expected.answers if (number := _number(final_answer(answer))) is not None]
    near = any(abs(given - each) <= expected.tolerance * max(abs(each), 1.0) for each in wanted)
    return near, 0.0


def _number(text: str) -> float | None:
    """The last number in a text, thousands separators, fractions and a percent sign read; None when there is none."""
    found = _figures(text)
    if not found:
        return None
    fraction = next((each for each in _FRACTION.finditer(text) if each.end() == found[-1].end()), None)
    if fraction is not None:
        under = float(fraction["under"])
        return float(fraction["over"].replace("\N{MINUS SIGN}", "-")) / under if under else None
    last = found[-1][0].replace(",", "").replace("\N{MINUS SIGN}", "-")
    value = float(last.rstrip("% ")) / (100.0 if last.endswith("%") else 1.0)
    return value if math.isfinite(value) else None


def _figures(text: str) -> list[re.Match[str]]:
    return [match for match in _NUMBER.finditer(text) if any(map(str.isdigit, match[0]))]


def _no_flaw(answer: str, expected: Expected) -> str:  # noqa: ARG001  one signature for all
    return ""


def _bad_pattern(answer: str, expected: Expected) -> str:  # noqa: ARG001  one signature for all
    import regex  # noqa: PLC0415  17 ms that only patterns need

    try:
        regex.compile(answer)
    except regex.error as error:
        return f"{excerpt(answer, 60)!r} is no regular expression: {error}"
    return ""


def _bad_choice(answer: str, expected: Expected) -> str:
    if not expected.choices:
        return "a multiple choice needs choices"
    letters: Sequence[str] = list(expected.choices)
    known = ", ".join(f"{letter}: {excerpt(expected.choices[letter], 30)}" for letter in letters)
    return "" if _letter(answer, expected.choices) else f"{excerpt(answer, 40)!r} is none of its choices ({known})"


def _bad_number(answer: str, expected: Expected) -> str:  # noqa: ARG001  one signature for all
    """A reference is one number, perhaps of a currency or with a unit; of several, nobody knows which is meant."""
    said = excerpt(answer, 40)
    answer = final_answer(answer)
    figures = _figures(answer)
    if _number(answer) is None:
        return f"{said!r} is no number"
    whole = _FRACTION.search(answer)
    start, end = (whole or figures[0]).span()
    if any(each.isalnum() for each in answer[:start]) or any(each.isdigit() for each in answer[end:]):
        return f"{said!r} is not one plain number, such as 1234.5, 1,234 or 3/4"
    if answer[start:end].lstrip("-+\N{MINUS SIGN}").startswith("0,"):
        return f"{said!r} may be a decimal comma; write it with a point"
    return ""


_RULES: Mapping[Scoring, Callable[[str, Expected], tuple[bool, float]]] = {
    Scoring.EXACT: _exact,
    Scoring.CONTAINS: _contains,
    Scoring.F1: _f1,
    Scoring.REGEX: _regex,
    Scoring.CHOICE: _choice,
    Scoring.NUMERIC: _numeric,
}
_FLAWS: Mapping[Scoring, Callable[[str, Expected], str]] = {
    Scoring.EXACT: _no_flaw,
    Scoring.CONTAINS: _no_flaw,
    Scoring.F1: _no_flaw,
    Scoring.REGEX: _bad_pattern,
    Scoring.CHOICE: _bad_choice,
    Scoring.NUMERIC: _bad_number,
}
