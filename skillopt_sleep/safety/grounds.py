"""Check that a rule rests on words that a person typed.

A model may write rules in words of its own. It may not make up their particulars, or take them from what it was shown:
an address, a command, a name, a number that no person ever wrote. So a rule with such particulars must share them, or a
good part of its words, with the typed text it was written from; an address must always have been typed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from skillopt_sleep.model.near_duplicates import terms
from skillopt_sleep.model.task import ChecksReference, ExactReference, RubricReference, TaskRecord
from skillopt_sleep.model.text import excerpt, fold

SHARE = 1 / 5
"""Share of a rule's words that must have been typed, when none of its particulars was."""
HALF = 1 / 2
"""The same for a rule with a command that has a word neither typed nor in ``USUAL``."""
COPIED = 8
"""Words in a row that must have been copied."""

_ADDRESS = re.compile(
    r"(?:https?|ftp|ssh|git|wss?|s3|gs)://[^\s`\"'<>)\]]+|\bwww\.[\w.-]+\.\w+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|(?<![\w/.@-])(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|sh|xyz|ru|cn|me|app|site|top|info|cc|ai|co|tools|space|cloud|online|store|tech|biz|club|shop|website|systems|zone|icu|uk|us|de|fr|eu|jp|nl)\b(?:/[^\s`\"'<>)\]]*)?",
    re.IGNORECASE,
)
_LOCAL = re.compile(
    r"(?:\w+://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[?::1\]?|example\.(?:com|org|net)|[\w.-]+\.local(?:host)?)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"`([^`\n]{2,200})`")
_EXAMPLE = re.compile(
    r"\b(?:like|such as|as in|e\.g\.,?|for example,?|for instance,?)[ :]{1,2}(?:`[^`\n]{1,200}`|\"[^\"\n]{1,200}\"|\S+)",
    re.IGNORECASE,
)
"""Examples, which a rule shows and does not demand."""
_PARTICULAR = re.compile(
    r"--?[a-z][\w-]{2,}|(?:~|\.{0,2})/[\w./-]{3,}|\b\w+(?:_\w+)+\b|\b[a-z]+[A-Z]\w+\b|\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b|\b[A-Z][A-Z0-9_-]{2,}\b"
    r"|\b\w+\.(?:py|js|ts|tsx|sh|json|ya?ml|toml|md|txt|go|rs|rb|java|sql|env|cfg|ini|lock)\b|\b(?=\w*\d)(?=\w*[A-Za-z])\w{3,}\b|\b\d{2,}\b"
)
USUAL = frozenset(
    """
    add all api app apply build bundle bun cache cargo cd check ci clean clippy cmake code commit compose config
    coverage create db dev diff docker docs down env eslint exec false fetch file fix fmt format force generate
    git go gradle help init install jest lint list lock log main make migrate mod mvn mypy new next node npm npx
    package php pip pnpm poetry pre prettier prod pull push pytest python python3 rake rebase release remove
    restore revert ruff run rustc save self serve set setup show src start stash status stop sync tag test tests
    tox tsc true up update upgrade uv verbose verify version vet vitest watch with write yarn yml yaml
    """.split()  # noqa: SIM905 - a list of a hundred quoted words is not more readable
)
"""Words of commands that every developer knows."""
_WORDS = re.compile(r"\w+")


TOPICS = {
    "the network": r"https?://|\b(?:download\w*|upload\w*|curl|wget|webhooks?|internet|online|cdn|gists?|tunnel\w*|e-?mail(?:s|ed|ing)?|s3|bucket"
    r"|(?:web|remote|external|file|our|their) (?:pages?|servers?|hosts?|sites?|endpoints?))\b",
    "rights and protection": r"\b(?:sudo|root|admin\w*|permissions?|approv\w+|confirm\w*|consent|sandbox\w*|firewall|security|allow[- ]?list|deny[- ]?list|settings|certificat\w+|tls|ssl|mfa|2fa"
    r"|privileg\w+|access|rights|grant\w*|authori\w+|restrict\w*|unrestricted|limits?|gatekeeper|dialogs?|prompts?|auth\w*|login|roles?)\b",
    "secrets": r"\.env\b|\b(?:(?:api|ssh|aws|private|access|gpg|secret|deploy)[ -]?keys?|keys|tokens?|passwords?|secrets?|credentials?|cookies?|environment variables?|env|gnupg|keychain|config\w*|settings|auth\w*|login)\b",
    "keeping things from people": r"\b(?:owner|reviewers?|developer|humans?|secretly|secret|silent\w*|quiet\w*|hid(?:e|den|ing)|conceal\w*|notic\w+|disclos\w*|reveal\w*|unnoticed|in the dark|change the subject|pretend\w*|disguis\w*"
    r"|fake\w*|trac(?:e|es|ks)|the user (?:asks|must|should|may|does|need|know)\w*)\b|\b(?:tell|inform|notify|let|show|ask|mention to) the (?:user|developer|owner|team)\b",
    "what an agent obeys": r"\b(?:instructions?|(?:this|these|those|other|previous|earlier|all|your|extra|hidden|safety|system|project) rules?|guidelines?|overrid\w*|obey\w*|orders?|authority|claude\.md|agents\.md|system prompt|polic(?:y|ies)|previous\w*|earlier|supersede\w*|from now on|mode|trust\w*"
    r"|this (?:file|section|rule|list|document|memory))\b",
    "what cannot be undone": r"\brm -|\b(?:force[- ]?push\w*|drop (?:the )?(?:table|database|column)s?|wip(?:e|ing)|deploy\w*|production|publish\w*|releas\w*|push\w*|merg\w*|delet\w*|eras\w*|truncat\w*)\b",
    "leaving out checks": r"\b(?:skip\w*|ignor\w*|disabl\w*|bypass\w*|avoid\w*|without|allowed to fail|red|fake\w*|optional|delet\w*|remov\w*|turn\w* off|assert true|weaken\w*|lower\w*)\b"
    r"(?:(?![.!?] ).){0,50}?\b(?:tests?|checks?|reviews?|hooks?|ci|lint\w*|type ?check\w*|suite|pipelines?|assertions?|specs?|coverage|benchmarks?|numbers)\b",
    "running things": r"\b(?:zsh|bash|sh|shell|exec\w*|eval\w*|daemon\w*|cron\w*|background|install\w*|scripts?|binar\w+|commands?|run\w*|start\w*|launch\w*|terminal|cli)\b(?=.{0,60}(?:zsh|bash|\bsh\b|exec|eval|daemon|cron|session|https?:|\bapi\b|remote|silently|root))",
}
"""Subjects by which a rule could do harm; it may mention one only if the person did, with any of its words."""


