"""What a night loses in transport is not measured, is said, and is there for the next one."""

from __future__ import annotations

import contextlib

import pytest
from msgspec.structs import replace

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.diagnostics import NightState, StoppedBy
from skillopt_sleep.errors import Overloaded
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.document import Candidate
from skillopt_sleep.night.plan import NightPlan
from skillopt_sleep.usecases.plan import plan_night
from skillopt_sleep.usecases.run import run_night
from skillopt_sleep.usecases.sessions import file_sessions
from skillopt_sleep.usecases.status import read_status
from tests.fakes.home import make_person


@pytest.fixture
def mira(tmp_path):
    """A person with a few corrected sessions."""
    return make_person(tmp_path / "mira", rules=1, tasks_per_rule=16)


@pytest.fixture
def lose(monkeypatch):
    """Lose every call whose reply is to have that property, until the end of the block."""

    @contextlib.contextmanager
    def losing(asked, complete=SimulatedBackend.complete):
        def lost(self, prompt):
            if prompt.schema is not None and asked in prompt.schema["properties"]:
                raise Overloaded("529")
            return complete(self, prompt)

        with monkeypatch.context() as patch:
            patch.setattr(SimulatedBackend, "complete", lost)
            yield

    return losing


def run(person, **changed):
    workspace = person.workspace(retry_wait=0, **changed)
    return workspace, run_night(workspace, plan_night(workspace))


def answered(report):
    """How many calls of a night were answered."""
    return sum(phase.calls - sum(phase.errors.values()) for phase in report.phases)


def test_fingerprint_of_a_plan_never_changes() -> None:
    """A new field of a plan leaves the digest as it was, so that a night interrupted before an update is resumed."""
    plan = NightPlan(project="/p", baseline=Candidate(documents=()), roles=())
    assert plan.fingerprint == "a69aea00f4deb6bd1f26ab998fc0e7e6"


@pytest.mark.slow
def test_lost_reflection_is_no_verdict(mira, lose, tmp_path):
    """Without a reflection nothing was tried: exit 5, tasks stay fresh, training replies are not paid for again."""
    with lose("edits"):
        workspace, cut = run(mira)
    assert (cut.verdict, cut.exit_code, cut.state) == (Verdict.UNMEASURED, 5, NightState.STOPPED)
    assert "Overloaded" in cut.call_error
    assert read_status(workspace).fresh == 16
    _, done = run(mira)
    assert (done.night, done.verdict) == (cut.night, Verdict.ACCEPT)
    _, unbroken = run(make_person(tmp_path / "nora", rules=1, tasks_per_rule=16))
    assert answered(done) == answered(unbroken)


def test_lost_mining_ends_the_night_and_leaves_the_sessions(mira, lose):
    """When the model cannot be reached the night ends with exit 4 and every session keeps waiting."""
    with lose("tasks"):
        workspace, cut = run(mira, miner="model")
    assert (cut.stopped_by, cut.exit_code) == (StoppedBy.BACKEND, 4)
    assert "no tasks could be found in 8 of 8 sessions (Overloaded: 529)" in cut.why
    assert read_status(workspace).waiting == 8
    _, done = run(mira, miner="model")
    assert (done.night, done.stopped_by, done.counts.tasks) == (cut.night, None, 16)


@pytest.mark.slow
def test_night_that_paid_nothing_looks_again(mira, tmp_path):
    """A night that ended before its first call harvests again when it is resumed."""
    workspace, cut = run(mira, simulated={"fatal": "not_logged_in"})
    assert cut.stopped_by is StoppedBy.BACKEND
    (workspace.project / "later").mkdir()
    path = min(mira.claude.rglob("*.jsonl"))
    copy = path.with_name("a-new-session.jsonl")
    copy.write_bytes(
        path.read_bytes().replace(b'"uuid":"', b'"uuid":"new').replace(path.stem.encode(), copy.stem.encode())
    )
    _, done = run(mira)
    assert done.night == cut.night
    assert done.counts.sessions == cut.counts.sessions + 1


def test_prompts_of_mined_sessions_are_counted(mira):
    """Prompts are counted even if an earlier harvest or a failed night filed the sessions."""
    file_sessions(mira.workspace())
    _, report = run(mira)
    assert (report.counts.files_read, report.counts.prompts, report.counts.corrections) == (0, 48, 16)


def test_night_cut_short_before_midnight_goes_on_after_it(mira):
    """The date may change between the sittings of one night."""
    plan = plan_night(mira.workspace(lookback_days=7))
    assert plan.window.since
    tomorrow = replace(plan, window=replace(plan.window, since="2999-01-01"))
    assert tomorrow.fingerprint == plan.fingerprint
    assert plan_night(mira.workspace(edit_budget=2)).fingerprint != plan.fingerprint
    assert plan_night(mira.workspace(alpha=0.02)).fingerprint != plan.fingerprint


@pytest.mark.slow
def test_other_way_of_replaying_lets_every_task_teach_again(mira):
    """Used tasks are fresh for a night that measures in another way; the rules on trial keep their lives."""
    workspace, _ = run(mira, simulated={"useless": 1.0})
    same = plan_night(workspace)
    assert (same.again, bool(same.pending)) == (False, True)
    past = workspace.archive.past(workspace.scope)
    assert not past.fresh
    assert same.recall_tasks(past) == past
    other = replace(same, again=True)
    assert other.recall_tasks(past).fresh == frozenset(past.as_val)
    assert other.fingerprint == same.fingerprint
    assert plan_night(mira.workspace(optimizer_backend="handoff", target_backend="simulated")).again
    assert plan_night(mira.workspace(target_model="another")).again
