"""Tasks are dealt by whole groups, val goes round, and what is sealed stays so."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.paired import Tally
from skillopt_sleep.domain.pending import PendingEdit
from skillopt_sleep.domain.split import TEST_FROM, Past, SplitPlan, split_tasks
from skillopt_sleep.domain.task import RubricReference, Split, TaskRecord, group_of
from skillopt_sleep.night.gather import choose
from skillopt_sleep.night.merge import grouped

WORDINGS = {
    "migration": (
        "write the database migration for the new address columns",
        "we need a migration adding the address columns",
        "add the address columns, with a database migration",
        "create a migration for the address columns please",
        "the address columns need a migration, write it",
        "database migration: new address columns",
    ),
    "dockerfile": (
        "make the Docker image smaller",
        "shrink our docker image",
        "the docker image is too big, make it smaller",
        "can you get the size of the Docker image down?",
        "docker image: reduce its size",
        "please slim down the docker image",
    ),
    "standup": (
        "write my standup notes from yesterday's commits",
        "standup notes please, from the commits of yesterday",
        "draft the notes for standup out of yesterday's commits",
        "summarise yesterday's commits as standup notes",
        "what do I say at standup? notes from yesterday's commits",
        "turn the commits from yesterday into standup notes",
    ),
    "timeout": (
        "the upload times out on large files, fix it",
        "fix the timeout when uploading large files",
        "large file uploads time out, please repair",
        "uploading a large file runs into a timeout",
        "upload of large files: fix the timeout",
        "why do large uploads time out? fix that",
    ),
    "logo": (
        "convert the logo from PNG to SVG",
        "turn logo.png into an svg",
        "make an SVG of the PNG logo",
        "the logo should be SVG instead of PNG, convert it",
        "png logo to svg please",
        "we need our logo as SVG, there is only a PNG",
    ),
    "holiday": (
        "plan the team's holiday calendar for August",
        "make a holiday calendar of the team for august",
        "august holiday calendar for the team, please plan it",
        "the team needs a calendar of its August holidays",
        "draw up the team holiday calendar (August)",
        "who is on holiday in August? make the team calendar",
    ),
}


def make_task(number, group="", split=None, feedback=()):
    return TaskRecord(
        id=f"t{number}",
        intent=f"write release note {number} for the parser",
        reference=RubricReference(rubric="r"),
        group=group,
        split=split,
        feedback=feedback,
    )


def archive(groups, each=1):
    """So many groups of so many tasks, named like the ids that name real ones."""
    return [make_task(f"{group}.{n}", f"g{group}") for group in range(groups) for n in range(each)]


tasks_of_any_kind = st.lists(
    st.tuples(st.sampled_from(["", *(f"g{n}" for n in range(30))]), st.sampled_from([None, None, None, *Split])),
    max_size=80,
).map(lambda rows: [make_task(number, group, split) for number, (group, split) in enumerate(rows)])
plans = st.builds(
    SplitPlan,
    seed=st.integers(0, 99),
    max_train=st.integers(1, 24),
    max_val=st.integers(1, 12),
    val_share=st.just(0.3),
    recall_k=st.sampled_from([0, 0, 1, 5, 30]),
)


@given(tasks=tasks_of_any_kind, plan=plans, data=st.data())
def test_split_never_leaks(tasks, plan, data):
    """Whatever is pinned, sealed or cut off by a cap: no group and no task stands in two pools, and caps hold."""
    ids = [task.id for task in tasks]
    fresh = data.draw(st.frozensets(st.sampled_from(ids))) if ids else frozenset()
    as_val = data.draw(st.dictionaries(st.sampled_from(ids), st.integers(0, 5))) if ids else {}
    past = data.draw(st.sampled_from([None, Past(fresh=fresh, as_val=as_val)]))
    pools = split_tasks(tasks, plan, past)
    parts = [{group_of(task) for task in pool} for pool in (pools.train, pools.val, pools.test)]
    assert sum(map(len, parts)) == len(set().union(*parts))
    dealt = Counter(task.id for task in (*pools.train, *pools.val, *pools.test))
    assert set(dealt.values()) <= {1}
    assert len(pools.train) <= plan.max_train + plan.recall_k
    assert len(pools.val) <= plan.max_val
    assert pools.left >= 0
    for task in (*pools.train, *pools.val):
        assert task.split is not Split.TEST
    for task in pools.train:
        assert task.split is not Split.VAL


@given(tasks=tasks_of_any_kind, plan=plans)
def test_chosen_tasks_are_dealt_as_they_were_chosen(tasks, plan):
    """What an archive's tasks were chosen for they are used for, and a resumed night deals the same."""
    past = Past(fresh=frozenset(task.id for task in tasks))
    pools, chosen = split_tasks(tasks, plan, past), choose(tasks, past, plan)
    again = split_tasks(chosen, plan)
    if chosen:
        for part in ("train", "val", "test"):
            dealt = {task.id for task in getattr(pools, part)}
            assert {task.id for task in getattr(again, part)} == dealt


