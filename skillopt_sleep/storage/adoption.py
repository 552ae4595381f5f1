"""Adopt and revert: the only place that changes a live file.

Everything is looked at before the first file is written, and each file again right before its turn. How they change
all together or not at all is told in ``swaps``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import DiskError, Refused
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import EditRecord, EditStatus, apply_edits, stands
from skillopt_sleep.storage.atomic_replace import Swap, carry_out, one_change
from skillopt_sleep.storage.database import Database, decoded, understood
from skillopt_sleep.storage.files import missing_folders, mode_of, read_regular, refuse_unwritable
from skillopt_sleep.storage.live_files import Adoption, moved, without
from skillopt_sleep.storage.staging import ProposalStaging, ProposalStatus, StagedDocument, sha256

BY_HAND = "by hand"
"""How the record of an adoption begins that no gate had accepted."""
AGAIN = "nothing was adopted; for a new proposal: skillopt-sleep run"


class LiveChange(Struct, frozen=True, kw_only=True):
    """What happened to one live file: the edits put in or taken out, and whether it existed before and exists now."""

    path: str
    kind: DocumentKind
    edits: tuple[EditRecord, ...]
    existed: bool
    exists: bool


def adopt(
    staging: ProposalStaging, night: str, *, only: Collection[str] | None = None, how: str = ""
) -> tuple[LiveChange, ...]:
    """Make the proposal of a night live, or only the edits with these ids.

    Raises ``Refused``, with no live file changed, when the night has no proposal here or is adopted already, when a
    file of the proposal or a live file is not what it was or may not be written, when a link is in the way, and when
    the edits chosen need others; ``DiskError`` when a file cannot be written.
    """
    with one_change(staging.database):
        live = adoptions(staging.database)
        proposal = staging.verified(night)
        documents = _chosen(proposal.manifest.documents, only)
        there = {edit.id for each in live if each.night == night for edit in each.edits}
        if again := [edit.id for document in documents for edit in document.edits if edit.id in there]:
            what = f"edit {again[0]} of night {night}" if only else f"night {night}"
            raise Refused(f"{what} is adopted already; to undo it: skillopt-sleep revert {night}")
        planned = [_planned(staging, night, document, live, how) for document in documents]
        if only is None and [sha256(each.after) for each in planned] != [each.proposed_sha256 for each in documents]:
            raise Refused(f"night {night} was staged by another version of this program; {AGAIN}")
        return _make_live(staging, night, planned)


def adopt_by_hand(
    staging: ProposalStaging, night: str, documents: Sequence[StagedDocument], *, how: str
) -> tuple[LiveChange, ...]:
    """Make edits of a night live that no gate accepted, on the word of the user; ``how`` is kept with them.

    Raises what ``adopt`` raises.
    """
    with one_change(staging.database):
        live = adoptions(staging.database)
        return _make_live(staging, night, [_planned(staging, night, each, live, how) for each in documents])


def _make_live(staging: ProposalStaging, night: str, planned: Sequence[Adoption]) -> tuple[LiveChange, ...]:
    swaps = [_swap(adoption, adoption.before, adoption.after) for adoption in planned]

    def record(connection: sqlite3.Connection) -> None:
        for adoption in planned:
            _insert(connection, adoption, staging.clock.now())
        if not any(adoption.how.startswith(BY_HAND) for adoption in planned):
            _set_status(connection, night, ProposalStatus.ADOPTED)

    carry_out(staging.database, f"adopting night {night}", swaps, record)
    return tuple(_change(adoption, swap) for adoption, swap in zip(planned, swaps, strict=True))


def revert(staging: ProposalStaging, *, night: str | None = None, edit: str | None = None) -> tuple[LiveChange, ...]:
    """Take out what a night made live, or one edit, or one edit of one night; the rest of every file stays.

    A file nobody touched since gets back the exact bytes it had, or goes if there was none; in one that was changed
    outside our region, only the region goes back. Raises ``Refused``, with nothing changed, when that is not live,
    when later edits stand on it, or when a region was changed by hand; ``DiskError`` when a file cannot be written.
    """
    with one_change(staging.database):
        live = adoptions(staging.database)
        gone = _going(live, night, edit)
        swaps: list[Swap] = []
        changes: list[LiveChange] = []
        results: list[tuple[Adoption, ...]] = []
        for path in dict.fromkeys(adoption.path for adoption in live):
            history = [adoption for adoption in live if adoption.path == path]
            taken = tuple(each for adoption in history for each in adoption.edits if (adoption.id, each.id) in gone)
            if not taken:
                continue
            _require_whole(history)
            result = without(history, lambda adoption, each: (adoption.id, each.id) in gone)
            refuse_unwritable(Path(path), within=Path(history[-1].project))
            swaps.append(_reverting(history, result))
            changes.append(_change(replace(history[-1], edits=taken), swaps[-1]))
            results.append(result)

        def record(connection: sqlite3.Connection) -> None:
            for result in results:
                _update(connection, result, staging.clock.now())
            still = {adoption.night for adoption in adoptions(staging.database)}
            for name in {adoption.night for adoption in live} - still:
                _set_status(connection, name, ProposalStatus.REVERTED)

        carry_out(staging.database, f"reverting {night or f'edit {edit}'}", swaps, record)
    return tuple(changes)


def _going(live: Sequence[Adoption], night: str | None, edit: str | None) -> set[tuple[int, str]]:
    """The edits to take out, by adoption. Raises ``Refused`` when there are none, or when it is not clear which."""
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
    return set(gone)


def adoptions(database: Database) -> tuple[Adoption, ...]:
    """Everything that is live, the oldest first, with the edits of each that have not been reverted."""
    rows = database.rows(
        "SELECT * FROM adoptions LEFT JOIN adopted_how ON adoption = id WHERE reverted_at IS NULL ORDER BY id"
    )
    return tuple(
        Adoption(
            id=row["id"],
            night=row["night"],
            project=row["project"],
            path=row["path"],
            kind=understood(row["kind"], DocumentKind),
            whole=bool(row["whole"]),
            before=row["before"],
            after=row["after"],
            edits=tuple(each.edit for each in _decode(row["edits"]) if each.reverted_at is None),
            mode=row["mode"],
            folders=row["folders"],
            how=row["how"] or "",
            adopted_at=row["adopted_at"],
        )
        for row in rows
    )


def ever_live(database: Database, project: str) -> dict[tuple[str, str], bool]:
    """Each (night, edit id) of a project that was ever made live, and whether it still is."""
    rows = database.rows("SELECT night, edits FROM adoptions WHERE project = ? ORDER BY id", (project,))
    return {(row["night"], each.edit.id): each.reverted_at is None for row in rows for each in _decode(row["edits"])}


def lived_before(database: Database, project: str) -> dict[tuple[str, str], tuple[tuple[str, str], ...]]:
    """When each rule was live that was taken out again, by its file and its text: from and until, ISO 8601."""
    rows = database.rows("SELECT path, edits, adopted_at FROM adoptions WHERE project = ? ORDER BY id", (project,))
    spans: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {}
    for row in rows:
        for each in _decode(row["edits"]):
            if each.reverted_at is not None:
                name = (row["path"], each.edit.text or each.edit.anchor)
                spans[name] = (*spans.get(name, ()), (row["adopted_at"], each.reverted_at))
    return spans


def altered(database: Database, project: str) -> dict[tuple[str, str], str]:
    """Each (night, edit id) of a project that is live, and is not in its file as it was adopted, with that file."""
    found = {}
    for adoption in adoptions(database):
        if adoption.project == project:
            text = _region_now(adoption)
            gone = [each.id for each in adoption.edits if not stands(text, each)]
            found.update({(adoption.night, each): adoption.path for each in gone})
    return found


def _region_now(adoption: Adoption) -> str:
    """What edits may touch of the live file, "" when that cannot be read or its markers do not pair up."""
    try:
        return adoption.region(read_regular(Path(adoption.path)))
    except (Refused, DiskError):
        return ""


class AdoptedEdit(Struct, frozen=True, kw_only=True):
    """An edit that was made live, and since when it is not any more. Times are ISO 8601."""

    edit: EditRecord
    reverted_at: str | None = None


def _swap(adoption: Adoption, old: bytes | None, new: bytes | None) -> Swap:
    return Swap(
        path=adoption.path,
        within=adoption.project,
        old=old,
        new=new,
        mode=adoption.mode,
        folders=adoption.folders,
        kind=adoption.kind,
        whole=adoption.whole,
    )


def _change(adoption: Adoption, swap: Swap) -> LiveChange:
    return LiveChange(
        path=adoption.path,
        kind=adoption.kind,
        edits=adoption.edits,
        existed=swap.old is not None,
        exists=swap.new is not None,
    )


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


def _planned(
    staging: ProposalStaging, night: str, staged: StagedDocument, live: Sequence[Adoption], how: str
) -> Adoption:
    """The adoption of one document, checked against the live file; nothing is written."""
    refuse_unwritable(Path(staged.path), within=staging.project)
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
        how=how,
    )
    before = read_regular(Path(staged.path))
    ours = [sha256(each.after) for each in live if (each.path, each.night) == (staged.path, night)]
    if sha256(before) not in {staged.base_sha256, *ours[-1:]}:
        raise Refused(f"{staged.path} was changed since night {night} looked at it; {AGAIN}")
    after, outcomes = apply_edits(adoption.document(before), staged.edits, cap=None)
    for outcome in outcomes:
        if outcome.status is not EditStatus.APPLIED:
            raise Refused(f"edit {outcome.edit.id} needs another one of this night, adopt both: {outcome.why}")
    return replace(adoption, before=before, after=after.content)


def _require_whole(history: Sequence[Adoption]) -> None:
    """Raise ``Refused`` when the record of a file does not agree with itself: its bytes may have been damaged."""
    for each in history:
        made, _ = apply_edits(each.document(each.before), each.edits, cap=None)
        if made.content != each.after:
            raise Refused(
                f"the record of night {each.night} on {each.path} is damaged; try: skillopt-sleep doctor --repair"
            )


def _reverting(history: Sequence[Adoption], result: Sequence[Adoption]) -> Swap:
    live = read_regular(Path(history[-1].path))
    mode = next((each.mode for each in history if each.mode is not None), None)
    return _swap(replace(history[-1], mode=mode), live, moved(live, history, result))


def _listed(live: Sequence[Adoption]) -> str:
    nights: dict[str, list[str]] = {}
    for adoption in live:
        nights.setdefault(adoption.night, []).extend(edit.id for edit in adoption.edits)
    return "; ".join(f"night {night} (edits {', '.join(edits)})" for night, edits in nights.items()) or "none"


def _insert(connection: sqlite3.Connection, adoption: Adoption, now: datetime) -> None:
    edits = msgspec.json.encode([AdoptedEdit(edit=edit) for edit in adoption.edits])
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
    cursor = connection.execute(
        "INSERT INTO adoptions (night, project, path, kind, whole, before, after, edits, mode, folders, adopted_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    if adoption.how:
        connection.execute("INSERT INTO adopted_how VALUES (?, ?)", (cursor.lastrowid, adoption.how))


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


def _decode(data: bytes) -> list[AdoptedEdit]:
    return decoded(data, list[AdoptedEdit])


def _set_status(connection: sqlite3.Connection, night: str, status: ProposalStatus) -> None:
    """A proposal that never was live cannot be reverted."""
    before = [ProposalStatus.ADOPTED] if status is ProposalStatus.REVERTED else list(ProposalStatus)
    marks = ", ".join("?" * len(before))
    connection.execute(
        f"UPDATE proposals SET status = ? WHERE night = ? AND status IN ({marks})",  # noqa: S608  only marks
        (status, night, *before),
    )
