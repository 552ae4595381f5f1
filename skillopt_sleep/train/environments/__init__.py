"""What a skill is trained on: questions with answers, tasks of our own, or your own environment."""

from __future__ import annotations

from skillopt_sleep.train.environments.checks import ChecksEnv
from skillopt_sleep.train.environments.loading import as_env, checked, load_environment, roll_out
from skillopt_sleep.train.environments.simple_qa import SimpleQAEnv

__all__ = ["ChecksEnv", "SimpleQAEnv", "as_env", "checked", "load_environment", "roll_out"]
