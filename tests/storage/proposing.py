"""A project with live files, and nights that propose edits of them: what the tests of staging and adoption share."""

from __future__ import annotations

from pathlib import Path

from skillopt_sleep.model.document import Candidate, Document, DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord, EditStatus, apply_edits, compute_edit_id
from skillopt_sleep.storage.database import Database
from skillopt_sleep.storage.staging import ProposalStaging
from tests.fakes.clock import FakeClock

MEMORY, SKILL = DocumentKind.MEMORY, DocumentKind.SKILL


def edit(op: str, text: str = "", anchor: str = "", kind: DocumentKind = MEMORY) -> EditRecord:
    """An edit as a reflection proposes it."""
    number = compute_edit_id(EditOp(op), kind, text, anchor)
    return EditRecord(id=number, op=EditOp(op), document=kind, text=text, anchor=anchor)


class Project:
    """A project on disk: a memory file that holds our block, and a skill that is ours whole."""

    def __init__(self, folder: Path, name: str = "project") -> None:
        self.folder = folder / name
        self.folder.mkdir(exist_ok=True)
        self.memory = self.folder / "CLAUDE.md"
        self.skill = self.folder / ".claude" / "skills" / "learned" / "SKILL.md"
        self.database = Database(folder / "data" / "sleep.db")
        self.clock = FakeClock()
        self.staging = ProposalStaging(self.database, project=self.folder, clock=self.clock)

    def baseline(self) -> Candidate:
        """The live documents."""
        return Candidate(
            documents=tuple(
                Document(
                    kind=kind, path=str(path), content=path.read_bytes() if path.exists() else None, whole=kind is SKILL
                )
                for kind, path in ((SKILL, self.skill), (MEMORY, self.memory))
            )
        )

    def stage(self, night: str, *edits: EditRecord) -> tuple[EditRecord, ...]:
        """Stage what the edits make of the live documents; those that applied."""
        baseline = candidate = self.baseline()
        applied = []
        for kind in (SKILL, MEMORY):
            changed, outcomes = apply_edits(candidate[kind], [each for each in edits if each.document is kind])
            candidate = candidate.with_document(changed)
            applied += [outcome for outcome in outcomes if outcome.status is EditStatus.APPLIED]
        self.clock.seconds += 86_400
        self.staging.stage(night, baseline, candidate, applied)
        return tuple(outcome.edit for outcome in applied)

    def files(self) -> dict[str, bytes | None]:
        """Everything in the project but what is ours: folders (None) and files."""
        found = sorted(self.folder.rglob("*"))
        names = {str(path.relative_to(self.folder)): path for path in found}
        return {
            name: path.read_bytes() if path.is_file() else None
            for name, path in names.items()
            if not name.startswith(".skillopt-sleep")
        }
