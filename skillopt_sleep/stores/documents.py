"""The live files a night may change: where they lie, and their bytes as they are now."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from skillopt_sleep.domain.candidate import Candidate
from skillopt_sleep.domain.document import Document, DocumentKind
from skillopt_sleep.errors import Refused
from skillopt_sleep.stores.files import read_regular

__all__ = ["LEARNED_SKILL", "Targets", "read_baseline"]

LEARNED_SKILL = "skillopt-sleep-learned"
"""Name of the skill that holds what was learnt, when no other one was named."""

SKILL_FOLDERS = {"claude": ".claude/skills", "codex": ".agents/skills"}
MEMORY_FILES = {"claude": "CLAUDE.md", "codex": "AGENTS.md"}


class Targets(Struct, frozen=True, kw_only=True):
    """Whose files, and where.

    ``user_home`` is the agent's own home, for what is learnt from all of a person's work; "" means the project's
    files. ``skill`` is the path of a ``SKILL.md`` or the name of a skill; "" means the learnt one.
    """

    agent: str
    project: Path
    user_home: str = ""
    skill: str = ""

    @property
    def skill_path(self) -> Path:
        """The ``SKILL.md``."""
        if self.skill.endswith(".md"):
            return (self.project / Path(self.skill).expanduser()).absolute()
        folder = Path(self.user_home) / "skills" if self.user_home else self.project / SKILL_FOLDERS[self.agent]
        return folder / (self.skill or LEARNED_SKILL) / "SKILL.md"

    @property
    def memory_path(self) -> Path:
        """The memory file."""
        return (Path(self.user_home) if self.user_home else self.project) / MEMORY_FILES[self.agent]


def read_baseline(targets: Targets) -> tuple[Candidate, tuple[str, ...]]:
    """The live documents, an absent file being one without content, and a note on each that is left out.

    A document that is a link, a folder or anything but a plain file is not ours to change: the night goes on without
    it. Raises ``DiskError``.
    """
    documents, notes = [], []
    for kind, path in ((DocumentKind.SKILL, targets.skill_path), (DocumentKind.MEMORY, targets.memory_path)):
        try:
            content = read_regular(path)
        except Refused as refused:
            notes.append(f"the {kind} is left as it is: {refused}")
        else:
            documents.append(Document(kind=kind, path=str(path), content=content, whole=kind is DocumentKind.SKILL))
    return Candidate(documents=tuple(documents)), tuple(notes)
