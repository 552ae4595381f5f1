"""The reference implementation's adapter API, so that environments written for it train here.

Such an environment needs ``sed s/skillopt/skillopt_sleep.train.compat/`` and nothing else: ``layout`` has the module
paths, and the base classes, loaders, chat functions and analysts have the names and signatures it knows. ``AdapterEnv``
runs its adapter under this program's trainer. The differences are listed in docs/environments.md.
"""

from __future__ import annotations

from skillopt_sleep.train.compat.adapter import BaseDataLoader, BatchSpec, EnvAdapter, SplitDataLoader
from skillopt_sleep.train.compat.bridge import AdapterEnv
from skillopt_sleep.train.compat.chats import (
    chat_optimizer,
    chat_optimizer_messages,
    chat_target,
    chat_target_messages,
    extract_json,
    extract_json_array,
    load_prompt,
)
from skillopt_sleep.train.compat.execution import (
    get_target_backend,
    is_optimizer_chat_backend,
    is_target_chat_backend,
    is_target_exec_backend,
)
from skillopt_sleep.train.compat.layout import install_modules
from skillopt_sleep.train.compat.reflection import (
    fmt_minibatch_trajectories,
    fmt_trajectory,
    run_error_analyst_minibatch,
    run_minibatch_reflect,
    run_success_analyst_minibatch,
)
from skillopt_sleep.train.patches import Edit, FailureSummaryEntry, Patch, RawPatch
from skillopt_sleep.train.results import GateAction, GateResult, RolloutResult, SlowUpdateResult, compute_score
from skillopt_sleep.train.skill_text import skill_hash

__all__ = [
    "AdapterEnv",
    "BaseDataLoader",
    "BatchSpec",
    "Edit",
    "EnvAdapter",
    "FailureSummaryEntry",
    "GateAction",
    "GateResult",
    "Patch",
    "RawPatch",
    "RolloutResult",
    "SlowUpdateResult",
    "SplitDataLoader",
    "chat_optimizer",
    "chat_optimizer_messages",
    "chat_target",
    "chat_target_messages",
    "compute_score",
    "extract_json",
    "extract_json_array",
    "fmt_minibatch_trajectories",
    "fmt_trajectory",
    "get_target_backend",
    "is_optimizer_chat_backend",
    "is_target_chat_backend",
    "is_target_exec_backend",
    "load_prompt",
    "run_error_analyst_minibatch",
    "run_minibatch_reflect",
    "run_success_analyst_minibatch",
    "skill_hash",
]

install_modules()
