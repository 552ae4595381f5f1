"""What a skill is trained on: questions with answers, this program's own tasks, or an environment of your own."""

from __future__ import annotations

from skillopt_sleep.train.environments.checking import checked, roll_out
from skillopt_sleep.train.environments.checks import ChecksEnv
from skillopt_sleep.train.environments.qa import SimpleQAEnv

__all__ = ["ChecksEnv", "SimpleQAEnv", "checked", "roll_out"]
