"""The ablation benchmark: seeded, and true to the world it measures."""

from __future__ import annotations

import json
import statistics

import msgspec
import pytest

from skillopt_sleep.backends.simulated_replies import do_task
from skillopt_sleep.backends.simulated_world import draw_uniform
from tests.benchmarks import ablations
from tests.benchmarks.ablations import TRAITS, VARIANTS, Plan, main, true_score
from tests.benchmarks.worlds import make_world

SMALL = Plan(rules=3, train=12, val=8, test=12, num_epochs=2, batch_size=6)


@pytest.mark.slow
def test_run_is_a_function_of_its_seed():
    """The same variant and seed twice: the same figures; another seed: others."""
    once = ablations.train("full", 1, SMALL)
    assert ablations.train("full", 1, SMALL) == once
    assert ablations.train("full", 2, SMALL) != once
    assert once.steps == 4


@pytest.mark.slow
@pytest.mark.parametrize("skill", ["plain", "told", "crowded", "harmful"])
def test_true_score_is_the_mean_of_what_the_agent_does(skill):
    """The formula against 3,000 attempts of the agent itself, within three standard errors."""
    world = make_world(1, rules=3, tasks_per_rule=2, base_pass=0.15)
    lines = {
        "plain": [],
        "told": [world.rules[0].text],
        "crowded": [world.rules[0].text, *world.useless, *world.useless, world.rules[1].text],
        "harmful": [world.rules[0].text, world.harmful[0].text],
    }[skill]
    text = "\n".join(f"- {line}" for line in lines)
    passed = []
    for number in range(3000):
        task = world.tasks[number % len(world.tasks)]
        luck = lambda *name, n=number: draw_uniform("test", n, *name)  # noqa: E731
        reply = do_task(world, f"{text}\n{task.asks[0]}", task.asks[0], TRAITS, luck)
        passed.append(float(reply == task.good))
    error = statistics.stdev(passed) / len(passed) ** 0.5
    assert abs(true_score(world, world.tasks, text) - statistics.fmean(passed)) < 3 * error


@pytest.mark.slow
def test_table_and_json_hold_every_variant(capsys):
    """A row each, against the first; the same runs as data."""
    sizes = [f"--{key.replace('_', '-')}={value}" for key, value in msgspec.structs.asdict(SMALL).items()]
    arguments = ["--seeds", "2", "--jobs", "1", "--variants", "full", "gate off", *sizes]
    assert main(arguments) == 0
    table = capsys.readouterr().out
    assert "2 seeds, mean +- standard error" in table
    assert "gate off: " in table
    assert main([*arguments, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)
    assert [(run["variant"], run["seed"]) for run in runs] == [
        ("full", 1),
        ("full", 2),
        ("gate off", 1),
        ("gate off", 2),
    ]
    assert all(run["last"] == run["best"] for run in runs[:2])


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_is_a_config(variant):
    """Each switch is a field there is."""
    from skillopt_sleep.train.config import SkillOptConfig

    assert SkillOptConfig(**VARIANTS[variant])


@pytest.mark.slow
def test_gate_prevents_drift():
    """Without the gate the last skill is worse than the best there was, and worse than with it, over four seeds."""
    runs = {name: [ablations.train(name, seed, Plan()) for seed in range(1, 5)] for name in ("full", "gate off")}
    lost = {name: statistics.fmean(run.lost for run in each) for name, each in runs.items()}
    last = {name: statistics.fmean(run.true_last for run in each) for name, each in runs.items()}
    assert lost["gate off"] > lost["full"] + 0.05
    assert last["gate off"] < last["full"] - 0.05
