"""What a night proposes, put beside the live files: the proposed bytes, a diff of each, and a manifest.

The files lie in the project, where anybody who can write to it can change them. So the manifest, with the hash of
every byte that may become live, is also kept in the user's own database, and only what agrees with that is adopted.
"""

from __future__ import annotations

import difflib
import enum
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.domain.document import Document, DocumentKind
from skillopt_sleep.domain.edit import EditRecord, EditStatus, apply_edits
from skillopt_sleep.errors import Refused
from skillopt_sleep.stores.database import Database
from skillopt_sleep.stores.files import make_folders, read_regular, refuse_links, write_atomic

__all__ = [
    "SCHEMA",
    "Change",
    "Manifest",
    "Proposal",
    "ProposalStatus",
    "StagedDocument",
    "Staging",
    "night_folder",
    "sha256",
    "unified_diff",
]

SCHEMA_VERSION = 1

SCHEMA = """
CREATE TABLE IF NOT EXISTS proposals (
    night TEXT PRIMARY KEY, project TEXT NOT NULL, manifest_digest TEXT NOT NULL, manifest BLOB NOT NULL,
    status TEXT NOT NULL, created TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS adoptions (
    id INTEGER PRIMARY KEY, night TEXT NOT NULL, project TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
    whole INTEGER NOT NULL, before BLOB, after BLOB, edits BLOB NOT NULL, mode INTEGER, folders INTEGER NOT NULL,
    adopted_at TEXT NOT NULL, reverted_at TEXT
);
CREATE INDEX IF NOT EXISTS adoptions_live ON adoptions (path, id) WHERE reverted_at IS NULL;
"""
"""``edits`` is a JSON list of an adoption's edits, each with the time it was reverted at, or null."""

MANIFEST = "manifest.json"


class ProposalStatus(enum.StrEnum):
    """Where a proposal stands. A reverted one can be adopted again while the live files are what it was made for."""

    STAGED = "staged"
    ADOPTED = "adopted"
    REVERTED = "reverted"


class Change(Struct, frozen=True, kw_only=True):
    """What a night makes of one document: the live file as it was measured, and the edits that were let through."""

    base: Document
    edits: tuple[EditRecord, ...]


class StagedDocument(Struct, frozen=True, kw_only=True):
    """One document of a proposal. Digests are None where there is no file; ``proposed`` and ``diff`` are file names."""

    kind: DocumentKind
    path: str
    whole: bool
    base_sha256: str | None
    proposed_sha256: str | None
    proposed: str | None
    diff: str
    edits: tuple[EditRecord, ...]


class Manifest(Struct, frozen=True, kw_only=True):
    """``manifest.json`` of a proposal. ``created`` is ISO 8601."""

    schema_version: int = SCHEMA_VERSION
    night: str
    created: str
    documents: tuple[StagedDocument, ...]


class Proposal(Struct, frozen=True, kw_only=True):
    """A proposal as the user's own database knows it."""

    project: str
    status: ProposalStatus
    manifest: Manifest


def sha256(content: bytes | None) -> str | None:
    """Hex digest of a file's bytes, None for no file."""
    return None if content is None else hashlib.sha256(content).hexdigest()


def unified_diff(before: Document, after: Document) -> bytes:
    """What changes, as ``patch`` and ``git apply`` read it, byte for byte; no file is /dev/null."""
    name = before.path.lstrip("/").encode("utf-8", "surrogateescape")
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        _lines(before.content),
        _lines(after.content),
        b"/dev/null" if before.content is None else b"a/" + name,
        b"/dev/null" if after.content is None else b"b/" + name,
    )
    return b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)


