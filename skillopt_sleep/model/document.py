"""A skill or memory file as exact bytes, and the one region of it that edits may touch.

The file belongs to its owner: whatever lies outside the region comes back byte for byte, with its byte order mark,
its line ends, its missing final newline and its invalid UTF-8. Inside, a newline stands for the line end of the file.

Documents under test; the baseline is the candidate made of the live ones.

Edits of a text whose parts are no list items: the anchor is words that stand in it exactly once.

A skill that people wrote has headings and paragraphs as well as rules. Where an anchor names no whole rule, it is
looked for as text: as it stands, else with its white space folded.
"""

from __future__ import annotations

import enum
import functools
import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from skillopt_sleep.errors import Refused
from skillopt_sleep.model.text import sha256

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

BEGIN = "<!-- skillopt-sleep:begin -->"
END = "<!-- skillopt-sleep:end -->"
NOTE = "<!-- Rules learnt from your own sessions; `skillopt-sleep revert` takes them out again. -->"
"""First line of every block, for whoever finds it in the file; no part of the region."""
DESCRIPTION = (
    "House rules learnt from this user's own sessions, the formats, conventions and corrections they insist on."
    " Read them before any task here."
)
"""What an agent sees of a skill that we create, until it opens it."""

_MARKER = re.compile(r"^\ufeff?(?P<line>[ \t]*<!-- skillopt-sleep:(?P<edge>begin|end) -->[ \t\r]*)$", re.MULTILINE)
_NOTE_LINE = re.compile(rf"{re.escape(NOTE)}[ \t\r]*\n")
_FRONTMATTER = re.compile(r"\ufeff?(?P<fenced>---[ \t]*\r?\n(?:.*\n)*?---[ \t]*(?=\r?\n|\Z))?")
_FENCE = re.compile(r"\ufeff?---[ \t]*\r?\n")
_BARE_NEWLINE = re.compile(r"(?<!\r)\n")
_LINE_END = re.compile(r"\r\n?|\n")
_UNDECODABLE = re.compile("[\udc80-\udcff]")
"""What "surrogateescape" makes of bytes that are not UTF-8."""
_PLAIN_NAME = re.compile(r"[A-Za-z][\w-]*")


class DocumentKind(enum.StrEnum):
    """A skill is loaded when it is needed, memory is always in front of the agent."""

    SKILL = "skill"
    MEMORY = "memory"


class Document(Struct, frozen=True, kw_only=True):
    """A live file or a proposed version of it.

    ``content`` is None when the file does not exist. ``whole`` says that the file was handed over whole (its body is
    editable, its frontmatter never); otherwise only our managed block is.
    """

    kind: DocumentKind
    path: str
    content: bytes | None = None
    whole: bool = False


class Span(NamedTuple):
    """Where a bullet stands in a region: from the start of its first line to the end of its last, newline excluded."""

    start: int
    end: int


def description(document: Document) -> str:
    """What a skill's frontmatter says it is for, "" when it does not say."""
    head = (document.content or b"")[:4096].decode("utf-8", "replace").partition("\n---")[0]
    line = next((line for line in head.splitlines() if line.startswith("description:")), "")
    return line.removeprefix("description:").strip(" \t\"'")


def region(document: Document) -> str:
    """The text that edits may touch: the body of a whole document, the content of our block in any other.

    "" where there is no block. Raises ``Refused`` for a file whose markers or frontmatter do not pair up.
    """
    return _parse(document).region


def with_region(document: Document, text: str) -> Document:
    """The document with another region, and not a byte moved outside it.

    ``with_region(with_region(d, text), region(d)) == d`` for every text, with three exceptions. A blank text takes the
    block out with all that came with it, also one that was there and empty before. A whole memory file of no bytes,
    and a skill of nothing but the frontmatter we would give it, count as absent: what is left empty is no document.
    And a whole document whose line ends are mixed, or shown by its body alone, may get them all alike.

    A missing block is put at the end of the file; a missing skill gets its frontmatter. Raises ``Refused`` as
    ``region`` does, and when the text itself holds a marker of our block.
    """
    parts = _parse(document)
    text = text if document.whole or text.strip() else ""
    if text == parts.region:
        return document
    changed = _with_body(document, parts, text) if document.whole else _with_block(document, parts, text)
    if changed is not None and parts.newline != "\n":
        changed = _BARE_NEWLINE.sub(parts.newline, changed)
    content = None if changed is None else changed.encode("utf-8", "surrogateescape")
    return Document(kind=document.kind, path=document.path, whole=document.whole, content=content)


