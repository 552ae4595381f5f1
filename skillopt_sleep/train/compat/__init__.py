"""The adapter layer of the reference implementation, by its published signatures, so that its environments train here.

An environment written to that documentation needs another import and nothing else: the base classes, the loaders, the
chat functions and the minibatch reflection are here under the names it knows. ``AdapterEnv`` is the way from such an
adapter to the trainer of this program (``adapted.py``). What differs is told in docs/environments.md.
"""

from __future__ import annotations

from skillopt_sleep.train.compat.adapter import EnvAdapter
from skillopt_sleep.train.compat.analysts import (
    fmt_minibatch_trajectories,
    fmt_trajectory,
    run_error_analyst_minibatch,
    run_minibatch_reflect,
    run_success_analyst_minibatch,
)
from skillopt_sleep.train.compat.bridge import AdapterEnv
from skillopt_sleep.train.compat.chats import (
    chat_optimizer,
    chat_optimizer_messages,
    chat_target,
    chat_target_messages,
    is_optimizer_chat_backend,
    is_target_chat_backend,
    is_target_exec_backend,
    load_prompt,
)
from skillopt_sleep.train.compat.loaders import BaseDataLoader, BatchSpec, SplitDataLoader
from skillopt_sleep.train.editing import compute_score, extract_json
from skillopt_sleep.train.results import (
    Edit,
    FailureSummaryEntry,
    GateAction,
    GateResult,
    Patch,
    RawPatch,
    RolloutResult,
    SlowUpdateResult,
)
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
    "fmt_minibatch_trajectories",
    "fmt_trajectory",
    "is_optimizer_chat_backend",
    "is_target_chat_backend",
    "is_target_exec_backend",
    "load_prompt",
    "run_error_analyst_minibatch",
    "run_minibatch_reflect",
    "run_success_analyst_minibatch",
    "skill_hash",
]
