"""Environments written to the reference's documentation train to completion, with another import and nothing else."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from skillopt_sleep.app.train import build_environment
from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.bench.worlds import make_world
from skillopt_sleep.train import SkillOptConfig, SkillOptTrainer
from tests.train.adapters import house_style
from tests.train.adapters.house_style import HouseStyleAdapter
from tests.train.adapters.one_file import OneFileAdapter
from tests.train.adapters.simulator import SimulatorAdapter

WORLD = make_world(3, rules=3, tasks_per_rule=10)


@pytest.fixture
def data(tmp_path):
    """The world's tasks as a split folder and as one raw file."""
    tasks = random.Random(1).sample(WORLD.tasks, 30)
    for split, part in {"train": tasks[:12], "val": tasks[12:20], "test": tasks[20:]}.items():
        (tmp_path / "split" / split).mkdir(parents=True)
        rows = [{"uid": each.id, "ask": each.asks[0], "gold": each.good, "kind": each.rules[0]} for each in part]
        (tmp_path / "split" / split / "items.json").write_text(json.dumps(rows))
    rows = [{"question": each.asks[0], "answer": each.good} for each in tasks]
    (tmp_path / "raw.json").write_text(json.dumps({"rows": rows}))
    return tmp_path


def trained(env, out, **fields):
    """A run of two epochs with the simulated agent in both roles."""
    sizes = {"num_epochs": 2, "batch_size": 6, "minibatch_size": 3, "verbose": False}
    return SkillOptTrainer(
        config=SkillOptConfig(**(sizes | fields), out_root=str(out)),
        env=env,
        optimizer_client=SimulatedBackend(worlds=WORLD, seed=1),
        target_client=SimulatedBackend(worlds=WORLD, seed=2),
        initial_skill="# Skill\n",
    ).train()


def test_adapter_of_eighty_lines_trains(data):
    """A split folder, threads of its own, an inherited reflect: from nothing right to everything."""
    assert len(Path(house_style.__file__).read_text().splitlines()) < 90
    summary = trained(HouseStyleAdapter(split_dir=str(data / "split")), data / "out")
    assert (summary["baseline_test_hard"], summary["test_hard"]) == (0, 1)
    assert set(summary["test_by_type"]["best"]) == {"r0", "r1", "r2", "overall"}
    assert {"rollout", "selection", "test", "reflect"} <= set(summary["calls"])
    skill = (data / "out" / "best_skill.md").read_text()
    assert all(rule.text in skill for rule in WORLD.rules)
    assert list((data / "out" / "steps" / "step_0001").rglob("conversation.json"))


def test_adapter_that_reflects_through_the_helper_trains(data):
    """One raw file dealt by ratio; its analysts are asked with its own prompt, and their patches are kept."""
    adapter = OneFileAdapter(data_path=str(data / "raw.json"), split_ratio="4:3:3")
    summary = trained(adapter, data / "out")
    assert (summary["baseline_test_hard"], summary["test_hard"]) == (0, 1)
    published = ["meta_skill_context", "patches_dir", "prediction_dir", "random_seed", "step_buffer_context"]
    assert adapter.reflected[0] == published
    (patch, *_) = sorted((data / "out" / "steps" / "step_0001" / "patches").glob("minibatch_fail_*.json"))
    assert json.loads(patch.read_text())["patch"]["edits"][0]["op"] == "append"


def test_simulator_trains_on_its_own_patches(data):
    """No dataset: attempts by the config's sizes, splits by their published names, edits by its own hand."""
    adapter = SimulatorAdapter()
    summary = trained(adapter, data / "out", extras={"train_size": 8, "sel_env_num": 9})
    assert summary["test_hard"] == 1
    assert {manager.split for manager in adapter.managers} == {"train", "valid_seen", "valid_unseen"}
    assert all(manager.closed for manager in adapter.managers[2:])


def test_run_of_an_adapter_is_gone_on_with(data):
    """Once more into the same folder: the same summary, and nothing is asked again."""
    once = trained(HouseStyleAdapter(split_dir=str(data / "split")), data / "out")
    again = trained(HouseStyleAdapter(split_dir=str(data / "split")), data / "out")
    assert (again["test_hard"], again["calls"]) == (once["test_hard"], once["calls"])


class Line:
    """A backend whose answered calls are counted, and that dies after so many."""

    def __init__(self, seed, dies_after=None):
        self.agent, self.dies_after, self.answered = SimulatedBackend(worlds=WORLD, seed=seed), dies_after, 0
        self.name, self.model, self.sees = "line", "m", "nobody"
        self.probe, self.close = self.agent.probe, self.agent.close

    def complete(self, prompt):
        if self.dies_after is not None and self.answered >= self.dies_after:
            raise KeyboardInterrupt
        self.answered += 1
        return self.agent.complete(prompt)


@pytest.mark.parametrize("dies_after", [5, 30])
def test_killed_run_of_an_adapter_pays_for_nothing_twice(data, dies_after):
    """Wherever it was killed: the same skill in the end, and each reply was paid for once."""

    def run(out, target, optimizer):
        config = SkillOptConfig(num_epochs=2, batch_size=6, minibatch_size=3, verbose=False, out_root=str(data / out))
        env = HouseStyleAdapter(split_dir=str(data / "split"), workers=1)
        return SkillOptTrainer(config=config, env=env, optimizer_client=optimizer, target_client=target).train()

    whole = Line(2), Line(1)
    run("whole", *whole)
    killed = Line(2, dies_after=dies_after), Line(1)
    with pytest.raises(KeyboardInterrupt):
        run("killed", *killed)
    again = Line(2), Line(1)
    run("killed", *again)
    for once, first, second in zip(whole, killed, again, strict=True):
        assert first.answered + second.answered == once.answered
    skills = [(data / name / "best_skill.md").read_text() for name in ("whole", "killed")]
    assert skills[0] == skills[1]


def test_adapter_in_a_file_is_found_by_its_path(data):
    """What a training file names, with the adapter's own arguments as options."""
    table = {"file": house_style.__file__, "split_dir": str(data / "split"), "limit": 5}
    env = build_environment(table)
    assert env.name == "HouseStyleAdapter"
    assert env.adapter.dataloader.limit == 5
