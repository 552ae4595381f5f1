"""Whether whole nights and the simulation of the rule say the same of the same cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tests.benchmarks.gate_cells import Cell
from tests.benchmarks.gate_driven import STRICT, drive
from tests.benchmarks.gate_exact import exact_paired
from tests.benchmarks.gate_figures import Estimate, Figures, apart
from tests.benchmarks.gate_trial import simulate_mean_rules, simulate_paired

DEVIATIONS = 3
"""By how many joint standard errors the two may differ."""
BY_CHANCE = 0.0027
"""The share of differences beyond that between two ways of measuring one thing."""
AGAIN = 4
"""How many times as many edits a second look has. Fixed beforehand: with hundreds of figures some must look wrong once,
and what is only chance does not come twice."""
FIGURES = {"ever": "life", "tonight": "tonight", "unmeasured": "unmeasured", "pairs": "pairs", "calls": "calls"}
"""What is compared, by the name it is printed under."""


class Compared(Struct, frozen=True, kw_only=True):
    """One figure by both ways, and how many joint standard errors they are apart."""

    what: str
    driven: Estimate
    simulated: Estimate
    apart: float


class Agreement(Struct, frozen=True, kw_only=True):
    """One rule in one cell; ``first`` holds the figures that differed too much and were measured again."""

    cell: Cell
    rule: str
    figures: tuple[Compared, ...]
    first: tuple[Compared, ...] = ()

    @property
    def worst(self) -> Compared:
        """The figure that agrees least."""
        return max(self.figures, key=lambda each: each.apart)


def compare(cell: Cell, k: int, repeats: int, seed: str) -> Agreement:
    """Drive ``repeats`` edits of a cell through nights; hold every figure against the exact or the simulated one."""
    simulated = _simulated(cell, k, AGAIN * repeats, seed)
    lossy = bool(cell.lost_baseline or cell.lost_candidate)
    figures = tuple(_compared(drive(cell, k, repeats, seed), simulated, lossy=lossy))
    if all(each.apart <= DEVIATIONS for each in figures):
        return Agreement(cell=cell, rule=simulated.rule, figures=figures)
    suspicious = tuple(each for each in figures if each.apart > DEVIATIONS)
    again = drive(cell, k, AGAIN * repeats, f"{seed} again")
    simulated = _simulated(cell, k, AGAIN * repeats, f"{seed} again")
    return Agreement(
        cell=cell, rule=simulated.rule, figures=tuple(_compared(again, simulated, lossy=lossy)), first=suspicious
    )


def by_chance(agreements: Sequence[Agreement]) -> float:
    """How many figures chance alone takes beyond the limit at a first look."""
    return BY_CHANCE * sum(len(each.figures) for each in agreements)


def _compared(driven: Figures, simulated: Figures, *, lossy: bool) -> Iterator[Compared]:
    """Every figure that either way could have found to be something else."""
    for what, name in FIGURES.items():
        ours, theirs = getattr(driven, name), getattr(simulated, name)
        if what == "tonight" and driven.rule == "strict":
            continue  # its one night is all its life
        if what == "unmeasured" and not lossy:
            continue  # could not be anything but 0
        if ours.error or theirs.error or ours.value != theirs.value:
            yield Compared(what=what, driven=ours, simulated=theirs, apart=apart(ours, theirs))


def _simulated(cell: Cell, k: int, repeats: int, seed: str) -> Figures:
    """The exact figures where there are some, else the simulated ones."""
    if k == STRICT:
        return simulate_mean_rules(cell, repeats, seed)[0]
    drawn = simulate_paired(cell, k, repeats, seed)
    exact = exact_paired(cell, k)
    return drawn if exact is None else replace(exact, calls=drawn.calls)  # which depend on the tasks that lost
