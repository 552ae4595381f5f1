"""Adapters in the manner of the reference's own benchmarks: both gates, lost calls, kills, batches with metadata."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path

import pytest

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.calls import clock
from skillopt_sleep.errors import BudgetSpent, TimedOut
from skillopt_sleep.train import SkillOptConfig, SkillOptTrainer
from skillopt_sleep.train.report import estimate_price
from tests.benchmarks.worlds import make_world
from tests.train.adapters.gamefiles import GameAdapter, RigidGameAdapter
from tests.train.adapters.one_file import OneFileAdapter
from tests.train.adapters.resuming import ResumingAdapter

WORLD = make_world(3, rules=3, tasks_per_rule=10)
KNOWING = "# Skill\n" + "".join(f"- {rule.text}\n" for rule in WORLD.rules)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Thirty tasks in a split folder, each also as the file of a game; waiting between retries takes no time."""
    monkeypatch.setattr(clock.SystemClock, "sleep", lambda *_: None)
    tasks = random.Random(1).sample(WORLD.tasks, 30)
    (tmp_path / "games").mkdir()
    for split, part in {"train": tasks[:12], "val": tasks[12:20], "test": tasks[20:]}.items():
        (tmp_path / "split" / split).mkdir(parents=True)
        rows = [{"id": each.id, "question": each.asks[0], "answer": each.good} for each in part]
        (tmp_path / "split" / split / "items.json").write_text(json.dumps(rows))
        for row in rows:
            (tmp_path / "games" / f"{row['id']}.json").write_text(json.dumps(row))
    return tmp_path


class Line:
    """A target that counts its answers, loses what ``losing`` says (of a prompt, and how often it came before)."""

    def __init__(self, losing=lambda _prompt, _seen: False, dies_after=None):
        self.agent, self.losing, self.dies_after = SimulatedBackend(worlds=WORLD, seed=2), losing, dies_after
        self.name, self.model, self.sees = "line", "m", "nobody"
        self.probe, self.close, self.lock = self.agent.probe, self.agent.close, threading.Lock()
        self.answered, self.seen = 0, {}

    def complete(self, prompt):
        with self.lock:
            seen = self.seen[prompt.user] = self.seen.get(prompt.user, 0) + 1
            if self.losing(prompt.user, seen):
                raise TimedOut("too slow today")
            if self.dies_after is not None and self.answered >= self.dies_after:
                raise KeyboardInterrupt
            self.answered += 1
        return self.agent.complete(prompt)


def trainer(data, out, env, target=None, *, skill="# Skill\n", **fields):
    sizes = {"num_epochs": 2, "batch_size": 6, "minibatch_size": 3, "verbose": False, "workers": 4}
    return SkillOptTrainer(
        config=SkillOptConfig(**(sizes | fields), out_root=str(data / out)),
        env=env,
        optimizer_client=SimulatedBackend(worlds=WORLD, seed=1),
        target_client=target or Line(),
        initial_skill=skill,
    )


def read(data, name):
    return json.loads((data / name).read_text())


ADAPTERS = {"resuming": ResumingAdapter, "games": GameAdapter, "rigid games": RigidGameAdapter}


@pytest.mark.sample(2)
@pytest.mark.parametrize("gate", ["strict", "paired"])
@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=ADAPTERS)
def test_adapter_trains_under_both_gates(data, adapter, gate):
    """An adapter learns everything under both gates; both arms of a pair use the same item."""
    made = trainer(data, "out", adapter(split_dir=str(data / "split")), gate=gate, num_epochs=3)
    summary = made.train()
    assert (summary["baseline_test_hard"], summary["test_hard"]) == (0, 1)
    assert summary["calls"]["selection"] <= made.price().stages["selection"]
    answers = {row["id"]: row["answer"] for row in read(data, "split/val/items.json")}
    val = list(answers)
    trials = [json.loads(path.read_text()) for path in (data / "out").rglob("trial.json")]
    assert bool(trials) is (gate == "paired")
    for trial in trials:
        assert [each["task_id"] for each in trial["baseline"]] == [each["task_id"] for each in trial["candidate"]]
        round_one = [each["task_id"] for each in trial["baseline"][: len(val)]]
        assert len(set(round_one)) == len(round_one)
        assert set(round_one) <= set(val)
        passed = [each for each in trial["candidate"] if each["score"]["hard"] == 1]
        assert passed
        assert all(each["response"] == answers[each["task_id"]] for each in passed)


