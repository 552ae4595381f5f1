"""What a run folder is for: whatever changes a score is part of it, and another one is refused by name."""

from __future__ import annotations

import json

import pytest

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.backends.simulated_world import write_world
from skillopt_sleep.errors import Refused
from skillopt_sleep.train import OpenAIChatClient, SimpleQAEnv, SkillOptConfig, SkillOptTrainer, client
from skillopt_sleep.train.environments import make_environment
from skillopt_sleep.train.identity import digest_function, get_client_traits, get_env_traits
from tests.benchmarks.worlds import make_world

WORLD = make_world(3, rules=2, tasks_per_rule=6)
ROWS = [{"id": each.id, "question": each.asks[0], "answers": [each.good]} for each in WORLD.tasks]


def train(folder, *, env=None, wording=None, optimizer=None, **target):
    """A short run in one folder."""
    splits = {"train_items": ROWS[:4], "val_items": ROWS[4:7], "test_items": ROWS[7:9]}
    return SkillOptTrainer(
        config=SkillOptConfig(num_epochs=1, batch_size=4, verbose=False, out_root=folder / "run"),
        env=SimpleQAEnv(**splits, **(env or {})),
        optimizer_client=SimulatedBackend(worlds=WORLD, seed=1, **(optimizer or {})),
        target_client=SimulatedBackend(worlds=WORLD, **{"seed": 2, **target}),
        initial_skill="# Skill\n",
        prompt_overrides=wording,
    ).train()


def half(text, item):
    """A scorer."""
    return 0.5


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"noise": 0.3}, "the target client's noise is 0.0 there, 0.3 now"),
        ({"seed": 3}, "the target client's seed is 2 there, 3 now"),
        ({"model": "large"}, "the target client is 'simulated:simulated' there, 'simulated:large' now"),
        ({"optimizer": {"useless": 0.5}}, "the optimizer client's useless is 0.0 there, 0.5 now"),
        ({"env": {"scoring": "f1"}}, "the environment's scoring is 'exact' there, 'f1' now"),
        ({"env": {"scoring": half}}, "the environment's scoring is 'exact' there, 'half"),
        ({"env": {"tolerance": 0.5}}, "the environment's tolerance is 1e-06 there, 0.5 now"),
        ({"env": {"max_completion_tokens": 9}}, "max_completion_tokens is 512 there, 9 now"),
        ({"wording": {"ranking": "Rank."}}, "the prompt ranking changed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_changed_scoring_is_another_run(tmp_path, other, says):
    """The refusal names what differs; settings that affect only cost or time may change."""
    first = train(tmp_path)
    with pytest.raises(Refused) as refused:
        train(tmp_path, **other)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert train(tmp_path, latency=0.001)["test_hard"] == first["test_hard"]


def test_world_file_may_move(tmp_path):
    """A world is identified by its content, not its path."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(write_world(WORLD))
    (tmp_path / "c.json").write_bytes(write_world(make_world(4, rules=2, tasks_per_rule=6)))
    a, b, c = (
        get_client_traits(SimulatedBackend(world=str(tmp_path / name))) for name in ("a.json", "b.json", "c.json")
    )
    assert a == b != c


def test_endpoint_and_temperature_are_part_of_a_client():
    """The key and the timeout are not."""
    here = client("openai", model="m", base_url="http://localhost:1/v1")
    assert get_client_traits(here) == get_client_traits(
        client("openai", model="m", base_url="http://localhost:1/v1", timeout=9)
    )
    assert get_client_traits(here) != get_client_traits(client("openai", model="m", base_url="http://localhost:2/v1"))
    warm, cold = (OpenAIChatClient("m", api_key="secret", default_temperature=each) for each in (0.9, 0.0))
    assert get_client_traits(warm) != get_client_traits(cold)
    assert "secret" not in json.dumps(get_client_traits(warm))


def test_options_of_an_environment_are_part_of_it():
    """The options of its table count, its paths do not."""
    rows = [{"train_items": ROWS[:1], "pass_at": each} for each in (0.5, 0.6)]
    one, other = (get_env_traits(make_environment(SimpleQAEnv, row, "[env]")) for row in rows)
    assert one != other
    assert "data" not in get_env_traits(make_environment(SimpleQAEnv, rows[0] | {"data": ""}, "[env]"))


def test_function_is_identified_by_its_code():
    """Another body or default makes another function, another place does not."""
    made = {}
    for name, code in {
        "a": "def f(t, i):\n    return 1.0\n",
        "b": "\n\n\ndef f(t, i):\n    return 1.0\n",
        "c": "def f(t, i):\n    return 0.5\n",
        "d": "def f(t, i, k=2):\n    return 1.0\n",
    }.items():
        names = {}
        exec(compile(code, name, "exec"), names)
        made[name] = digest_function(names["f"])
    assert made["a"] == made["b"]
    assert len(set(made.values())) == 3
