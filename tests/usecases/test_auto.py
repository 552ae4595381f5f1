"""What may be adopted without a question, and what may not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.edit import EditStatus
from skillopt_sleep.night.report import Loading
from skillopt_sleep.usecases.adopt import AUTO_K, AUTO_TASKS, find_objection, find_trial_objection
from tests.reports.samples import ACCEPTED, PAIRED, REJECTED

GOOD = replace(PAIRED.trials[0], score=AUTO_K, k=AUTO_K, tasks_in_all=AUTO_TASKS)
LOADED = replace(PAIRED.replay, loading=Loading.LOADED)
NIGHT = replace(PAIRED, trials=(GOOD, PAIRED.trials[1]), replay=LOADED)


def decided(verdict):
    return replace(GOOD, decision=replace(GOOD.decision, verdict=verdict))


def test_change_that_has_shown_enough_may():
    """Score 8 over 12 tasks with nothing against it; a trial that was turned down leaves nothing in the proposal."""
    assert (AUTO_K, AUTO_TASKS) == (8, 12)
    assert find_trial_objection(GOOD) == ""
    assert find_objection(NIGHT) == ""


@pytest.mark.parametrize(
    ("trial", "why"),
    [
        (replace(GOOD, score=7), "the skill has a score of 7, and it takes 8"),
        (replace(GOOD, tasks_in_all=11), "the skill was tested on 11 different tasks, and it takes 12"),
        (replace(GOOD, confirmed_regressions=("v-01",)), "1 task got worse under the skill, which was confirmed"),
        (
            replace(GOOD, unconfirmed=("v-01",)),
            "1 pair got worse under the skill, and whether for good could not be found out",
        ),
        (
            replace(GOOD, losses_before=4),
            "4 pairs got worse under the skill, and whether for good could not be found out",
        ),
        (decided(Verdict.UNDECIDED), "the trial of the skill ended in undecided"),
        (decided(Verdict.UNMEASURED), "the trial of the skill ended in unmeasured"),
        (replace(GOOD, score=None, k=None), "the skill was accepted by a rule whose error is not known"),
    ],
    ids=["score", "tasks", "regression", "unconfirmed", "earlier-losses", "undecided", "unmeasured", "strict"],
)
def test_trial_that_has_not_shown_enough_may_not(trial, why):
    """Each condition by itself, in words."""
    assert find_trial_objection(trial) == why


@pytest.mark.parametrize(
    ("night", "isolated", "why"),
    [
        (NIGHT, False, "the replays were not isolated from the user's other instructions"),
        (REJECTED, True, "nothing was accepted"),
        (replace(NIGHT, proposal=None), True, "nothing was accepted"),
        (replace(NIGHT, trials=()), True, "no trial stands behind it"),
        (
            replace(NIGHT, replay=replace(LOADED, loading=Loading.NOT_CHECKED, why="Overloaded: try later")),
            True,
            "nobody has seen the agent load it (Overloaded: try later)",
        ),
        (PAIRED, True, "the skill has a score of 6, and it takes 8"),
        (ACCEPTED, True, "the skill was accepted by a rule whose error is not known"),
        (
            replace(NIGHT, applied_edits=(replace(PAIRED.applied_edits[0], status=EditStatus.GUARDED),)),
            True,
            "an edit of it is held back by the guard",
        ),
        (
            replace(NIGHT, trials=(GOOD, replace(GOOD, document="memory", tasks_in_all=3))),
            True,
            "the memory was tested on 3 different tasks, and it takes 12",
        ),
    ],
    ids=[
        "not-isolated",
        "rejected",
        "nothing-staged",
        "gate-off",
        "not-checked",
        "at-six",
        "strict",
        "guarded",
        "second-document",
    ],
)
def test_night_that_has_not_shown_enough_may_not(night, isolated, why):
    """Everything in the proposal has to do."""
    assert find_objection(night, isolated=isolated) == why
