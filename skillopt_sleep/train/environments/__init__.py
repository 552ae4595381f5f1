"""What a skill is trained on: questions with answers, this program's own tasks, or an environment of your own."""

from __future__ import annotations

from skillopt_sleep.train.environments.checking import checked, roll_out
from skillopt_sleep.train.environments.checks import ChecksEnv
from skillopt_sleep.train.environments.finding import as_env, load_environment
from skillopt_sleep.train.environments.simple_qa import SimpleQAEnv

__all__ = ["ChecksEnv", "SimpleQAEnv", "as_env", "checked", "load_environment", "roll_out"]