@given(groups=st.integers(2, 60), seed=st.integers(0, 10**6), most=st.integers(1, 12))
def test_val_rotates(groups, seed, most):
    """Every task that is not sealed decides once before any decides twice, whatever the nights' seeds."""
    tasks, as_val, sealed = archive(groups), {}, set()
    first = split_tasks(tasks, SplitPlan(seed=seed, max_val=most), Past())
    free = groups - len(first.test)
    a_night = len(first.val)
    for night in range(math.ceil(free / a_night)):
        past = Past(as_val=as_val)
        pools = split_tasks(tasks, SplitPlan(seed=seed + night, max_val=most), past)
        sealed |= {task.id for task in pools.test}
        as_val = {task.id: 0 for task in pools.train} | as_val
        for task in pools.val:
            as_val[task.id] = as_val.get(task.id, 0) + 1
    decided = {task: nights for task, nights in as_val.items() if nights}
    assert set(decided) == {task.id for task in tasks} - sealed
    assert not sealed & set(as_val)
    assert max(decided.values()) <= 2


def test_sealed_groups_stay_sealed():
    """About a tenth, the same ones whatever the seed, also when the archive grows; none of a few."""
    small, large = archive(TEST_FROM), archive(300)
    assert split_tasks(archive(TEST_FROM - 1), SplitPlan(), Past()).test == ()
    sealed = {seed: split_tasks(small, SplitPlan(seed=seed), Past()).test for seed in range(3)}
    assert sealed[0] == sealed[1] == sealed[2] != ()
    all_ = split_tasks(large, SplitPlan(max_test=300), Past()).test
    assert {task.id for task in sealed[0]} <= {task.id for task in all_}
    assert 15 <= len(all_) <= 45


def test_what_has_served_is_not_sealed():
    """A group that taught before there were enough to seal any cannot test what it taught."""
    tasks = archive(TEST_FROM)
    past = Past(as_val={task.id: 0 for task in tasks})
    assert split_tasks(tasks, SplitPlan(), Past()).test
    assert split_tasks(tasks, SplitPlan(), past).test == ()