def require_usable(document: Document, *, most_bytes: int) -> None:
    """Raise ``Refused``, naming file, line and remedy, when a night could not work with this document.

    ``run`` and ``doctor`` both ask this before anything is paid for. Bytes outside the region may be anything but NUL,
    which stands for a binary file or UTF-16: text added to that would damage it.
    """
    content = document.content or b""
    if len(content) > most_bytes:
        raise Refused(
            f"{document.path} has {len(content):,} bytes, and a night can replay at most {most_bytes:,} within its cap"
            " on tokens; shorten it, or move parts of it to files of their own"
        )
    if (zero := content.find(b"\0")) >= 0:
        line = content.count(b"\n", 0, zero) + 1
        raise Refused(f"{document.path}, line {line}: holds a NUL byte, as no UTF-8 text does; save it as UTF-8")
    parts = _parse(document)
    if broken := _UNDECODABLE.search(parts.region):
        line = _line_of(parts.before + parts.opening + parts.region[: broken.start()])
        raise Refused(f"{document.path}, line {line}: is not valid UTF-8 there; save the file as UTF-8")


@functools.lru_cache(maxsize=64)  # every edit of a step looks at the same few texts
def bullet_spans(text: str) -> tuple[Span, ...]:
    """Where the top-level list items of a region stand, each with its further lines, as Markdown has it."""
    tokens: list[Token] = []
    parser = _markdown()
    parser.block.parse(_LINE_END.sub("\n", text), parser, {}, tokens)
    ends = [match.span() for match in _LINE_END.finditer(text)]
    starts = [0, *(after for _, after in ends)]
    stops = [*(before for before, _ in ends), len(text)]
    spans = []
    for token in tokens:
        if token.type == "list_item_open" and token.level == 1 and token.map is not None:
            first, last = token.map[0], token.map[1] - 1
            while last > first and not text[starts[last] : stops[last]].strip(" \t"):
                last -= 1
            spans.append(Span(start=starts[first], end=stops[last]))
    return tuple(spans)


def bullets(text: str) -> tuple[str, ...]:
    """The rules of a region: its top-level list items, each exactly as it stands there."""
    return tuple(text[start:end] for start, end in bullet_spans(text))


@functools.cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  50 ms that a program without documents does not need

    return MarkdownIt("commonmark")


class _Parts(NamedTuple):
    """The text of a file, cut in five; ``opening`` and ``closing`` are the frame of our block, "" without one."""

    newline: str
    before: str
    opening: str = ""
    region: str = ""
    closing: str = ""
    after: str = ""


def _parse(document: Document) -> _Parts:
    raw = _fresh(document) if document.content is None else document.content.decode("utf-8", "surrogateescape")
    windows = 0 < raw.count("\n") == raw.count("\r\n") and "\r\r\n" not in raw  # mixed line ends stay as they are
    newline = "\r\n" if windows else "\n"
    text = raw.replace(newline, "\n")
    if document.whole:
        head = _FRONTMATTER.match(text)
        if head is None or (_FENCE.match(text) and not head["fenced"]):
            raise Refused(f"{document.path}, line 1: its frontmatter never ends; close it with a line of ---")
        return _Parts(newline, before=head[0], region=text[head.end() :])
    markers = list(_MARKER.finditer(text))
    if not markers:
        return _Parts(newline, before=text)
    if [marker["edge"] for marker in markers] != ["begin", "end"]:
        lines = [_line_of(text[: marker.start("line")]) for marker in markers]
        found = ", ".join(f"{marker['edge']} in line {line}" for marker, line in zip(markers, lines, strict=True))
        raise Refused(
            f"{document.path}, line {lines[0]}: the markers of our block do not pair up (found: {found});"
            f" keep one line {BEGIN} and one line {END} after it, or delete them all"
        )
    (start, inside), (end, after) = (marker.span("line") for marker in markers)
    inside += 1
    if note := _NOTE_LINE.match(text, inside):
        inside = note.end()
    return _Parts(newline, text[:start], text[start:inside], text[inside:end], text[end:after], text[after:])


def _line_of(text_before: str) -> int:
    """The number of the line that begins or goes on after this text."""
    return text_before.count("\n") + 1


def _with_body(document: Document, parts: _Parts, text: str) -> str | None:
    fresh = _fresh(document)
    if parts.before == fresh and not (text.strip() if fresh else text):
        return None
    fenced = parts.before.endswith(("-", " ", "\t"))
    return parts.before + ("\n\n" if fenced and text and not _LINE_END.match(text) else "") + text


def _with_block(document: Document, parts: _Parts, text: str) -> str | None:
    if _MARKER.search(text):
        raise Refused(f"{document.path}: a rule may not hold the markers of our own block")
    if not text:
        rest, fresh = _detached(parts), _fresh(document)
        return None if fresh and rest == f"{fresh}\n" else rest
    rules = text if text.endswith("\n") else f"{text}\n"
    if parts.opening:
        return parts.before + parts.opening + rules + parts.closing + parts.after
    return _attached(document, parts.before, f"{BEGIN}\n{NOTE}\n{rules}{END}")


