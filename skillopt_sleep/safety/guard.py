"""Holds back a proposed rule that is too long, hides text, or shows one of a few plain dangers.

The main defence is provenance (``provenance.py``): a sentence that no user asked for is taken out of its rule. This
module holds back what must not become a rule even if a user typed it, or pasted it unread: text that a reader does not
see as it is, code that is downloaded and run, credential files, and flags that switch protection off. A text that
*forbids* a danger ("never commit with --no-verify") is an ordinary house rule and passes.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.model.text import excerpt

LONGEST = 800
"""Maximum characters of a rule. A good rule has two sentences; a longer one hides something or solves one task."""


class Danger(Struct, frozen=True):
    """One danger: its name, why it matters to the user, and a pattern of words that show it."""

    name: str
    why: str
    pattern: re.Pattern[str]


class _File(Struct, frozen=True):
    fragments: Mapping[str, str]
    dangers: tuple[Mapping[str, str | tuple[str, ...]], ...]


def _read_dangers() -> Iterator[Danger]:
    file = msgspec.json.decode(Path(__file__).with_name("dangers.json").read_bytes(), type=_File)
    for danger in file.dangers:
        signs = "|".join(danger["signs"])
        for name, fragment in file.fragments.items():
            signs = signs.replace(f"<{name}>", fragment)
        yield Danger(str(danger["name"]), str(danger["why"]), re.compile(signs, re.IGNORECASE))


DANGERS = tuple(_read_dangers())
"""Every danger of ``dangers.json``, in the order in which rules are searched for them."""

_SENTENCE_END = re.compile(r"(?<!\.)[.!?;] ")
_FORBIDDEN_BEFORE = re.compile(
    r"\b(?:never|do not|don't|avoid|no|must not|instead of|rather than)\b(?P<between>[^,;:]*)$", re.IGNORECASE
)
_FORBIDDEN_AFTER = re.compile(
    r"[^,;:]{0,40}?\b(?:is|are|was|were) (?:an? )?(?:\w+ )?(?:forbidden|banned|prohibited|not allowed|off limits|offen[cs]e)\b",
    re.IGNORECASE,
)
_YET = re.compile(r"\b(?:but|unless|until|except|without|instead|forget|hesitate|fail to|then)\b", re.IGNORECASE)
"""Matches words such as "forget", with which a "never" does not forbid a danger: "never forget to push --force"."""

SHOWN = 60
"""Maximum number of characters that a message quotes of a suspicious text."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u2028\u2029")
"""Characters that look like blanks, but that Unicode does not count as blanks."""
_JOINERS = frozenset("\u200c\u200d")
"""Invisible characters that Persian, Indic scripts and emoji need; next to ASCII they are suspicious."""
_SMUGGLERS = re.compile("[\ufe00-\ufe0d\U000e0100-\U000e01ef]")
"""Variation selectors, which are invisible and can hide bytes in a text, except the two that emoji use."""
_STYLED = re.compile("[\U0001d400-\U0001d7ff\U0001f110-\U0001f189\u24b6-\u24e9\u1d00-\u1d2b\u2100-\u214f]{2,}")
"""Letters in circles, boxes or mathematical type, which spell words that a search for the words does not find."""
_LOOKALIKES = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u0261"  # Cyrillic, and one of phonetics
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0408\u0405"
    "\u03bf\u03bd\u03b9\u03c1\u03c5\u03ba\u03b1\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"  # Greek
)
_FOREIGN = ("CYRILLIC", "CHEROKEE", "ARMENIAN", "COPTIC", "LISU", "DESERET")
_WORD = re.compile(r"[^\W\d_]+")
ALIKE_LENGTH = 3
"""A word of at least this many letters, all of another script but looking Latin, is suspicious in a Latin text."""

_CODE = re.compile(r"(`+)(?P<shown>.+?)\1", re.DOTALL)
_MARKER = re.compile(
    r"^\s*(?:---|\+\+\+|\*\*\*|___)\s*$|^\s*(?:name|description|allowed-tools|model|tools)\s*:\s.*\n.*^\s*---",
    re.MULTILINE,
)
"""Pattern of a line that opens or closes a file's frontmatter, the header with its name and description."""
_OWN = re.compile(r"skillopt-sleep\s*:|<!--\s*/?\s*skillopt", re.IGNORECASE)
_HTML = re.compile(
    r"<!--(?!\s*-->)|<!\[CDATA|<\s*/?\s*(?:script|style|iframe|object|embed|meta|link|img|svg|summary|base|form|input|noscript|marquee)\b"
    r"|<details\b(?=.{0,600}</details)|<[a-z][^<>]{0,200}\b(?:hidden|style|aria-hidden|on\w{3,20})\s*(?:=|>)|display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0"
    r"|&(?:\#\d{1,7}|\#x[0-9a-f]{1,6}|zwnj|zwj|nbsp|shy|lrm|rlm|lt|gt|ensp|emsp|thinsp);",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(
    r"^\s{0,3}\[[^\]\n]{1,80}\]:\s*\S"  # a definition is not shown
    r"|!\[[^\]\n]{0,200}\]\s{0,2}[(\[]"  # an image is fetched
    r"|\[\s{0,20}\]\(\s{0,3}\S"  # a link without a text
    r"|\]\(\s{0,3}[^)\s]{1,400}\s+[\"'(]"  # a link's title is not shown
    r"|\[\^[^\]\n]{1,40}\]:"
    r"|\$\\(?:phantom|hphantom|color)|\\color\{white",
    re.MULTILINE,
)
_OTHER_ADDRESS = re.compile(
    r"\[(?:https?://)?(?P<shown>[\w-]+(?:\.[\w-]+)+)[^\]]{0,200}\]\(\s{0,3}(?:https?:)?//(?P<real>[^/)\s]+)"
)
_ENCODED = re.compile(
    r"(?i:(?:\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|[0-7]{3})){3}|(?:%[0-9a-f]{2}){4}|(?:\b0x[0-9a-f]{2}\b[ ,]{0,2}){5})"
    r"|(?:\b[01]{8}\b ?){4}|(?:\b[0-9a-f]{2}\b ?){8}"
)
_HEX = re.compile("[0-9a-f]*|[0-9A-F]*")
_RUN = re.compile(r"[A-Za-z0-9+]{24,}")
CHANGES = 0.48
"""Share of neighbouring characters that must differ in sort (small letter, capital, digit) for a text to be random."""
_PUSHED = re.compile(r"[ \t\u00a0\u3000]{24,}\S|(?:\r?\n[ \t]*){4,}\S")
"""Matches words that come after so many blanks or empty lines that a reader of the file does not see them."""

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
        "\u2014": "--",
        **dict.fromkeys("\u2018\u2019\u02bc\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
        "*": "",
    }
)


