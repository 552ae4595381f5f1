"""What the paired gate must show, held against what was measured, with the worst cell of each promise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from skillopt_sleep.bench.gate_cells import Cell, Judge, Spread
from skillopt_sleep.bench.gate_figures import Estimate, Figures, apart
from skillopt_sleep.bench.gate_nights import NightsFigures
from skillopt_sleep.domain.paired import exact_error

__all__ = ["Bound", "CellResult", "cell_bounds", "nights_bounds"]

DEVIATIONS = 3
"""By how many standard errors a simulated share may exceed a bound that holds."""
AGREEMENT = 5
"""By how many the simulation may miss the exact figure in the worst of some thousands."""
HARM = -0.1
"""The true effect from which an edit counts as harmful: -.13, or all there is to lose."""


class CellResult(Struct, frozen=True, kw_only=True):
    """Every rule in one cell; ``exact`` has the paired rules of the cells that can be computed."""

    cell: Cell
    figures: tuple[Figures, ...]
    exact: tuple[Figures, ...] = ()


class Bound(Struct, frozen=True, kw_only=True):
    """A promise, the figure that comes nearest to breaking it, where, and whether it holds there."""

    promise: str
    worst: float
    where: str
    holds: bool


def cell_bounds(results: Sequence[CellResult], thresholds: Sequence[int]) -> Iterator[Bound]:
    """Errors, harm and power, for each threshold, and how well the simulation agrees with the exact figures."""
    for k in thresholds:
        error, rule = exact_error(k), f"paired {k}"
        yield _at_most(f"{rule}: useless edits accepted in their life", error, results, rule, lambda cell: cell.is_null)
        yield _at_most(f"{rule}: harmful edits accepted in their life", 0.01, results, rule, _harmful)
    yield from _power(results)
    yield _agreement(results)


def nights_bounds(rows: Sequence[NightsFigures]) -> Iterator[Bound]:
    """A month's wrong accepts, by either meaning of wrong, and its gain beside that of the strict rule."""
    month = {row.gate: row for row in rows}
    for gate, most in (("paired 6", 0.2), ("paired 8", 0.1)):
        row = month[gate]
        worst = max(row.wrong.value, row.wrong_drawn.value)
        yield Bound(promise=f"{gate}: wrong accepts at most {most}", worst=worst, where="30 nights", holds=worst <= most)
    for row in rows:
        if row.gate.startswith("strict"):
            times = month["paired 6"].gain.value / row.gain.value
            yield Bound(promise="paired 6: gain at least 1.4 times", worst=times, where=row.gate, holds=times >= 1.4)  # noqa: PLR2004


def _at_most(
    promise: str, most: float, results: Sequence[CellResult], rule: str, wanted: Callable[[Cell], bool]
) -> Bound:
    """No exact figure above ``most``, no simulated one above it by more than chance explains."""
    worst, where, holds = 0.0, "", True
    for result in results:
        if not wanted(result.cell):
            continue
        simulated, exact = _of(result.figures, rule), _of(result.exact, rule)
        ...
    return Bound(promise=f"{promise}, at most {most:.4f}", worst=worst, where=where, holds=holds)
