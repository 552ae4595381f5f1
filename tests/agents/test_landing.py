"""What a night proved reaches the next real session of either CLI: in its first request, or in the skill it opens."""

from __future__ import annotations

import pytest

from skillopt_sleep.diagnostics import Loading
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.reports.headline import Ending, summarize_night
from skillopt_sleep.storage.adoption import adopt, revert
from tests.agents.clis import FIRST
from tests.agents.lived_in import ask
from tests.agents.nights import MODELS, sleeper
from tests.agents.working import at_work
from tests.fakes.repository import tree

QUIET = (
    *("features.plugins=false", "features.remote_plugin=false", "features.apps=false"),
    *("analytics.enabled=false", "check_for_update_on_startup=false"),
)
"""Without these, Codex looks for plugins and news elsewhere, which has nothing to do with what it reads."""
CLI = pytest.mark.parametrize("cli", ["claude", "codex"])


def session(someone, cli):
    """The requests of a session that the person starts in the project, the first one first."""
    agents = someone.agents
    agents.loopback.requests.clear()
    config = [part for option in (*agents.codex_config(), *QUIET) for part in ("-c", option)]
    arguments = {
        "claude": ["-p", "--model", MODELS[cli]],
        "codex": ["exec", "--skip-git-repo-check", "-m", MODELS[cli], *config, "-"],
    }
    ask(FIRST[cli], agents.env(), someone.person.project, *arguments[cli])
    return [asked.text for asked in agents.loopback.requests if "hello" in asked.text]


def adopted(someone, report):
    """The texts of the rules of a proposal that was accepted, adopted now."""
    assert report.verdict is Verdict.ACCEPT, report.why
    adopt(someone.workspace().staging, report.night)
    return [applied.edit.text for applied in report.applied_edits]


@CLI
def test_first_request_of_the_next_session_has_every_adopted_rule(cli, agents, tmp_path):
    """Short rules are in memory, whether the agent opens skills or not; reverted, nothing of them is sent."""
    mira = sleeper(cli, agents, tmp_path / "mira")
    mira.serve(at_work(mira.world, opens=False))
    before = tree(mira.person.project)
    report = mira.night(evolve_memory=True)
    assert (report.replay.loading, [change.kind for change in report.documents]) == (Loading.LOADED, ["memory"])
    rules = adopted(mira, report)
    first, *_ = session(mira, cli)
    assert rules
    assert all(rule in first for rule in rules)
    revert(mira.workspace().staging, night=report.night)
    first, *_ = session(mira, cli)
    assert not any(rule in first for rule in rules)
    own = str(mira.person.project / ".skillopt-sleep")
    assert {name: what for name, what in tree(mira.person.project).items() if not name.startswith(own)} == before


@CLI
def test_procedure_is_in_a_skill_that_the_next_session_opens(cli, agents, tmp_path, monkeypatch):
    """The first request lists the skill with what is inside; the agent opens it, and the next one has every rule."""
    monkeypatch.setattr("skillopt_sleep.model.rules.is_procedure", lambda text: True)
    mira = sleeper(cli, agents, tmp_path / "mira")
    report = mira.night(evolve_memory=True, replay="native")
    assert (report.replay.loading, [change.kind for change in report.documents]) == (Loading.LOADED, ["skill"])
    rules = adopted(mira, report)
    first, *later = session(mira, cli)
    assert all(rule.split(":")[0].rstrip(".") in first for rule in rules)
    assert all(any(f"- {rule}" in text for text in later) for rule in rules)


@CLI
@pytest.mark.parametrize("memory", [True, False], ids=["memory evolves", "the skill alone"])
def test_skill_that_is_not_opened_changes_the_headline_or_moves_the_rule(cli, memory, agents, tmp_path, monkeypatch):
    """Proven as text, not opened by the agent: its rule goes to memory, and the load check alone is repeated."""
    monkeypatch.setattr("skillopt_sleep.model.rules.is_procedure", lambda text: True)
    mira = sleeper(cli, agents, tmp_path / "mira")
    mira.serve(at_work(mira.world, opens=False))
    report = mira.night(evolve_memory=memory)
    (calls,) = [phase.calls for phase in report.phases if phase.phase == "load"]
    headline = summarize_night(report)
    if not memory:
        assert (report.replay.loading, calls) == (Loading.NOT_OPENED, 1)
        assert (headline.ending, headline.title) == (
            Ending.NOT_OPENED,
            "a change helps, but your agent does not open its skill",
        )
        return
    assert (report.replay.loading, report.replay.moved, calls) == (Loading.LOADED, 1, 2)
    assert "did not open the skill" in headline.text
    rules = adopted(mira, report)
    assert all(rule in session(mira, cli)[0] for rule in rules)


@pytest.mark.parametrize("shared", [False, True], ids=["own files", "CLAUDE.md imports AGENTS.md"])
def test_rule_learnt_from_claude_sessions_reaches_a_codex_session(shared, agents, tmp_path):
    """Once in each, also where both agents read one file; the proposal says that Codex was not tried."""
    mira = sleeper("claude", agents, tmp_path / "mira")
    if shared:
        (mira.person.project / "CLAUDE.md").write_text("@AGENTS.md\n")
        (mira.person.project / "AGENTS.md").write_text("# Ours\n\nBe kind.\n")
    report = mira.night(evolve_memory=True, land_for="claude,codex")
    said = "" if shared else "proven with Claude Code, not tried with Codex"
    assert [change.untried for change in report.documents] == ([""] if shared else ["", said])
    (rule,) = adopted(mira, report)
    for cli in ("claude", "codex"):
        assert session(mira, cli)[0].count(rule) == 1