def night_folder(project: Path, night: str) -> Path:
    """The folder of one night in its project, made if need be, private, and out of sight of git.

    Raises ``Refused`` where it would lead through a link, and ``DiskError``.
    """
    own = project / ".skillopt-sleep"
    folder = own / "nights" / night
    make_folders(folder, within=project, mode=0o700)
    if read_regular(own / ".gitignore") is None:
        write_atomic(own / ".gitignore", b"*\n")
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The proposals of one project. ``project`` is an absolute path."""

    database: Database
    project: Path

    def stage(self, *, night: str, created: datetime, changes: Sequence[Change]) -> Manifest | None:
        """Put a proposal beside the live files; None when no document changes. Staging a night again replaces it.

        Raises ValueError when an edit does not apply to its base, which a night has found out long before;
        ``Refused`` and ``DiskError`` as files do. Nothing is recorded unless every file is written.
        """
        documents, files = [], {}
        for number, change in enumerate(changes, start=1):
            proposed, outcomes = apply_edits(change.base, change.edits, cap=None)
            lost = [outcome for outcome in outcomes if outcome.status is not EditStatus.APPLIED]
            if lost:
                raise ValueError(f"edit {lost[0].edit.id} of {change.base.path} cannot be staged: {lost[0].why}")
            if proposed.content == change.base.content:
                continue
            stem = f"{number}-{change.base.kind}"
            staged = StagedDocument(
                kind=change.base.kind,
                path=change.base.path,
                whole=change.base.whole,
                base_sha256=sha256(change.base.content),
                proposed_sha256=sha256(proposed.content),
                proposed=None if proposed.content is None else f"{stem}.md",
                diff=f"{stem}.diff",
                edits=tuple(outcome.edit for outcome in outcomes),
            )
            documents.append(staged)
            files[staged.diff] = unified_diff(change.base, proposed)
            if staged.proposed is not None and proposed.content is not None:
                files[staged.proposed] = proposed.content
        if not documents:
            return None
        manifest = Manifest(night=night, created=created.isoformat(), documents=tuple(documents))
        files[MANIFEST] = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
        self._write(night, files)
        self._record(manifest, files[MANIFEST])
        return manifest

    def folder(self, night: str) -> Path:
        """Where the proposal of a night lies, made or not."""
        return self.project / ".skillopt-sleep" / "nights" / night / "proposal"

    def proposals(self) -> tuple[Proposal, ...]:
        """Every proposal of this project, the latest first."""
        rows = self.database.rows(
            "SELECT project, status, manifest FROM proposals WHERE project = ? ORDER BY created DESC",
            (str(self.project),),
        )
        return tuple(
            Proposal(
                project=row["project"],
                status=ProposalStatus(row["status"]),
                manifest=msgspec.json.decode(row["manifest"], type=Manifest),
            )
            for row in rows
        )

    def verified(self, night: str) -> Proposal:
        """The proposal of a night, after every file of it was found to be what the night wrote.

        Raises ``Refused`` naming the file that is not, or the nights there are when this is none of them.
        """
        proposals = {proposal.manifest.night: proposal for proposal in self.proposals()}
        if night not in proposals:
            known = ", ".join(proposals) or "none"
            raise Refused(f"night {night} has no proposal in {self.project}; nights that have one: {known}")
        rows = self.database.rows("SELECT manifest_digest FROM proposals WHERE night = ?", (night,))
        self._expect(night, MANIFEST, rows[0]["manifest_digest"])
        for document in proposals[night].manifest.documents:
            if document.proposed is not None:
                self._expect(night, document.proposed, document.proposed_sha256)
        return proposals[night]

    def _expect(self, night: str, name: str, digest: str | None) -> None:
        path = self.folder(night) / name
        refuse_links(path, within=self.project)
        if sha256(read_regular(path)) != digest:
            raise Refused(f"{path} is not what night {night} wrote; get a new proposal: skillopt-sleep run")

    def _write(self, night: str, files: dict[str, bytes]) -> None:
        night_folder(self.project, night)
        folder = self.folder(night)
        make_folders(folder, within=self.project, mode=0o700)
        for name, content in files.items():
            write_atomic(folder / name, content)

    def _record(self, manifest: Manifest, content: bytes) -> None:
        with self.database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO proposals VALUES (?, ?, ?, ?, ?, ?)",
                (manifest.night, str(self.project), sha256(content), content, ProposalStatus.STAGED, manifest.created),
            )


def _lines(content: bytes | None) -> list[bytes]:
    return io.BytesIO(content or b"").readlines()
