"""What the paired gate promises, what was measured, and whether whole nights agree with the simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.rule import exact_error
from tests.benchmarks.gate_cells import GRADE, USUAL_SIZE, Cell, Judge, describe
from tests.benchmarks.gate_driven import STRICT, drive
from tests.benchmarks.gate_exact import exact_paired
from tests.benchmarks.gate_figures import Estimate, Figures, apart
from tests.benchmarks.gate_nights import AS_RUN, NOISY, ONCE, NightsFigures
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


WITHIN = f" within {DEVIATIONS} standard errors"
"""What a promise allows a figure that was drawn, said wherever it is used; an exact figure has no error."""
AGREEMENT = 5
"""By how many standard errors the simulation may miss the exact figure in the worst of some thousands."""
HARMFUL_ACCEPTED = 0.01
WRONG = {"paired 6": 0.2, "paired 8": 0.1}
"""The largest share of a month's accepts that may be wrong."""
GAIN_OVER_STRICT = 1.4
STRICT_WRONG = 0.6
"""The share of its accepts over which the strict rule is wrong, as it is run once a night with a noisy judge."""
POWER = {
    **{(Judge.BINARY, base, 0.4, "paired 6"): 0.9 for base in (0.1, 0.3, 0.5)},
    **{(Judge.BINARY, base, 0.4, "paired 8"): 0.8 for base in (0.1, 0.3, 0.5)},
    (Judge.GRADED, GRADE, 0.1, "paired 6"): 0.9,
}
"""The least share of edits accepted within 36 pairs on the usual number of val tasks."""


class CellResult(Struct, frozen=True, kw_only=True):
    """Every rule in one cell; ``exact`` has the paired rules of the cells that can be computed."""

    cell: Cell
    figures: tuple[Figures, ...]
    exact: tuple[Figures, ...] = ()


class Bound(Struct, frozen=True, kw_only=True):
    """A promise, the figure that comes nearest to breaking it, where, and whether it holds there."""

    promise: str
    worst: Estimate
    where: str
    holds: bool


def cell_bounds(results: Sequence[CellResult], thresholds: Sequence[int]) -> Iterator[Bound]:
    """Errors, harm and power, for each threshold, and how well the simulation agrees with the exact figures."""
    for k in thresholds:
        error, rule = exact_error(k), f"paired {k}"
        yield from _at_most("useless edits ever accepted", error, results, rule, lambda cell: cell.is_null)
        yield from _at_most(
            "harmful edits ever accepted", HARMFUL_ACCEPTED, results, rule, lambda cell: cell.is_harmful
        )
    yield from _power(results)
    yield from _agreement(results)


def agreement_bounds(agreements: Sequence[Agreement]) -> Iterator[Bound]:
    """How far whole nights are from the simulation of the rule, where they agree least."""
    if agreements:
        least = max(agreements, key=lambda each: each.worst.apart)
        figures = sum(len(each.figures) for each in agreements)
        again = sum(len(each.first) for each in agreements)
        where = (
            f"{figures} figures, {again} of them measured again where chance alone takes {by_chance(agreements):.1f}"
        )
        yield Bound(
            promise=f"whole nights and the simulated rule agree within {DEVIATIONS} joint standard errors",
            worst=Estimate(value=least.worst.apart),
            where=f"{where}; {least.rule}, {least.worst.what}, {describe(least.cell)}",
            holds=least.worst.apart <= DEVIATIONS,
        )


def nights_bounds(rows: Sequence[NightsFigures]) -> Iterator[Bound]:
    """A month's wrong accepts, by either meaning of wrong, and its gain beside that of the strict rule as it is run."""
    month = {row.gate: row for row in rows}
    for gate, most in WRONG.items():
        found = [
            (each, row.gate)
            for row in rows
            if row.gate.removeprefix(NOISY).startswith(gate)
            for each in (row.wrong, row.wrong_drawn)
        ]
        worst, where = max(found, key=lambda each: each[0].value)
        yield Bound(
            promise=f"{gate}: wrong accepts of a month, at most {most}{WITHIN}",
            worst=worst,
            where=where,
            holds=worst.value <= most + DEVIATIONS * worst.error,
        )
    for judge in ("", NOISY):
        ours = month[f"{judge}paired 6"].gain
        beside = [(_times(ours, month[f"{judge}{name}"].gain), f"{judge}{name}") for name in AS_RUN]
        times, where = min(beside, key=lambda each: each[0].value)
        yield Bound(
            promise=f"paired 6: gain of a month, at least {GAIN_OVER_STRICT} times that of strict as it is run",
            worst=times,
            where=where,
            holds=times.value >= GAIN_OVER_STRICT,
        )
    strict = [month[f"{NOISY}{name}"] for name in AS_RUN if ONCE in name]
    least = min(strict, key=lambda row: row.wrong_drawn.value)
    yield Bound(
        promise=f"strict as it is run, {ONCE}: wrong accepts of a month, over {STRICT_WRONG}{WITHIN}",
        worst=least.wrong_drawn,
        where=least.gate,
        holds=least.wrong_drawn.value + DEVIATIONS * least.wrong_drawn.error > STRICT_WRONG,
    )


def _times(ours: Estimate, theirs: Estimate) -> Estimate:
    times = ours.value / theirs.value
    return Estimate(value=times, error=times * math.hypot(ours.error / ours.value, theirs.error / theirs.value))


def _at_most(
    promise: str, most: float, results: Sequence[CellResult], rule: str, wanted: Callable[[Cell], bool]
) -> Iterator[Bound]:
    """No exact figure above ``most``, no simulated one above it by more than chance explains."""
    found = [
        (each.life, describe(result.cell))
        for result in results
        if wanted(result.cell)
        for each in (*result.figures, *result.exact)
        if each.rule == rule
    ]
    if found:
        worst, where = max(found, key=lambda each: each[0].value - DEVIATIONS * each[0].error)
        holds = worst.value <= most + DEVIATIONS * worst.error
        yield Bound(
            promise=f"{rule}: {promise}, at most {most:.4f}{WITHIN}",
            worst=worst,
            where=f"{len(found)} figures, {where}",
            holds=holds,
        )


def _power(results: Sequence[CellResult]) -> Iterator[Bound]:
    """The promised power, by the exact figures of the cells named in ``POWER``."""
    for result in results:
        cell = result.cell
        if cell.tasks != USUAL_SIZE or cell.own_candidate:
            continue
        for each in result.exact:
            least = POWER.get((cell.judge, cell.base, cell.effect, each.rule))
            if least is not None:
                yield Bound(
                    promise=f"{each.rule}: accepted within 36 pairs, at least {least}",
                    worst=each.within_36,
                    where=describe(cell),
                    holds=each.within_36.value >= least,
                )


def _agreement(results: Sequence[CellResult]) -> Iterator[Bound]:
    """How far the simulation is from the exact figures where there are some, in standard errors."""
    distances = [
        (apart(getattr(one, name), getattr(other, name)), describe(result.cell))
        for result in results
        for other in result.exact
        for one in result.figures
        if one.rule == other.rule
        for name in ("tonight", "within_36", "life", "pairs", "pairs_life")
        if getattr(one, name).error  # where all went alike, their error is not known
    ]
    if distances:
        furthest, where = max(distances)
        yield Bound(
            promise=f"simulated and exact agree within {AGREEMENT} standard errors",
            worst=Estimate(value=furthest),
            where=f"{len(distances)} figures, {where}",
            holds=furthest <= AGREEMENT,
        )


def _value(estimate: Estimate) -> float:
    return estimate.value
