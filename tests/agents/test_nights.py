"""Whole nights through the real CLIs: what a model follows only where it was sent is learnt, proven, adopted, loaded."""

from __future__ import annotations

import shutil

import pytest

from skillopt_sleep.app import checks
from skillopt_sleep.domain.assignment import ReplayMode
from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.report import Loading
from skillopt_sleep.domain.verdict import Verdict
from skillopt_sleep.optimize import replay as replaying
from skillopt_sleep.stores.adoption import adopt
from tests.agents.nights import CHECK, git, sleeper, tree, with_project
from tests.agents.working import at_work

CLI = pytest.mark.parametrize("cli", ["claude", "codex"])


def adopted(someone, report):
    """The night's proposal made live, as `adopt` does."""
    adopt(someone.app().staging, report.night)


def rule_of(someone):
    """The rule that the person's world is about."""
    return someone.person.world.rules[0].text


@CLI
@pytest.mark.parametrize("mode", ["text", "native"])
def test_rule_is_learnt_proven_adopted_and_followed(cli, mode, agents, tmp_path):
    """The night accepts it, it goes live, and the next replay with the live files follows it."""
    mira = sleeper(cli, agents, tmp_path / "mira")
    report = mira.night(replay=mode)
    assert (report.verdict, report.exit_code) == (Verdict.ACCEPT, 0), report.why
    assert (report.trials[0].decision.wins, report.trials[0].decision.losses) == (6, 0)
    assert report.replay.mode == mode
    assert report.replay.loading is Loading.LOADED
    assert report.replay.failures == {}
    adopted(mira, report)
    app = mira.app(replay=mode)
    baseline, _ = app.baseline()
    live = baseline[DocumentKind.SKILL]
    assert rule_of(mira).encode() in live.content
    app.kit(app.plan())
    ledger = Forgetful()
    connection = app.connect(ledger, Nothing())
    task = mira.person.world.tasks[0]
    (result,) = replaying.replay(
        [replaying.Attempt(task=as_task(task), candidate=baseline)], connection.models, phase="again"
    )
    connection.close()
    assert result.score.hard == 1.0, result
    assert not result.bypassed


@CLI
@pytest.mark.parametrize("mode", ["text", "native"])
def test_rule_that_is_taken_out_of_the_document_is_not_accepted(cli, mode, agents, tmp_path, monkeypatch):
    """The counter-proof: the same night, with the learnt rule gone from the document before the trial."""
    mira = sleeper(cli, agents, tmp_path / "mira")
    rule = rule_of(mira)

    def without(assignment):
        return assignment.replace(rule, "")

    if mode == "text":
        whole = replaying._documents
        monkeypatch.setattr(replaying, "_documents", lambda candidate: without(whole(candidate)))
    else:
        from skillopt_sleep.backends import workspace

        put = workspace._put
        monkeypatch.setattr(
            workspace,
            "_put",
            lambda root, place, content: put(root, place, content and content.replace(rule.encode(), b"Be kind.")),
        )
    report = mira.night(replay=mode)
    assert report.verdict is not Verdict.ACCEPT
    assert not report.accepted
    assert report.proposal is None
    assert not report.trials[0].decision.wins


@CLI
def test_worktree_night_is_scored_by_the_check_of_the_user(cli, agents, tmp_path):
    """The project's own check fails before and passes after; the checkout, its branches, stash and hooks do not move."""
    if cli == "claude" and not (shutil.which("bwrap") and shutil.which("socat")):
        pytest.fail("this needs a sandbox: apt-get install bubblewrap socat")
    mira = with_project(cli, agents, tmp_path / "mira")
    project = mira.person.project
    (project / ".git/hooks/post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n")
    (project / ".git/hooks/post-checkout").chmod(0o755)
    (project / "unsaved.txt").write_text("not yet committed\n")
    git(project, "config", "core.fsmonitor", f"touch {tmp_path}/monitor-ran")
    before = tree(project)
    checks.approve(mira.app(), CHECK, seconds=20)
    report = mira.night(replay="worktree")
    assert (report.verdict, report.exit_code) == (Verdict.ACCEPT, 0), (report.why, report.notes)
    assert {row.reference_kind for row in report.holdout_detail.candidate} == {"command"}
    assert {row.hard for row in report.holdout_detail.baseline} == {0.0}
    assert {row.hard for row in report.holdout_detail.candidate} == {1.0}
    assert report.replay.loading is Loading.LOADED
    shutil.rmtree(project / ".skillopt-sleep")
    assert tree(project) == before
    assert not list(tmp_path.glob("*-ran"))


class Nothing:
    """No sessions: the model is named."""

    @staticmethod
    def usual_model(_):
        return ""


class Forgetful:
    """A ledger that keeps nothing."""

    def find(self, *_):
        return None

    def reuse(self, *_):
        pass

    def commit(self, *_):
        pass

    def record(self, *_):
        pass

    def spent(self):
        from skillopt_sleep.domain.budget import Spend

        return Spend()

    def spent_on(self, _):
        return self.spent()


def as_task(task):
    """A task of the world, judged by its literal answer."""
    from skillopt_sleep.domain.task import ExactReference, TaskRecord

    return TaskRecord(id=task.id, intent=task.asks[0], reference=ExactReference(answer=task.good))


__all__ = ["ReplayMode", "at_work"]
