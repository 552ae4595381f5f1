"""What is made of somebody's sessions leaves this machine without secrets, in training as in a night."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from skillopt_sleep.cli.options import open_workspace
from skillopt_sleep.mining.task_file import encode_tasks
from skillopt_sleep.model.call import Health, Reply
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.task import ExactReference, TaskRecord
from skillopt_sleep.safety.redaction.redactor import Redactor
from skillopt_sleep.settings import secrets
from skillopt_sleep.storage.ledger import open_training_folder
from skillopt_sleep.train import ChecksEnv, SimpleQAEnv, SkillOptConfig, SkillOptTrainer
from skillopt_sleep.train.evaluate import Evaluation, evaluate
from skillopt_sleep.train.recipe import build_recipe
from skillopt_sleep.usecases import training
from skillopt_sleep.usecases.training import EvaluationRequest, export_night_tasks, open_evaluation

OWN = "violet-harbour-4417-lantern"
"""The value of a variable of this environment that says it is a secret; no pattern would know it."""
SHAPED = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
ENVIRON = {"SHOP_API_KEY": OWN}
REDACTOR = Redactor(values=secrets(ENVIRON))


class Listener:
    """``ports.Backend`` that answers with a secret, and proposes one; it keeps what it was asked."""

    name = model = "listener"
    sees = "somebody"

    def __init__(self):
        self.heard = []

    def probe(self):
        return Health(ready=True)

    def close(self):
        """Nothing to end."""

    def complete(self, prompt):
        self.heard.append(prompt.system + prompt.user)
        edit = {"op": "append", "document": "skill", "text": f"Use {OWN}.", "anchor": "", "reason": "", "tasks": []}
        return Reply(text=json.dumps({"edits": [edit]}) if prompt.schema else f"It is {OWN}.", model="listener")


def tasks(split):
    words = ["anvil", "birch", "cobalt"]
    return [
        TaskRecord(
            id=f"{split}-{word}",
            intent=f"Send {SHAPED} to the {word}",
            reference=ExactReference(answer="done"),
            feedback=(f"I said {OWN}!",),
        )
        for word in words
    ]


def checks():
    return ChecksEnv(train_tasks=tasks("train"), val_tasks=tasks("val"), test_tasks=tasks("test"))


def trained(folder, env):
    listener = Listener()
    SkillOptTrainer(
        config=SkillOptConfig(num_epochs=1, out_root=str(folder / "run"), verbose=False),
        env=env,
        optimizer_client=listener,
        target_client=listener,
        initial_skill=f"- The key is {OWN}.\n",
        environ=ENVIRON,
    ).train()
    return listener


def test_secrets_of_sessions_are_never_sent(tmp_path):
    """Neither the task's, the document's nor the environment's, and no answer teaches one."""
    listener = trained(tmp_path, checks())
    assert len(listener.heard) > 5
    assert not [each for each in listener.heard if OWN in each or SHAPED in each]
    proposed = (tmp_path / "run" / "steps" / "step_0001" / "raw_patches.json").read_text()
    assert "Use" in proposed
    assert OWN not in proposed


def test_evaluation_of_own_tasks_sends_no_secrets(tmp_path):
    """The same redaction applies."""
    listener = Listener()
    skills = {"live": f"- The key is {OWN}.\n"}
    evaluation = Evaluation(
        env=checks(), skills=skills, targets={"one": listener}, optimizer=listener, redactor=REDACTOR
    )
    with open_training_folder(tmp_path / "eval") as store:
        evaluate(evaluation, store)
    assert not [each for each in listener.heard if OWN in each or SHAPED in each]


def test_dataset_is_not_redacted(tmp_path):
    """What looks like a secret in a benchmark is part of the question."""
    rows = {
        f"{split}_items": [
            {"id": split, "question": f"What kind of token is {SHAPED}, {split}?", "answers": ["GitHub"]}
        ]
        for split in ("train", "val", "test")
    }
    listener = trained(tmp_path, SimpleQAEnv(**rows))
    assert all(SHAPED in each for each in listener.heard if "What kind" in each)


@pytest.mark.parametrize("name", ["checks", "simple_qa"])
def test_evaluation_redacts_tasks_only(tmp_path, name):
    """The environment's secrets count too; items of a dataset stay as they are."""
    everything = [task for split in ("train", "val", "test") for task in tasks(split)]
    rows = [{"id": split, "question": f"What is {split}?", "answers": ["x"]} for split in ("train", "val", "test")]
    data = {"checks": encode_tasks(everything), "simple_qa": json.dumps(rows).encode()}
    (tmp_path / "data.json").write_bytes(data[name])
    table = {"env": {"name": name, "data": str(tmp_path / "data.json"), "ratio": "1:1:1"}}
    workspace = open_workspace({})
    request = EvaluationRequest(skills=[], targets=["simulated"], bare=True)
    with open_evaluation(workspace, build_recipe(table), request) as evaluation:
        assert evaluation.redactor is (workspace.redactor if name == "checks" else None)


def test_own_tasks_are_redacted_again_when_written(tmp_path, monkeypatch):
    """A secret may have entered the environment after the tasks were mined."""
    archive = SimpleNamespace(tasks=lambda _scope: tuple(tasks("train")))
    workspace = SimpleNamespace(scope="", redactor=REDACTOR, archive=archive)
    monkeypatch.setattr(training, "read_live_documents", lambda _: ({DocumentKind.SKILL: None}, ()))
    export_night_tasks(workspace, tmp_path / "out", tmp_path / "out")
    written = (tmp_path / "out" / "tasks.json").read_text()
    assert "cobalt" in written
    assert OWN not in written
