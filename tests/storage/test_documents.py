"""Which live files a night may change."""

from __future__ import annotations

import pytest

from skillopt_sleep.errors import DiskError
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.storage import live_files
from skillopt_sleep.storage.live_files import read_baseline
from skillopt_sleep.usecases.documents import MOST_BYTES


def places(folder):
    """The live files of a project of Claude Code."""
    return {DocumentKind.SKILL: folder / ".claude/skills/learned/SKILL.md", DocumentKind.MEMORY: folder / "CLAUDE.md"}


def test_absent_file_is_a_document_without_content(tmp_path):
    """What is not there yet can be made."""
    baseline, notes = read_baseline(places(tmp_path), most_bytes=MOST_BYTES)
    assert [document.content for document in baseline.documents] == [None, None]
    assert notes == ()


def test_link_is_left_as_it_is_and_said_so(tmp_path):
    """A memory file that links to another one is not ours; the skill still evolves."""
    (tmp_path / "AGENTS.md").write_text("rules\n")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    baseline, (note,) = read_baseline(places(tmp_path), most_bytes=MOST_BYTES)
    assert baseline[DocumentKind.MEMORY] is None
    assert baseline[DocumentKind.SKILL] is not None
    assert "CLAUDE.md" in note


BEGIN, END = b"<!-- skillopt-sleep:begin -->\n", b"<!-- skillopt-sleep:end -->\n"
UNUSABLE = {
    "begin without end": ("CLAUDE.md", b"# A\n\n" + BEGIN, "line 3"),
    "end without begin": ("CLAUDE.md", END, "line 1"),
    "end before begin": ("CLAUDE.md", b"a\r\n" + END + BEGIN, "line 2"),
    "two blocks": ("CLAUDE.md", (BEGIN + END) * 2, "end in line 4"),
    "binary": ("CLAUDE.md", b"a\nb\0c", "line 2"),
    "UTF-16": ("CLAUDE.md", "rules\n".encode("utf-16"), "save the file as UTF-8"),
    "rule in Latin 1": ("CLAUDE.md", b"\n" + BEGIN + b"- gr\xfc\xdfe\n" + END, "line 3"),
    "too long": ("CLAUDE.md", b"- x\n" * 1_250_000, "5,000,000 bytes"),
    "frontmatter begun here never ends": (".claude/skills/learned/SKILL.md", b"---\nname: x\n", "line 1"),
}


@pytest.mark.parametrize(("name", "content", "where"), UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_file_is_left_out_with_its_line_and_remedy(tmp_path, name, content, where):
    """Only the broken file is left out; the other one still evolves."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    baseline, (note,) = read_baseline(places(tmp_path), most_bytes=MOST_BYTES)
    assert len(baseline.documents) == 1
    assert str(path) in note
    assert where in note


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf# A\r\n", b"f\xfcr\n" + BEGIN + b"- a\n" + END, b"---\n"])
def test_odd_but_usable_file_takes_part(tmp_path, content):
    """Bytes outside our block may be anything."""
    (tmp_path / "CLAUDE.md").write_bytes(content)
    baseline, notes = read_baseline(places(tmp_path), most_bytes=MOST_BYTES)
    assert (len(baseline.documents), notes) == (2, ())


def test_unreadable_file_is_left_out(tmp_path, monkeypatch):
    """A file whose reading fails does not stop the night on the other one."""

    def fail(path):
        if path.name == "CLAUDE.md":
            raise DiskError(f"cannot read {path}: Permission denied")

    monkeypatch.setattr(live_files, "read_regular", fail)
    baseline, (note,) = read_baseline(places(tmp_path), most_bytes=MOST_BYTES)
    assert [document.kind for document in baseline.documents] == [DocumentKind.SKILL]
    assert "Permission denied" in note
