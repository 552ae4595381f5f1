"""How large a gain this much noise and this many tasks can show: the chances of the exact rule, added up.

Nothing here is simulated. The state of a trial is its score and its losses, a few dozen states in all, so the chance
of every one of them after each pair is computed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from skillopt_sleep.gate.rule import PAIRS_A_LIFE, Tally, Verdict, decide, go_on_tonight, next_pairs

RELIABLY = 0.8
"""The chance of being accepted from which a gain counts as one that can be shown."""

MOST_DIFFER = 0.5
"""How often two replays that pass or fail can differ: at a pass rate of one half."""

State = tuple[int, int]
"""Score and losses; the wins follow from them."""


def accepted_in(nights: int, win: float, loss: float, k: int, tasks: int, *, later: int | None = None) -> float:
    """The chance that a new edit is accepted in so many nights of so many val tasks, and no other edit in its way.

    ``win`` and ``loss`` are how often a pair is one; ``later`` is the number of tasks from the second night on. Each
    night runs as a trial does: pairs at once as many as could decide at the earliest, and rounds while going on is
    worth it. The pairs of a life are not counted here: see ``accepted_within``.
    """
    open_: Mapping[State, float] = {(0, 0): 1.0}
    accepted = 0.0
    for night in range(nights):
        open_, gained = _night(open_, win, loss, k, tasks if later is None or not night else later)
        accepted += gained
    return accepted


def accepted_within(win: float, loss: float, k: int, pairs: int) -> float:
    """The chance that an edit is accepted within so many pairs, in as many nights as they take."""
    open_: Mapping[State, float] = {(0, 0): 1.0}
    accepted = 0.0
    for _ in range(pairs):
        open_, gained = _after_a_pair(open_, win, loss, k)
        accepted += gained
    return accepted


def _night(
    begun: Mapping[State, float], win: float, loss: float, k: int, tasks: int
) -> tuple[Mapping[State, float], float]:
    """The states after a night that began with these, and the chance of having been accepted in it."""
    waiting = begun
    over: list[Mapping[State, float]] = []
    accepted = 0.0
    pairs = 0
    while waiting:
        under_way: dict[int, Mapping[State, float]] = {0: waiting}  # by the pairs that are promised already
        for left in range(tasks, 0, -1):
            stopped, under_way = _promised(under_way, k, pairs, left)
            over.append(stopped)
            after: dict[int, Mapping[State, float]] = {}
            for promised, states in under_way.items():
                after[promised - 1], gained = _after_a_pair(states, win, loss, k)
                accepted += gained
            under_way = after
            pairs += 1
        ended = _merged([*under_way.values()])
        waiting = {state: chance for state, chance in ended.items() if go_on_tonight(_tally(state), pairs)}
        over.append({state: chance for state, chance in ended.items() if state not in waiting})
    return _merged(over), accepted


def _promised(
    under_way: Mapping[int, Mapping[State, float]], k: int, pairs: int, left: int
) -> tuple[Mapping[State, float], dict[int, Mapping[State, float]]]:
    """What is left for another night, and what goes on: pairs under way, and as many more as a trial would begin."""
    by_size: defaultdict[int, list[Mapping[State, float]]] = defaultdict(list)
    for promised, states in under_way.items():
        if promised:
            by_size[promised].append(states)
            continue
        for state, chance in states.items():
            by_size[next_pairs(_tally(state), k, pairs_tonight=pairs, left=left)].append({state: chance})
    stopped = _merged(by_size.pop(0, []))
    return stopped, {size: _merged(states) for size, states in by_size.items()}


def _merged(parts: Sequence[Mapping[State, float]]) -> dict[State, float]:
    whole: defaultdict[State, float] = defaultdict(float)
    for part in parts:
        for state, chance in part.items():
            whole[state] += chance
    return whole


def detectable(differ: float, tasks: int, k: int, *, nights: int = 1) -> int | None:
    """The smallest gain, in points of a hundred, that is accepted with a chance of ``RELIABLY``; None when none is.

    ``differ`` is how often two replays under the same documents differ; ``raised`` says what a gain makes of them.
    After its first night an edit gets pairs of half of the tasks, for it waits while others are tried. Several nights
    show no more than all pairs of a life could, and what one night shows they do.
    """

    def reliable(points: int) -> bool:
        win, loss = raised(differ, points / 100)
        within = accepted_within(win, loss, k, PAIRS_A_LIFE)
        return within >= RELIABLY and accepted_in(nights, win, loss, k, tasks, later=max(tasks // 2, 1)) >= RELIABLY

    low, high = 0, math.ceil(100 * (1 - _pass_rate(differ)))
    if not tasks or not reliable(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reliable(middle) else (middle, high)
    return high


def raised(differ: float, gain: float) -> tuple[float, float]:
    """How often a pair is a win, and a loss, of tasks that differ so often and an edit lifts by ``gain``.

    A task that passes with the chance p differs from itself 2p(1 - p) of the time. Of the two such p the lower counts,
    for above it is less to gain. A higher pass rate wins more and takes losses away as well. Grades may differ more
    often than any p has it: then half of what differs is a win and half a loss, less and more the half of the gain.
    """
    if differ > MOST_DIFFER:
        return min((differ + gain) / 2, 1.0), max((differ - gain) / 2, 0.0)
    base = _pass_rate(differ)
    new = min(base + gain, 1.0)
    return (1 - base) * new, base * (1 - new)


def _pass_rate(differ: float) -> float:
    return 0.0 if differ > MOST_DIFFER else (1 - math.sqrt(1 - 2 * differ)) / 2


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
