"""What a run would take: model calls by stage, at most, before one is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from msgspec import Struct

from skillopt_sleep.gate.rule import PAIRS_A_NIGHT
from skillopt_sleep.train.config import SkillOptConfig

EXPECTED_OUTPUT_TOKENS = 600
CHARS_PER_TOKEN = 4
CONFIRMING = 4
"""Attempts that confirm one pair that was lost, under an edit that was accepted."""


class Price(Struct, frozen=True, kw_only=True):
    """The most calls of each stage, no retries counted, and the steps they are for; a judge's count where it judges.

    ``tokens`` is a rough guess: a quarter of the characters sent, and ``EXPECTED_OUTPUT_TOKENS`` for each answer.
    """

    steps: int
    stages: dict[str, int]
    tokens: int

    @property
    def calls(self) -> int:
        """All stages together."""
        return sum(self.stages.values())


def steps_of(config: SkillOptConfig, train: int) -> int:
    """Steps of a whole run on so many training items."""
    return config.num_epochs * ceil(train / config.batch_size)


def price(
    config: SkillOptConfig,
    calls: Mapping[str, Sequence[int]],
    *,
    chars_per_item: float,
    skill_chars: int,
    whole_rounds: bool = False,
) -> Price:
    """The price of a run; ``calls`` has, for each item of each split, how many calls an attempt at it takes.

    ``whole_rounds``: the environment cannot roll out a part of the selection split, so a paired gate takes all of it
    for every round it begins.
    """
    train, val, test = calls["train"], calls[config.selection_split], calls.get(config.test_split, ())
    full, rest = divmod(len(train), config.batch_size)
    batches = [config.batch_size] * full + [rest] * bool(rest)
    gate = _gate(config, val, whole_rounds=whole_rounds)
    epoch = {
        "rollout": sum(train) * config.rollouts_k,
        "reflect": sum(_analysts(config, batch) for batch in batches),
        "aggregate": sum(_merges(_analysts(config, batch), config) for batch in batches),
        "select": len(batches) * config.use_edit_budget,
        "selection": len(batches) * gate,
    }
    stages = {stage: calls * config.num_epochs for stage, calls in epoch.items()}
    stages["selection"] += sum(val)
    later = config.num_epochs - 1
    if config.use_slow_update:
        dearest = sorted(train, reverse=True)[: config.slow_update_samples]
        stages["slow update"] = later * (2 * sum(dearest) + 1)
        stages["selection"] += later * gate
    if config.use_meta_skill:
        stages["meta skill"] = max(later - 1, 0)
    if config.eval_test:
        stages["test"] = sum(test) * (3 if config.eval_current_on_test else 2)
    attempts = sum(stages.get(stage, 0) for stage in ("rollout", "selection", "slow update", "test"))
    sent = attempts * (chars_per_item + skill_chars) / CHARS_PER_TOKEN
    sent += stages["reflect"] * (config.minibatch_size * 3 * chars_per_item + skill_chars) / CHARS_PER_TOKEN
    return Price(
        steps=steps_of(config, len(train)),
        stages={stage: calls for stage, calls in stages.items() if calls},
        tokens=round(sent + sum(stages.values()) * EXPECTED_OUTPUT_TOKENS),
    )


def _analysts(config: SkillOptConfig, batch: int) -> int:
    """Failures, successes and contrasts each fill their own minibatches."""
    if config.reflection == "shallow":
        return batch
    kinds = 1 + (not config.failure_only) + (config.rollouts_k > 1)
    return min(batch, ceil(batch / config.minibatch_size) + kinds - 1)


def _merges(patches: int, config: SkillOptConfig) -> int:
    """Merging every patch of one side, level by level, with the worst share of sides, and both sides at the end."""
    if not config.use_aggregate:
        return 0
    return max(_tree(left, config) + _tree(patches - left, config) for left in range(patches + 1)) + (patches > 1)


def _tree(patches: int, config: SkillOptConfig) -> int:
    merges = 0
    while patches > 1:
        patches = ceil(patches / config.merge_batch_size)
        merges += patches
    return merges


def _gate(config: SkillOptConfig, val: Sequence[int], *, whole_rounds: bool) -> int:
    if config.gate == "paired" and whole_rounds:
        return (2 * ceil(PAIRS_A_NIGHT / len(val)) + CONFIRMING) * sum(val)
    if config.gate == "paired":
        return (2 * PAIRS_A_NIGHT + CONFIRMING * len(val)) * max(val)
    return sum(val)
