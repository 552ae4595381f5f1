"""A night changes the files of the agent whose sessions it reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from skillopt_sleep.agents import find_agent, find_session_homes
from skillopt_sleep.errors import UsageError
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.settings import load
from skillopt_sleep.usecases.documents import choose_agents, inspect_live_documents, read_live_documents
from skillopt_sleep.usecases.sessions import file_sessions
from skillopt_sleep.usecases.workspace import Workspace
from tests.benchmarks.session_files import claude_lines, claude_path, codex_lines, codex_path
from tests.benchmarks.worlds import make_sessions, make_world

LINES = {"claude": (claude_lines, claude_path), "codex": (codex_lines, codex_path)}
SESSIONS = make_sessions(make_world(1, rules=6, tasks_per_rule=4), 1)


class Home:
    """A user's home folder with sessions in it, and a project."""

    def __init__(self, folder):
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()

    def write(self, agent, count, cwd=None):
        """Put sessions of an agent there, of the project unless another folder is named."""
        lines, path = LINES[agent]
        for session in SESSIONS[6 : 6 + count] if cwd else SESSIONS[:count]:
            session = replace(session, source=agent, cwd=str(cwd or self.project))  # noqa: PLW2901
            file = self.folder / f".{agent}" / path(session)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"".join(lines(session)))

    def workspace(self, **changed):
        """A workspace over this home."""
        env = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        flags = {"data_dir": str(self.folder / "data"), "backend": "simulated", **changed}
        return Workspace(*load(env, flags), env, self.project)


@pytest.fixture
def home(tmp_path):
    """A home without sessions."""
    return Home(tmp_path)


def paths(workspace):
    """The live documents, below the home folder, and the notes."""
    baseline, notes = read_live_documents(workspace)
    return [str(Path(each.path).relative_to(workspace.env["HOME"])) for each in baseline.documents], notes


CLAUDE = ["project/.claude/skills/skillopt-sleep-learned/SKILL.md", "project/CLAUDE.md"]
CODEX = ["project/.agents/skills/skillopt-sleep-learned/SKILL.md", "project/AGENTS.md"]


@pytest.mark.parametrize("backend", ["simulated", "openai", "handoff", "claude"])
def test_user_of_codex_alone_gets_files_of_codex(home, backend):
    """Whatever backend answers, the documents are of the agent with the sessions (finding S1)."""
    home.write("codex", 2)
    assert paths(home.workspace(backend=backend)) == (CODEX, ())


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_scope_all_writes_the_users_own_files(home, agent):
    """Never a project's, even if the agent's folder is named by a flag."""
    home.write(agent, 2, cwd="/elsewhere")
    memory = {"claude": "CLAUDE.md", "codex": "AGENTS.md"}[agent]
    skill = "skills/skillopt-sleep-learned/SKILL.md"
    assert paths(home.workspace(scope="all"))[0] == [f".{agent}/{skill}", f".{agent}/{memory}"]


def test_scope_all_of_an_agent_without_a_folder_writes_where_it_will_look(home):
    """Also the files of an agent that was never started lie in the user's home (finding S1)."""
    skill = ".codex/skills/skillopt-sleep-learned/SKILL.md"
    assert paths(home.workspace(scope="all", agent="codex"))[0] == [skill, ".codex/AGENTS.md"]


@pytest.mark.parametrize("harvested", [False, True], ids=["before the first harvest", "after it"])
@pytest.mark.parametrize(
    ("claude", "codex", "expected"), [(2, 3, CODEX), (3, 2, CLAUDE), (2, 2, CLAUDE)], ids=["more", "fewer", "tie"]
)
def test_agent_with_more_sessions_in_scope_is_chosen(home, harvested, claude, codex, expected):
    """A tie goes to Claude Code; a note says how the choice was made; nothing is written to find out."""
    home.write("claude", claude)
    home.write("codex", codex)
    home.write("claude" if expected is CODEX else "codex", 6, cwd="/elsewhere")
    if harvested:
        file_sessions(home.workspace())
    found, (note,) = paths(home.workspace())
    assert found == expected
    assert f"Claude Code ({claude})" in note
    assert f"Codex ({codex})" in note
    assert f"--agent {'claude' if expected is CODEX else 'codex'}" in note


