"""Which live files a night may change."""

from __future__ import annotations

import pytest

from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.storage.live_files import Targets, read_baseline


@pytest.mark.parametrize(
    ("fields", "skill", "memory"),
    [
        pytest.param(
            {"agent": "claude"}, ".claude/skills/skillopt-sleep-learned/SKILL.md", "CLAUDE.md", id="claude-project"
        ),
        pytest.param(
            {"agent": "codex"}, ".agents/skills/skillopt-sleep-learned/SKILL.md", "AGENTS.md", id="codex-project"
        ),
        pytest.param(
            {"agent": "claude", "skill": "invoices"}, ".claude/skills/invoices/SKILL.md", "CLAUDE.md", id="named"
        ),
        pytest.param({"agent": "claude", "skill": "my/SKILL.md"}, "my/SKILL.md", "CLAUDE.md", id="path"),
        pytest.param(
            {"agent": "claude", "user_home": "/h/.claude"},
            "/h/.claude/skills/skillopt-sleep-learned/SKILL.md",
            "/h/.claude/CLAUDE.md",
            id="user",
        ),
    ],
)
def test_targets_lie_where_the_agent_looks(tmp_path, fields, skill, memory):
    """Each agent has its own places; a named skill and the user's own home replace them."""
    targets = Targets(project=tmp_path, **fields)
    assert targets.skill_path == tmp_path / skill
    assert targets.memory_path == tmp_path / memory


def test_absent_file_is_a_document_without_content(tmp_path):
    """What is not there yet can be made."""
    baseline, notes = read_baseline(Targets(agent="claude", project=tmp_path))
    assert [document.content for document in baseline.documents] == [None, None]
    assert notes == ()


def test_link_is_left_as_it_is_and_said_so(tmp_path):
    """A memory file that links to another one is not ours; the skill still evolves."""
    (tmp_path / "AGENTS.md").write_text("rules\n")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    baseline, (note,) = read_baseline(Targets(agent="claude", project=tmp_path))
    assert baseline[DocumentKind.MEMORY] is None
    assert baseline[DocumentKind.SKILL] is not None
    assert "CLAUDE.md" in note
