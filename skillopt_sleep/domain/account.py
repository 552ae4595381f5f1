"""The account of a person's nights: how many edits were tried, how many accepted, how many of those by chance."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.domain.paired import expected_false, stricter
from skillopt_sleep.domain.verdict import Verdict, exact_error, threshold

__all__ = ["ALPHA", "STRICT_ALPHA", "Account", "Tried", "add_up", "score_needed"]

ALPHA = 0.05
STRICT_ALPHA = 0.02
"""What new edits are held to while chance may account for too many of the accepted ones; auto-adopt always."""


class Tried(Struct, frozen=True, kw_only=True):
    """One edit that was tried: the score that would have accepted it, and what came of it so far."""

    id: str
    night: str
    k: int
    verdict: Verdict


class Account(Struct, frozen=True, kw_only=True):
    """``by_chance`` bounds the accepts that are expected to be wrong; ``k`` is what the next new edit needs."""

    tried: int = 0
    accepted: int = 0
    by_chance: float = 0.0
    k: int = threshold(ALPHA)


def add_up(tried: Sequence[Tried]) -> Account:
    """The account of these edits."""
    accepted = sum(each.verdict is Verdict.ACCEPT for each in tried)
    by_chance = expected_false(exact_error(each.k) for each in tried)
    alpha = STRICT_ALPHA if stricter(accepted, by_chance) else ALPHA
    return Account(tried=len(tried), accepted=accepted, by_chance=round(by_chance, 4), k=threshold(alpha))


def score_needed(total: Account, alpha: float = ALPHA, *, by_itself: bool = False) -> int:
    """The score that accepts the next new edit: what was asked for or what the account asks for, the higher of both.

    ``by_itself``: what is accepted is to be adopted without a question, which takes more. Raises ValueError for an
    ``alpha`` that is no chance.
    """
    return max(total.k, threshold(alpha), threshold(STRICT_ALPHA) if by_itself else 0)
