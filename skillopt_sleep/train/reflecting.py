"""The analysts of a step as a function of results, for an environment that reflects by itself and asks them."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_sleep.calls.pool import Pool
from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.patch import Learnt
from skillopt_sleep.optimize.analyse import Lesson, analyse
from skillopt_sleep.optimize.optimizer import Optimizer
from skillopt_sleep.train.asking import ask_of
from skillopt_sleep.train.cases import minibatches
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.editing import to_patch
from skillopt_sleep.train.ports import ChatClient
from skillopt_sleep.train.results import RawPatch, RolloutResult

__all__ = ["reflect_on"]


def reflect_on(
    results: Sequence[RolloutResult],
    skill: str,
    *,
    optimizer_client: ChatClient,
    workers: int,
    failure_only: bool,
    minibatch_size: int,
    edit_budget: int,
    random_seed: int,
    error_system: str | None = None,
    success_system: str | None = None,
    step_buffer_context: str = "",
    meta_skill_context: str = "",
) -> list[RawPatch]:
    """One patch of each analyst that proposed something. Raises ``FatalBackend`` and ``BudgetSpent``.

    ``error_system`` and ``success_system`` take the place of the analysts' instructions; the form of their reply stays.
    """
    config = SkillOptConfig(
        minibatch_size=minibatch_size, failure_only=failure_only, edit_budget=edit_budget, min_edit_budget=1
    )
    wording = {"analyst_error": error_system, "analyst_success": success_system}
    optimizer = Optimizer(
        ask=ask_of(optimizer_client),
        parallel=Pool(workers),
        wording={name: text for name, text in wording.items() if text is not None},
    )
    notes = [meta_skill_context.strip(), f"Tried before:\n{step_buffer_context}" if step_buffer_context.strip() else ""]
    analyses = analyse(
        minibatches(results, config, str(random_seed)),
        DocumentKind.SKILL,
        skill,
        frozenset(each.id for each in results),
        optimizer,
        lesson=Lesson(edit_budget=edit_budget, notes="\n\n".join(filter(None, notes))),
        phase="reflect",
    )
    return [
        RawPatch(
            patch=to_patch(each.patch),
            source_type="success" if each.patch.learnt is Learnt.SUCCESS else "failure",
            batch_size=each.patch.cases,
        )
        for each in analyses
        if each.patch.proposals
    ]
