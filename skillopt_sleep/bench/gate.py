"""How often a gate accepts what does not help, and how soon what does: the paired rule beside rules on means.

Every figure is of made-up edits whose true effect is known, so a user need not believe what this project says of its
gate: change the seed, or the cells in ``gate_cells``, and look.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from skillopt_sleep.bench.gate_bounds import Bound, CellResult, cell_bounds, nights_bounds
from skillopt_sleep.bench.gate_cells import Cell, describe, grid
from skillopt_sleep.bench.gate_exact import exact_paired
from skillopt_sleep.bench.gate_nights import NightsFigures, nights
from skillopt_sleep.bench.gate_table import bounds_table, cells_table, errors_table, nights_table
from skillopt_sleep.bench.gate_trial import simulate_mean_rules, simulate_paired

__all__ = ["THRESHOLDS", "main", "measure"]

THRESHOLDS = (6, 8)
"""What a change needs to be staged, and to be adopted without being asked."""


class Results(Struct, frozen=True, kw_only=True):
    """Everything the benchmark measured, and with what."""

    repeats: int
    histories: int
    seed: int
    cells: tuple[CellResult, ...]
    nights: tuple[NightsFigures, ...]
    bounds: tuple[Bound, ...]


def measure(cell: Cell, repeats: int, seed: str) -> CellResult:
    """Every rule in one cell. The draws depend on the seed and the cell alone, not on what else is measured."""
    exact = (exact_paired(cell, k) for k in THRESHOLDS)
    return CellResult(
        cell=cell,
        figures=(
            *(simulate_paired(cell, k, repeats, seed) for k in THRESHOLDS),
            *simulate_mean_rules(cell, repeats, seed),
        ),
        exact=tuple(each for each in exact if each is not None),
    )


def main(argv: Sequence[str]) -> int:
    """Print the tables, or JSON; 1 when a bound is broken."""
    parser = argparse.ArgumentParser(prog="python -m skillopt_sleep.bench gate", description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000, help="edits in each cell (default: %(default)s)")
    parser.add_argument("--histories", type=int, default=200, help="months of 30 nights (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cells described so, as in 'binary 0.5, +0.40'")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    if min(given.repeats, given.histories) < 2:  # noqa: PLR2004
        parser.error("one run has no standard error: at least 2 repeats and 2 histories")
    wanted = (cell for cell in grid() if given.only in describe(cell))
    cells = tuple(measure(cell, given.repeats, str(given.seed)) for cell in wanted)
    months = tuple(nights(given.histories, str(given.seed)))
    bounds = (*cell_bounds(cells, THRESHOLDS), *nights_bounds(months))
    if given.json:
        results = Results(
            repeats=given.repeats, histories=given.histories, seed=given.seed, cells=cells, nights=months, bounds=bounds
        )
        print(msgspec.json.encode(results).decode())
    else:
        print(errors_table(THRESHOLDS))
        for table in (cells_table(cells), nights_table(months), bounds_table(bounds)):
            print(*table, "", sep="\n")
    return 0 if all(bound.holds for bound in bounds) else 1
