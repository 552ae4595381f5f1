"""What is measured of a rule in a cell, with standard errors, so that two ways of measuring can be held together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from msgspec import Struct

SMALLEST = 1e-300
"""A chance that is as good as none."""


class Estimate(Struct, frozen=True, kw_only=True):
    """A number and its standard error, 0 where it is exact; ``runs`` is given for a share of so many."""

    value: float
    error: float = 0.0
    runs: int = 0


class Figures(Struct, frozen=True, kw_only=True):
    """One rule in one cell.

    Shares of edits accepted: in the first night, within the first 36 pairs whatever the nights, and over the edit's
    whole life; and of first nights that end unmeasured. ``pairs`` are those replayed in the first night, ``pairs_life``
    in all. A rule with one look has one life of one night. ``calls`` are the target's in the first night: two a pair,
    and what it takes to confirm the losses of an edit that is accepted; retries and judges are not counted.
    """

    rule: str
    tonight: Estimate
    within_36: Estimate
    life: Estimate
    unmeasured: Estimate
    pairs: Estimate
    pairs_life: Estimate
    calls: Estimate | None = None


def share(hits: int, of: int) -> Estimate:
    """How many of ``of``. The error is that of one more hit and one more miss: never 0, also where all went alike."""
    smoothed = (hits + 1) / (of + 2)
    return Estimate(value=hits / of, error=math.sqrt(smoothed * (1 - smoothed) / of), runs=of)


def mean(values: Sequence[float]) -> Estimate:
    """Mean and standard error of independent values, of which there are at least two."""
    n = len(values)
    centre = math.fsum(values) / n
    return Estimate(value=centre, error=math.sqrt(math.fsum((x - centre) ** 2 for x in values) / (n - 1) / n))


def ratio(parts: Sequence[float], wholes: Sequence[float]) -> Estimate:
    """The sum of ``parts`` over that of ``wholes``, which belong together one by one; error by linearisation."""
    whole = math.fsum(wholes)
    value = math.fsum(parts) / whole
    residues = mean([part - value * each for part, each in zip(parts, wholes, strict=True)])
    return Estimate(value=value, error=residues.error * len(wholes) / whole)


def apart(one: Estimate, other: Estimate) -> float:
    """How many joint standard errors lie between two estimates of one number.

    Two shares are compared by the error they have if both are right: that of all runs together. A share and an exact
    one are as many normal deviations apart as the binomial chance of so many hits, or of more, says: where hits are
    rare, a single one would lie many standard errors away.
    """
    if math.isclose(one.value, other.value, rel_tol=1e-9, abs_tol=1e-12):
        return 0.0
    drawn, known = sorted((one, other), key=lambda each: not each.runs)
    if drawn.runs and not known.error:
        return _deviations(round(drawn.value * drawn.runs), drawn.runs, known.value)
    errors = [one.error, other.error]
    if one.runs and other.runs:
        runs = one.runs + other.runs
        right = (one.value * one.runs + other.value * other.runs) / runs
        errors = [math.sqrt(right * (1 - right) / each.runs) for each in (one, other)]
    joint = math.hypot(*errors)
    return abs(one.value - other.value) / joint if joint else math.inf


def _deviations(hits: int, runs: int, right: float) -> float:
    """The normal deviations of so many hits, by the chance of a number at least as far on their side."""
    if not 0 < right < 1:
        return math.inf
    further = range(hits + 1) if hits < runs * right else range(hits, runs + 1)
    chance = math.fsum(
        math.exp(
            math.lgamma(runs + 1)
            - math.lgamma(n + 1)
            - math.lgamma(runs - n + 1)
            + n * math.log(right)
            + (runs - n) * math.log1p(-right)
        )
        for n in further
    )
    return max(0.0, -NormalDist().inv_cdf(min(max(chance, SMALLEST), 0.5)))