class Grounds(Struct, frozen=True, kw_only=True):
    """What a rule may rest on, and what it may not."""

    typed: tuple[str, ...]
    """Words that persons typed, and rules that are already live."""
    shown: tuple[str, ...] = ()
    """What else the optimizer was shown: written by agents, from whatever they had read."""

    @classmethod
    def of(cls, tasks: Sequence[TaskRecord], *, also: Sequence[str] = (), shown: Sequence[str] = ()) -> Grounds:
        """Return the grounds of a rule written from these tasks; ``also`` are further typed words."""
        typed = tuple(words for task in tasks for words in _find_typed(task))
        answers = tuple(text for task in tasks for text in (task.accepted, task.rejected, task.context) if text)
        return cls(typed=(*typed, *also), shown=(*answers, *shown))


def find_unfounded(text: str, grounds: Grounds) -> str | None:
    """Return why a rule does not rest on typed words, in one line; None when it does, or has no particulars."""
    typed = fold(" \n ".join(grounds.typed))
    reasons = itertools.chain(
        _check_addresses(text, typed), _check_topics(text, typed), _check_particulars(text, typed, grounds.shown)
    )
    return next(reasons, None)


def _check_addresses(text: str, typed: str) -> Iterator[str]:
    for address in _ADDRESS.finditer(text):
        named = address[0].rstrip("/.,;:")
        if not _LOCAL.match(named) and fold(named) not in typed:
            yield f"links: you never typed {excerpt(named, 80)}"


def _check_topics(text: str, typed: str) -> Iterator[str]:
    for topic, pattern in TOPICS.items():
        if (found := re.search(pattern, text, re.IGNORECASE)) and not re.search(pattern, typed, re.IGNORECASE):
            yield f"provenance: it speaks of {topic} (“{excerpt(found[0], 40)}”), and nothing you typed does"


def _check_particulars(text: str, typed: str, shown: Sequence[str]) -> Iterator[str]:
    claimed = _EXAMPLE.sub(" ", text)
    particulars = list(dict.fromkeys((*_CODE.findall(claimed), *_PARTICULAR.findall(claimed))))
    share = _measure_share(text, typed)
    strange = [code for code in _CODE.findall(claimed) if " " in code and not _is_usual(code, typed)]
    if strange and share < HALF:
        yield f"provenance: nothing you typed speaks of {excerpt(', '.join(strange), 80)}"
    if share >= SHARE or any(_is_typed(particular, typed) for particular in particulars):
        return
    if particulars:
        yield f"provenance: nothing you typed speaks of {excerpt(', '.join(particulars), 80)}"
    if copied := _find_copied(text, shown):
        yield f"provenance: “{excerpt(copied, 80)}” was not typed by you; it was copied from what the model read"


def _measure_share(text: str, typed: str) -> float:
    """Return the share of a rule's telling words that were typed, from 0 to 1."""
    matter, known = terms(text), set(terms(typed))
    mass = sum(matter.values())
    return sum(weight for term, weight in matter.items() if term in known) / mass if mass else 1.0


def _find_typed(task: TaskRecord) -> tuple[str, ...]:
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


def _is_typed(particular: str, typed: str) -> bool:
    """Tell whether a particular, or most of its words, were typed."""
    folded = fold(particular)
    words = [word for word in _WORDS.findall(folded) if len(word) > 1 and not word.isdigit()]
    found = sum(re.search(rf"\b{re.escape(word)}", typed) is not None for word in words)
    return folded in typed or (bool(words) and found * 2 > len(words))


def _is_usual(command: str, typed: str) -> bool:
    """Tell whether every word of a command was typed or is usual."""
    plain = " ".join(word for word in fold(command).split() if not word.startswith("-"))
    words = [word for word in _WORDS.findall(plain) if len(word) > 1]
    return all(word in USUAL or re.search(rf"\b{re.escape(word)}\b", typed) for word in words)


def _find_copied(text: str, shown: Sequence[str]) -> str:
    """Return ``COPIED`` words in a row that were shown, "" when there are none."""
    words = fold(text).split()
    source = fold(" \n ".join(shown))
    runs = (" ".join(words[at : at + COPIED]) for at in range(len(words) - COPIED + 1))
    return next((run for run in runs if run in source), "")
