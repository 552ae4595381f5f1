"""The end of an epoch, from the second on: the slow update of the skill, and the optimizer's own notes."""

from __future__ import annotations

import random
from typing import Any

from msgspec.structs import replace

from skillopt_sleep.train.gating import DRAWS_A_STEP, judged
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.reflection import revisits
from skillopt_sleep.train.run import Draw, Run
from skillopt_sleep.train.skill_text import guidance_of, skill_hash
from skillopt_sleep.train.slow_update import Revisit, meta_skill, slow_update, sorted_out
from skillopt_sleep.train.state import RunState

FIRST = 2
"""The first epoch with one before it to compare with: at its end there is something to do."""
DRAWS = 2_000_000
TRIALS = 500_000_000
"""Numbers of draws from here on are those of the trials of slow updates, so many for each epoch's."""


def end_epoch(run: Run, state: RunState, *, epoch: int, last: bool) -> RunState:
    """Work off the end of an epoch. After the ``last`` one no notes are written: nobody would read them.

    Raises ``FatalBackend`` and ``BudgetSpent``.
    """
    boundary: dict[str, Any] = {"epoch": epoch}
    if epoch >= FIRST and run.config.use_slow_update:
        state, boundary["slow_update"] = _slow(run, state, epoch)
    if epoch >= FIRST and run.config.use_meta_skill and not last:
        notes, why = meta_skill(state.notes, state.tried, guidance_of(state.current_skill), run.optimizer)
        state = replace(state, notes=notes)
        boundary["meta_skill"] = {"notes": notes, "kept_because": why}
        run.artefacts.json(f"meta_skill/epoch_{epoch:02d}.json", boundary["meta_skill"])
    return replace(
        state,
        epochs_ended=epoch,
        epoch_skill=state.current_skill,
        tried=(),
        boundaries=(*state.boundaries, boundary) if len(boundary) > 1 else state.boundaries,
    )


def _slow(run: Run, state: RunState, epoch: int) -> tuple[RunState, dict[str, Any]]:
    folder = f"slow_update/epoch_{epoch:02d}"
    found = _revisited(run, state, epoch, folder)
    courses = {str(course): [each.id for each in rows] for course, rows in sorted_out(found).items()}
    made = slow_update(state.current_skill, found, run.optimizer)
    told: dict[str, Any] = {
        "sample": len(found),
        "courses": courses,
        "prev_hard": _share([each.passed_before for each in found]),
        "curr_hard": _share([each.passed_now for each in found]),
        "guidance": guidance_of(made.skill),
        "candidate_hash": skill_hash(made.skill),
    }
    if made.nothing:
        told |= {"action": "skip", "why": made.nothing}
    else:
        forced = run.config.slow_update_gate == "force"
        step = state.last_completed_step
        verdict = judged(
            run,
            state,
            made.skill,
            step=step,
            folder=f"{folder}/selection_eval",
            forced=forced,
            first_draw=TRIALS + epoch * DRAWS_A_STEP,
        )
        state = verdict.state
        told |= {"action": verdict.action, "why": verdict.why, "candidate_gate_score": verdict.after}
        run.artefacts.text(f"{folder}/candidate_skill.md", made.skill)
    run.artefacts.json(f"{folder}/slow_update.json", told)
    run.tell(f"  slow update after epoch {epoch}: {told['action']}, {told['why']}")
    return state, told


def _revisited(run: Run, state: RunState, epoch: int, folder: str) -> tuple[Revisit, ...]:
    """The same sample under the skill of the epoch before and the present one; equal skills are rolled out once."""
    train = run.items["train"]
    wanted = min(run.config.slow_update_samples, len(train))
    rng = random.Random(f"{run.config.seed}:slow:{epoch}")  # noqa: S311  a sample, not a secret
    sample: list[Item] = [train[index] for index in sorted(rng.sample(range(len(train)), wanted))]

    def draw(name: str) -> Draw:
        return Draw(
            phase="slow update",
            split="train",
            number=DRAWS + epoch,
            folder=f"{folder}/{name}",
            seed=run.config.seed + DRAWS + epoch,
        )

    before, now = run.roll_all(sample, [(state.epoch_skill, draw("before")), (state.current_skill, draw("now"))])
    return revisits(before, now)


def _share(passed: list[bool]) -> float | None:
    return passed.count(True) / len(passed) if passed else None
