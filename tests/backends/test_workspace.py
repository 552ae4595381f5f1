"""Workspaces: documents in their places, a copy of a project that does not touch it, and diffs nobody can forge."""

from __future__ import annotations

import os
import subprocess

import pytest

from skillopt_sleep.backends.process import Children
from skillopt_sleep.backends.workspace import Layout, workspace
from skillopt_sleep.domain.assignment import Assignment, ReplayMode
from skillopt_sleep.domain.document import Document, DocumentKind
from skillopt_sleep.errors import DiskError
from tests.fakes.repository import commit, git, make_project, tree

LAYOUT = Layout(skills=".claude/skills", memory="CLAUDE.md", settings=(".claude", ".mcp.json"), texts=("skills",))
SKILL = Document(kind=DocumentKind.SKILL, path="/x/.claude/skills/house/SKILL.md", content=b"- one\n", whole=True)
MEMORY = Document(kind=DocumentKind.MEMORY, path="/x/CLAUDE.md", content=b"two\n")
GONE = Document(kind=DocumentKind.MEMORY, path="/x/CLAUDE.md", content=None)


def native(*documents):
    return Assignment(system="", user="", mode=ReplayMode.NATIVE, documents=documents)


def worktree(project, *documents, at="", folder=""):
    at = at or git(project, "rev-parse", "HEAD")
    return Assignment(
        system="",
        user="",
        mode=ReplayMode.WORKTREE,
        documents=documents,
        project=str(project),
        commit=at,
        folder=folder,
    )


def opened(assignment):
    return workspace(Children(), assignment, LAYOUT, dict(os.environ))


def shell(place, line):
    """What an agent with a shell and no sandbox could do."""
    subprocess.run(["sh", "-c", line], cwd=place.root, capture_output=True, check=False)


def names(place):
    return sorted(path.relative_to(place.root).as_posix() for path in place.root.rglob("*") if path.is_file())


def test_empty_workspace_holds_the_documents_and_is_gone_afterwards():
    """Skill and memory where the agent looks for them, the skill under its name."""
    with opened(native(SKILL, MEMORY)) as place:
        assert names(place) == [".claude/skills/house/SKILL.md", "CLAUDE.md"]
        assert (place.cwd / "CLAUDE.md").read_bytes() == b"two\n"
        assert place.scratch.is_dir()
        assert place.changes() == ""
    assert not place.folder.exists()


def test_changes_of_an_empty_workspace():
    """New, changed and removed files as a diff; what is no text by its size; links are not followed."""
    with opened(native(MEMORY)) as place:
        (place.root / "new.txt").write_text("hello")
        (place.root / "CLAUDE.md").write_text("three\n")
        (place.root / "blob").write_bytes(b"\0\1\2")
        (place.root / "link").symlink_to("/etc/hostname")
        changes = place.changes()
    assert "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hello\n" in changes
    assert "-two\n+three\n" in changes
    assert "(3 bytes)" in changes
    assert "(a link to /etc/hostname)" in changes


def test_workspace_that_is_gone_has_no_changes():
    """The agent broke it."""
    with opened(native(MEMORY)) as place:
        shell(place, 'rm -rf "$PWD"')
        assert place.changes() is None


def test_copy_is_of_the_commit_and_the_project_is_not_touched(tmp_path):
    """Not a file, reference, hook, stash, index or lock of the user's moves, whatever the agent does in its copy."""
    project = make_project(tmp_path / "project", code="old\n", _dot_gitattributes="*.big filter=lfs\n")
    old = git(project, "rev-parse", "HEAD")
    commit(project, code="new\n", other="more\n")
    git(project, "branch", "work")
    (project / "code").write_text("being worked on\n")
    git(project, "stash")
    (project / "staged").write_text("staged\n")
    git(project, "add", "staged")
    (project / "untracked").write_text("secret\n")
    git(project, "config", "filter.lfs.smudge", f"touch {tmp_path}/filter-ran")
    git(project, "config", "core.fsmonitor", f"touch {tmp_path}/monitor-ran")
    for hook in ("post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        (project / ".git/hooks" / hook).write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n")
        (project / ".git/hooks" / hook).chmod(0o755)
    before = tree(project)
    with opened(worktree(project, at=old)) as place:
        assert (place.root / "code").read_text() == "old\n"
        assert not (place.root / "untracked").exists()
        shell(
            place, "echo mine > code; git commit -qam x; git stash; git branch -D work; git worktree prune; git gc -q"
        )
        shell(place, "git config --global user.name x; git update-ref -d refs/heads/main; rm -rf .git/objects/*")
        shell(place, "git push origin HEAD:main; git checkout -qb other; git clean -fdx")
    assert tree(project) == before
    assert not list(tmp_path.glob("*-ran"))


def test_changes_of_a_copy_are_those_since_the_agent_began(tmp_path):
    """Our own documents are none of them; files that git ignores are not told; commits of the agent's hide nothing."""
    project = make_project(tmp_path / "project", code="old\n", _dot_gitignore="build\n")
    with opened(worktree(project, SKILL, MEMORY)) as place:
        assert place.changes() == ""
        shell(place, "echo new > code; echo hello > fresh; mkdir build; echo x > build/x; git add -A; git commit -qm x")
        changes = place.changes()
    assert "-old\n+new\n" in changes
    assert "+++ b/fresh" in changes
    assert "build" not in changes
    assert "CLAUDE.md" not in changes


