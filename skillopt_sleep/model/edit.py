"""One bounded change of a document: how a model's reply is read, how it is applied, and what became of it."""

from __future__ import annotations

import enum
import json
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from skillopt_sleep.model import Json
from skillopt_sleep.model.document import (
    Document,
    DocumentKind,
    NotOnce,
    append_block,
    bullet_spans,
    bullets,
    delete_words,
    insert_below,
    is_block,
    region,
    replace_words,
    with_region,
)
from skillopt_sleep.model.replies import Refusal
from skillopt_sleep.model.text import sha256

REGION_CAP = 8_000
"""Characters a region may grow to: memory is in front of the agent in every call, and is paid for in every one."""

TEXT_CAP = 600
"""Characters of one rule; what is longer is a document of its own, not a rule."""

Member = TypeVar("Member", bound=enum.StrEnum)

_MARK = re.compile(r"\A(?:[-*+•](?:\s+|\Z))+")
_NUMBER = re.compile(r"\A\d{1,9}[.)][ \t]+")
_LINE_END = re.compile(r"\r\n?|\n")
_OWN_MARKER = re.compile(r"skillopt-sleep\s*:\s*(?:begin|end|guidance)", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?:[-*+•][ \t]+)?---+[ \t]*$", re.MULTILINE)


class EditOp(enum.StrEnum):
    """What an edit does. ``add`` is accepted at the edge and means ``append``."""

    APPEND = "append"
    INSERT_AFTER = "insert_after"
    REPLACE = "replace"
    DELETE = "delete"


class EditRecord(Struct, frozen=True, kw_only=True):
    """One edit. ``anchor`` (all but append) must be found exactly once in the document's editable region.

    ``id`` is a digest of the content; ``text`` is the new rule without its list mark ("" for delete), ``reason`` the
    optimizer's, ``task_ids`` the train tasks it was written from, ``support`` how many equal proposals were merged
    into it.
    """

    id: str
    op: EditOp
    document: DocumentKind
    text: str = ""
    anchor: str = ""
    reason: str = ""
    task_ids: tuple[str, ...] = ()
    support: int = 1


class EditStatus(enum.StrEnum):
    """What became of an edit when it was applied."""

    APPLIED = "applied"
    UNMATCHED = "unmatched"
    """Its anchor was not found exactly once."""
    SKIPPED = "skipped"
    """It would change nothing, or the block would outgrow its cap."""
    REJECTED = "rejected"
    """It was applied to a candidate that the gate turned down; ``why`` has the scores."""
    PENDING = "pending"
    """It was applied to a candidate that is not decided yet; ``why`` says what it would take."""
    GUARDED = "guarded"
    """A guard rule holds it back; shown, never applied by itself."""


class AppliedEdit(Struct, frozen=True, kw_only=True):
    """An edit and what became of it; ``why`` is "" only when it was applied.

    The anchor of an applied edit is the whole rule it was found to mean, so that it means the same in any other
    version of the document, or nothing. ``seen`` are the ids, and the names of their groups, of the tasks that the
    reflection it comes from was shown.
    """

    edit: EditRecord
    status: EditStatus
    why: str = ""
    seen: tuple[str, ...] = ()


def edit_id(op: EditOp, document: DocumentKind, text: str, anchor: str) -> str:
    """Twelve hex digits over what the edit does; white space and list marks do not count."""
    content = msgspec.json.encode([op, document, unmarked(text), unmarked(anchor)])
    return sha256(content)[:12]


def apply_edits(
    document: Document, edits: Iterable[EditRecord], *, cap: int | None = REGION_CAP, prose: bool = False
) -> tuple[Document, tuple[AppliedEdit, ...]]:
    """Apply edits in order, each to what the ones before it made; every edit comes back with what became of it.

    A rule is one list item. An anchor is a whole rule, or words that stand in one rule only. ``cap`` bounds the
    characters of the region (None: no bound); an edit that would pass it is skipped. With ``prose`` the region may be
    more than rules: an anchor that is no whole rule is looked for in the text, and what is no single rule is written
    as it stands. Raises ``Refused`` for a document whose region cannot be found.
    """
    text = region(document)
    outcomes = []
    for edit in edits:
        try:
            text, anchor = _applied(text, edit, document.kind, cap, prose=prose)
        except _Held as held:
            outcomes.append(AppliedEdit(edit=edit, status=held.status, why=str(held)))
        else:
            exact = msgspec.structs.replace(edit, anchor=anchor)
            outcomes.append(AppliedEdit(edit=exact, status=EditStatus.APPLIED))
    return with_region(document, text), tuple(outcomes)


def stands(text: str, edit: EditRecord) -> bool:
    """Whether a region is as the edit has left it: its rule is there word for word, or is out of it."""
    rules = [unmarked(rule) for rule in bullets(text)]
    if edit.op is EditOp.DELETE:
        return unmarked(edit.anchor) not in rules
    return unmarked(edit.text) in rules or (is_block(edit.text) and edit.text.strip() in text)


