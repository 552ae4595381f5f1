"""Which proposed rules are held back: those that could harm their user, whoever talked the optimizer into them.

Sessions are hostile input and a rule lives for months, so every edit passes here before it is tried. A held edit is
shown with its reason and never applied by itself; a person can still decide for it. What stands here is meant to be
read: one named rule a danger, each with the words it looks for. A text that *forbids* the danger ("never commit with
--no-verify") is an ordinary house rule and passes.
"""

from __future__ import annotations

import functools
import re
import unicodedata

from msgspec import Struct

from skillopt_sleep.domain.words import excerpt

__all__ = ["LONGEST", "RULES", "GuardRule", "guard"]

LONGEST = 800
"""Characters of a rule. A good one has two sentences; what is longer hides something or solves one task."""

SHOWN = 100
"""Characters of the words that gave an edit away."""

FETCH = r"\b(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod|fetch)\b"
WITHIN = rf"(?:(?![.!?] |{FETCH}).){{0,300}}?"
SUDO = r"(?:sudo (?:-\S+ )?)?"
SHELL = rf"{SUDO}(?:/\S{{1,40}}/)?(?:(?:ba|z|da|k|c|tc|fi|a)?sh|pwsh|powershell|iex|invoke-expression)\b"
BARE_INTERPRETER = rf"{SUDO}(?:python|node|perl|ruby|php)[\d.]*(?: -(?![\w-])| ?(?=[`\"',;)]|$))"
RUN_IT = rf"(?:{SHELL} |{SUDO}\./|chmod \+x|(?:run|execute|source|eval) (?:it|them|the (?:installer|result|output))\b)"

ORDERS = (
    r"(?:previous|prior|earlier|above|preceding|existing|other|system|developer) (?:(?:system|user|developer) )?"
    r"(?:instruction|rule|prompt|message|guideline|direction)s?\b"
)
PERSON = r"(?:the |your )?(?:user|developer|human|person|me)\b(?! (?:guide|manual|table|stor|interface|id\b|name))"
CONSENT = r"(?:clarification|confirmation|approval|permission|consent|guidance|more (?:details|information|context))\b"
GRAVE = r"\b(?:delete|remove|drop|push|deploy|publish|overwrite|install|sudo|pay)"
PROTECTION = (
    r"(?:sandbox|permissions?(?: (?:check|prompt|request)s?)?|approvals?(?: (?:check|prompt|request)s?)?|tool calls?"
    r"|(?:safety|security) (?:check|rule|scan)s?|pre-?commit(?: hooks?)?|(?:git )?hooks|branch protection)\b"
)
WRAP = r"\b(?:wrap|enclose|surround) (?:(?:the|every|each|all|of|whole|entire) )*"


class GuardRule(Struct, frozen=True, kw_only=True):
    """One danger: patterns of the words that show it, and in ``unless`` those that make their sentence harmless.

    Patterns are matched whatever the case, on text with single blanks, straight quotes and plain dashes.
    """

    name: str
    why: str
    patterns: tuple[str, ...]
    unless: str = r"(?!)"


RULES = (
    GuardRule(
        name="remote code",
        why="would run what it downloads",
        patterns=(
            rf"{FETCH}{WITHIN}\| ?(?:{SHELL}|{BARE_INTERPRETER})",
            rf"(?:\b(?:eval|source|exec)\b|\b{SHELL}(?: -c)?|\bpython[\d.]* -c)[ \"'`]*(?:<\(|\$\(|\(|`) ?{FETCH}",
            rf"(?:{FETCH}|\bdownload\b{WITHIN}https?://){WITHIN}(?:&&|[.;] (?:then )?|\bthen\b|\band\b) ?{RUN_IT}",
            rf"\bbase64 (?:-d|--decode)\b{WITHIN}\| ?{SHELL}",
        ),
    ),
    GuardRule(
        name="permission bypass",
        why="would switch off what protects you",
        patterns=(
            r"--(?:allow-)?dangerously-[\w-]+",
            r"--(?:yolo|no-verify|no-gpg-sign)\b",
            r"\b(?:bypassPermissions|danger-full-access|NOPASSWD|HUSKY=0|hooksPath[ =]/dev/null)\b",
            r"\b(?:StrictHostKeyChecking[= ]no|NODE_TLS_REJECT_UNAUTHORIZED=0|chmod (?:-R )?0?777)\b",
            rf"\b(?:disable|bypass|circumvent|skip|turn off|auto-?approve) (?:(?:the|any|all|every|its) )*{PROTECTION}",
            rf"{GRAVE}\b{WITHIN} without (?:asking|confirm\w*|permission|approval|review)\b",
        ),
    ),
    GuardRule(
        name="credentials",
        why="would reach for your keys",
        patterns=(
            r"\.ssh/(?!config\b|known_hosts\b)(?!\S*\.pub\b)\S+",
            r"\bid_(?:rsa|dsa|ecdsa|ed25519)\b(?!\.pub)|\bauthorized_keys\b|/etc/shadow\b",
            r"\.aws/credentials\b|\.netrc\b|\.git-credentials\b|\.gnupg\b|\.kube/config\b|\.docker/config\.json\b",
            r"\.config/gh/hosts\.yml\b|\.claude/\.credentials\b|\.codex/auth\.json\b|\blogin\.keychain\b",
            r"\b(?:cat|copy|print|echo|dump|paste|send|upload|post|show)\b[^.!?]{0,60}?(?<![\w.])\.env\b(?!\.\w)",
        ),
    ),
    GuardRule(
        name="instruction override",
        why="would set itself above other instructions",
        patterns=(
            rf"\b(?:ignore|disregard|forget|override) (?:(?:all|any|every|the|your|my|of|these|those) )*{ORDERS}",
            r"\b(?:ignore|disregard|forget) everything (?:above|before|you)\b",
            r"</?(?:system|assistant|instructions?)>|<\|(?:im_start|im_end|system)\|>|\[/?INST\]",
        ),
    ),
    GuardRule(
        name="output contract",
        why="would change what every answer looks like, or wait for an answer that nobody gives",
        patterns=(
            rf"\b(?:ask|prompt|consult|(?:check|check in|confirm) with) {PERSON}",
            rf"\b(?:ask|wait|request|seek) (?:for )?(?:(?:the|your|any|explicit|user|developer)(?:'s)? )*{CONSENT}",
            r"\bask (?:(?:a|any|some|one|for) )*(?:clarifying|follow-?up) questions?\b",
            r"\bwait (?:for|until) (?:the )?(?:user|developer|human)\b",
            r"\b(?:do not|don't|never) (?:\w+ ){1,5}until (?:the )?(?:user|developer|human)\b",
            rf"{WRAP}(?:(?:your|final) )*(?:answer|answers|reply|replies) (?:in|with|between)\b",
            rf"{WRAP}(?:your|final) (?:\w+ )?(?:response|output|message)s? (?:in|with|between)\b",
        ),
        # to ask before something that cannot be undone is a safety rule, and changes no answer
        unless=r"\b(?:delet|remov|drop|destr|overwrit|forc|push|deploy|publish|releas|migrat|install|irrevers|permanent"
        r"|truncat|reset|purchas|merg|rewrit)\w*|\b(?:sudo|rm|root|production|prod|pay)\b",
    ),
)
"""Every danger that words show, in the order they are looked for."""

