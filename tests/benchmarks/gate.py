"""How often a gate accepts what does not help, and how soon what does: the paired rule beside rules on means.

Every figure is of made-up edits whose true effect is known, so a user need not believe what this project says of its
gate: change the seed, or the cells in ``gate_cells``, and look.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from skillopt_sleep.gate.rule import threshold
from tests.benchmarks.gate_bounds import (
    Agreement,
    Bound,
    CellResult,
    agreement_bounds,
    cell_bounds,
    compare,
    nights_bounds,
)
from tests.benchmarks.gate_cells import Cell, describe, grid
from tests.benchmarks.gate_driven import STRICT, driven_cells
from tests.benchmarks.gate_exact import exact_paired
from tests.benchmarks.gate_nights import GATES, NightsFigures, nights
from tests.benchmarks.gate_plot import drawing
from tests.benchmarks.gate_table import (
    agreement_table,
    bounds_table,
    cells_table,
    errors_table,
    nights_table,
    summary_table,
)
from tests.benchmarks.gate_trial import simulate_mean_rules, simulate_paired

THRESHOLDS = (threshold(0.05), threshold(0.02))
"""What a change needs to be staged, and to be adopted without being asked."""
DEFAULT = {"repeats": 1000, "driven": 300, "histories": 200}
QUICK = {"repeats": 100, "driven": 40, "histories": 40}
"""How much is measured, in four minutes on two free cores, and in under one."""

T = TypeVar("T")


class Results(Struct, frozen=True, kw_only=True):
    """Everything the benchmark measured, with what, and in how many seconds."""

    repeats: int
    driven: int
    histories: int
    seed: int
    seconds: float
    cells: tuple[CellResult, ...]
    agreement: tuple[Agreement, ...]
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
    given = _parsed(argv)
    started = time.perf_counter()
    seed = str(given.seed)
    wanted = [cell for cell in grid() if given.only in describe(cell)]
    shared = [cell for cell in driven_cells() if given.only in describe(cell)]
    with ProcessPoolExecutor(given.processes) if given.processes > 1 else nullcontext() as executor:
        agreement = _all(
            executor, [partial(compare, cell, k, given.driven, seed) for cell in shared for k in (*THRESHOLDS, STRICT)]
        )
        cells = _all(executor, [partial(measure, cell, given.repeats, seed) for cell in wanted])
        months = _all(
            executor,
            [
                partial(nights, name, noisy=noisy, histories=given.histories, seed=seed)
                for noisy in (False, True)
                for name in GATES
            ],
        )
    results = Results(
        repeats=given.repeats,
        driven=given.driven,
        histories=given.histories,
        seed=given.seed,
        seconds=round(time.perf_counter() - started, 3),
        cells=cells,
        agreement=agreement,
        nights=months,
        bounds=(*cell_bounds(cells, THRESHOLDS), *agreement_bounds(agreement), *nights_bounds(months)),
    )
    _print(results, as_json=given.json)
    if given.plot is not None:
        given.plot.write_text(drawing(cells, months), encoding="utf-8")
        print(f"drawn: {given.plot}", file=sys.stderr)
    return 0 if all(bound.holds for bound in results.bounds) else 1


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks gate", description=__doc__)
    for name, what in {
        "repeats": "edits in each cell, by simulation of the rule",
        "driven": "edits in each cell of the smaller grid, through whole nights",
        "histories": "months of 30 nights",
    }.items():
        text = f"{what} (default: {DEFAULT[name]}, quick: {QUICK[name]})"
        parser.add_argument(f"--{name}", type=int, metavar="N", help=text)
    parser.add_argument("--quick", action="store_true", help="under a minute: fewer of everything, wider errors")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cells described so, as in 'binary 0.5, +0.40'")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="at once (default: %(default)s)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the main figures as an SVG")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    for name, number in (QUICK if given.quick else DEFAULT).items():
        if getattr(given, name) is None:
            setattr(given, name, number)
    if min(given.repeats, given.driven, given.histories) < 2:
        parser.error("one run has no standard error: at least 2 repeats, 2 driven and 2 histories")
    if given.plot is not None and given.only:
        parser.error("the plot shows cells of all kinds: leave --only out")
    if given.processes < 1:
        parser.error(f"--processes is {given.processes}, at least 1 is needed")
    if not any(given.only in describe(cell) for cell in grid()):
        parser.error(f"no cell is described by {given.only!r}; the table prints how they are")
    return given


def _all(executor: Executor | None, jobs: Iterable[Callable[[], T]]) -> tuple[T, ...]:
    """Every result, in order; what comes out depends on the job alone, not on who did it when."""
    return tuple(job() for job in jobs) if executor is None else tuple(executor.map(_call, jobs))


def _call(job: Callable[[], T]) -> T:
    return job()


def _print(results: Results, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(results).decode())
        return
    print(errors_table(THRESHOLDS))
    for table in (
        cells_table(results.cells),
        summary_table(results.cells),
        agreement_table(results.agreement),
        nights_table(results.nights),
        bounds_table(results.bounds),
    ):
        print(*table, "", sep="\n")
    runs = f"{results.repeats} edits a cell, {results.driven} through nights, {results.histories} months"
    print(f"{runs}, seed {results.seed}: {results.seconds:.0f} s")