def parse_edits(
    raw: Json, *, known_tasks: Collection[str], document: DocumentKind
) -> tuple[tuple[EditRecord, ...], tuple[Refusal, ...]]:
    """Read a model's ``{"edits": [...]}``; ``document`` is the kind it was asked for, and meant where it names none.

    What cannot be read as an edit is refused by name, never guessed at. A task that is none of ``known_tasks`` and a
    field that no edit has are left out of an edit that is kept, and named as well. Raises ValueError when the whole
    is no list of edits.
    """
    items = raw.get("edits") if isinstance(raw, dict) else None
    if not isinstance(items, list):
        raise ValueError(f'expected {{"edits": [...]}}, found {_shorten(raw)}')  # noqa: TRY004  one error for any shape
    edits, refused = [], []
    for number, item in enumerate(items, start=1):
        try:
            edit = _parse_edit(item, document)
        except ValueError as error:
            refused.append(Refusal(subject=f"edit {number}", words=_shorten(item), why=str(error)))
            continue
        known = tuple(task for task in dict.fromkeys(edit.task_ids) if task in known_tasks)
        left_out = {task: "no task of this reflection" for task in edit.task_ids if task not in known}
        fields = item if isinstance(item, dict) else {}
        left_out |= {name: "no field of an edit" for name in fields if name not in _Proposed.__struct_fields__}
        refused += [Refusal(subject=f"edit {edit.id}", words=_shorten(w), why=why) for w, why in left_out.items()]
        edits.append(msgspec.structs.replace(edit, task_ids=known))
    return tuple(edits), tuple(refused)


class _Proposed(Struct, frozen=True):
    """An edit as models write it, under any of the names they use."""

    op: str = ""
    document: str | None = None
    text: str | None = None
    content: str | None = None
    anchor: str | None = None
    target: str | None = None
    reason: str | None = None
    tasks: tuple[str, ...] | None = None


