"""One bounded change of a document, and what became of it."""

from __future__ import annotations

import enum

from msgspec import Struct

from skillopt_sleep.domain.document import DocumentKind

__all__ = ["AppliedEdit", "EditOp", "EditRecord", "EditStatus"]


class EditOp(enum.StrEnum):
    """What an edit does. ``add`` is accepted at the edge and means ``append``."""

    APPEND = "append"
    INSERT_AFTER = "insert_after"
    REPLACE = "replace"
    DELETE = "delete"


class EditRecord(Struct, frozen=True, kw_only=True):
    """One edit. ``anchor`` (all but append) must be found exactly once in the document's editable region.

    ``id`` is a digest of the content; ``text`` is the new rule ("" for delete), ``reason`` the optimizer's,
    ``task_ids`` the train tasks it was written from, ``support`` how many equal proposals were merged into it.
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
    GUARDED = "guarded"
    """A guard rule holds it back; shown, never applied by itself."""


class AppliedEdit(Struct, frozen=True, kw_only=True):
    """An edit and what became of it; ``why`` is "" only when it was applied."""

    edit: EditRecord
    status: EditStatus
    why: str = ""
