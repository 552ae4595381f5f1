"""Whether another pair is worth its price tonight: how a trial is paused, which can never change what it decides.

A paused edit keeps its tally and goes on another night, so the pairs it is judged by are the same ones in the same
order. Only the bill of a night differs.
"""

from __future__ import annotations

from skillopt_sleep.domain.paired import DROP, GO_ON_AT, MOST_LOSSES, PAIRS_A_LIFE, PAIRS_A_NIGHT, Tally

__all__ = ["PAUSE_AT", "soonest", "worth_another"]

PAUSE_AT = -2
"""The score at which an edit is left for another night, also within a round.

One loss that no win makes up for. An edit that helps and harms alike is left after six pairs in the median instead of
ten; one that lifts the pass rate from .3 to .7 is accepted in the night it is first tried on 77 % of nights instead of
82 %, and as often as ever in the end (simulated, 12 val tasks).
"""


def worth_another(tally: Tally, pairs_tonight: int, left: int) -> bool:
    """Whether the next of the ``left`` pairs of a round is worth its price; the first ones of a night always are.

    Not when the round could not end at a score that is worth another round, were all of them won: then they could not
    accept the edit tonight either. Nor from ``PAUSE_AT`` downwards.
    """
    if pairs_tonight and (tally.score <= PAUSE_AT or tally.score + left < GO_ON_AT):
        return False
    return pairs_tonight < PAIRS_A_NIGHT and tally.pairs < PAIRS_A_LIFE


def soonest(tally: Tally, k: int) -> int:
    """How many more pairs decide at the earliest: all won, or all lost."""
    return min(k - tally.score, -(-(tally.score - DROP) // 2), MOST_LOSSES + 1 - tally.losses)
