"""Which sessions a command counts as those of the project, and how it says what it left out."""

from __future__ import annotations

import json
import shutil

import pytest
from msgspec.structs import replace

from tests.benchmarks.session_files import claude_lines, claude_path, codex_lines, codex_path
from tests.benchmarks.worlds import make_sessions
from tests.fakes.home import make_person
from tests.storage.test_projects import add_worktree, git, make_repository

URL = "git@github.com:mira/project.git"


@pytest.fixture
def nora(tmp_path):
    """A person whose project is a repository, without sessions yet."""
    person = make_person(tmp_path / "nora", rules=2, tasks_per_rule=5, sessions=False)
    shutil.rmtree(person.project)
    make_repository(person.project, URL)
    return person


def sessions_in(person, *folders):
    """Write one session of hers into each folder."""
    for session, folder in zip(make_sessions(person.world, 1), folders, strict=False):
        moved = replace(session, cwd=str(folder))
        path = person.claude / claude_path(moved)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(claude_lines(moved)))


def test_sessions_of_worktrees_and_clones_are_counted(cli, nora, tmp_path):
    """Every command sees the same sessions, and says what it left out (finding R4)."""
    tree = add_worktree(nora.project, nora.project / ".claude" / "worktrees" / "fox")
    beside = add_worktree(nora.project, tmp_path / "nora" / "project-feature")
    shutil.rmtree(beside)
    clone = make_repository(tmp_path / "clone", "https://github.com/mira/project")
    other = make_repository(tmp_path / "other" / "project", "https://github.com/other/project")
    sessions_in(nora, nora.project, tree, beside, clone, other)
    counts = cli("harvest", *nora.places, "--json").json
    assert (counts["sessions"], counts["waiting"], counts["out_of_scope"], counts["unplaced"]) == (4, 4, 1, 0)
    assert "Left out: 1 session of another project." in cli("harvest", *nora.places).out
    insights = cli("insights", *nora.places)
    assert "in 4 sessions" in insights.out
    assert "Not counted: 1 session of another project." in insights.out
    plan = cli("run", *nora.arguments("--dry-run"), "--json").json
    assert (plan["sessions"], plan["out_of_scope"]) == (4, 1)
    assert "4 sessions" in cli("status", *nora.places).out
    in_tree = [f"--project={tree}" if "--project" in each else each for each in nora.places]
    assert cli("harvest", *in_tree, "--json").json["waiting"] == 4


def test_rules_reach_only_the_project_one_stands_in(cli, nora):
    """A night over sessions of worktrees writes into none of them."""
    tree = add_worktree(nora.project, nora.project.parent / "project-feature")
    sessions_in(nora, *[tree] * 5)
    report = cli(*nora.arguments("run", "--json", "--auto-adopt")).json
    assert report["counts"]["sessions"] == 5
    changed = [change["path"] for change in report["documents"]] if "documents" in report else []
    assert all(path.startswith(str(nora.project) + "/") for path in changed)
    git(tree, "diff", "--exit-code", "HEAD")
    assert not (tree / "CLAUDE.md").exists()


def codex_session(home, session, cwd, **meta):
    """Write a Codex session whose first record has these fields besides."""
    session = replace(session, source="codex", cwd=str(cwd))
    path = home / codex_path(session)
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *lines = codex_lines(session)
    record = json.loads(first)
    record["payload"] |= meta
    path.write_bytes(b"".join([json.dumps(record).encode() + b"\n", *lines]))


def test_recorded_remote_places_a_deleted_worktree_of_codex(cli, nora, tmp_path):
    """Its id and its repository's name tell nothing that another repository could not have too."""
    home = tmp_path / ".codex"
    for number, (session, remote) in enumerate(
        zip(make_sessions(nora.world, 1), [URL, "https://github.com/other/project", "", URL], strict=False)
    ):
        git_meta = {"branch": "main", "commit_hash": "0" * 40} | ({"repository_url": remote} if remote else {})
        codex_session(home, session, home / "worktrees" / f"1a2{number}" / "project", git=git_meta)
    namesake = make_repository(tmp_path / "fork" / "project", "https://github.com/other/project")
    sessions_in(nora, namesake)
    places = [each for each in nora.places if "--source" not in each]
    counts = cli("harvest", *places, f"--codex-home={home}", "--json").json
    assert (counts["waiting"], counts["out_of_scope"], counts["unplaced"]) == (2, 2, 1)
    assert "1 session of an unknown worktree" in cli("harvest", *places, f"--codex-home={home}").out


def test_older_sessions_of_the_project_are_not_those_of_others(cli, nora):
    """``lookback_days`` leaves them out, and the advice is to look back further (finding R5)."""
    sessions_in(nora, *[nora.project] * 3)
    arguments = [*nora.arguments(), "--set=lookback_days=1"]
    plan = cli("run", *arguments, "--dry-run", "--json").json
    assert (plan["sessions"], plan["older"], plan["out_of_scope"]) == (0, 3, 0)
    assert "3 sessions from before lookback_days" in cli("run", *arguments, "--dry-run").out
    done = cli("run", *arguments)
    assert "3 older sessions could be used" in " ".join(done.out.split())
    assert "lookback_days=0" in done.out
    assert "--scope all" not in done.out
    assert "other project" not in done.out


def test_every_count_of_prompts_is_the_same(cli, nora, tmp_path):
    """What a program may have typed in an unattended run counts nowhere (finding R6)."""
    home = tmp_path / ".codex"
    typed, unattended = make_sessions(nora.world, 1)[:2]
    codex_session(home, typed, nora.project)
    codex_session(home, unattended, nora.project, source="exec")
    places = [each for each in nora.places if "--source" not in each] + [f"--codex-home={home}"]
    insights = cli("insights", *places, "--json").json
    harvested = cli("harvest", *places, "--json").json
    assert harvested["prompts"] == insights["prompts"] == len(typed.turns)
    night = cli(
        "run", *places, "--backend=simulated", f"--set=backends.simulated.world={nora.folder}/world.json", "--json"
    )
    assert night.json["counts"]["prompts"] == len(typed.turns)
