"""The edit budget: ranking, clipping, and the optimizer that chooses for itself."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from skillopt_sleep.errors import TimedOut
from skillopt_sleep.optimizer.aggregate import EditPatch, Learnt, Proposal
from skillopt_sleep.optimizer.client import Optimizer
from skillopt_sleep.optimizer.step import StepPlan, select
from tests.fakes.ask import ScriptedAsk, nobody
from tests.fakes.edits import in_order, record


def proposals(*texts_and_supports):
    return EditPatch(proposals=tuple(Proposal(edit=replace(record(text), support=n)) for text, n in texts_and_supports))


def chosen(ask, patch, **options):
    return select(patch, "", Optimizer(ask=ask, parallel=in_order), plan=StepPlan(**options))


def texts(made):
    return [each.edit.text for each in made.chosen], [each.edit.text for each in made.left_out]


FOUR = proposals(("a", 1), ("b", 3), ("c", 1), ("d", 2))


def test_within_the_budget_nobody_is_asked():
    """What fits is made, the most often proposed first."""
    assert texts(chosen(nobody, FOUR, edit_budget=4)) == (["b", "d", "a", "c"], [])


def test_ranking_decides_what_fits():
    """The optimizer's order holds, numbers are of the list it was shown, and what it forgot comes last."""
    made = chosen(ScriptedAsk(json.dumps({"ranking": [4, 9, 4, 3]})), FOUR, edit_budget=3)
    assert texts(made) == (["c", "a", "b"], ["d"])


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param("?", id="unreadable"),
        pytest.param(TimedOut("late"), id="lost"),
        pytest.param('{"ranking": []}', id="empty"),
    ],
)
def test_without_a_ranking_support_decides(reply):
    """The most often proposed are made, and the artefact says why."""
    made = chosen(ScriptedAsk(reply), FOUR, edit_budget=2)
    assert texts(made) == (["b", "d"], ["a", "c"])
    assert made.how.startswith("by support")


def test_failures_before_successes():
    """With equal support, what repairs a failure comes first."""
    patch = EditPatch(proposals=(Proposal(edit=record("s"), learnt=Learnt.SUCCESS), Proposal(edit=record("f"))))
    assert texts(chosen(nobody, patch, edit_budget=2)) == (["f", "s"], [])


@pytest.mark.parametrize(("asked", "granted"), [(3, 3), (1, 2), (9, 4)])
def test_autonomous_budget_is_granted_within_bounds(asked, granted):
    """The optimizer asks for its budget and gets it between the bounds."""
    patch = proposals(*((letter, 1) for letter in "abcdef"))
    reply = json.dumps({"ranking": [1, 2, 3, 4, 5, 6], "budget": asked})
    made = chosen(ScriptedAsk(reply), patch, edit_budget=4, least=2)
    assert (made.asked, len(made.chosen)) == (granted, granted)