def test_setting_and_source_override_the_count(home):
    """``agent`` comes first, then the agent of the one source that is asked for."""
    home.write("claude", 3)
    home.write("codex", 1)
    assert paths(home.workspace(agent="codex")) == (CODEX, ())
    assert paths(home.workspace(source="codex")) == (CODEX, ())
    assert paths(home.workspace(source="codex", agent="claude")) == (CLAUDE, ())


@pytest.mark.parametrize(("backend", "name"), [("codex", "codex"), ("simulated", "claude")])
def test_without_sessions_the_backend_decides(home, backend, name):
    """A backend that is an agent's own, else the agent that is used on this machine, else Claude Code."""
    assert choose_agents(home.workspace(backend=backend))[0].name == name
    (home.folder / ".codex").mkdir()
    assert choose_agents(home.workspace())[0].name == "codex"


@pytest.mark.parametrize(
    ("agent", "user", "skill", "expected"),
    [
        pytest.param("claude", None, "invoices", ".claude/skills/invoices/SKILL.md", id="named"),
        pytest.param("claude", None, "my/SKILL.md", "my/SKILL.md", id="path"),
        pytest.param("codex", "/h/.codex", "invoices", "/h/.codex/skills/invoices/SKILL.md", id="user"),
    ],
)
def test_named_skill_is_where_the_agent_looks(tmp_path, agent, user, skill, expected):
    """By its name among the agent's skills, or by its path."""
    assert find_agent(agent).skill_file(tmp_path, user and Path(user), skill) == tmp_path / expected


def test_sessions_are_looked_for_where_the_agents_keep_them(tmp_path):
    """The usual folders, or those the agents' own variables name; only folders that exist."""
    claude, codex, other = tmp_path / ".claude", tmp_path / ".codex", tmp_path / "other"
    env = {"HOME": str(tmp_path)}
    assert find_session_homes("claude", env) == find_session_homes("codex", env) == ()
    for folder in (claude, codex, other):
        folder.mkdir()
    assert find_session_homes("claude", env) == (str(claude),)
    assert find_session_homes("codex", env) == (str(codex),)
    moved = env | {"CLAUDE_CONFIG_DIR": f"{tmp_path / 'nowhere'},{other}", "CODEX_HOME": str(other)}
    assert find_session_homes("claude", moved) == find_session_homes("codex", moved) == (str(other),)
    assert find_agent("claude").home(moved) == other


@pytest.mark.parametrize("skill", ["my/SKILL.md", "../SKILL.md"])
def test_scope_all_refuses_a_skill_file_of_the_project(home, skill):
    """A relative path would be one below the project; absolute ones and names are the user's own."""
    with pytest.raises(UsageError, match=f"--target-skill {skill}: --scope all changes your own files only"):
        read_live_documents(home.workspace(scope="all", target_skill=skill))
    for own in "mine", str(home.folder / "SKILL.md"):
        read_live_documents(home.workspace(scope="all", target_skill=own))


@pytest.mark.parametrize("setting", ["agent", "source", "backend"])
def test_wrong_name_in_the_settings_file_is_placed(home, setting):
    """The message has the file, the setting, the known names and the nearest one."""
    from skillopt_sleep.usecases.plan import plan_night

    file = home.folder / "settings.toml"
    file.write_text(f"{setting} = 'claud'")
    env = {"HOME": str(home.folder), "SKILLOPT_SLEEP_SETTINGS": str(file)}
    where = (
        f"file .*settings.toml: {setting} = 'claud': there is no {setting} 'claud'; known are .*did you mean 'claude'"
    )
    look = read_live_documents if setting == "source" else plan_night
    with pytest.raises(UsageError, match=where):
        look(Workspace(*load(env, {"data_dir": str(home.folder / "data")}), env, home.project))


def landings(workspace):
    """The live documents, those of other agents by what is said of them, and what is said of the live ones."""
    live = inspect_live_documents(workspace)

    def files(candidate):
        return [document.path.removeprefix(f"{workspace.project}/") for document in candidate.documents]

    return files(live.baseline), {other.untried: files(other.documents) for other in live.landings}, live.untried