def test_partial_results_of_a_capped_rollout_are_removed(data):
    """An adapter's file of partial scores is gone when the run resumes."""

    def run(out, cap):
        env = ResumingAdapter(split_dir=str(data / "split"))
        return env, trainer(data, out, env, skill=KNOWING, num_epochs=1, max_calls=cap)

    whole = run("whole", 1000)[1].train()
    with pytest.raises(BudgetSpent):
        run("capped", 5)[1].train()
    assert len((data / "capped" / "baseline_selection_eval" / "results.jsonl").read_text().splitlines()) == 8
    env, again = run("capped", 1000)
    summary = again.train()
    assert summary["baseline_selection_score"] == whole["baseline_selection_score"] == 1
    assert summary["test_hard"] == whole["test_hard"]
    assert set(env.found) == {0}


@pytest.mark.sample(1)
@pytest.mark.parametrize("gate", ["strict", "paired"])
@pytest.mark.parametrize("dies_after", [30, *(pytest.param(calls, marks=pytest.mark.slow) for calls in (5, 60))])
def test_killed_run_ends_like_an_undisturbed_one(data, gate, dies_after):
    """Wherever it was killed: the same skill, the same history, and no answer paid twice."""

    def run(out, target):
        env = ResumingAdapter(split_dir=str(data / "split"), workers=1)
        trainer(data, out, env, target, gate=gate, rollouts_k=2).train()
        return env

    whole, dying, again = Line(), Line(dies_after=dies_after), Line()
    undisturbed = run("whole", whole)
    with pytest.raises(KeyboardInterrupt):
        run("killed", dying)
    resumed = run("killed", again)
    for name in ("history.json", "best_skill.md", "current_skill.md"):
        assert (data / "killed" / name).read_text() == (data / "whole" / name).read_text()
    assert dying.answered + again.answered == whole.answered
    assert set(undisturbed.found) == set(resumed.found) == {0}


