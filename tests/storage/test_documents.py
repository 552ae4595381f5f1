"""Which live files a night may change."""

from __future__ import annotations

from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.storage.live_files import read_baseline


def places(folder):
    """The live files of a project of Claude Code."""
    return {DocumentKind.SKILL: folder / ".claude/skills/learned/SKILL.md", DocumentKind.MEMORY: folder / "CLAUDE.md"}


def test_absent_file_is_a_document_without_content(tmp_path):
    """What is not there yet can be made."""
    baseline, notes = read_baseline(places(tmp_path))
    assert [document.content for document in baseline.documents] == [None, None]
    assert notes == ()


def test_link_is_left_as_it_is_and_said_so(tmp_path):
    """A memory file that links to another one is not ours; the skill still evolves."""
    (tmp_path / "AGENTS.md").write_text("rules\n")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    baseline, (note,) = read_baseline(places(tmp_path))
    assert baseline[DocumentKind.MEMORY] is None
    assert baseline[DocumentKind.SKILL] is not None
    assert "CLAUDE.md" in note
