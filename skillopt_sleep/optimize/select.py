"""Select: rank the edits and keep as many as the edit budget allows, which is what keeps a step small."""

from __future__ import annotations

from msgspec import Struct

from skillopt_sleep.domain.patch import EditPatch, Proposal, by_support
from skillopt_sleep.optimize.optimizer import Optimizer, numbered, object_schema

__all__ = ["Selected", "select"]

SCHEMA = object_schema(ranking={"type": "array", "items": {"type": "integer"}})
SCHEMA_WITH_BUDGET = object_schema(ranking={"type": "array", "items": {"type": "integer"}}, budget={"type": "integer"})
PHASE = "select"


class _Reply(Struct, frozen=True, kw_only=True):
    ranking: tuple[int, ...]
    budget: int | None = None


class Selected(Struct, frozen=True, kw_only=True):
    """The edits of a step, the best first, and those that the budget left out.

    ``asked``: the budget that the optimizer asked for, None when it was not asked. ``how``: who ranked, in words.
    """

    chosen: tuple[Proposal, ...] = ()
    left_out: tuple[Proposal, ...] = ()
    asked: int | None = None
    how: str = ""


def select(
    patch: EditPatch,
    document: str,
    optimizer: Optimizer,
    *,
    edit_budget: int,
    least: int | None = None,
) -> Selected:
    """Rank and clip. With ``least`` the optimizer says how many edits it wants, between that and ``edit_budget``.

    What fits the budget (or is no more than ``least``) is not ranked and costs no call. An edit that a ranking leaves
    out comes after the ones it names; without a readable ranking, the most often proposed come first. Raises
    ``FatalBackend`` and ``BudgetSpent``.
    """
    proposals = by_support(patch.proposals)
    if len(proposals) <= (edit_budget if least is None else least):
        return Selected(chosen=proposals, how="all fit the budget")
    prompt = optimizer.prompt(
        "ranking",
        SCHEMA if least is None else SCHEMA_WITH_BUDGET,
        edit_budget=str(edit_budget),
        budget=f"exactly {edit_budget}" if least is None else f"from {least} to {edit_budget}, as you decide",
        document=document.strip() or "(empty)",
        edits=numbered([each.edit for each in proposals]),
    )
    reply, answer = optimizer.read(prompt, _Reply, phase=PHASE)
    if reply is None:
        return _clipped(proposals, edit_budget, how=f"by support: the ranking was lost ({answer.error})")
    named = [number for number in dict.fromkeys(reply.ranking) if 1 <= number <= len(proposals)]
    ranked = [proposals[number - 1] for number in named]
    ranked += [each for number, each in enumerate(proposals, start=1) if number not in named]
    budget, asked = edit_budget, None
    if least is not None:
        asked = max(least, min(edit_budget, reply.budget or edit_budget))
        budget = asked
    how = "by the optimizer" if named else "by support: the ranking names no edit"
    return _clipped(ranked, budget, how=how, asked=asked)


def _clipped(
    ranked: list[Proposal] | tuple[Proposal, ...], budget: int, *, how: str, asked: int | None = None
) -> Selected:
    return Selected(chosen=tuple(ranked[:budget]), left_out=tuple(ranked[budget:]), asked=asked, how=how)
