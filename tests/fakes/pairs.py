"""Pairs added to a tally as a trial adds them."""

from __future__ import annotations

from collections.abc import Iterable

from skillopt_sleep.gate.rule import Verdict, decide
from skillopt_sleep.gate.tally import Lost, Result, Tally


def add_results(results: Iterable[Result | Lost], k: int, start: Tally = Tally()) -> Tally:  # noqa: B008 - frozen
    """Add pairs to a tally in order, up to the one that decides; several nights are several calls."""
    tally = start
    for result in results:
        if decide(tally, k) is not Verdict.UNDECIDED:
            break
        tally = tally.add(result)
    return tally
