"""The library's public API: train a skill document on a dataset while both models stay as they are.

::

    from skillopt_sleep.train import SimpleQAEnv, SkillOptConfig, SkillOptTrainer, client

    env = SimpleQAEnv(train_items=train, val_items=val, test_items=test)
    trainer = SkillOptTrainer(
        config=SkillOptConfig(num_epochs=2, out_root="outputs/demo"),
        env=env,
        optimizer_client=client("openai", model="the-large-one"),
        target_client=client("openai", model="the-small-one"),
        initial_skill="Answer in one short phrase.",
    )
    summary = trainer.train()
    print(summary["test_hard"])
"""

from __future__ import annotations

from skillopt_sleep.train.clients import OpenAIChatClient, client
from skillopt_sleep.train.compat.adapter import BaseDataLoader, BatchSpec, EnvAdapter, SplitDataLoader
from skillopt_sleep.train.compat.chats import extract_json, extract_json_array
from skillopt_sleep.train.config import (
    AutonomousScheduler,
    ConstantScheduler,
    CosineScheduler,
    LinearScheduler,
    LRScheduler,
    SkillOptConfig,
    build_scheduler,
)
from skillopt_sleep.train.environments import run_rollout
from skillopt_sleep.train.environments.checks import ChecksEnv
from skillopt_sleep.train.environments.simple_qa import SimpleQAEnv
from skillopt_sleep.train.patches import Edit, Patch, RawPatch, apply_edit, apply_patch, apply_patch_with_report
from skillopt_sleep.train.ports import BaseLLMClient, ChatClient, SkillEnv
from skillopt_sleep.train.results import (
    GateAction,
    GateResult,
    RolloutResult,
    compute_score,
    evaluate_gate,
    select_gate_score,
)
from skillopt_sleep.train.skill_text import skill_hash
from skillopt_sleep.train.trainer import SkillOptTrainer

__all__ = [
    "AutonomousScheduler",
    "BaseDataLoader",
    "BaseLLMClient",
    "BatchSpec",
    "ChatClient",
    "ChecksEnv",
    "ConstantScheduler",
    "CosineScheduler",
    "Edit",
    "EnvAdapter",
    "GateAction",
    "GateResult",
    "LRScheduler",
    "LinearScheduler",
    "OpenAIChatClient",
    "Patch",
    "RawPatch",
    "RolloutResult",
    "SimpleQAEnv",
    "SkillEnv",
    "SkillOptConfig",
    "SkillOptTrainer",
    "SplitDataLoader",
    "apply_edit",
    "apply_patch",
    "apply_patch_with_report",
    "build_scheduler",
    "client",
    "compute_score",
    "evaluate_gate",
    "extract_json",
    "extract_json_array",
    "run_rollout",
    "select_gate_score",
    "skill_hash",
]
