"""Dangers that words show: one named rule each, meant to be read.

A text that *forbids* a danger ("never commit with --no-verify") is an ordinary house rule and passes.
"""

from __future__ import annotations

import functools
import re

from skillopt_sleep.domain.guard.deeds import DEEDS
from skillopt_sleep.domain.guard.rule import GuardRule
from skillopt_sleep.domain.guard.sayings import SAYINGS
from skillopt_sleep.domain.words import excerpt

__all__ = ["RULES", "GuardRule", "danger"]

SHOWN = 100
"""Characters of the words that gave an edit away."""

RULES = (*DEEDS, *SAYINGS)
"""Every danger that words show, in the order they are looked for."""

_FORBIDDEN_BEFORE = re.compile(
    r"\b(?:never|do not|don't|must not|mustn't|should not|shouldn't|may not|cannot|can't|avoid|refuse(?:s)?(?: to)?|rather than"
    r"|instead of|not|nobody|no one|nothing|forbid\w*|prohibit\w*|ban(?:s|ned)?|disallow\w*|reject\w*|block|prevent\w*|stop|fail (?:if|when)|warn\w*|flag|refrain from"
    r"|no longer|neither|against|beware of|watch (?:out )?for|treat|unacceptable to|wrong to|no need to) (?P<between>(?:[^ ;:]+ ){0,12})[\w~./$`\"'(|-]*$",
    re.IGNORECASE,
)
_TWIST = re.compile(
    r"\b(?:should be|must be|(?:may|can|could|might) (?:\w+ )?be|but|unless|until|except|without|before|forget|hesitate|fail|omit|neglect|miss|bother|worry|afraid|only|just|mind|shy"
    r"|skip(?:ping)? (?:the|this|running|using))\b|, so (?!that\b)|, (?:approve|accept|grant|allow|merge)\b|, (?:the user|you|they|it|we|everything|nobody|nothing) (?:has|have|is|are|was|will)\b|(?:, |\band |\bthen |- )(?:then |instead |rather |simply |always |please |now )?"
    r"(?:use|run|do|call|execute|make|go|start|fetch|set|add|send|instead|always|then|prefer|curl|wget|pipe|install|download)\b",
    re.IGNORECASE,
)
"""Words after which "never" no longer forbids what follows ("never forget to …")."""
_FORBIDDEN_AFTER = re.compile(
    r"[`\"')]*(?: [\w./`-]+){0,2}? (?:is|are|was|were|counts? as|must be|gets?|will be|should be) (?:strictly |always |a |an )?"
    r"(?:forbidden|banned|prohibited|disallowed|(?:not|never) (?:allowed|ok|okay|acceptable|permitted|an option|used|something)"
    r"|off limits|unacceptable|rejected|refused|reverted|(?:firing|sackable) offen[cs]e|no-go|mistake|bug|out of the question|taboo|never an (?:answer|option)|not done|wrong)\b|[`\"')]* (?:must|should|may) (?:not|never)\b|[`\"')]* never happens?\b",
    re.IGNORECASE,
)
_FULL_STOP = re.compile(r"(?<!\.)[.!?] ")
_SENTENCE_END = re.compile(r"(?<!\.)[.!?;] ")


def danger(text: str) -> str | None:
    """The first danger that the words of a text show, with them; None when there is none."""
    for rule in RULES:
        for patterns, own in ((rule.patterns, False), (rule.negated, True)):
            for found in _pattern(patterns).finditer(text) if patterns else ():
                if not _harmless(rule, text, found, own_negation=own):
                    return f"{rule.name}: “{excerpt(found[0], SHOWN)}” {rule.why}"
        for sentence in _sentences(text) if rule.together else ():
            if any(_all_in(row, rule, sentence) for row in rule.together):
                return f"{rule.name}: “{excerpt(sentence, SHOWN)}” {rule.why}"
    return None


def _sentences(text: str) -> list[str]:
    return _FULL_STOP.split(text)


def _all_in(row: tuple[str, ...], rule: GuardRule, sentence: str) -> bool:
    """Whether a sentence has all of it, each in a place of its own, and what is done is not forbidden."""
    places: list[list[tuple[int, int]]] = []
    for pattern in row:
        places.append([each.span() for each in _pattern((pattern,)).finditer(sentence)])
        if not places[-1]:
            return False
    if any(places[0] == other for other in places[1:]):
        return False
    return any(
        not _harmless(rule, sentence, done, own_negation=False) for done in _pattern((row[0],)).finditer(sentence)
    )


@functools.cache
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{each})" for each in patterns), re.IGNORECASE)


def _harmless(rule: GuardRule, text: str, found: re.Match[str], *, own_negation: bool) -> bool:
    """Whether the sentence forbids what was found, or has in it what makes it harmless."""
    start = max((end.end() for end in _SENTENCE_END.finditer(text, 0, found.start())), default=0)
    stop = next((end.start() for end in _SENTENCE_END.finditer(text, found.end())), len(text))
    if _pattern((rule.unless,)).search(text[start:stop]) is not None:
        return True
    if own_negation:
        return False
    before = _FORBIDDEN_BEFORE.search(text[start : found.start()])
    return (before is not None and not _TWIST.search(before["between"])) or _FORBIDDEN_AFTER.match(
        text[found.end() : stop]
    ) is not None
