"""Tells whether two rules say the same or contradict each other, and which tasks the words of a rule concern.

A rule that comes back in other words is still the same rule. But "always" and "never", or 80 and 100, make two rules of
words that are otherwise the same.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from skillopt_sleep.model.document import Candidate, DocumentKind, list_rules
from skillopt_sleep.model.edit import EditOp, EditRecord, is_same_edit, strip_list_mark
from skillopt_sleep.model.moment import MomentReference
from skillopt_sleep.model.near_duplicates import MIN_SIMILARITY, all_terms, is_same_request, similar
from skillopt_sleep.model.task import ChecksReference, RubricReference, TaskRecord
from skillopt_sleep.model.text import fold

_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}"
_AFFIRMED = re.compile(
    rf"\b(?:do not|don[{_APOSTROPHES}]?t|never|not) (?:ever )?(?:forget|fail|hesitate|neglect|omit)\b(?: to\b)?"
)
"""Double negations, which ask for the thing: "do not forget to"."""
_NEGATION = re.compile(
    r"\b(?:no|not|never|without|avoid\w*|stop|cannot|neither|nor|none|refrain|forbid\w*|instead of|rather than|dont"
    rf"|\w+n[{_APOSTROPHES}]t|nicht|nie|niemals|kein\w*|ohne|ne|pas|jamais|sans|aucun\w*|nunca|jam\u00e1s|sin"
    r"|ningun\w*|n\u00e3o|sem|non|mai|senza|niet|nooit|geen|zonder|inte|aldrig|ikke|aldri)\b"
    r"|\b(?:\u043d\u0435|\u043d\u0438\u043a\u043e\u0433\u0434\u0430|\u0431\u0435\u0437|\u043d\u0435\u043b\u044c\u0437\u044f)\b"
    r"|[不没別别未勿]|ない|ません|禁止|않|말고|마세요"
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_OPPOSED_WORDS = """
before/after add/remove more/less more/fewer enable/disable allow/forbid above/below include/exclude first/last on/off
upper/lower with/without always/never keep/delete keep/remove start/stop tabs/spaces short/long public/private all/only
minimum/maximum least/most single/double ascending/descending
"""
_OPPOSITES = tuple(frozenset(pair.split("/")) for pair in _OPPOSED_WORDS.split())
_DIRECTIONS = {word: f"direction{number}" for number, pair in enumerate(_OPPOSITES) for word in pair}
"""One placeholder for both words of a pair of opposites, so that rules that differ only in one compare as alike."""
_WORD = re.compile(r"[^\W\d_]+")


def is_same_rule(edit: EditRecord, other: EditRecord) -> bool:
    """Whether two edits are the same rule, also in other words, in another place or in another document.

    For rules written from a common task it is enough to be near-duplicates.
    """
    if is_same_edit(edit, other):
        return True
    if EditOp.DELETE in {edit.op, other.op}:
        return False
    if set(edit.task_ids) & set(other.task_ids) and similar(_strip(edit.text), _strip(other.text)) >= MIN_SIMILARITY:
        return not _differs(edit.text, other.text)
    return states_same(edit.text, other.text)


def states_same(text: str, other: str) -> bool:
    """Whether two rules ask for the same: near-duplicates with the same negations, numbers and directions."""
    return _is_alike(text, other) and not _differs(text, other)


def contradicts(text: str, other: str) -> bool:
    """Whether two rules are near-duplicates of which one negates the other, or names another number or direction."""
    if not _is_alike(text, other):
        return False
    numbers = _find_numbers(text), _find_numbers(other)
    return _is_negated(text) != _is_negated(other) or _turns(text, other) or (all(numbers) and numbers[0] != numbers[1])


def find_contradicted(edit: EditRecord, rules: Iterable[str]) -> str:
    """Return the first rule that an edit contradicts, "" for none; the rule that it replaces does not count."""
    if edit.op is EditOp.DELETE:
        return ""
    replaced = strip_list_mark(edit.anchor) if edit.op is EditOp.REPLACE else ""
    others = (rule for rule in rules if strip_list_mark(rule) != replaced)
    return next((rule for rule in others if contradicts(edit.text, rule)), "")


def list_live_rules(candidate: Candidate) -> Iterator[tuple[DocumentKind, str]]:
    """Yield every list item of the documents, the user's own included, with the kind of its document."""
    for document in candidate.documents:
        text = (document.loaded or b"").decode("utf-8", "replace")
        yield from ((document.kind, rule) for rule in list_rules(text))


def count_touched(rule: str, task: TaskRecord) -> int:
    """Count the words with meaning that a rule shares with the request, context and reference of a task.

    With 0, the rule cannot concern the task, as far as words tell.
    """
    reference = task.reference
    wanted = ""
    if isinstance(reference, RubricReference):
        wanted = reference.rubric
    elif isinstance(reference, ChecksReference):
        wanted = " ".join(str(check.value) for check in reference.checks)
    elif isinstance(reference, MomentReference):
        wanted = "\n".join((*reference.words, reference.about))
    return len(find_heavy(rule) & find_heavy(f"{task.intent}\n{task.context}\n{wanted}"))


def _is_alike(text: str, other: str) -> bool:
    return is_same_request(_strip(text), _strip(other))


def _differs(text: str, other: str) -> bool:
    if _is_negated(text) != _is_negated(other) or _turns(text, other):
        return True
    return _find_numbers(text) != _find_numbers(other)


def _strip(text: str) -> str:
    plain = _NEGATION.sub(" ", _AFFIRMED.sub(" ", fold(strip_list_mark(text))))
    return _WORD.sub(lambda word: _DIRECTIONS.get(word[0], word[0]), plain)


def _is_negated(text: str) -> bool:
    return _NEGATION.search(_AFFIRMED.sub(" ", fold(strip_list_mark(text)))) is not None


def _find_numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(text))


def _turns(text: str, other: str) -> bool:
    """Whether one rule has a word in whose place the other rule has its opposite."""
    one, two = (frozenset(_WORD.findall(fold(words))) for words in (text, other))
    return any(len(pair & one) == len(pair & two) == 1 and pair & one != pair & two for pair in _OPPOSITES)


@functools.lru_cache(maxsize=4096)
def find_heavy(text: str) -> frozenset[str]:
    """Return the words of a text that carry meaning, without their endings."""
    return frozenset(term for term, weight in all_terms(text).items() if weight >= 1)
