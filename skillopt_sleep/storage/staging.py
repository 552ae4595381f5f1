"""What a night proposes, put beside the live files: the proposed bytes, a diff of each, and a manifest.

The files lie in the project, where anybody who can write to it can change them. So the manifest, with the hash of
every byte that may become live, is also kept in the user's own database, and only what agrees with that is adopted.
"""

from __future__ import annotations

import enum
import io
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import Refused, SleepError
from skillopt_sleep.model import text as digest
from skillopt_sleep.model.document import Candidate, Document, DocumentKind
from skillopt_sleep.model.edit import AppliedEdit, EditRecord, EditStatus, apply_edits
from skillopt_sleep.model.ports import Clock
from skillopt_sleep.night.report import DocumentChange
from skillopt_sleep.storage.database import Database, decoded, understood
from skillopt_sleep.storage.files import own_folder, read_regular, refuse_links, write_atomic
from skillopt_sleep.storage.git import is_tracked

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
CREATE TABLE IF NOT EXISTS adopted_how (adoption INTEGER PRIMARY KEY, how TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS swaps (id INTEGER PRIMARY KEY, what TEXT NOT NULL, swap BLOB NOT NULL);
"""
"""``edits`` is a JSON list of an adoption's edits, each with the time it was reverted at, or null. ``how`` says by
whose word an edit went live that no gate had accepted. ``swaps`` holds live files that are being changed this moment.
"""

MANIFEST = "manifest.json"


class ProposalStatus(enum.StrEnum):
    """Where a proposal stands. A reverted one can be adopted again while the live files are what it was made for."""

    STAGED = "staged"
    ADOPTED = "adopted"
    REVERTED = "reverted"


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
    return None if content is None else digest.sha256(content)


def unified_diff(name: str, before: bytes | None, after: bytes | None) -> bytes:
    """What changes in a file, as ``patch`` and ``git apply`` read it, byte for byte; None is no file."""
    import difflib  # noqa: PLC0415  only a change needs it

    path = name.encode("utf-8", "surrogateescape")
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        io.BytesIO(before or b"").readlines(),
        io.BytesIO(after or b"").readlines(),
        b"/dev/null" if before is None else b"a/" + path,
        b"/dev/null" if after is None else b"b/" + path,
    )
    return b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True, slots=True)
class ProposalStaging:
    """``night.plan.Staging``: the proposals of one project, an absolute path."""

    database: Database
    _: KW_ONLY
    project: Path
    clock: Clock

    def stage(
        self, night: str, baseline: Candidate, candidate: Candidate, edits: Sequence[AppliedEdit]
    ) -> tuple[str | None, tuple[DocumentChange, ...]]:
        """Put a proposal beside the live files: its folder and what it changes, or None when no document changes.

        ``edits`` are those that made the candidate out of the baseline, in order; anything else is a mistake of the
        caller and raises ValueError. Raises ``Refused`` and ``DiskError`` as files do; nothing is recorded unless
        every file is written. Staging a night again replaces its proposal.
        """
        staged, files, changes = [], {}, []
        for number, (before, after) in enumerate(_changed(baseline, candidate), start=1):
            document = _staged(f"{number}-{before.kind}", before, after, edits)
            diff = unified_diff(self._shown(before.path), before.content, after.content)
            staged.append(document)
            files[document.diff] = diff
            if document.proposed is not None and after.content is not None:
                files[document.proposed] = after.content
            changes.append(
                DocumentChange(
                    kind=document.kind,
                    path=document.path,
                    base_sha256=document.base_sha256,
                    proposed_sha256=document.proposed_sha256,
                    diff=diff.decode(errors="replace"),
                    tracked=is_tracked(Path(document.path)),
                )
            )
        if not staged:
            return None, ()
        manifest = Manifest(night=night, created=self.clock.now().isoformat(), documents=tuple(staged))
        files[MANIFEST] = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
        folder = own_folder(self.project, "nights", night, "proposal")
        for name, content in files.items():
            write_atomic(folder / name, content)
        self._record(manifest, files[MANIFEST])
        return str(folder), tuple(changes)

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
                status=understood(row["status"], ProposalStatus),
                manifest=decoded(row["manifest"], Manifest),
            )
            for row in rows
        )

    def waiting(self) -> tuple[Proposal, ...]:
        """Those that could be adopted now: staged, and every file of theirs as the night found it; the latest first."""
        staged = [each for each in self.proposals() if each.status is ProposalStatus.STAGED]
        return tuple(each for each in staged if all(map(self._fits, each.manifest.documents)))

    def live_nights(self) -> tuple[str, ...]:
        """The nights of this project of which anything is live, the latest adopted first."""
        rows = self.database.rows(
            "SELECT night FROM adoptions WHERE project = ? AND reverted_at IS NULL ORDER BY id DESC",
            (str(self.project),),
        )
        return tuple(dict.fromkeys(row["night"] for row in rows))

    @staticmethod
    def _fits(document: StagedDocument) -> bool:
        try:
            return sha256(read_regular(Path(document.path))) == document.base_sha256
        except SleepError:
            return False

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

    def _shown(self, path: str) -> str:
        """The path as it is seen from the project."""
        inside = Path(path).is_relative_to(self.project)
        return Path(path).relative_to(self.project).as_posix() if inside else path.lstrip("/")

    def _expect(self, night: str, name: str, digest: str | None) -> None:
        path = self.folder(night) / name
        refuse_links(path, within=self.project)
        if sha256(read_regular(path)) != digest:
            raise Refused(f"{path} is not what night {night} wrote; get a new proposal: skillopt-sleep run")

    def _record(self, manifest: Manifest, content: bytes) -> None:
        with self.database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO proposals VALUES (?, ?, ?, ?, ?, ?)",
                (manifest.night, str(self.project), sha256(content), content, ProposalStatus.STAGED, manifest.created),
            )


def _changed(baseline: Candidate, candidate: Candidate) -> Iterator[tuple[Document, Document]]:
    for before in baseline.documents:
        after = candidate[before.kind]
        if after is not None and after.content != before.content:
            yield before, after


def _staged(stem: str, before: Document, after: Document, edits: Sequence[AppliedEdit]) -> StagedDocument:
    own = [applied.edit for applied in edits if applied.edit.document is before.kind]
    made, outcomes = apply_edits(before, own, cap=None)
    if made != after:
        raise ValueError(f"{before.path}: the candidate is not what its edits make of the live file")
    return StagedDocument(
        kind=before.kind,
        path=before.path,
        whole=before.whole,
        base_sha256=sha256(before.content),
        proposed_sha256=sha256(after.content),
        proposed=None if after.content is None else f"{stem}.md",
        diff=f"{stem}.diff",
        edits=tuple(outcome.edit for outcome in outcomes if outcome.status is EditStatus.APPLIED),
    )
