"""A model that never answers ends a run with its own error; nothing is scored, and the run can be gone on with."""

from __future__ import annotations

import json

import pytest

from skillopt_sleep.calls.clock import SystemClock
from skillopt_sleep.errors import BackendUnusable, BadReply, ModelRefused, NotLoggedIn
from skillopt_sleep.model.call import Prompt
from skillopt_sleep.train import RolloutResult, SkillOptConfig, SkillOptTrainer
from tests.fakes.school import School, SchoolEnv


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(SystemClock, "sleep", lambda self, seconds: None)


class Dead:
    """Somebody's client, whose key is bad."""

    model = "dead"

    def __init__(self, error=None, alive=0):
        self.error = error or RuntimeError("401 invalid api key")
        self.alive = alive
        self.asked = 0

    def chat(self, *, system, user, **options):
        self.asked += 1
        if self.asked > self.alive:
            raise self.error
        return "feet"


def trainer(folder, *, target=None, optimizer=None, env=None, **config):
    return SkillOptTrainer(
        config=SkillOptConfig(**{"num_epochs": 4, "batch_size": 2, "verbose": False, "out_root": folder} | config),
        env=env or SchoolEnv(train=8, val=3, test=3),
        optimizer_client=optimizer or School(),
        target_client=target or School(),
        initial_skill="# Skill\n",
    )


def test_dead_optimizer_ends_the_run(tmp_path):
    """At the first step of which no analyst came back, not after 16 of them, whatever the target answers."""
    target = School()
    with pytest.raises(BackendUnusable, match=r"optimizer .*401 invalid api key"):
        trainer(tmp_path, target=target, optimizer=Dead()).train()
    assert len(target.calls) == 3 + 2
    assert not (tmp_path / "summary.json").exists()


def test_run_goes_on_once_the_optimizer_is_back(tmp_path):
    """What was paid for is not paid for again."""
    whole = trainer(tmp_path / "whole", num_epochs=1).train()
    again = School()
    with pytest.raises(BackendUnusable):
        trainer(tmp_path / "run", target=again, optimizer=_chat(Dead()), num_epochs=1).train()
    before = len(again.calls)
    summary = trainer(tmp_path / "run", target=again, optimizer=_chat(None), num_epochs=1).train()
    assert summary["test_hard"] == whole["test_hard"]
    assert before == 5
    assert summary["calls"]["rollout"] == whole["calls"]["rollout"]


def _chat(dead):
    """A client of one name that is dead, or answers as the school does."""
    school = School()

    class Client:
        model = "m"

        def chat(self, *, system, user, **options):
            if dead is not None:
                return dead.chat(system=system, user=user)
            asked = next((each for each in ("edits", "ranking") if f'"{each}"' in system + user), "groups")
            return school.complete(Prompt(system=system, user=user, schema={"properties": {asked: {}}})).text

    return Client()


@pytest.mark.parametrize("held_out", [2, 3, 8])
def test_dead_target_is_named_with_its_error(tmp_path, held_out):
    """Whether or not so many items are lost that the line counts as dead."""
    with pytest.raises(BackendUnusable, match="401 invalid api key"):
        trainer(tmp_path, target=Dead(), env=SchoolEnv(train=4, val=held_out, test=2)).train()


@pytest.mark.parametrize(("alive", "where"), [(3, "step 1"), (5, "measured|came back")])
def test_target_that_dies_later(tmp_path, alive, where):
    """In a rollout, or after it."""
    with pytest.raises(BackendUnusable, match="401 invalid api key"):
        trainer(tmp_path, target=Dead(alive=alive), workers=1).train()
    assert not (tmp_path / "summary.json").exists()


def test_refused_key_is_no_broken_line(tmp_path):
    """A client that says so by its status is not asked again."""

    class AuthenticationError(Exception):
        status_code = 401

    dead = Dead(AuthenticationError("bad key"))
    with pytest.raises(NotLoggedIn, match="bad key"):
        trainer(tmp_path, target=dead, workers=1).train()
    assert dead.asked == 1


@pytest.mark.parametrize(("role", "table"), [("target", "[target]"), ("both", "[optimizer] or [target]")])
def test_refusal_names_the_table_of_the_training_file(tmp_path, role, table):
    """Not the one of the settings, in which the backend's own message says where a value belongs."""

    class Refused(School):
        def _answer(self, prompt):
            raise ModelRefused(f"name another model by `model` in [backends.{self.name}]")

    optimizer = Refused() if role == "both" else Dead()
    with pytest.raises(ModelRefused) as raised:
        trainer(tmp_path, target=Refused(), optimizer=optimizer).train()
    assert str(raised.value) == f"name another model by `model` in {table}"


class Garbled(School):
    """Answers the first analysts, or all, with what nobody can read."""

    def __init__(self, said, most=10**6):
        super().__init__()
        self.said = said
        self.left = most

    def _answer(self, prompt):
        if prompt.schema is not None and "edits" in prompt.schema["properties"] and self.left > 0:
            self.left -= 1
            if isinstance(self.said, Exception):
                raise self.said
            return self.said
        return super()._answer(prompt)


@pytest.mark.parametrize(
    "said", [BadReply("asked for JSON, answered without any"), "{}", "I would rather not.", '{"edits": 3}'], ids=str
)
def test_answer_that_cannot_be_read_ends_no_run(tmp_path, said):
    """That analyst proposed nothing: the step is skipped, with the reason in its record, and the run goes on."""
    summary = trainer(tmp_path, optimizer=Garbled(said), num_epochs=1).train()
    history = json.loads((tmp_path / "history.json").read_text())
    assert {record["action"] for record in history} == {"skip_no_patches"}
    assert all("cannot be read" in record["why"] for record in history)
    assert [record["n_analyses_lost"] for record in history] == [0] * 4
    assert summary["total_skips"] == 4
    assert "No change in 4 of 4 steps: the reflection cannot be read: " in (tmp_path / "summary.md").read_text()
    assert "BadReply" not in (tmp_path / "summary.md").read_text()


def test_run_goes_on_learning_after_an_unreadable_answer(tmp_path):
    """Only the analysts that could not be read are without a proposal."""
    summary = trainer(tmp_path, optimizer=Garbled(BadReply("no JSON"), most=3), num_epochs=3).train()
    assert summary["total_accepts"] > 0


def test_environment_that_asks_no_model_is_named(tmp_path, capsys):
    """An adapter that catches its own mistakes would otherwise score 0 everywhere, without a word."""

    class Silent(SchoolEnv):
        def rollout_one(self, *, item, skill, target_client):
            return RolloutResult(id=item["id"], hard=0.0, fail_reason="FileNotFoundError: rollout_system.md")

    trainer(tmp_path, env=Silent(train=2, val=3, test=3), num_epochs=1, verbose=True).train()
    said = capsys.readouterr().err
    assert "school asked no model about the 3 selection items: FileNotFoundError: rollout_system.md" in said