def _attached(document: Document, text: str, block: str) -> str:
    """The block at the end of a file, so that ``_detached`` can tell what the file was before.

    A blank line parts it from what stands before it. It ends in a newline exactly when the file did, and also when
    there was no file, which tells that from an empty one.
    """
    if document.content is None:
        return f"{text}\n\n{block}\n" if text else f"{block}\n"
    if not text:
        return block
    return f"{text}\n{block}\n" if text.endswith("\n") else f"{text}\n\n{block}"


def _detached(parts: _Parts) -> str | None:
    """What stands around the block, without what ``_attached`` put there; None when that is no file at all."""
    before, rest = parts.before, parts.after.removeprefix("\n")
    if not before:
        return None if parts.after == "\n" else rest
    if before.endswith("\n\n") and (not rest or rest.startswith("\n")):
        before = before.removesuffix("\n" if parts.after else "\n\n")
    return before + rest


def _fresh(document: Document) -> str:
    """What a file that we create holds besides rules."""
    if document.kind is DocumentKind.MEMORY:
        return ""
    name = PurePath(document.path).parent.name
    return f"---\nname: {name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)}\ndescription: {DESCRIPTION}\n---"


class Candidate(Struct, frozen=True, kw_only=True):
    """The documents an agent is given in one arm of a comparison, at most one of each kind."""

    documents: tuple[Document, ...]

    def __getitem__(self, kind: DocumentKind) -> Document | None:
        return next((document for document in self.documents if document.kind is kind), None)

    def with_document(self, changed: Document) -> Candidate:
        """The same candidate with the document of that kind replaced."""
        return Candidate(documents=tuple(changed if old.kind is changed.kind else old for old in self.documents))

    @property
    def digest(self) -> str:
        """Sixteen hex digits over kinds and contents; equal for byte-identical candidates wherever they lie."""
        contents = [(each.kind, b"\0absent" if each.content is None else each.content) for each in self.documents]
        return sha256(b"".join(b"%s:%d:%s" % (kind.encode(), len(content), content) for kind, content in contents))[:16]


_PARAGRAPHS = re.compile(r"\n[ \t]*\n")


class NotOnce(Exception):
    """The anchor is found nowhere, or in several places; says how often."""

    def __init__(self, times: int) -> None:
        super().__init__(f"found {times} times in the text, must be found exactly once" if times else "not found")


def is_block(content: str) -> bool:
    """Whether a text is more than one rule: it has a heading, several list items, or several paragraphs."""
    text = content.strip()
    return text.startswith("#") or "\n#" in text or len(bullet_spans(text)) > 1 or bool(_PARAGRAPHS.search(text))


def append_block(text: str, content: str) -> str:
    """The text with the content as its last block."""
    return f"{text.rstrip()}\n\n{content.strip()}\n" if text.strip() else f"{content.strip()}\n"


def insert_below(text: str, anchor: str, content: str) -> str:
    """The text with the content on lines of its own below the line where the anchor ends. Raises ``NotOnce``."""
    span = _find(text, anchor)
    line_end = text.find("\n", max(span.start, span.end - 1))
    if line_end < 0:
        return f"{text}\n{content.strip()}\n"
    return f"{text[: line_end + 1]}{content.strip()}\n{text[line_end + 1 :]}"


def replace_words(text: str, anchor: str, content: str) -> str:
    """The text with the content in place of the anchor. Raises ``NotOnce``."""
    span = _find(text, anchor)
    return text[: span.start] + content.strip() + text[span.end :]


def delete_words(text: str, anchor: str) -> str:
    """The text without the anchor, and without the line when nothing else stood on it. Raises ``NotOnce``."""
    start, end = _find(text, anchor)
    line_start = text.rfind("\n", 0, start) + 1
    if text[line_start:start].strip() or (end and text[end - 1] == "\n"):
        return text[:start] + text[end:]
    line_end = text.find("\n", end)
    rest = text[end:] if line_end < 0 else text[end:line_end]
    if rest.strip():
        return text[:start] + text[end:]
    return text[:line_start] + ("" if line_end < 0 else text[line_end + 1 :])


def _find(text: str, anchor: str) -> Span:
    exact = text.count(anchor) if anchor else 0
    if exact == 1:
        start = text.index(anchor)
        return Span(start, start + len(anchor))
    words = r"\s+".join(map(re.escape, anchor.split()))
    found = [] if exact or not words else [Span(*match.span()) for match in re.finditer(words, text)]
    if len(found) != 1:
        raise NotOnce(exact or len(found))
    return found[0]
