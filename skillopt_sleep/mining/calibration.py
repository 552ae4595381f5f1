"""Calibrates a judge on recorded pairs, so that proofs by a judge that only guesses never count."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from msgspec import Struct

LUCKY = 0.25
"""Upper bound of the probability that a guessing judge separates a pair: it must call one behaviour bad and the other
good, and p(1 - p) is at most a quarter, whether it draws once for each behaviour or anew for each question."""
LOOKS = (5, 9, 14, 24)
"""Numbers of recorded pairs after which a judge is tested; one that has passed stays calibrated."""
CHANCE = 0.01
"""Upper bound of the probability that a guessing judge passes, over all looks together."""


class Calibration(Struct, frozen=True, kw_only=True):
    """How a judge did on the recorded pairs of this archive."""

    pairs: int = 0
    separated: int = 0
    passed: bool = False

    @property
    def in_words(self) -> str:
        """The state of the calibration as a clause for the report."""
        if self.passed:
            return f"the judge told {self.separated} of {self.pairs} recorded pairs apart, which is more than chance"
        ahead = [(size, count_needed(size) - self.separated) for size in LOOKS if size > self.pairs]
        coming = next((size for size, wanted in ahead if wanted <= size - self.pairs), 0)
        needed = f"; it must tell {count_needed(coming)} of {coming}" if coming else ""
        return f"the judge told {self.separated} of {self.pairs} recorded pairs apart{needed}"


def count_needed(pairs: int) -> int:
    """Return how many of ``pairs`` recorded pairs a judge must separate to pass at one look.

    The smallest number that a judge which separates each with probability ``LUCKY`` reaches in at most
    ``CHANCE / len(LOOKS)`` of all cases (binomial tail): 5 of 5, 7 of 9, 9 of 14, 13 of 24. With Bonferroni's bound it
    passes at any look in at most one of a hundred.
    """
    tail, needed = 0.0, pairs + 1
    while needed:
        tail += comb(pairs, needed - 1) * LUCKY ** (needed - 1) * (1 - LUCKY) ** (pairs - needed + 1)
        if tail > CHANCE / len(LOOKS):
            return needed
        needed -= 1
    return needed


def calibrate(separated: Sequence[bool]) -> Calibration:
    """Tell whether a judge is calibrated, from its recorded pairs in the order they were judged."""
    passed = any(
        len(separated) >= size and sum(separated[:size]) >= count_needed(size) for size in LOOKS
    )  # fmt: skip
    return Calibration(pairs=len(separated), separated=sum(separated), passed=passed)
