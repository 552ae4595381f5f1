"""One life, one tally: over nights that are gone on with, and proposals that come again."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from skillopt_sleep.errors import Overloaded
from skillopt_sleep.gate.pending import PendingEdit
from skillopt_sleep.gate.rule import GateMode, Verdict
from skillopt_sleep.gate.tally import Tally
from skillopt_sleep.judges.checks import ChecksJudge
from skillopt_sleep.model.call import Health
from skillopt_sleep.model.document import Candidate, Document, DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord, EditStatus, compute_edit_id
from skillopt_sleep.model.session import SessionKey
from skillopt_sleep.model.task import Check, CheckKind, ChecksReference, Split, TaskRecord
from skillopt_sleep.night.consolidate import consolidate
from skillopt_sleep.night.harvest import RECENT, Harvested
from skillopt_sleep.night.plan import ConsolidatePlan, recollect
from skillopt_sleep.night.pools import Past, Pools, SplitPlan, split_tasks
from skillopt_sleep.night.report import NightState
from skillopt_sleep.night.select_tasks import choose_tasks
from skillopt_sleep.night.try_edits import find_base
from skillopt_sleep.optimizer.replay import Models
from skillopt_sleep.usecases.plan import plan_night
from skillopt_sleep.usecases.run import run_night
from tests.benchmarks.worlds import make_sessions
from tests.fakes.ask import ScriptedAsk
from tests.fakes.home import make_person

BASE = Candidate(
    documents=(
        Document(kind=DocumentKind.SKILL, path="SKILL.md", content=b"- Be brief.\n", whole=True),
        Document(kind=DocumentKind.MEMORY, path="CLAUDE.md", content=b"- Be kind.\n", whole=True),
    )
)
GOOD = "Say please before anything else."
USELESS = "Say it all in one line."
TYPED = f"{GOOD} {USELESS}"
"""What the person typed, on which the rules of these tests rest."""
PLAN = ConsolidatePlan(evolve_memory=False, preferences=TYPED)


def one_by_one(work, items):
    return [work(item) for item in items]


def task(name):
    check = Check(kind=CheckKind.CONTAINS, value="please")
    return TaskRecord(id=name, intent=f"Write {name}", reference=ChecksReference(checks=(check,)), group=name)


POOLS = Pools(
    train=tuple(task(f"train-{number}") for number in range(3)),
    val=tuple(task(f"val-{number}") for number in range(12)),
)


def polite(prompt):
    """It passes when it is told to, and fails when it is told to delete something."""
    return "please" if GOOD in prompt.user + prompt.system else "here"


def models(*proposed, target=polite):
    """Models of which the optimizer always proposes these edits."""
    edits = [{"op": each.op, "document": each.document, "text": each.text, "anchor": each.anchor} for each in proposed]
    reply = json.dumps({"edits": [each | {"reason": "r", "tasks": []} for each in edits]})
    judges = {"checks": ChecksJudge()}
    return Models(target=ScriptedAsk(target), optimizer=ScriptedAsk(reply), judges=judges, parallel=one_by_one)


def edit(text=USELESS, op=EditOp.APPEND, anchor="", document=DocumentKind.SKILL):
    return EditRecord(
        id=compute_edit_id(op, document, text, anchor), op=op, document=document, text=text, anchor=anchor
    )


def waiting(name, tally, *edits, k=6):
    """Edits of an earlier night, undecided on the live documents."""
    return PendingEdit(
        id=name,
        night="n0",
        kind=edits[0].document,
        k=k,
        edits=edits,
        groups=(),
        tally=tally,
        on=find_base(BASE, models(), PLAN),
    )


def night(number, asked, *, plan=PLAN, pools=POOLS, base=BASE, **before):
    return consolidate(base, pools, plan, asked, night=f"n{number}", seed=number, **before)


def held(outcome):
    return [(each.status, each.why) for each in outcome.steps[-1].edits]


class Weather:
    """``ports.Backend`` around another, of whose val calls a share is lost, however often they are tried."""

    def __init__(self, inner, lost, luck):
        self._inner, self._lost, self._luck, self._fate = inner, lost, luck, {}
        self.name, self.model, self.sees, self.provider = inner.name, inner.model, inner.sees, inner.provider

    def probe(self):
        return Health(ready=True)

    def complete(self, prompt):
        if prompt.sample and prompt.schema is None:
            fate = self._fate.setdefault((prompt.digest, prompt.sample), self._luck.random())
            if fate < self._lost:
                raise Overloaded("529")
        return self._inner.complete(prompt)

    def close(self):
        self._inner.close()


def sitting(person, lost, luck):
    """One run of hers, with that share of calls lost."""
    workspace = person.workspace(simulated={"useless": 1.0}, evolve_memory=False, workers=1, retry_wait=0.0)
    workspace = dataclasses.replace(workspace, wrap_backend=lambda _, backend: Weather(backend, lost, luck))
    return workspace, run_night(workspace, plan_night(workspace))


@settings(max_examples=3, deadline=None)
@given(weather=st.lists(st.sampled_from([0.0, 0.1, 0.4]), min_size=1, max_size=2), seed=st.integers(0, 1000))
def test_every_replay_is_counted_once(weather, seed):
    """However often a night is resumed, every measured pair counts once in the tally."""
    luck = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        person = make_person(Path(folder) / "mira", rules=2, tasks_per_rule=8)
        measured = {}
        for number, lost in enumerate((0.4, *weather)):
            workspace, report = sitting(person, lost, luck)
            for trial in report.trials:
                if trial.k is not None:
                    measured[trial.since or report.night, report.night] = trial.decision.measured
            for each in workspace.trials.pending(str(person.project)):
                pairs = [count for (life, _), count in measured.items() if life == each.night]
                assert each.tally.pairs == sum(pairs)
            if report.state is NightState.FINISHED:
                person.write(make_sessions(person.world, 100 + number)[:3])


def test_unmeasured_night_is_resumed_from_its_start(tmp_path):
    """The second sitting pays only for what was lost, and counts nothing of the first one again."""
    person = make_person(tmp_path / "mira", rules=2, tasks_per_rule=8)
    workspace, first = sitting(person, 0.5, Random(3))
    assert first.verdict is Verdict.UNMEASURED
    (before,) = workspace.trials.pending(str(person.project))
    workspace, second = sitting(person, 0.0, Random(3))
    assert (second.night, second.resumed) == (first.night, 1)
    (after,) = workspace.trials.pending(str(person.project))
    assert before.id == after.id
    assert 0 < before.tally.pairs < after.tally.pairs == second.trials[0].decision.measured
    assert workspace.trials.account(str(person.project)).tried == 1


@settings(max_examples=40, deadline=None)
@given(
    begun=st.integers(2, 40),
    new=st.integers(0, 6),
    seed=st.integers(0, 10**6),
    most=st.integers(1, 12),
)
def test_undecided_edit_gets_a_pair_the_next_night(begun, new, seed, most):
    """Whatever it was written from, it is tried on tasks that are not sealed and not its own."""
    archive = [task(f"t{number}") for number in range(begun)]
    plan = SplitPlan(seed=seed, max_val=most)
    chosen = choose_tasks(archive, Past(fresh=frozenset(each.id for each in archive)), plan)
    first = split_tasks(chosen, plan)
    pending = night(1, models(edit()), pools=first).pending
    assert [each.tally.pairs > 0 for each in pending] == [True]
    as_val = {each.id: 0 for each in first.train} | {each.id: 1 for each in first.val}
    archive += [task(f"new-{number}") for number in range(new)]
    past = Past(fresh=frozenset(each.id for each in archive if each.id not in as_val), as_val=as_val)
    chosen = choose_tasks(archive, past, plan, pending)
    sealed = {each.id for each in split_tasks(archive, replace(plan, max_test=99), past).test}
    assert pending[0].unseen([each for each in archive if each.id not in sealed])
    (after,) = night(2, models(edit()), pools=split_tasks(chosen, plan), pending=pending).pending
    assert after.tally.pairs > pending[0].tally.pairs


def test_task_file_of_what_wrote_an_edit_does_not_decide_on_it(tmp_path):
    """The same words do not judge the edit that they wrote, even under other ids and groups."""
    person = make_person(tmp_path / "mira", rules=2, tasks_per_rule=8)
    workspace, report = sitting(person, 0.0, Random(0))
    (before,) = workspace.trials.pending(str(person.project))
    pools = msgspec.json.decode(workspace.journal.kept(report.night, "split"), type=Pools)
    again = tuple(replace(each, id=f"again-{each.id}", group="", split=Split.VAL) for each in pools.train)
    workspace = person.workspace(simulated={"useless": 1.0}, evolve_memory=False)
    report = run_night(workspace, plan_night(workspace, again))
    assert report.counts.val > 0
    (trial,) = report.trials
    assert trial.decision.pairs == 0
    assert trial.decision.why.startswith("it was written from all of tonight's validation tasks; 6 more wins")
    assert workspace.trials.pending(str(person.project)) == (before,)


def test_undecided_edit_names_its_groups_as_they_are_now(tmp_path):
    """A group may have been renamed since the edit was written: the night uses the present name."""
    person = make_person(tmp_path / "mira", rules=2, tasks_per_rule=8)
    workspace, _ = sitting(person, 0.0, Random(0))
    (before,) = workspace.trials.pending(str(person.project))
    wrote = [each for each in workspace.archive.tasks(workspace.scope) if each.id in before.groups]
    workspace.archive.commit(workspace.scope, [replace(each, group="another name") for each in wrote], [])
    assert "another name" not in before.groups
    known = recollect(plan_night(workspace), workspace.archive.tasks(workspace.scope)).pending
    assert "another name" in known[0].groups
    assert set(before.groups) <= set(known[0].groups)


def test_pending_edit_is_held_back_whatever_it_does():
    """Rules are recognised by their words and deletions by what they delete, however the anchor is written."""
    deletion = edit("", EditOp.DELETE, "Be brief.")
    for proposed, pending in (
        (edit("say it ALL in one line"), edit()),
        (deletion, deletion),
        (edit("", EditOp.DELETE, "brief"), deletion),
    ):
        outcome = night(1, models(proposed), pending=(waiting("p", Tally(), pending),))
        assert outcome.steps[-1].trial is None
        assert [each.id for each in outcome.pending] == ["p"]
        ((status, why),) = held(outcome)
        assert status is EditStatus.SKIPPED
        assert why.startswith("this very")


def test_other_words_for_the_same_text_are_held_back():
    """Deleting the only rule and replacing it by nothing give the same text, so they share one tally."""
    twice = edit("Be brief.\n- Say it all in one line.", EditOp.REPLACE, "Be brief.")
    once = models(edit())
    (pending,) = night(1, once).pending
    renamed = replace(pending, edits=(replace(pending.edits[0], id="x", text="something else"),))
    outcome = night(2, models(edit()), pending=(renamed,))
    assert outcome.steps[-1].trial is None
    assert held(outcome) == [(EditStatus.SKIPPED, "the resulting text is already being tried")]
    assert twice.id != pending.edits[0].id


@pytest.mark.parametrize("proposed", [edit(), edit("", EditOp.DELETE, "Be brief.")], ids=["append", "delete"])
def test_rejected_edit_is_not_tried_again_on_the_same_base(proposed):
    """This holds even if the analysts were not shown it; on another base it may be tried again."""

    def worse(prompt):
        documents = prompt.user + prompt.system
        spoilt = "Be brief." not in documents or USELESS in documents
        return "here" if spoilt or "train" in documents else "please"

    first = night(1, models(proposed, target=worse))
    assert first.steps[0].decision.verdict is Verdict.REJECT
    closed = first.list_closed("n1")
    again = night(2, models(proposed, target=worse), closed=closed)
    assert again.steps[0].trial is None
    assert [status for status, _ in held(again)] == [EditStatus.SKIPPED]
    memory = Document(kind=DocumentKind.MEMORY, path="CLAUDE.md", content=b"- Be bold.\n", whole=True)
    for anew in (
        night(3, models(proposed, target=worse), closed=closed, base=BASE.with_document(memory)),
        night(3, models(proposed, target=worse), closed=closed, plan=replace(PLAN, scope="all")),
        night(1, models(proposed, target=worse), closed=closed),
    ):
        assert anew.steps[0].trial is not None


def test_edit_at_the_end_of_its_life_does_not_begin_another():
    """It does not come back on the same base, neither the same night nor the next."""
    old = waiting("p", Tally(wins=7, losses=6, ties=95), edit())
    outcome = night(1, models(edit()), pending=(old,))
    assert [step.trial for step in outcome.steps] == [None]
    assert held(outcome) == [(EditStatus.SKIPPED, "this very rule is given up: undecided after 108 pairs")]
    assert [each.final for each in outcome.dropped] == [True]
    assert night(2, models(edit()), closed=outcome.list_closed("n1")).steps[-1].trial is None


def test_edit_that_was_crowded_out_does_not_come_back():
    """An edit that was dropped for lack of room is closed."""
    crowd = [waiting(f"p{number}", Tally(losses=1, ties=number), edit(f"Do {number}.")) for number in range(6)]
    outcome = night(1, models(edit()), pending=tuple(crowd))
    gone = {each.edit.text for each in outcome.list_closed("n1")}
    assert gone
    text = min(gone)
    assert night(2, models(edit(text)), closed=outcome.list_closed("n1")).steps[-1].trial is None


def test_what_is_pending_outlasts_the_proposal_of_another():
    """An edit accepted tonight is not live yet, so the tallies of the others stay as they are."""
    pending = (waiting("a", Tally(wins=5), edit(GOOD)), waiting("b", Tally(wins=4), edit()))
    outcome = night(1, models(), pending=pending)
    assert [(step.id, step.decision.verdict) for step in outcome.steps[:1]] == [("a", Verdict.ACCEPT)]
    assert outcome.pending == pending[1:]
    assert outcome.dropped == ()
    next_night = night(2, models(), pending=outcome.pending)
    assert [(step.id, step.since) for step in next_night.steps[:1]] == [("b", "n0")]


@pytest.mark.parametrize("mode", [GateMode.OFF, GateMode.STRICT])
def test_pending_edits_wait_while_another_rule_decides(mode):
    """No calls are spent on them, their tallies do not change, and the report says that they wait."""
    pending = (
        waiting("a", Tally(wins=5), edit(GOOD)),
        waiting("b", Tally(wins=7, losses=6, ties=95), edit()),
        *(waiting(f"p{number}", Tally(losses=1), edit(f"Do {number}.")) for number in range(9)),
    )
    asked = models()
    outcome = night(1, asked, plan=replace(PLAN, gate_mode=mode), pending=pending)
    assert outcome.pending == pending
    assert outcome.dropped == ()
    assert "val" not in asked.target.phases
    assert all(not step.since for step in outcome.steps)


def test_report_says_that_they_wait(tmp_path):
    """With the gate off, earlier tallies are kept and the report mentions them."""
    person = make_person(tmp_path / "mira", rules=2, tasks_per_rule=8)
    workspace, _ = sitting(person, 0.0, Random(0))
    before = workspace.trials.pending(str(person.project))
    assert before
    person.write(make_sessions(person.world, 7)[:3])
    workspace = person.workspace(simulated={"useless": 1.0}, gate_mode="off", evolve_memory=False)
    report = run_night(workspace, plan_night(workspace))
    assert workspace.trials.pending(str(person.project)) == before
    assert any("1 undecided edit waits" in note for note in report.notes)
    assert not any(phase.phase == "val" for phase in report.phases)


def test_night_remembers_what_the_nights_before_turned_down(tmp_path):
    """A pending rule that was rejected is not tried again, and the account lists it once."""
    person = make_person(tmp_path / "mira", rules=2, tasks_per_rule=8)
    workspace, _ = sitting(person, 0.0, Random(0))
    (before,) = workspace.trials.pending(str(person.project))
    workspace.trials.conclude(str(person.project), [replace(before, tally=Tally(losses=6, wins=7, ties=95))], [])
    for number in range(2):
        person.write(make_sessions(person.world, 100 + number)[:3])
        workspace, report = sitting(person, 0.0, Random(0))
        lives = {each.id for each in workspace.trials.pending(str(person.project))}
        assert before.id not in lives
        tried = {name for trial in report.trials if trial.k is not None for name in trial.edits}
        assert not tried & {each.id for each in before.edits}
    assert [each.edit for each in workspace.rejected.closed(workspace.scope)][:1] == list(before.edits[:1])
    assert plan_night(workspace).fingerprint == replace(plan_night(workspace), closed=()).fingerprint
    assert plan_night(workspace).step.answered_by == ("simulated", "simulated")


def test_edit_keeps_the_score_it_began_with():
    """The account may raise the score for new edits; this edit keeps the score of its first trial."""
    outcome = night(1, models(), plan=replace(PLAN, k=8), pending=(waiting("a", Tally(wins=4), edit(GOOD), k=6),))
    assert outcome.steps[0].decision.verdict is Verdict.ACCEPT
    assert (outcome.steps[0].trial.k, outcome.steps[0].trial.tally.wins) == (6, 6)


def test_usual_model_is_that_of_the_latest_sessions():
    """Mined sessions count too, so a night without new sessions replays with the same model as before."""

    def key(model, number):
        return SessionKey(source="claude", path=str(number), first_turn="", last_turn="", model=model)

    recent = tuple(key("usual", number) for number in range(3))
    assert Harvested(recent=recent).usual_model("claude") == "usual"
    assert Harvested(sessions=(key("odd", 9),), recent=(key("odd", 9), *recent)).usual_model("claude") == "usual"
    assert Harvested(sessions=(key("odd", 9),)).usual_model("claude") == "odd"
    assert Harvested(recent=recent).usual_model("codex") == ""


def test_night_without_new_sessions_has_the_model_of_the_sessions(tmp_path):
    """The latest sessions in scope decide, mined or not, so tallies survive a day off."""
    person = make_person(tmp_path / "mira", rules=2, tasks_per_rule=6)
    models_of = []
    for _ in range(2):
        workspace = person.workspace()
        run_night(workspace, plan_night(workspace))
        night_id = workspace.journal.reports(str(person.project))[0].night
        harvested = msgspec.json.decode(workspace.journal.kept(night_id, "harvest"), type=Harvested)
        models_of.append((bool(harvested.sessions), harvested.usual_model("claude")))
        assert len(harvested.recent) == min(RECENT, len(workspace.inbox.recent()))
    (some, model), (none, same) = models_of
    assert (some, none) == (True, False)
    assert model == same != ""


def test_what_has_changed_is_named_in_the_notes(tmp_path):
    """A pending edit whose memory file was rewritten is dropped, and the note names that file."""
    person = make_person(tmp_path / "mira", rules=2, tasks_per_rule=8)
    sitting(person, 0.0, Random(0))
    (person.project / "CLAUDE.md").write_text("# ours\n")
    person.write(make_sessions(person.world, 7)[:3])
    _, report = sitting(person, 0.0, Random(0))
    assert any("the text of the memory it was tried beside has changed" in note for note in report.notes)