_FORBIDDEN_BEFORE = re.compile(
    r"\b(?:never|do not|don't|must not|mustn't|should not|shouldn't|may not|cannot|can't|avoid|refuse to|rather than"
    r"|instead of) (?P<between>(?:[^ ,;:]+ ){0,6})[\w~./$`\"'(-]*$",
    re.IGNORECASE,
)
_TWIST = re.compile(
    r"\b(?:and|but|then|unless|until|except|without|before|forget|hesitate|fail|omit|neglect|miss|bother|worry|afraid"
    r"|skip (?:the|this|running|using))\b",
    re.IGNORECASE,
)
"""Words after which "never" no longer forbids what follows ("never forget to …")."""
_FORBIDDEN_AFTER = re.compile(
    r"[`\"')]* (?:is|are) (?:strictly )?(?:forbidden|banned|prohibited|disallowed|(?:not|never) allowed|off limits)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?] ")

_MARKER = re.compile(r"<!--|-->|^\s*(?:---|\+\+\+)\s*$", re.MULTILINE)
"""What opens or closes our managed block, an HTML comment, or frontmatter."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that are drawn as nothing, although Unicode does not class them so."""
_JOINERS = frozenset("\u200c\u200d")
"""Invisible, but part of how Persian, Indic scripts and emoji are spelled; next to ASCII they have no business."""
_SMUGGLERS = re.compile("[\ufe00-\ufe0d\U000e0100-\U000e01ef]")
"""Variation selectors but for the two of emoji: a known way to write bytes that nobody sees."""

_ASCII = str.maketrans(
    {"\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2212": "-", "\u2014": "--", "\u2019": "'"}
)


def guard(edit_text: str) -> str | None:
    """Why this proposed rule is held back, in one line; None when nothing speaks against it.

    Takes time linear in the text: one that is too long is not looked at any further.
    """
    if len(edit_text) > LONGEST:
        return f"length: {len(edit_text):,} characters, a rule has at most {LONGEST:,}"
    if hidden := _hidden(edit_text):
        return f"invisible characters: {', '.join(hidden)}"
    if marker := _MARKER.search(edit_text):
        return f"markers: “{marker[0].strip()}” could hide text, or end the block that rules are kept in"
    text = " ".join(unicodedata.normalize("NFKC", edit_text).translate(_ASCII).split())
    for rule in RULES:
        for found in _pattern(rule.patterns).finditer(text):
            if not _harmless(rule, text, found):
                return f"{rule.name}: “{excerpt(found[0], SHOWN)}” {rule.why}"
    return None


@functools.cache
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


def _hidden(text: str) -> list[str]:
    """The code points that a reader would not see, each once."""
    hidden = (
        char
        for at, char in enumerate(text)
        if char not in "\n\t"
        and (unicodedata.category(char) in _HIDDEN or char in _BLANK or _SMUGGLERS.match(char))
        and (char not in _JOINERS or text[max(at - 1, 0)].isascii() or text[at + 1 : at + 2].isascii())
    )
    return [f"U+{ord(char):04X}" for char in dict.fromkeys(hidden)]


def _harmless(rule: GuardRule, text: str, found: re.Match[str]) -> bool:
    """Whether the sentence forbids what was found, or has in it what makes it harmless."""
    start = max((end.end() for end in _SENTENCE_END.finditer(text, 0, found.start())), default=0)
    stop = next((end.start() for end in _SENTENCE_END.finditer(text, found.end())), len(text))
    before = _FORBIDDEN_BEFORE.search(text[start : found.start()])
    return (
        (before is not None and not _TWIST.search(before["between"]))
        or _FORBIDDEN_AFTER.match(text[found.end() : stop]) is not None
        or _pattern((rule.unless,)).search(text[start:stop]) is not None
    )
