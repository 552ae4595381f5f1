"""Decides where a rule lands: a short standing rule in memory, a procedure in a skill.

An agent reads memory with every request, and opens a skill when it needs it. So our part of memory is bounded in rules
and in characters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model.document import Candidate, Document, DocumentKind, list_rules, read_region
from skillopt_sleep.model.edit import AppliedEdit, EditOp, EditRecord, EditStatus, apply_edits, compute_edit_id
from skillopt_sleep.model.rule_identity import list_live_rules, states_same

SHORT = 280
"""Maximum characters of a short rule; a longer one counts as a procedure."""
ADDS = (EditOp.APPEND, EditOp.INSERT_AFTER)
_STEP_LINE = re.compile(r"^[ \t]+(?:[-*+]|\d{1,2}[.)])[ \t]|^[ \t]*(?:```|~~~)", re.MULTILINE)
_NUMBERED_STEP = re.compile(r"(?:^|[\s(:])(\d)[.)](?=\s)")
_SEQUENCE = re.compile(
    r"\b(?:then|next|afterwards|after that|finally|dann|danach|anschließend|zuletzt|puis|ensuite|enfin|luego|después"
    r"|finalmente|depois)\b",
    re.IGNORECASE,
)


class MemoryBounds(Struct, frozen=True, kw_only=True):
    """How much of a memory file our block may take."""

    rules: int = 0
    """Maximum number of rules; 0 means no bound, and every rule stays in the document it was proposed for."""
    chars: int = 8000

    def has_room(self, memory: Document, text: str, *, waiting: int = 0) -> bool:
        """Tell whether memory has room for one more rule besides ``waiting`` rules on trial for a place in it."""
        region = read_region(memory)
        count = len(list_rules(region)) + waiting
        return not self.rules or (count < self.rules and len(region) + len(text) + len("- \n") <= self.chars)


class Landing(Struct, frozen=True, kw_only=True):
    """Documents of an agent other than the night's, to which the night's proven rules are added too."""

    documents: Candidate
    untried: str
    """Note for the user: which agent proved the rules, and that they were not tried with this one."""


def is_procedure(text: str) -> bool:
    """Tell whether a rule describes steps in order, or is too long to be read with every request."""
    plain = text.strip()
    if len(plain) > SHORT or _STEP_LINE.search(plain):
        return True
    steps = set(_NUMBERED_STEP.findall(plain))
    return steps >= {"1", "2"} or len(_SEQUENCE.findall(plain)) > 1


def place_edit(
    edit: EditRecord,
    current: Candidate,
    *,
    kinds: Collection[DocumentKind],
    bounds: MemoryBounds,
    waiting: Sequence[EditRecord] = (),
) -> EditRecord:
    """Return a proposed addition redirected to memory or the skill, where the agent should read it.

    Edits that add nothing stay where their rule is. ``kinds`` are the documents that evolve tonight, ``waiting`` the
    rules on trial. A short rule goes to the skill when memory is full.
    """
    memory = current[DocumentKind.MEMORY]
    if not bounds.rules or edit.op not in ADDS or memory is None or not {*DocumentKind} <= set(kinds):
        return edit
    if current[DocumentKind.SKILL] is None:
        return edit
    reserved = sum(other.document is DocumentKind.MEMORY and other.op in ADDS for other in waiting)
    fits = not is_procedure(edit.text) and bounds.has_room(memory, edit.text, waiting=reserved)
    kind = DocumentKind.MEMORY if fits else DocumentKind.SKILL
    if kind is edit.document:
        return edit
    return replace(append_to(edit, kind), id=compute_edit_id(EditOp.APPEND, kind, edit.text, ""))


def append_to(edit: EditRecord, kind: DocumentKind) -> EditRecord:
    """Return an edit, with its id, as an addition at the end of the document of the given kind."""
    return replace(edit, document=kind, op=EditOp.APPEND, anchor="")


def move_to_memory(
    baseline: Candidate, edits: Sequence[AppliedEdit], bounds: MemoryBounds
) -> tuple[Candidate, tuple[AppliedEdit, ...]] | None:
    """Apply edits to the baseline, but put every rule that they add to the skill into memory instead.

    Returns None when no rule moves, or when one does not fit. A rule of the live skill that an edit replaces stays
    there: it is the user's.
    """
    memory = baseline[DocumentKind.MEMORY]
    if memory is None or not bounds.rules:
        return None
    made, moved = baseline, []
    for applied in edits:
        edit = applied.edit
        if edit.document is DocumentKind.SKILL and edit.op in ADDS:
            edit = append_to(edit, DocumentKind.MEMORY)
            if not bounds.has_room(made[DocumentKind.MEMORY] or memory, edit.text):
                return None
        document = made[edit.document]
        changed, outcomes = (document, ()) if document is None else apply_edits(document, (edit,), cap=None)
        if changed is None or outcomes[0].status is not EditStatus.APPLIED:
            return None
        made = made.with_document(changed)
        moved.append(replace(applied, edit=outcomes[0].edit))
    return None if [new.edit for new in moved] == [old.edit for old in edits] else (made, tuple(moved))


def land_elsewhere(
    documents: Candidate, edits: Sequence[AppliedEdit], bounds: MemoryBounds
) -> tuple[Candidate, tuple[AppliedEdit, ...]]:
    """Apply proven edits to another agent's documents; return these documents and the edits as applied there.

    Rules that these documents already state are left out, and so are deletions of rules that they do not have. An edit
    whose anchor is missing there adds its rule at the end.
    """
    made, landed = documents, []
    for applied in edits:
        edit, memory = applied.edit, made[DocumentKind.MEMORY]
        if edit.op is not EditOp.DELETE and any(states_same(edit.text, rule) for _, rule in list_live_rules(made)):
            continue
        if edit.op in ADDS and edit.document is DocumentKind.MEMORY and memory is not None:
            edit = edit if bounds.has_room(memory, edit.text) else append_to(edit, DocumentKind.SKILL)
        for wanted in (edit, append_to(edit, edit.document)) if edit.text else (edit,):
            document = made[wanted.document]
            if document is None:
                break
            changed, (done,) = apply_edits(document, (wanted,), cap=None)
            if done.status is EditStatus.APPLIED:
                made = made.with_document(changed)
                landed.append(replace(applied, edit=done.edit))
                break
    return made, tuple(landed)
