"""Adopt and revert: the only place that changes a live file.

Everything is looked at before the first file is written, the bytes that were there are in the database before that,
and each file is looked at again right before its turn. If one cannot be written, those before it are put back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.adoption import Adoption, moved, without
from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.edit import EditRecord, EditStatus, apply_edits
from skillopt_sleep.errors import DiskError, Refused, SleepError
from skillopt_sleep.stores.database import Database
from skillopt_sleep.stores.files import (
    make_folders,
    missing_folders,
    mode_of,
    read_regular,
    refuse_links,
    remove,
    write_atomic,
)
from skillopt_sleep.stores.staging import ProposalStaging, ProposalStatus, StagedDocument, sha256

__all__ = ["LiveChange", "adopt", "adoptions", "ever_live", "revert"]

NEW_FILE_MODE = 0o644
AGAIN = "nothing was adopted; for a new proposal: skillopt-sleep run"


class LiveChange(Struct, frozen=True, kw_only=True):
    """What happened to one live file: the edits put in or taken out, and whether it existed before and exists now."""

    path: str
    kind: DocumentKind
    edits: tuple[EditRecord, ...]
    existed: bool
    exists: bool


def adopt(staging: ProposalStaging, night: str, *, only: Collection[str] | None = None) -> tuple[LiveChange, ...]:
    """Make the proposal of a night live, or only the edits with these ids. Needs a transaction of its own.

    Raises ``Refused``, with no live file changed, when the night has no proposal here or is adopted already, when a
    file of the proposal or a live file is not what it was, when a link is in the way, and when the edits chosen need
    others; ``DiskError`` when a file cannot be written.
    """
    with staging.database.transaction() as connection:
        live = adoptions(staging.database)
        if any(adoption.night == night for adoption in live):
            raise Refused(f"night {night} is adopted already; to undo it: skillopt-sleep revert {night}")
        proposal = staging.verified(night)
        documents = _chosen(proposal.manifest.documents, only)
        planned = [_planned(staging, night, document, live) for document in documents]
        if only is None and [sha256(each.after) for each in planned] != [each.proposed_sha256 for each in documents]:
            raise Refused(f"night {night} was staged by another version of this program; {AGAIN}")
        ids = [_insert(connection, adoption, staging.clock.now()) for adoption in planned]
        _set_status(connection, night, ProposalStatus.ADOPTED)
    swaps = [_Swap(adoption=adoption, old=adoption.before, new=adoption.after) for adoption in planned]
    try:
        _swap_all(swaps)
    except _HalfDone:
        raise
    except BaseException:
        with staging.database.transaction() as connection:
            connection.executemany("DELETE FROM adoptions WHERE id = ?", [(each,) for each in ids])
            _set_status(connection, night, proposal.status)
        raise
    return tuple(swap.change(swap.adoption.edits) for swap in swaps)


def revert(staging: ProposalStaging, *, night: str | None = None, edit: str | None = None) -> tuple[LiveChange, ...]:
    """Take out what a night made live, or one edit, or one edit of one night; the rest of every file stays.

    A file nobody touched since gets back the exact bytes it had, or goes if there was none; in one that was changed
    outside our region, only the region goes back. Raises ``Refused``, with nothing changed, when that is not live,
    when later edits stand on it, or when a region was changed by hand; ``DiskError`` when a file cannot be written.
    """
    with staging.database.transaction() as connection:
        live = adoptions(staging.database)
        gone = {
            (adoption.id, each.id): adoption.project
            for adoption in live
            for each in adoption.edits
            if night in {None, adoption.night} and edit in {None, each.id}
        }
        if not gone or (night is None and edit is None):
            raise Refused(f"that is not live and cannot be reverted; live are: {_listed(live)}")
        if len(set(gone.values())) > 1:
            raise Refused(f"edit {edit} is live in several projects; name the night too: {_listed(live)}")
        swaps, changes = [], []
        for path in dict.fromkeys(adoption.path for adoption in live):
            history = [adoption for adoption in live if adoption.path == path]
            taken = tuple(each for adoption in history for each in adoption.edits if (adoption.id, each.id) in gone)
            if not taken:
                continue
            result = without(history, lambda adoption, each: (adoption.id, each.id) in gone)
            swaps.append(_reverting(history, result))
            changes.append(swaps[-1].change(taken))
            _update(connection, result, staging.clock.now())
        still = {adoption.night for adoption in adoptions(staging.database)}
        for name in {adoption.night for adoption in live} - still:
            _set_status(connection, name, ProposalStatus.REVERTED)
        _swap_all(swaps)
    return tuple(changes)


def adoptions(database: Database) -> tuple[Adoption, ...]:
    """Everything that is live, the oldest first, with the edits of each that have not been reverted."""
    rows = database.rows("SELECT * FROM adoptions WHERE reverted_at IS NULL ORDER BY id")
    return tuple(
        Adoption(
            id=row["id"],
            night=row["night"],
            project=row["project"],
            path=row["path"],
            kind=DocumentKind(row["kind"]),
            whole=bool(row["whole"]),
            before=row["before"],
            after=row["after"],
            edits=tuple(each.edit for each in _decode(row["edits"]) if each.reverted_at is None),
            mode=row["mode"],
            folders=row["folders"],
        )
        for row in rows
    )


def ever_live(database: Database, project: str) -> dict[tuple[str, str], bool]:
    """Each (night, edit id) of a project that was ever made live, and whether it still is."""
    rows = database.rows("SELECT night, edits FROM adoptions WHERE project = ? ORDER BY id", (project,))
    return {(row["night"], each.edit.id): each.reverted_at is None for row in rows for each in _decode(row["edits"])}


class _AdoptedEdit(Struct, frozen=True, kw_only=True):
    """An edit that was made live, and since when it is not any more. Times are ISO 8601."""

    edit: EditRecord
    reverted_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Swap:
    """One live file from its old content to a new one, and back."""

    adoption: Adoption
    old: bytes | None
    new: bytes | None

    def there(self) -> None:
        if _read(self.adoption) != self.old:
            raise Refused(f"{self.adoption.path} was changed by somebody else this moment; try again")
        self._write(self.new)

    def back(self) -> None:
        if _read(self.adoption) == self.new:
            self._write(self.old)

    def change(self, edits: tuple[EditRecord, ...]) -> LiveChange:
        return LiveChange(
            path=self.adoption.path,
            kind=self.adoption.kind,
            edits=edits,
            existed=self.old is not None,
            exists=self.new is not None,
        )

    def _write(self, content: bytes | None) -> None:
        if self.old == self.new:
            return
        path = Path(self.adoption.path)
        if content is None:
            remove(path, folders=self.adoption.folders)
            return
        try:
            make_folders(path.parent, within=Path(self.adoption.project))
            write_atomic(path, content, mode_of(path) or self.adoption.mode or NEW_FILE_MODE)
        except DiskError:
            if self.old is None:
                remove(path, folders=self.adoption.folders)
            raise


class _HalfDone(DiskError):
    """Some files are written and could not be put back; the bytes they had are in the database."""


def _swap_all(swaps: Sequence[_Swap]) -> None:
    """Every one, or none. Raises ``_HalfDone`` when it can be neither."""
    try:
        for swap in swaps:
            swap.there()
    except BaseException:
        for swap in reversed(swaps):
            try:
                swap.back()
            except SleepError as error:
                night = swap.adoption.night
                raise _HalfDone(f"half of this is done: {error}; then: skillopt-sleep revert {night}") from error
        raise


def _read(adoption: Adoption) -> bytes | None:
    refuse_links(Path(adoption.path), within=Path(adoption.project))
    return read_regular(Path(adoption.path))


def _chosen(documents: Sequence[StagedDocument], only: Collection[str] | None) -> list[StagedDocument]:
    """The documents with the edits that are wanted; those without one are left out."""
    if only is None:
        return list(documents)
    known = [edit.id for document in documents for edit in document.edits]
    unknown = [each for each in only if each not in known]
    if unknown or not only:
        raise Refused(f"no such edit: {', '.join(unknown) or 'none named'}; the proposal has {', '.join(known)}")
    chosen = [replace(each, edits=tuple(edit for edit in each.edits if edit.id in only)) for each in documents]
    return [each for each in chosen if each.edits]


def _planned(staging: ProposalStaging, night: str, staged: StagedDocument, live: Sequence[Adoption]) -> Adoption:
    """The adoption of one document, checked against the live file; nothing is written."""
    adoption = Adoption(
        id=0,
        night=night,
        project=str(staging.project),
        path=staged.path,
        kind=staged.kind,
        whole=staged.whole,
        before=None,
        after=None,
        edits=staged.edits,
        mode=mode_of(Path(staged.path)),
        folders=max([missing_folders(Path(staged.path)), *(each.folders for each in live if each.path == staged.path)]),
    )
    before = _read(adoption)
    if sha256(before) != staged.base_sha256:
        raise Refused(f"{staged.path} was changed since night {night} looked at it; {AGAIN}")
    after, outcomes = apply_edits(adoption.document(before), staged.edits, cap=None)
    for outcome in outcomes:
        if outcome.status is not EditStatus.APPLIED:
            raise Refused(f"edit {outcome.edit.id} needs another one of this night, adopt both: {outcome.why}")
    return replace(adoption, before=before, after=after.content)


def _reverting(history: Sequence[Adoption], result: Sequence[Adoption]) -> _Swap:
    live = _read(history[-1])
    mode = next((each.mode for each in history if each.mode is not None), None)
    return _Swap(adoption=replace(history[-1], mode=mode), old=live, new=moved(live, history, result))


def _listed(live: Sequence[Adoption]) -> str:
    nights: dict[str, list[str]] = {}
    for adoption in live:
        nights.setdefault(adoption.night, []).extend(edit.id for edit in adoption.edits)
    return "; ".join(f"night {night} (edits {', '.join(edits)})" for night, edits in nights.items()) or "none"


def _insert(connection: sqlite3.Connection, adoption: Adoption, now: datetime) -> int | None:
    edits = msgspec.json.encode([_AdoptedEdit(edit=edit) for edit in adoption.edits])
    values = (
        adoption.night,
        adoption.project,
        adoption.path,
        adoption.kind,
        adoption.whole,
        adoption.before,
        adoption.after,
        edits,
        adoption.mode,
        adoption.folders,
        now.isoformat(),
    )
    return connection.execute(
        "INSERT INTO adoptions (night, project, path, kind, whole, before, after, edits, mode, folders, adopted_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    ).lastrowid


def _update(connection: sqlite3.Connection, result: Sequence[Adoption], now: datetime) -> None:
    """Keep what the adoptions of a file are now. One that is all reverted keeps the bytes it once found and made."""
    for adoption in result:
        (data,) = connection.execute("SELECT edits FROM adoptions WHERE id = ?", (adoption.id,)).fetchone()
        edits = [
            each if each.reverted_at or each.edit in adoption.edits else replace(each, reverted_at=now.isoformat())
            for each in _decode(data)
        ]
        if adoption.edits:
            connection.execute(
                "UPDATE adoptions SET edits = ?, before = ?, after = ? WHERE id = ?",
                (msgspec.json.encode(edits), adoption.before, adoption.after, adoption.id),
            )
        else:
            connection.execute(
                "UPDATE adoptions SET edits = ?, reverted_at = ? WHERE id = ?",
                (msgspec.json.encode(edits), now.isoformat(), adoption.id),
            )


def _decode(data: bytes) -> list[_AdoptedEdit]:
    return msgspec.json.decode(data, type=list[_AdoptedEdit])


def _set_status(connection: sqlite3.Connection, night: str, status: ProposalStatus) -> None:
    connection.execute("UPDATE proposals SET status = ? WHERE night = ?", (status, night))