class _Held(Exception):
    """An edit that is not applied."""

    def __init__(self, status: EditStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


def _applied(text: str, edit: EditRecord, kind: DocumentKind, cap: int | None, *, prose: bool) -> tuple[str, str]:
    """The region after the edit, and the rule that its anchor means."""
    if edit.document is not kind:
        raise _Held(EditStatus.UNMATCHED, f"it is for the {edit.document}, this is the {kind}")
    rules = bullets(text)
    if prose and not _is_rule_edit(edit, rules):
        changed, anchor = _written(text, edit), edit.anchor
    else:
        changed, anchor = _ruled(text, edit, rules)
    if cap is not None and len(text) < len(changed) > cap:
        raise _Held(EditStatus.SKIPPED, f"the rules would take {len(changed)} characters, over the cap of {cap}")
    return changed, anchor


def _ruled(text: str, edit: EditRecord, rules: Sequence[str]) -> tuple[str, str]:
    """The region with one of its rules changed, and that rule."""
    rule = "" if edit.op is EditOp.DELETE else _new_rule(edit.text, rules)
    if edit.op is EditOp.APPEND:
        changed, expected, anchor = _appended(text, rule), (*rules, rule), ""
    else:
        index = _find(rules, edit.anchor)
        changed, put = _spliced(text, index, edit.op, rule)
        expected, anchor = (*rules[:index], *put, *rules[index + 1 :]), unmarked(rules[index])
    if bullets(changed) != expected:
        raise _Held(EditStatus.SKIPPED, "what stands around it would not leave it a list item of its own")
    return changed, anchor


def _is_rule_edit(edit: EditRecord, rules: Sequence[str]) -> bool:
    """Whether an edit of prose is about one list item: it names one whole, or adds one."""
    if edit.op is EditOp.APPEND:
        return not is_block(edit.text)
    return not is_block(edit.text) and [unmarked(rule) for rule in rules].count(unmarked(edit.anchor)) == 1


def _written(text: str, edit: EditRecord) -> str:
    """The region with words changed, or a block added, wherever they stand."""
    if _OWN_MARKER.search(edit.text):
        raise _Held(EditStatus.GUARDED, "it holds a marker of our own block")
    if edit.op is not EditOp.DELETE and not edit.text.strip():
        raise _Held(EditStatus.SKIPPED, "it says nothing")
    if edit.op in {EditOp.APPEND, EditOp.INSERT_AFTER} and edit.text.strip() in text:
        raise _Held(EditStatus.SKIPPED, "it is already there")
    try:
        match edit.op:
            case EditOp.APPEND:
                return append_block(text, edit.text)
            case EditOp.INSERT_AFTER:
                return insert_below(text, edit.anchor, edit.text)
            case EditOp.REPLACE:
                return replace_words(text, edit.anchor, edit.text)
            case EditOp.DELETE:
                return delete_words(text, edit.anchor)
    except NotOnce as error:
        raise _Held(EditStatus.UNMATCHED, f"its anchor {_shorten(edit.anchor)} is {error}") from error


def _new_rule(text: str, rules: Sequence[str]) -> str:
    rule = _rule(text)
    if why := _unfit(rule):
        raise _Held(EditStatus.GUARDED, why)
    if unmarked(rule) in map(unmarked, rules):
        raise _Held(EditStatus.SKIPPED, "the rule is already there")
    return rule


def _appended(text: str, rule: str) -> str:
    """The rule below the last line that says something, parted by a blank line from what is no list."""
    if not text.strip():
        return f"{text}{rule}\n"
    last = _LINE_END.search(text, len(text.rstrip(" \t\r\n")))
    end = last.start() if last else len(text)
    follows = any(span.end >= end for span in bullet_spans(text))
    return text[:end] + ("\n" if follows else "\n\n") + rule + text[end:]


def _spliced(text: str, index: int, op: EditOp, rule: str) -> tuple[str, tuple[str, ...]]:
    """The region changed at one of its rules, and what then stands in the place of that rule."""
    start, end = bullet_spans(text)[index]
    if op is EditOp.INSERT_AFTER:
        return f"{text[:end]}\n{rule}{text[end:]}", (text[start:end], rule)
    if op is EditOp.REPLACE:
        return text[:start] + rule + text[end:], (rule,)
    after = _LINE_END.match(text, end)
    return text[:start] + text[after.end() if after else end :], ()


def _find(rules: Sequence[str], anchor: str) -> int:
    wanted = unmarked(anchor)
    words = [unmarked(rule) for rule in rules]
    found = [i for i, each in enumerate(words) if each == wanted]
    found = found or [i for i, each in enumerate(words) if wanted and wanted in each]
    if len(found) != 1:
        how = f"in {len(found)} rules" if found else "in no rule"
        raise _Held(EditStatus.UNMATCHED, f"its anchor {_shorten(anchor)} is found {how}, must be in exactly one")
    return found[0]


def _rule(text: str) -> str:
    """The text as one list item, its further lines indented below the first."""
    first, *others = (line.rstrip() for line in _LINE_END.split(_MARK.sub("", text.strip())))
    others = textwrap.dedent("\n".join(others)).split("\n") if others else []
    return "\n".join([f"- {first}", *(line and f"  {line}" for line in others)])


def unmarked(text: str) -> str:
    """A rule without its list mark, white space folded: what makes two rules the same."""
    return " ".join(_NUMBER.sub("", _MARK.sub("", text.lstrip())).split())


def _unfit(rule: str) -> str:
    """Why a text must not enter a document, or ""."""
    if not unmarked(rule):
        return "it says nothing"
    if _OWN_MARKER.search(rule):
        return "it holds a marker of our own block"
    if _FENCE.search(rule):
        return "it holds a fence of frontmatter"
    return "" if bullets(rule) == (rule,) else "it cannot be written as one list item"


def _parse_edit(item: Json, asked_for: DocumentKind) -> EditRecord:
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("it is not valid Unicode") from error
    proposed = msgspec.convert(item, type=_Proposed)
    op = _member(EditOp, "append" if proposed.op == "add" else proposed.op, "op")
    document = _member(DocumentKind, proposed.document or asked_for, "document")
    anchor = "" if op is EditOp.APPEND else unmarked(proposed.anchor or proposed.target or "")
    written = "" if op is EditOp.DELETE else proposed.text or proposed.content or ""
    text = _rule(written).removeprefix("- ")
    if not anchor and op is not EditOp.APPEND:
        raise ValueError(f"{op} needs an anchor")
    if not text and op is not EditOp.DELETE:
        raise ValueError("its text is empty")
    if len(text) > TEXT_CAP:
        raise ValueError(f"its text has {len(text)} characters, over the cap of {TEXT_CAP}")
    return EditRecord(
        id=edit_id(op, document, text, anchor),
        op=op,
        document=document,
        text=text,
        anchor=anchor,
        reason=(proposed.reason or "").strip(),
        task_ids=proposed.tasks or (),
    )


def _member(kind: type[Member], value: str, name: str) -> Member:
    try:
        return kind(value)
    except ValueError as error:
        raise ValueError(f"its {name} {_shorten(value)} is none of {', '.join(kind)}") from error


def _shorten(value: Json) -> str:
    """One line that shows what a model wrote, whatever it is."""
    line = textwrap.shorten(json.dumps(value, ensure_ascii=False), 120, placeholder="…")
    return line.encode(errors="replace").decode()


def is_same(edit: EditRecord, other: EditRecord) -> bool:
    """Whether two edits do the same, whatever their case, white space and last full stop.

    What says the same counts as the same wherever it is put: a rule that failed is not tried anew one line below.
    """
    if edit.id == other.id:
        return True
    if edit.op is EditOp.DELETE or other.op is EditOp.DELETE:
        same_rule = edit.document is other.document and _folded(edit.anchor) == _folded(other.anchor)
        return edit.op is other.op and same_rule
    return _folded(edit.text) == _folded(other.text)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).lstrip("-*+• ").rstrip(" .!;,")
