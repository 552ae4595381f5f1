"""How a skill is trained: every field by the name users of the reference know, and each one checked."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from skillopt_sleep.errors import ConfigError
from skillopt_sleep.model.call import Caps
from skillopt_sleep.model.text import did_you_mean
from skillopt_sleep.train.schedules import SCHEDULERS

PROMPTS = (
    "analyst_error",
    "analyst_success",
    "analyst_contrast",
    "merge_failure",
    "merge_success",
    "merge_final",
    "ranking",
    "slow_update",
    "meta_skill",
)
"""Names under which ``prompt_overrides`` puts other words in place of a prompt's system part."""

CHOICES = {
    "lr_scheduler": tuple(SCHEDULERS),
    "gate_metric": ("hard", "soft", "mixed"),
    "gate": ("strict", "paired", "off"),
    "reflection": ("deep", "shallow"),
    "slow_update_gate": ("gate", "force"),
}
LEAST = {
    "num_epochs": 1,
    "batch_size": 1,
    "minibatch_size": 1,
    "merge_batch_size": 2,
    "edit_budget": 1,
    "min_edit_budget": 1,
    "workers": 1,
    "optimizer_max_completion_tokens": 1,
    "rollouts_k": 1,
    "slow_update_samples": 1,
    "max_skill_chars": 100,
}
SHARES = {"gate_mixed_weight": (0.0, 1.0), "gate_alpha": (0.0001, 0.5)}
CAPS = ("max_calls", "max_tokens", "max_usd", "max_minutes")
NO_CAP = 10**12
MIN_EDIT_BUDGET = 2


class _Named(type):
    """A class that says which keyword is meant, where it has none of that name."""

    def __call__(cls, *values: object, **named: object) -> object:
        """Raise ``ConfigError`` naming an unknown keyword and the nearest known one."""
        known = [each.name for each in fields(cls)]  # type: ignore[arg-type]  # the class below is a dataclass
        for name in named:
            if name not in known:
                raise ConfigError(f"a training config has no field {name!r}{did_you_mean(name, known)}")
        budget, given = named.get("edit_budget"), len(values) > known.index("min_edit_budget")
        if isinstance(budget, int) and budget in range(1, MIN_EDIT_BUDGET) and not given:
            named.setdefault("min_edit_budget", budget)  # the least that was not given follows the most down
        return super().__call__(*values, **named)