def guard(edit_text: str) -> str | None:
    """Return why a proposed rule is held back, in one line, or None when the rule passes.

    Takes time linear in the text; a rule that is too long is not read further.
    """
    if len(edit_text) > LONGEST:
        return f"length: {len(edit_text):,} characters, a rule has at most {LONGEST:,}"
    if why := find_hidden(edit_text):
        return why
    return find_danger(" ".join(unicodedata.normalize("NFKC", edit_text).translate(_PLAIN).split()))


def find_danger(text: str) -> str | None:
    """Return, in one line, the first danger in a text that the sentence around it does not forbid; None without any."""
    for danger in DANGERS:
        for found in danger.pattern.finditer(text):
            if not _is_forbidden(text, found):
                return f"{danger.name}: “{excerpt(found[0], SHOWN)}” {danger.why}"
    return None


def _is_forbidden(text: str, found: re.Match[str]) -> bool:
    """Return whether the sentence around a danger forbids it, as house rules do ("never commit with --no-verify")."""
    start = max((end.end() for end in _SENTENCE_END.finditer(text, 0, found.start())), default=0)
    before = _FORBIDDEN_BEFORE.search(text[start : found.start()])
    return (before is not None and not _YET.search(before["between"])) or bool(
        _FORBIDDEN_AFTER.match(text[found.end() :])
    )


def find_hidden(text: str) -> str | None:
    """Return, in one line, which part of a text is hidden from its reader; None when nothing is."""
    return next(_find_reasons(text), None)


def _find_reasons(text: str) -> Iterator[str]:
    if hidden := list(_find_invisible(text)):
        yield f"invisible characters: {', '.join(hidden)}"
    if alike := next(_find_lookalikes(text), None):
        yield f"look-alike letters: {alike} is not spelled as it looks"
    if _MARKER.search(text) or _OWN.search(text):
        yield "markers: it could end the block that rules are kept in, or change what the file says about itself"
    shown = _CODE.sub(lambda code: " " * len(code[0]) if "\n" not in code[0] else code[0], text)
    found = _HTML.search(shown) or _MARKDOWN.search(shown)
    if found:
        yield f"hidden text: “{_quote(found)}” is markup that is not shown as it is written"
    if other := next(
        (link for link in _OTHER_ADDRESS.finditer(shown) if link["shown"].lower() not in link["real"].lower()), None
    ):
        yield f"hidden text: the link “{other['shown']}” leads to {other['real']}"
    found = _ENCODED.search(text) or next(filter(_is_random, _RUN.finditer(text)), None)
    if found:
        yield f"encoded text: “{_quote(found)}” is not readable"
    if _PUSHED.search(text):
        yield "hidden text: many blanks move words out of sight"


def _is_random(run: re.Match[str]) -> bool:
    sorts = ["0" if char.isdigit() else "A" if char.isupper() else "a" for char in run[0]]
    return (
        len(set(sorts)) > 1
        and sum(a != b for a, b in itertools.pairwise(sorts)) > CHANGES * len(sorts)
        and not _HEX.fullmatch(run[0])
    )


def _quote(found: re.Match[str]) -> str:
    return excerpt(found[0].strip() or found[0], SHOWN)


def _find_invisible(text: str) -> Iterator[str]:
    """Yield each different invisible character of a text, as in "U+200B"."""
    seen = dict.fromkeys(
        char
        for at, char in enumerate(text)
        if char not in "\n\t"
        and (unicodedata.category(char) in _HIDDEN or char in _BLANK or _SMUGGLERS.match(char))
        and (char not in _JOINERS or text[max(at - 1, 0)].isascii() or text[at + 1 : at + 2].isascii())
    )
    yield from (f"U+{ord(char):04X}" for char in seen)


def _find_lookalikes(text: str) -> Iterator[str]:
    """Yield words with letters that only look like those of their script, such as a Cyrillic "a" in "admin"."""
    if styled := _STYLED.search(text):
        yield f"“{styled[0]}”"
    latin = sum(char.isascii() and char.isalpha() for char in text) > len(text) // 3
    for word in _WORD.findall(text):
        if word.isascii():
            continue
        scripts = {unicodedata.name(char, "").split(" ")[0] for char in word}
        alike = [char for char in word if char in _LOOKALIKES]
        foreign = any(script in _FOREIGN for script in scripts) or alike
        if ("LATIN" in scripts and foreign) or (latin and len(alike) == len(word) >= ALIKE_LENGTH):
            yield f"“{word}” ({', '.join(f'U+{ord(char):04X}' for char in dict.fromkeys(alike or word))})"
