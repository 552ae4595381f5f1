"""How large a gain this much noise and this many tasks can show: the chances of the exact rule, added up.

Nothing here is simulated. The state of a trial is its score and its losses, a few dozen states in all, so the chance
of every one of them after each pair is computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from skillopt_sleep.domain.paired import PAIRS_A_LIFE, Tally, decide, go_on_tonight, next_pairs
from skillopt_sleep.domain.verdict import Verdict

__all__ = ["RELIABLY", "accepted_tonight", "accepted_within", "detectable"]

RELIABLY = 0.8
"""The chance of being accepted from which a gain counts as one that can be shown."""

NIGHTS = 7
"""Nights of a week."""

State = tuple[int, int]
"""Score and losses; the wins follow from them."""


def accepted_tonight(win: float, loss: float, k: int, tasks: int) -> float:
    """The chance that a new edit is accepted in one night of so many val tasks, a pair being a win or a loss so often.

    Pairs are replayed as many at once as could decide at the earliest, as a trial does.
    """
    waiting: Mapping[State, float] = {(0, 0): 1.0}
    accepted = 0.0
    pairs = 0
    while waiting and tasks:
        under_way: dict[int, Mapping[State, float]] = {0: waiting}  # by the pairs that are promised already
        for left in range(tasks, 0, -1):
            under_way = _promised(under_way, k, pairs, left)
            after: dict[int, Mapping[State, float]] = {}
            for promised, states in under_way.items():
                after[promised - 1], gained = _after_a_pair(states, win, loss, k)
                accepted += gained
            under_way = after
            pairs += 1
        waiting = _merged(
            [{s: c for s, c in each.items() if go_on_tonight(_tally(s), pairs)} for each in under_way.values()]
        )
    return accepted


def _promised(
    under_way: Mapping[int, Mapping[State, float]], k: int, pairs: int, left: int
) -> dict[int, Mapping[State, float]]:
    """Those with pairs under way go on; the others begin as many as a trial would, or are left for another night."""
    by_size: defaultdict[int, list[Mapping[State, float]]] = defaultdict(list)
    for promised, states in under_way.items():
        if promised:
            by_size[promised].append(states)
            continue
        for state, chance in states.items():
            if size := next_pairs(_tally(state), k, pairs_tonight=pairs, left=left):
                by_size[size].append({state: chance})
    return {size: _merged(states) for size, states in by_size.items()}


def _merged(parts: Sequence[Mapping[State, float]]) -> dict[State, float]:
    whole: defaultdict[State, float] = defaultdict(float)
    for part in parts:
        for state, chance in part.items():
            whole[state] += chance
    return whole


def accepted_within(win: float, loss: float, k: int, pairs: int) -> float:
    """The chance that an edit is accepted within so many pairs, in as many nights as they take."""
    open_: Mapping[State, float] = {(0, 0): 1.0}
    accepted = 0.0
    for _ in range(pairs):
        open_, gained = _after_a_pair(open_, win, loss, k)
        accepted += gained
    return accepted


def detectable(differ: float, tasks: int, k: int, *, nights: int = 1) -> int | None:
    """The smallest gain, in points of a hundred, that is accepted with a chance of ``RELIABLY``; None when none is.

    ``differ`` is how often two replays under the same documents differ: half of it are wins of chance and half are
    losses of chance, and the gain is won on top, which is cautious, for an edit that helps also takes losses away.
    One night is taken as it runs; of several, each is taken to bring one round of ``tasks`` pairs.
    """

    def reliable(points: int) -> bool:
        loss = differ / 2
        win = min(loss + points / 100, 1 - loss)
        if nights == 1:
            return accepted_tonight(win, loss, k, tasks) >= RELIABLY
        return accepted_within(win, loss, k, min(nights * tasks, PAIRS_A_LIFE)) >= RELIABLY

    low, high = 0, 100
    if not tasks or not reliable(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reliable(middle) else (middle, high)
    return high


def _after_a_pair(open_: Mapping[State, float], win: float, loss: float, k: int) -> tuple[Mapping[State, float], float]:
    """The states that are still open after one more pair, and the chance of having been accepted by it."""
    after: defaultdict[State, float] = defaultdict(float)
    accepted = 0.0
    for (score, losses), chance in open_.items():
        after[score, losses] += chance * (1 - win - loss)
        for state, share in (((score + 1, losses), win), ((score - 2, losses + 1), loss)):
            match decide(_tally(state), k):
                case Verdict.UNDECIDED:
                    after[state] += chance * share
                case Verdict.ACCEPT:
                    accepted += chance * share
                case _:
                    pass
    return after, accepted


def _tally(state: State) -> Tally:
    score, losses = state
    return Tally(wins=score + 2 * losses, losses=losses)