def dying(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_reflection_sees_the_same_rows_after_a_kill(data):
    """Every key of the adapter's rows is kept, with a conversation for each attempt."""
    split = str(data / "split")
    whole, again = ResumingAdapter(split_dir=split), ResumingAdapter(split_dir=split)
    trainer(data, "whole", whole, num_epochs=1, rollouts_k=2).train()
    killed = ResumingAdapter(split_dir=split)
    killed.reflect = dying
    with pytest.raises(KeyboardInterrupt):
        trainer(data, "killed", killed, num_epochs=1, rollouts_k=2).train()
    trainer(data, "killed", again, num_epochs=1, rollouts_k=2).train()
    assert again.reflected == whole.reflected
    rows = whole.reflected[0]
    assert [row["id"] for row in rows[:6]] == [row["id"] for row in rows[6:]]
    assert all(row["conversation"][0]["content"] == row["predicted_answer"] for row in rows)
    assert all(row["tags"] == [] and row["soft"] == 0.0 for row in rows)


LOSING = {"told": True, "not told": False}


@pytest.mark.sample(1)
@pytest.mark.parametrize("gate", ["strict", "paired"])
@pytest.mark.parametrize("telling", LOSING.values(), ids=LOSING)
def test_lost_call_is_not_a_score(data, telling, gate):
    """The item is unmeasured and the others count, whether or not its row mentions the error."""
    bad = read(data, "split/val/items.json")[2]["question"]
    target = Line(losing=lambda prompt, _: prompt == bad)
    env = ResumingAdapter(split_dir=str(data / "split"), telling=telling)
    summary = trainer(data, "out", env, target, skill=KNOWING, num_epochs=1, gate=gate).train()
    rows = read(data, "out/baseline_selection_eval/results.json")
    assert [each.get("call_error", "") for each in rows] == ["", "", "TimedOut: too slow today", *[""] * 5]
    assert summary["baseline_selection_score"] == 1


def test_repeated_call_is_not_lost(data):
    """If the adapter's own second try is answered, everything is measured."""
    bad = [row["question"] for row in read(data, "split/val/items.json")[::4]]
    target = Line(losing=lambda prompt, seen: prompt in bad and seen <= 4)
    env = ResumingAdapter(split_dir=str(data / "split"), tries=3, telling=False)
    trainer(data, "out", env, target, skill=KNOWING, num_epochs=1).train()
    rows = read(data, "out/baseline_selection_eval/results.json")
    assert [(each["hard"], each.get("call_error")) for each in rows] == [(1, None)] * 8


def test_adapter_plays_the_games_of_its_batch(data):
    """Training uses the loader's metadata and seed, evaluation its eval batch, a sample its part."""
    env = GameAdapter(split_dir=str(data / "split"))
    trainer(data, "out", env, slow_update_samples=5).train()
    planned = env.dataloader.plan_train_epoch(epoch=1, steps_per_epoch=2, accumulation=1, batch_size=6, seed=42)
    training = [play for play in env.played if play.is_train]
    assert [play.result_ids for play in training[:2]] == [batch.metadata["result_ids"] for batch in planned]
    assert [play.seed for play in training[:2]] == [batch.seed for batch in planned]
    assert {play.env_num for play in training} == {6, 5}
    assert {play.env_num for play in env.played if not play.is_train} == {8, 10}
    assert all(
        [Path(file).stem for file in play.gamefiles] == play.result_ids and len(play) == len(play.result_ids)
        for play in env.played
    )


def test_price_covers_several_calls_per_item(data):
    """The price counts an adapter's most turns, unless its ``calls_of`` says otherwise."""
    env = ResumingAdapter(split_dir=str(data / "split"), turns=5)
    made = trainer(data, "out", env, num_epochs=1)
    most = made.price()
    assert most.stages["rollout"] == 60
    summary = made.train()
    for stage in ("rollout", "selection", "test"):
        assert summary["calls"][stage] <= most.stages[stage]
    env.calls_of = lambda item: 7
    assert made.price().stages["rollout"] == 84


def test_pricing_leaves_no_files(data):
    """Pricing writes no files, even for an adapter that deals its data, and training still works."""
    rows = [{"question": each.asks[0], "answer": each.good} for each in WORLD.tasks]
    (data / "raw.json").write_text(json.dumps({"rows": rows}))
    for place in ("", str(data / "dealt")):
        adapter = OneFileAdapter(data_path=str(data / "raw.json"), split_ratio="4:3:3", split_output_dir=place)
        made = trainer(data, "priced", adapter, num_epochs=1)
        before = sorted(data.rglob("*"))
        assert made.price().calls > 0
        assert sorted(data.rglob("*")) == before
    made.train()
    assert (data / "dealt" / "split_manifest.json").is_file()


def test_answer_to_a_second_try_is_not_paid_again(data):
    """After a kill, the answer that a repeated call got is found in the ledger."""
    bad = read(data, "split/val/items.json")[1]["question"]

    def run(target):
        env = ResumingAdapter(split_dir=str(data / "split"), tries=3, workers=1)
        trainer(data, "out", env, target, skill=KNOWING, num_epochs=1, eval_test=False).train()

    dying, again = Line(losing=lambda prompt, seen: prompt == bad and seen <= 4, dies_after=4), Line()
    with pytest.raises(KeyboardInterrupt):
        run(dying)
    run(again)
    asked = [each["question"] for each in read(data, "split/val/items.json")]
    assert [again.seen.get(question, 0) for question in asked] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_price_of_whole_rounds():
    """If a split can only be rolled out whole, the price covers both arms of every round."""
    config = SkillOptConfig(gate="paired", num_epochs=1, batch_size=4)
    calls = {"train": [1] * 4, "val": [1] * 10, "test": [1]}
    parts = estimate_price(config, calls, chars_per_item=1, skill_chars=1)
    whole = estimate_price(config, calls, chars_per_item=1, skill_chars=1, whole_rounds=True)
    assert (parts.stages["selection"], whole.stages["selection"]) == (10 + 2 * 36 + 4 * 10, 10 + 2 * 4 * 10 + 4 * 10)
