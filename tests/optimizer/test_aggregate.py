"""Many patches become one: apart for failures and successes, so many at a time, with support counted."""

from __future__ import annotations

import json

import pytest

from skillopt_sleep.errors import TimedOut
from skillopt_sleep.optimizer.aggregate import EditPatch, Learnt, Proposal, aggregate, unite_patches
from skillopt_sleep.optimizer.client import Optimizer
from tests.fakes.ask import ScriptedAsk, nobody
from tests.fakes.edits import in_order, record


def patch(*edits, learnt=Learnt.FAILURE):
    edits = [record(edit) if isinstance(edit, str) else edit for edit in edits]
    return EditPatch(proposals=tuple(Proposal(edit=edit, learnt=learnt) for edit in edits), learnt=learnt, cases=1)


def groups(*each):
    return json.dumps({"groups": [{"same": same, "text": text} for same, text in each]})


def optimizer(ask):
    return Optimizer(ask=ask, parallel=in_order)


def texts(aggregated):
    return [(each.edit.text, each.edit.support) for each in aggregated.patch.proposals]


def test_equal_edits_are_joined_without_a_model():
    """The same rule from several analysts is one edit with their number and their tasks, and costs no call."""
    one, other = record("a", tasks=("t1",)), record("a", tasks=("t2",))
    made = aggregate([patch(one), patch(other)], "", optimizer(nobody), merge_batch_size=8)
    assert texts(made) == [("a", 2)]
    assert made.patch.edits[0].task_ids == ("t1", "t2")


def test_edits_that_mean_the_same_are_joined_by_the_optimizer():
    """A group becomes one edit in the optimizer's words, with the support of all; the rest stays as it was."""
    ask = ScriptedAsk(groups(([1, 2], "Give units.")))
    made = aggregate([patch("Use units.", "b"), patch("State units.")], "", optimizer(ask), merge_batch_size=8)
    assert texts(made) == [("Give units.", 2), ("b", 1)]


def test_levels_and_sides():
    """Five failure and three success patches, two at a time: 2+1, 1, 1 and 1, 1 merges, then one of both."""
    ask = ScriptedAsk(groups())
    patches = [patch(f"f{n}") for n in range(5)] + [patch(f"s{n}", learnt=Learnt.SUCCESS) for n in range(3)]
    made = aggregate(patches, "", optimizer(ask), merge_batch_size=2)
    assert len(ask.prompts) == (2 + 1 + 1) + (1 + 1) + 1
    assert next(each.edit.text for each in made.patch.proposals) == "f0"
    assert {each.edit.text for each in made.patch.proposals} == {f"f{n}" for n in range(5)} | {
        f"s{n}" for n in range(3)
    }
    assert max(each.level for each in made.patch.proposals) == 4


def test_what_failures_taught_wins():
    """An edit that both sides propose counts as learnt from failure, and comes first."""
    made = unite_patches([patch("s", "both", learnt=Learnt.SUCCESS), patch("both")])
    assert [(each.edit.text, each.learnt) for each in made.proposals] == [("both", "failure"), ("s", "success")]


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(groups(([1, 1], "x"), ([7, 9], "x"), ([2], "x")), id="numbers-that-are-none"),
        pytest.param(groups(([1, 3], "x")), id="writing-with-deleting"),
        pytest.param("no JSON", id="unreadable"),
        pytest.param(TimedOut("too slow"), id="lost"),
    ],
)
def test_reply_that_joins_nothing(reply):
    """No edit is lost, whatever the optimizer says of groups, or whether it answers at all."""
    patches = [patch("a"), patch("b"), patch(record("", op="delete", anchor="c"))]
    made = aggregate(patches, "", optimizer(ScriptedAsk(reply)), merge_batch_size=8)
    assert [each.edit.op for each in made.patch.proposals] == ["append", "append", "delete"]
    assert texts(made)[:2] == [("a", 1), ("b", 1)]
    assert bool(made.notes) is not str(reply).startswith("{")


def test_words_that_are_no_rule_are_not_taken():
    """A group's text that cannot be a rule leaves the first edit's words."""
    made = aggregate(
        [patch("a"), patch("b")], "", optimizer(ScriptedAsk(groups(([1, 2], "x" * 700)))), merge_batch_size=8
    )
    assert texts(made) == [("a", 2)]


def test_nothing_to_merge():
    """Patches without edits make an empty one, without a call."""
    assert aggregate([patch(), patch()], "", optimizer(nobody), merge_batch_size=2).patch.proposals == ()
