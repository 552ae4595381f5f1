"""Documents are parsed before anything is paid for; what changed in them during a night is not lost."""

from __future__ import annotations

import pytest

from skillopt_sleep.diagnostics import NightState, StoppedBy
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.night import night as night_module
from skillopt_sleep.storage.adoption import adopt
from skillopt_sleep.usecases.adopt import list_objections
from skillopt_sleep.usecases.doctor import examine_setup
from skillopt_sleep.usecases.plan import plan_night
from skillopt_sleep.usecases.run import run_night
from tests.benchmarks.worlds import make_sessions
from tests.fakes.home import make_person
from tests.reports.samples import show_night

SKILL = ".claude/skills/skillopt-sleep-learned/SKILL.md"
BROKEN = {
    "memory": ("CLAUDE.md", b"# Rules\n\n<!-- skillopt-sleep:begin -->\n"),
    "skill": (SKILL, b"---\nname: learned\n"),
}


def run(person, **changed):
    workspace = person.workspace(**changed)
    return workspace, run_night(workspace, plan_night(workspace))


def spoil(person, *kinds):
    for kind in kinds:
        name, content = BROKEN[kind]
        (person.project / name).parent.mkdir(parents=True, exist_ok=True)
        (person.project / name).write_bytes(content)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("broken", "sound"), [("memory", "skill"), ("skill", "memory")])
def test_night_goes_on_with_the_other_document(tmp_path, broken, sound):
    """The broken one is named by `doctor` and by the report, and stays as it is."""
    person = make_person(tmp_path / "mira")
    spoil(person, broken)
    named = [line for line in examine_setup(person.workspace().make_dry_run()).problems if "left out" in line]
    workspace, report = run(person)
    assert [line for line in report.notes if "left out" in line] == named
    assert BROKEN[broken][0] in named[0]
    assert report.verdict is Verdict.ACCEPT
    assert {change.kind for change in report.documents} == {sound}
    adopt(workspace.staging, report.night)
    assert (person.project / BROKEN[broken][0]).read_bytes() == BROKEN[broken][1]


def test_night_without_any_usable_document_makes_no_call(tmp_path):
    """It ends with exit code 8, names both files, and the next night goes on once they are mended."""
    person = make_person(tmp_path / "mira")
    spoil(person, "memory", "skill")
    _, report = run(person)
    assert (report.exit_code, report.stopped_by, report.state) == (8, StoppedBy.REFUSED, NightState.STOPPED)
    assert report.spend_night.calls == 0
    assert all(name in report.why for name, _ in BROKEN.values())
    assert "doctor" in show_night(report)
    for name, _ in BROKEN.values():
        (person.project / name).unlink()
    assert run(person)[1].verdict is Verdict.ACCEPT


@pytest.mark.slow
def test_undecided_edits_outlive_a_night_without_their_document(tmp_path):
    """They wait with their tallies until the file is mended."""
    person = make_person(tmp_path / "mira", rules=2, tasks_per_rule=8)
    workspace, _ = run(person, simulated={"useless": 1.0}, evolve_memory=False)
    before = workspace.trials.pending(str(person.project))
    assert before
    spoil(person, "skill")
    person.write(make_sessions(person.world, 7)[:3])
    _, report = run(person, simulated={"useless": 1.0})
    assert any("of the skill wait" in note for note in report.notes)
    after = {(life.id, life.tally) for life in person.workspace().trials.pending(str(person.project))}
    assert {(life.id, life.tally) for life in before} <= after


def edit_during_the_night(monkeypatch, change):
    """Run ``change`` when the trials are over, as a person who works late would."""
    real = night_module.check_loading

    def check(*given):
        change()
        return real(*given)

    check.__annotations__ = {"return": real.__annotations__["return"]}
    monkeypatch.setattr(night_module, "check_loading", check)


def test_edit_of_the_night_is_carried_over_to_the_edited_file(tmp_path, monkeypatch):
    """Where it still applies, the proposal contains what the person wrote; the report says so."""
    person = make_person(tmp_path / "mira")
    memory = person.project / "CLAUDE.md"
    memory.write_text("# Rules\n")
    edit_during_the_night(monkeypatch, lambda: memory.write_text("# Rules\n\nMine.\n"))
    workspace, report = run(person, evolve_skill=False)
    assert report.proposal
    assert any("was edited during the night" in note and "carried over" in note for note in report.notes)
    adopt(workspace.staging, report.night)
    assert memory.read_text().startswith("# Rules\n\nMine.\n")
    assert report.applied_edits[0].edit.text in memory.read_text()


@pytest.mark.slow
def test_carried_over_proposal_is_not_adopted_by_itself(tmp_path, monkeypatch):
    """Nobody has tried the edits together with what the person wrote."""
    person = make_person(tmp_path / "mira")
    memory = person.project / "CLAUDE.md"
    edit_during_the_night(monkeypatch, lambda: memory.write_text("Mine.\n"))
    _, report = run(person, evolve_skill=False)
    objection = next(change for change in report.documents if change.edited)
    assert objection.path == str(memory)
    assert "during the night" in next(list_objections(report))


@pytest.mark.slow
def test_proposal_that_no_longer_fits_says_so(tmp_path, monkeypatch):
    """The report names the file and the reason, and does not advise `adopt`."""
    person = make_person(tmp_path / "mira")
    memory = person.project / "CLAUDE.md"
    edit_during_the_night(monkeypatch, lambda: memory.write_bytes(BROKEN["memory"][1]))
    workspace, report = run(person, evolve_skill=False)
    page = show_night(report)
    assert "cannot be adopted" in page
    assert " adopt 2" not in page
    assert str(memory) in page
    assert workspace.staging.waiting() == ()
