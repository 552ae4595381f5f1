"""The simulated optimizer of a training run, asked with the very prompts that training sends."""

from __future__ import annotations

import json

import pytest

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.backends.simulated_replies import Traits
from skillopt_sleep.model.call import Prompt
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord
from skillopt_sleep.optimizer import aggregate
from skillopt_sleep.optimizer import reflect as analyse
from skillopt_sleep.optimizer import step as select
from skillopt_sleep.optimizer.client import number_edits, quote
from skillopt_sleep.prompts import render
from skillopt_sleep.train import epoch
from tests.benchmarks.worlds import make_world

WORLD = make_world(1, rules=4, tasks_per_rule=3)
RULES = [rule.text for rule in WORLD.rules]


def said(schema, template, *, agent=None, **fields):
    """The reply to a prompt of training, read."""
    system, user = render(template, **fields)
    backend = agent or SimulatedBackend(worlds=WORLD)
    return json.loads(backend.complete(Prompt(system=system, user=user, schema=schema)).text)


def edit(text, support=1):
    return EditRecord(id=text[:12], op=EditOp.APPEND, document=DocumentKind.SKILL, text=text, support=support)


def case(task, number=1):
    """A failed attempt at a task, as an analyst is shown it."""
    parts = [quote("asked", task.asks[0]), quote("answer", task.bad), quote("wanted", task.good)]
    return "\n".join([f'<request id="t{number}">', *parts, "</request>"])


def proposed(cases, document="(empty)", budget=4, **traits):
    return said(
        analyse.SCHEMA,
        "analyst_error",
        agent=SimulatedBackend(worlds=WORLD, **traits),
        kind="skill",
        edit_budget=str(budget),
        document=document,
        notes="(none yet)",
        rejected="(none)",
        cases="\n\n".join(cases),
    )["edits"]


def test_rule_is_learnt_from_the_answer_that_was_wanted():
    """A bad answer beside the wanted one tells the rule; one that the document states is not proposed again."""
    first, second = WORLD.tasks[0], WORLD.tasks[3]
    edits = proposed([case(first, 1), case(second, 2)])
    assert {each["text"] for each in edits} == {RULES[0], RULES[1]}
    assert {tuple(each["tasks"]) for each in edits} == {("t1",), ("t2",)}
    assert [each["text"] for each in proposed([case(first), case(second)], f"- {RULES[0]}")] == [RULES[1]]


def test_reworded_rule_still_states_itself():
    """In words of its own, differently each time, and the rule is in all of them."""
    texts = [proposed([case(WORLD.tasks[0])], reword=1.0, seed=seed)[0]["text"] for seed in range(12)]
    assert len(set(texts)) > 2
    assert all(RULES[0] in text for text in texts)


def test_careless_edit_overwrites_a_rule_that_is_there():
    """It replaces a rule of the document; where there is none, it is appended."""
    (edit_,) = proposed([case(WORLD.tasks[0])], f"- {RULES[2]}\n- {RULES[3]}", careless=1.0)
    assert (edit_["op"], edit_["text"]) == ("replace", RULES[0])
    assert edit_["anchor"] in {RULES[2], RULES[3]}
    (edit_,) = proposed([case(WORLD.tasks[0])], careless=1.0)
    assert (edit_["op"], edit_["anchor"]) == ("append", "")


def test_edits_of_one_rule_are_one_group():
    """Whatever their wording; what no other means stays out of the groups."""
    edits = [edit(RULES[0]), edit(f"Always: {RULES[0]}"), edit(RULES[1]), edit(WORLD.useless[0]), edit("Sing.")]
    reply = said(aggregate.SCHEMA, "merge", source="failures", document="(empty)", edits=number_edits(edits))
    assert reply == {"groups": [{"same": [1, 2], "text": RULES[0]}]}


def test_ranking_is_by_support():
    """It does not know what is good, only how often it was said; asked for a budget, it wants what was seconded."""
    edits = number_edits([edit(RULES[0]), edit(WORLD.useless[0], 3), edit(RULES[1], 2)])
    fields = {"edit_budget": "3", "document": "(empty)", "edits": edits}
    assert said(select.SCHEMA, "ranking", budget="exactly 3", **fields) == {"ranking": [2, 3, 1]}
    asked = said(select.SCHEMA_WITH_BUDGET, "ranking", budget="from 1 to 3, as you decide", **fields)
    assert asked["budget"] == 2


def test_guidance_holds_what_cases_tell_and_the_document_does_not():
    """Rules of tasks that fail, at most four, those of the guidance so far kept."""
    fields = {
        "most": "2000",
        "document": f"- {RULES[1]}",
        "guidance": quote("guidance", f"- {RULES[3]}"),
        "cases": "\n".join(case(WORLD.tasks[number]) for number in (0, 3)),
    }
    guidance = said(epoch.GUIDANCE_SCHEMA, "slow_update", **fields)["guidance"]
    assert guidance.splitlines() == [f"- {RULES[3]}", f"- {RULES[0]}"]


def test_notes_name_what_was_rejected_and_not_what_was_taken():
    """Earlier notes are kept; an edit that was accepted in the end is no longer warned of."""
    history = (
        f"step 1: reject: selection 0.5 -> 0.4\n  - {WORLD.harmful[0].text}\n  - {RULES[0]}"
        f"\nstep 2: accept_new_best: selection 0.5 -> 0.6\n  - {RULES[0]}"
    )
    fields = {
        "most": "2000",
        "notes": quote("notes", f"Rejected before: {WORLD.useless[0]}"),
        "history": quote("history", history, 9_000),
        "guidance": quote("guidance", "(none)"),
    }
    notes = said(epoch.NOTES_SCHEMA, "meta_skill", **fields)["notes"]
    assert notes.splitlines() == [f"- Rejected before: {each}" for each in (WORLD.useless[0], WORLD.harmful[0].text)]


@pytest.mark.parametrize(("rules", "share"), [(0, 0.9), (5, 0.9), (7, 0.9 * 0.8**2)])
def test_crowd_of_rules_is_heeded_less(rules, share):
    """Up to its span an agent heeds every rule as well; each one more costs them all."""
    assert Traits(skill=0.9, crowding=0.2, span=5).chance_to_follow(rules) == pytest.approx(share)
