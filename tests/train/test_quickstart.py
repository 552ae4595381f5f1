"""The first program of somebody who comes from the TRL-style reference, as it stands in the documentation."""

from __future__ import annotations

import ast
import json
import re

import skillopt_sleep.train
from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.backends.simulated_world import write_world
from skillopt_sleep.train import OpenAIChatClient, SimpleQAEnv, SkillOptConfig, SkillOptTrainer, client
from tests.benchmarks.worlds import make_world
from tests.loopback import Loopback, simulated


def program():
    """The quick-start of the package's own docstring."""
    _, _, code = skillopt_sleep.train.__doc__.partition("::\n\n")
    return "\n".join(line.removeprefix("    ") for line in code.splitlines())


def test_quickstart_trains_in_under_fifteen_lines(tmp_path, monkeypatch, capsys):
    """Config, environment with three item lists, two clients, train, the test score: and it runs."""
    monkeypatch.chdir(tmp_path)
    code = program()
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) < 15
    assert len(ast.parse(code).body) >= 5

    world = make_world(3, rules=2, tasks_per_rule=9)
    rows = [{"id": each.id, "question": each.asks[0], "answers": [each.good]} for each in world.tasks]
    given = {"train": rows[::3], "val": rows[1::3], "test": rows[2::3]}
    made = []

    def simulated_client(name, model):
        made.append((name, model))
        return SimulatedBackend(worlds=world, seed=len(made))

    monkeypatch.setattr(skillopt_sleep.train, "client", simulated_client)
    exec(compile(code, "quickstart", "exec"), given)
    assert made == [("openai", "the-large-one"), ("openai", "the-small-one")]
    best = (tmp_path / "outputs" / "demo" / "best_skill.md").read_text()
    assert best.startswith("Answer in one short phrase.")
    assert any(rule.text in best for rule in world.rules)
    summary = json.loads((tmp_path / "outputs" / "demo" / "summary.json").read_text())
    assert float(capsys.readouterr().out) == summary["test_hard"] > summary["baseline_test_hard"] == 0


def test_every_public_name_is_there():
    """Everything in ``__all__`` can be imported from the package."""
    for name in skillopt_sleep.train.__all__:
        assert getattr(skillopt_sleep.train, name) is not None
    assert not re.search(r"(?m)^from skillopt_sleep\.train\.", program())


def test_quickstart_over_the_openai_protocol(tmp_path):
    """``client`` and ``OpenAIChatClient`` against an endpoint: a skill is learnt, and every call is a request."""
    world = make_world(3, rules=2, tasks_per_rule=6)
    (tmp_path / "world.json").write_bytes(write_world(world))
    rows = [{"id": each.id, "question": each.asks[0], "answers": [each.good]} for each in world.tasks]
    with Loopback(mind=simulated(str(tmp_path / "world.json"))) as loopback:
        url = f"{loopback.root}/v1"
        trainer = SkillOptTrainer(
            config=SkillOptConfig(num_epochs=1, batch_size=6, verbose=False, out_root=str(tmp_path / "run")),
            env=SimpleQAEnv(train_items=rows[::3], val_items=rows[1::3], test_items=rows[2::3]),
            optimizer_client=client("openai", model="claude-loopback", base_url=url),
            target_client=OpenAIChatClient("gpt-loopback", base_url=url, api_key="k"),
            initial_skill="# Skill\n",
        )
        summary = trainer.train()
        trainer.close()
    assert summary["best_selection_score"] > summary["baseline_selection_score"]
    assert summary["spend"]["calls"] == len(loopback.requests)
    assert {each.model for each in loopback.requests} == {"claude-loopback", "gpt-loopback"}