def test_what_is_sealed_is_sealed_for_a_night_about_one_skill_too():
    """However few groups such a night is about: the whole archive is what a share of is sealed."""
    tasks = archive(3 * TEST_FROM)
    past = Past(fresh=frozenset(task.id for task in tasks))
    sealed = {task.id for task in split_tasks(tasks, SplitPlan(max_test=99), past).test}
    about = [task for task in tasks if task.id in sealed] + tasks[: TEST_FROM // 2]
    wanted = list({task.id: task for task in about}.values())
    assert len(wanted) < TEST_FROM
    chosen = choose(wanted, past, SplitPlan(), among=tasks)
    assert {task.id for task in chosen if task.split is Split.TEST} <= sealed
    assert not {task.id for task in chosen if task.split is not Split.TEST} & sealed


def test_task_that_only_teaches_does_not_decide_on_an_undecided_edit():
    """On a night without anything fresh, all but the pinned ones may."""
    tasks = [replace(task, split=Split.TRAIN) if n % 2 else task for n, task in enumerate(archive(8))]
    waiting = PendingEdit(id="p", night="n", kind=DocumentKind.SKILL, k=6, edits=(), groups=(), tally=Tally(wins=3))
    chosen = choose(tasks, Past(), SplitPlan(), (waiting,))
    assert chosen
    assert {task.split for task in chosen} == {Split.VAL}
    assert not {task.id for task in chosen} & {task.id for task in tasks if task.split is Split.TRAIN}


def test_tasks_of_a_task_file_are_not_sealed():
    """They were given to be used."""
    assert split_tasks(archive(TEST_FROM), SplitPlan()).test == ()


def test_fresh_and_corrected_tasks_teach_first():
    """Where not all can."""
    tasks = [make_task(n, feedback=("no",) if n % 2 else ()) for n in range(12)]
    past = Past(fresh=frozenset({"t1", "t2", "t3"}), as_val={task.id: 0 for task in tasks})
    pools = split_tasks(tasks, SplitPlan(max_train=4), past)
    order = [(task.id not in past.fresh, not task.feedback) for task in pools.train]
    assert order == sorted(order)
    assert len(pools.train) == 4


def test_nothing_fresh_is_no_night():
    """Also when what is fresh is sealed."""
    tasks = archive(TEST_FROM)
    sealed = frozenset(task.id for task in split_tasks(tasks, SplitPlan(), Past()).test)
    assert choose(tasks, Past(), SplitPlan()) == ()
    assert choose(tasks, Past(fresh=sealed), SplitPlan()) == ()


@pytest.mark.parametrize("seed", range(10))
def test_paraphrases_never_straddle_a_split(seed):
    """Six wordings each of six intents: each intent teaches or decides, and never both."""
    meant = {wording: name for name, wordings in WORDINGS.items() for wording in wordings}
    said = random.Random(seed).sample(sorted(meant), len(meant))
    tasks = [
        TaskRecord(id=f"t{number}", intent=words, reference=RubricReference(rubric="r"))
        for number, words in enumerate(said)
    ]
    pools = split_tasks(grouped(tasks), SplitPlan(seed=seed, max_train=36, max_val=36))
    taught, decided = ({meant[task.intent] for task in pool} for pool in (pools.train, pools.val))
    assert decided
    assert taught
    assert not taught & decided
    assert len(pools.train) + len(pools.val) == 36


def test_recalled_tasks_only_teach():
    """Past tasks like tonight's fresh ones, over the cap, none of a group that decides or is sealed."""
    past_ones = [
        TaskRecord(
            id=f"p{n}",
            intent=f"write the release note for {what}",
            reference=RubricReference(rubric="r"),
            group=f"g{n}",
        )
        for n, what in enumerate(["the parser", "the banner", "the login", "the cart", "the search", "the footer"])
    ]
    others = [make_task(f"{n}", f"h{n}") for n in range(30)]
    new = TaskRecord(
        id="new", intent="write the release note for the cache", reference=RubricReference(rubric="r"), group="new"
    )
    past = Past(fresh=frozenset({"new"}), as_val={task.id: 1 for task in (*past_ones, *others)} | {"new": 9})
    for seed in range(20):
        plan = SplitPlan(seed=seed, max_train=3, max_val=2, val_share=0.1, recall_k=2)
        pools = split_tasks([*others, *past_ones, new], plan, past)
        assert new in pools.train
        plain = split_tasks([*others, *past_ones, new], replace(plan, recall_k=0), past)
        assert (pools.val, pools.test, pools.train[:3]) == (plain.val, plain.test, plain.train)
        recalled = pools.train[3:]
        assert len(recalled) == 2
        assert {task.id[0] for task in recalled} == {"p"}
        assert pools.left == plain.left - 2
        assert {group_of(task) for task in recalled}.isdisjoint(group_of(task) for task in (*pools.val, *pools.test))


def test_nothing_is_recalled_by_itself():
    """It is off by default, and a fresh task that waits is not a past one."""
    tasks = [make_task(n) for n in range(20)]
    fresh = frozenset(task.id for task in tasks)
    assert SplitPlan().recall_k == 0
    assert len(split_tasks(tasks, SplitPlan(max_train=3, recall_k=5), Past(fresh=fresh)).train) == 3
