"""Schedules of the edit budget: how many edits a step may make, which is the learning rate of a text.

Step numbers run from 0 to ``total_steps`` - 1; the first step has the largest budget, the last one the smallest, and a
run that goes on beyond its plan stays there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from skillopt_sleep.model.text import did_you_mean


class Scheduler:
    """One schedule. Raises ``ValueError`` for bounds that are none, and for a state of another schedule."""

    mode: ClassVar[str] = "constant"

    def __init__(self, max_lr: int, min_lr: int, total_steps: int) -> None:
        if not 1 <= min_lr <= max_lr:
            raise ValueError(f"an edit budget lies between min_lr and max_lr, 1 <= {min_lr} <= {max_lr} does not hold")
        if total_steps < 1:
            raise ValueError(f"total_steps must be 1 or more, not {total_steps}")
        self.max_lr = max_lr
        self.min_lr = min_lr
        self.total_steps = total_steps
        self._done = 0
        self._chosen: int | None = None

    def step(self) -> int:
        """Begin the next step; its budget."""
        self._done += 1
        self._chosen = None
        return self.get_lr()

    def get_lr(self, step: int | None = None) -> int:
        """The budget of a step, counted from 0; without one of the step under way, before the first of that."""
        if step is None and self._chosen is not None:
            return self._chosen
        last = max(self.total_steps - 1, 1)
        share = self.shape(min(max(self._done - 1 if step is None else step, 0), last) / last)
        return math.floor(self.min_lr + (self.max_lr - self.min_lr) * share + 0.5)

    def shape(self, progress: float) -> float:  # noqa: ARG002  the constant schedule is the same throughout
        """How far above the lower bound to be, 1 to 0, at a progress of 0 to 1."""
        return 1.0

    def state_dict(self) -> dict[str, Any]:
        """What ``load_state_dict`` needs to go on, as JSON can hold it."""
        return {
            "mode": self.mode,
            "max_lr": self.max_lr,
            "min_lr": self.min_lr,
            "total_steps": self.total_steps,
            "step": self._done,
            "chosen": self._chosen,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another schedule of this kind was."""
        if state.get("mode", self.mode) != self.mode:
            raise ValueError(f"this is the state of a {state['mode']!r} schedule, and this schedule is {self.mode!r}")
        done = state.get("step", state.get("current_step"))  # the second is the name that the reference gives it
        if done is None:
            raise ValueError(
                f"a schedule's state has a 'step', this one only {', '.join(map(str, state)) or 'nothing'}"
            )
        for name in ("max_lr", "min_lr", "total_steps"):
            setattr(self, name, int(state.get(name, getattr(self, name))))
        self._done = int(done)
        chosen = state.get("chosen")
        self._chosen = None if chosen is None else int(chosen)


class ConstantScheduler(Scheduler):
    """The same budget in every step."""


class LinearScheduler(Scheduler):
    """Down in a straight line."""

    mode = "linear"

    def shape(self, progress: float) -> float:
        """A straight line."""
        return 1.0 - progress


class CosineScheduler(Scheduler):
    """Down along half a cosine: slowly, then fast, then slowly."""

    mode = "cosine"

    def shape(self, progress: float) -> float:
        """Half a cosine."""
        return 0.5 * (1.0 + math.cos(math.pi * progress))


class AutonomousScheduler(Scheduler):
    """The optimizer asks for its budget, and gets it within the bounds."""

    mode = "autonomous"

    def choose(self, asked: int) -> int:
        """Grant the step under way what was asked for, within the bounds."""
        self._chosen = max(self.min_lr, min(self.max_lr, asked))
        return self._chosen


SCHEDULERS: Mapping[str, Callable[[int, int, int], Scheduler]] = {
    kind.mode: kind for kind in (ConstantScheduler, LinearScheduler, CosineScheduler, AutonomousScheduler)
}


def build_scheduler(mode: str = "cosine", max_lr: int = 4, min_lr: int = 2, total_steps: int = 1) -> Scheduler:
    """The schedule of that name; the defaults are ``SkillOptConfig``'s. Raises ``ValueError`` naming the known ones."""
    if mode not in SCHEDULERS:
        raise ValueError(f"there is no schedule {mode!r}, only {', '.join(SCHEDULERS)}{did_you_mean(mode, SCHEDULERS)}")
    return SCHEDULERS[mode](max_lr, min_lr, total_steps)