def test_repository_of_the_agent_cannot_make_our_git_run_anything(tmp_path):
    """Its configuration, attributes and hooks are its own: the diff is made by means it cannot reach."""
    project = make_project(tmp_path / "project", code="old\n")
    with opened(worktree(project)) as place:
        for setting in ("core.fsmonitor", "diff.external", "core.pager", "filter.x.clean", "diff.x.textconv"):
            shell(place, f"git config {setting} 'touch {tmp_path}/ran'")
        (place.root / ".gitattributes").write_text("* filter=x diff=x\n")
        (place.root / "code").write_text("new\n")
        assert "-old\n+new\n" in place.changes()
        shell(place, "rm -rf .git; ln -s /nowhere .git")
        assert "-old\n+new\n" in place.changes()
    assert not (tmp_path / "ran").exists()


def test_git_has_a_repository_to_work_with(tmp_path):
    """Clean, with the history up to the commit, nothing to push to, and nobody's name."""
    project = make_project(tmp_path / "project", code="old\n", sub__code="x\n")
    with opened(worktree(project, MEMORY, folder="sub")) as place:
        assert place.cwd == place.root / "sub"
        asked = {
            line: subprocess.run(
                ["git", *line.split()], cwd=place.cwd, capture_output=True, text=True, check=True
            ).stdout
            for line in ("status --short", "log --format=%s", "remote", "config user.name")
        }
    assert asked == {
        "status --short": "",
        "log --format=%s": "As the work begins\nBegin\n",
        "remote": "",
        "config user.name": "Replay\n",
    }


def test_settings_and_memory_of_the_project_give_way(tmp_path):
    """Its hooks and permissions are taken away; a document of the candidate takes the place of the project's."""
    project = make_project(
        tmp_path / "project",
        CLAUDE_dot_md="theirs\n",
        _dot_claude__settings_dot_json="{}",
        _dot_claude__skills__house__SKILL_dot_md="theirs\n",
        _dot_mcp_dot_json="{}",
    )
    with opened(worktree(project, SKILL, MEMORY)) as place:
        assert (place.root / "CLAUDE.md").read_bytes() == b"two\n"
        assert (place.root / ".claude/skills/house/SKILL.md").read_bytes() == b"- one\n"
        assert not (place.root / ".claude/settings.json").exists()
        assert not (place.root / ".mcp.json").exists()
    with opened(worktree(project, GONE)) as place:
        assert not (place.root / "CLAUDE.md").exists()


def test_no_link_of_a_project_leads_a_document_out(tmp_path):
    """A project can hold links to anywhere; what is put into the copy stays in the copy."""
    theirs = tmp_path / "home"
    (theirs / "skills" / "house").mkdir(parents=True)
    (theirs / "settings.json").write_text("kept")
    (theirs / "CLAUDE.md").write_text("kept")
    project = make_project(tmp_path / "project", code="x")
    (project / ".claude").symlink_to(theirs)
    (project / "CLAUDE.md").symlink_to(theirs / "CLAUDE.md")
    (project / "out").symlink_to(theirs)
    commit(project)
    before = tree(theirs)
    with opened(worktree(project, SKILL, MEMORY, folder="out")) as place:
        assert (place.root / ".claude/skills/house/SKILL.md").read_bytes() == b"- one\n"
        assert place.cwd == place.root
    with opened(worktree(project, GONE)) as place:
        pass
    assert tree(theirs) == before


def test_submodules_are_in_the_copy_as_far_as_the_project_has_them(tmp_path):
    """At the commit that the project pins, as plain files."""
    module = make_project(tmp_path / "module", inner="pinned\n")
    project = make_project(tmp_path / "project", code="x\n")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(module), "lib")
    commit(project)
    before = tree(project)
    with opened(worktree(project)) as place:
        assert (place.root / "lib/inner").read_text() == "pinned\n"
        assert place.changes() == ""
        (place.root / "lib/inner").write_text("changed\n")
        assert "+changed" in place.changes()
    assert tree(project) == before


def test_linked_worktree_and_quoted_path_can_be_copied(tmp_path):
    """Objects are found wherever git keeps them."""
    project = make_project(tmp_path / 'a "quoted" ünï', code="x\n")
    git(project, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    for each in (project, tmp_path / "side"):
        with opened(worktree(each)) as place:
            assert (place.root / "code").read_text() == "x\n"


def test_commit_that_is_not_there_is_named(tmp_path):
    """In git's words."""
    project = make_project(tmp_path / "project", code="x\n")
    with pytest.raises(DiskError, match="git read-tree failed"), opened(worktree(project, at="0" * 40)):
        pass


def test_read_only_folders_are_removed_too(tmp_path):
    """An agent may take its own rights away."""
    with opened(native()) as place:
        (place.root / "a" / "b").mkdir(parents=True)
        (place.root / "a" / "b").chmod(0o555)
        (place.root / "a").chmod(0o500)
    assert not place.folder.exists()
