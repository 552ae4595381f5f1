"""What a night takes over from those before it, and what it leaves waiting."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skillopt_sleep.gate.pending import PendingEdit
from skillopt_sleep.gate.tally import Tally
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord
from skillopt_sleep.model.task import RubricReference, TaskRecord
from skillopt_sleep.night.plan import recollect
from skillopt_sleep.usecases.plan import plan_night
from skillopt_sleep.usecases.run import run_night
from tests.benchmarks.worlds import make_sessions
from tests.fakes.home import make_person


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", list(DocumentKind))
def test_undecided_edit_of_a_document_that_does_not_evolve(tmp_path, kind):
    """It is not tried and keeps its tally, with a note; it is tried again when its document evolves again."""
    person = make_person(tmp_path / "mira", rules=2, tasks_per_rule=8)
    workspace = person.workspace(simulated={"useless": 1.0}, evolve_memory=False)
    run_night(workspace, plan_night(workspace))
    before, *others = workspace.trials.pending(str(person.project))
    changed = EditRecord(id="e-held", op=EditOp.APPEND, document=kind, text="Say it all in one line.")
    held = replace(before, id="held", kind=kind, edits=(changed,), tally=Tally(wins=before.k - 1), groups=())
    workspace.trials.conclude(str(person.project), [held], [], settled=[before.id, *(each.id for each in others)])
    person.write(make_sessions(person.world, 7)[:3])
    workspace = person.workspace(simulated={"useless": 1.0}, **{f"evolve_{kind}": False})
    report = run_night(workspace, plan_night(workspace))
    assert report.trials
    assert not any(each.since for each in report.trials)
    assert held in workspace.trials.pending(str(person.project))
    assert (changed.id,) in [each.edits for each in report.pending]
    assert any(f"1 undecided rule of the {kind} waits: " in note for note in report.notes)
    workspace = person.workspace(simulated={"useless": 1.0})
    assert held in plan_night(workspace).retriable
    assert recollect(plan_night(workspace), ()).on_hold == ()


def test_tasks_that_an_edit_was_measured_on_and_that_became_one_group(tmp_path):
    """The next night counts them as one request, under the present group name."""
    workspace = make_person(tmp_path / "mira", rules=2, tasks_per_rule=2).workspace()
    measured = PendingEdit(
        id="a",
        night="n0",
        kind=DocumentKind.SKILL,
        k=6,
        edits=(),
        groups=(),
        tally=Tally(wins=2),
        tasks=("t1", "t2", "gone"),
    )
    joined = [
        TaskRecord(id=name, intent=f"Write {name}", reference=RubricReference(rubric="r"), group="t1")
        for name in ("t1", "t2")
    ]
    (known,) = recollect(replace(plan_night(workspace), pending=(measured,)), joined).pending
    assert known.tasks == ("t1", "gone")