@dataclass
class SkillOptConfig(metaclass=_Named):
    """The settings of one training run. Raises ``ConfigError`` for a value that cannot be.

    ``batch_size`` items are rolled out in a step, ``minibatch_size`` trajectories shown to an analyst, and
    ``merge_batch_size`` patches merged at a time. ``edit_budget`` and ``min_edit_budget`` bound the edits of a step,
    between which ``lr_scheduler`` goes: constant, linear, cosine, or autonomous. The gate compares the
    ``selection_split`` under ``gate_metric``: hard, soft, or mixed with ``gate_mixed_weight`` of soft. With
    ``failure_only`` nothing is learnt from what went well. What is written goes to ``out_root``; a run that is there
    already is gone on with.

    Beyond the reference: ``gate`` is ``strict`` (its rule), ``paired`` (this program's, with ``gate_alpha`` as its
    error) or ``off``; ``reflection`` is ``deep`` (an analyst sees several trajectories) or ``shallow`` (one);
    ``rollouts_k`` attempts at each training item, contrasted where they differ. ``slow_update_samples`` items are
    revisited at an epoch's end, and what is written then is gated, or with ``slow_update_gate="force"`` taken as it is.
    The ``use_`` switches take one mechanism out. A run stops, resumable, before it goes over one of the ``max_`` caps.
    """

    num_epochs: int = 4
    batch_size: int = 40
    minibatch_size: int = 8
    merge_batch_size: int = 8
    edit_budget: int = 4
    min_edit_budget: int = MIN_EDIT_BUDGET
    lr_scheduler: str = "cosine"
    gate_metric: str = "hard"
    gate_mixed_weight: float = 0.5
    failure_only: bool = False
    workers: int = 8
    seed: int = 42
    out_root: str = "outputs/skillopt_run"
    selection_split: str = "val"
    test_split: str = "test"
    eval_test: bool = True
    save_every_step: bool = True
    optimizer_max_completion_tokens: int = 4096
    verbose: bool = True
    extras: dict[str, Any] = field(default_factory=dict)

    gate: str = "strict"
    gate_alpha: float = 0.05
    reflection: str = "deep"
    rollouts_k: int = 1
    slow_update_samples: int = 20
    slow_update_gate: str = "gate"
    use_edit_budget: bool = True
    use_rejected_buffer: bool = True
    use_slow_update: bool = True
    use_meta_skill: bool = True
    use_aggregate: bool = True
    eval_current_on_test: bool = False
    max_skill_chars: int = 20_000
    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.out_root, os.PathLike):
            self.out_root = os.fspath(self.out_root)
        for each in fields(self):
            _check(each.name, getattr(self, each.name), each.default)
        if self.min_edit_budget > self.edit_budget:
            raise ConfigError(
                f"min_edit_budget is {self.min_edit_budget}, more than edit_budget, which is {self.edit_budget}"
            )
        if self.test_split == "train":
            raise ConfigError(
                "test_split is 'train': a score on items that were learnt from proves nothing; name another"
            )
        if self.selection_split in {"train", self.test_split}:
            raise ConfigError(
                f"selection_split is {self.selection_split!r}: a gate on items that were learnt from, or that the test"
                " is for, proves nothing; name a split of its own"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SkillOptConfig:
        """A config from a table. Raises ``ConfigError`` naming an unknown field and the nearest known one."""
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Every field, as JSON can hold it."""
        return asdict(self)

    @property
    def caps(self) -> Caps:
        """What a run may spend before it stops; a cap that is not set is out of reach."""
        return Caps(
            calls=NO_CAP if self.max_calls is None else self.max_calls,
            tokens=NO_CAP if self.max_tokens is None else self.max_tokens,
            usd=NO_CAP if self.max_usd is None else self.max_usd,
            minutes=NO_CAP if self.max_minutes is None else self.max_minutes,
        )


def check_prompts(prompts: Iterable[str]) -> None:
    """Raise ``ConfigError`` for the name of a prompt that there is not."""
    for name in prompts:
        if name not in PROMPTS:
            raise ConfigError(f"there is no prompt {name!r} to override{did_you_mean(name, PROMPTS)}")


def _check(name: str, value: object, default: object) -> None:
    """One field by itself."""
    if name in CAPS:
        _check_cap(name, value)
    elif name == "extras":
        if not isinstance(value, dict):
            raise ConfigError(f"extras is {value!r:.60}, must be a dict")
    elif isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is {value!r:.60}, must be True or False")
    elif isinstance(default, int | float):
        _check_number(name, value, whole=isinstance(default, int))
    else:
        _check_text(name, value)


def _check_number(name: str, value: object, *, whole: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise ConfigError(f"{name} is {value!r:.60}, must be a {'whole ' if whole else ''}number")
    if name in LEAST and value < LEAST[name]:
        raise ConfigError(f"{name} is {value}, must be {LEAST[name]} or more")
    if name in SHARES and not SHARES[name][0] <= value <= SHARES[name][1]:
        least, most = SHARES[name]
        raise ConfigError(f"{name} is {value}, must lie between {least:g} and {most:g}")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{name} is {value!r:.60}, must be a text that is not empty")
    if name in CHOICES and value not in CHOICES[name]:
        raise ConfigError(
            f"{name} is {value!r}, must be one of {', '.join(CHOICES[name])}{did_you_mean(value, CHOICES[name])}"
        )


def _check_cap(name: str, value: object) -> None:
    whole = name in {"max_calls", "max_tokens"}
    number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if value is not None and not (number and math.isfinite(float(str(value))) and float(str(value)) > 0):
        raise ConfigError(f"{name} is {value!r:.60}, must be a {'whole ' if whole else ''}number above 0, or left out")