OWN = {
    agent: [path.removeprefix("project/") for path in paths] for agent, paths in (("claude", CLAUDE), ("codex", CODEX))
}
NOT_CODEX = "proven with Claude Code, not tried with Codex"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (OWN["claude"], {NOT_CODEX: OWN["codex"]}, "")),
        ({"land_for": "claude"}, (OWN["claude"], {}, "")),
        ({"target_skill": "skillopt-sleep-learned"}, (OWN["claude"], {}, "")),
        ({"land_for": "codex, claude"}, (OWN["claude"], {NOT_CODEX: OWN["codex"]}, "")),
        ({"land_for": "codex"}, (OWN["codex"], {}, NOT_CODEX)),
        ({"source": "claude"}, (OWN["claude"], {}, "")),
        ({"source": "claude", "land_for": "claude,codex"}, (OWN["claude"], {NOT_CODEX: OWN["codex"]}, "")),
        ({"source": "claude", "land_for": "codex"}, (OWN["codex"], {}, NOT_CODEX)),
        ({"agent": "claude"}, (OWN["claude"], {}, "")),
    ],
)
def test_proven_rules_land_for_the_agents_whose_sessions_were_read(home, settings, expected):
    """Or for those that are named; files of an agent that does not answer are said to be untried."""
    home.write("claude", 3)
    home.write("codex", 2)
    assert landings(home.workspace(backend="claude", **settings)) == expected


def test_agent_that_is_not_known_is_refused(home):
    """The message names the known ones."""
    with pytest.raises(UsageError, match="claude, codex"):
        choose_agents(home.workspace(land_for="claude,kodex"))


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("@AGENTS.md\n", True),
        ("# House\n\nSee @./AGENTS.md for all of it.\n", True),
        ("@{project}/AGENTS.md", True),
        ("Read AGENTS.md and [it](AGENTS.md).\n", False),
        ("Write `@AGENTS.md` to import.\n\n```\n@AGENTS.md\n```\n", False),
        ("mail me@AGENTS.md or see @docs/AGENTS.md\n", False),
    ],
)
def test_memory_that_imports_another_is_one_document_with_it(home, text, one):
    """Rules go to the file that both agents read, once; a mention that the agent does not load imports nothing."""
    (home.project / "AGENTS.md").write_text("- Be brief.\n")
    (home.project / "CLAUDE.md").write_text(text.format(project=home.project))
    claude = [OWN["claude"][0], "AGENTS.md" if one else "CLAUDE.md"]
    expected = OWN["codex"][:1] if one else OWN["codex"]
    workspace = home.workspace(backend="claude", agent="claude", land_for="claude,codex")
    assert landings(workspace) == (claude, {NOT_CODEX: expected}, "")
    memory = inspect_live_documents(workspace).baseline[DocumentKind.MEMORY]
    beside = (home.project / "CLAUDE.md").read_text().strip() if one else ""
    assert memory.beside == beside
    assert beside.encode() in memory.loaded


@pytest.mark.parametrize(("link", "file"), [("CLAUDE.md", "AGENTS.md"), ("AGENTS.md", "CLAUDE.md")])
def test_memory_that_is_a_link_to_another_is_one_document_with_it(home, link, file):
    """In either direction; the file that the link leads to is changed."""
    (home.project / file).write_text("- Be brief.\n")
    (home.project / link).symlink_to(file)
    workspace = home.workspace(backend="claude", agent="claude", land_for="claude,codex")
    assert landings(workspace) == ([OWN["claude"][0], file], {NOT_CODEX: OWN["codex"][:1]}, "")


def test_memory_that_is_a_link_to_elsewhere_is_left_out(home):
    """Only another agent's memory file in the same place is one document with it."""
    (home.folder / "mine.md").write_text("- Be brief.\n")
    (home.project / "CLAUDE.md").symlink_to(home.folder / "mine.md")
    live = inspect_live_documents(home.workspace(backend="claude"))
    assert "CLAUDE.md is a link" in live.left_out[0]
