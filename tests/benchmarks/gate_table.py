"""The tables of the gate's benchmark, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from skillopt_sleep.gate.rule import exact_error
from tests.benchmarks.gate_bounds import Agreement, Bound, CellResult, Compared
from tests.benchmarks.gate_cells import Cell, describe, edit_of
from tests.benchmarks.gate_figures import Estimate, Figures
from tests.benchmarks.gate_nights import NightsFigures

MUCH_LOST = 0.2

LEGEND = """\
Percent of edits accepted, with standard errors, by:
  paired 6, 8  in the first night; in 36: within 36 pairs, whatever the nights; life: ever, and exactly so by sums
               unm.: first nights that end unmeasured; pairs, calls: of the first night
  strict       the candidate's mean is higher, in one look at one pair for each task
  +1 se        it is higher by a standard error
lost, own: percent of replays lost by transport, or failed by the agent itself, baseline/candidate"""


def errors_table(thresholds: Sequence[int]) -> str:
    """The closed form."""
    return "\n".join(f"paired {k}: exact error {100 * exact_error(k):.2f} %" for k in thresholds)


def cells_table(results: Sequence[CellResult]) -> Iterator[str]:
    """A block for each edit, a line for each cell."""
    yield LEGEND
    for edit, cells in groupby(results, key=lambda result: edit_of(result.cell)):
        block = list(cells)
        paired = [each.rule for each in block[0].figures if each.rule.startswith("paired")]
        yield f"\n{edit}"
        heads = "".join(f" | {rule:>9} {'in 36':>9} {'life':>9} exact unm. pairs calls" for rule in paired)
        yield f"{'val':>3} {'lost':>5} {'own':>5}{heads} | {'strict':>9} {'+1 se':>9}"
        yield from (_line(result) for result in block)


def _line(result: CellResult) -> str:
    cell = result.cell
    exact = {each.rule: each for each in result.exact}
    lost, own = _both(cell.lost_baseline, cell.lost_candidate), _both(cell.own_baseline, cell.own_candidate)
    paired = "".join(
        f" | {_paired(each, exact.get(each.rule))}" for each in result.figures if each.rule.startswith("paired")
    )
    looks = " ".join(f"{_percent(each.life):>9}" for each in result.figures if not each.rule.startswith("paired"))
    return f"{cell.tasks:>3} {lost:>5} {own:>5}{paired} | {looks}"


def _paired(figures: Figures, exact: Figures | None) -> str:
    known = f"{100 * exact.life.value:5.2f}" if exact else "     "
    calls = figures.calls.value if figures.calls else math.nan
    shares = " ".join(f"{_percent(each):>9}" for each in (figures.tonight, figures.within_36, figures.life))
    return f"{shares} {known} {100 * figures.unmeasured.value:4.0f} {figures.pairs.value:5.1f} {calls:5.1f}"


def summary_table(results: Sequence[CellResult]) -> Iterator[str]:
    """A line for each rule: the most it ever accepts of what does not help, with and without losses, and of harm."""
    kinds: dict[str, Callable[[Cell], bool]] = {
        "useless": lambda cell: cell.is_null and not _lossy(cell),
        "useless, 20 % lost": lambda cell: cell.is_null and _lossy(cell),
        "harmful": lambda cell: cell.is_harmful,
    }
    yield "Percent ever accepted, in the worst cell and on average over all cells of the kind"
    yield f"{'':<14}" + "".join(f"{kind:>28}" for kind in kinds)
    for rule in (each.rule for each in results[0].figures):
        line = f"{rule:<14}"
        for wanted in kinds.values():
            shares = [each.life for one in results if wanted(one.cell) for each in one.figures if each.rule == rule]
            if shares:
                average = math.fsum(each.value for each in shares) / len(shares)
                worst = max(shares, key=lambda each: each.value)
                line += f"{f'{_percent(worst)} ({100 * average:.1f} of {len(shares)})':>28}"
            else:
                line += f"{'':>28}"
        yield line


def _lossy(cell: Cell) -> bool:
    """Whether a fifth of the replays is lost, in one arm or both."""
    return max(cell.lost_baseline, cell.lost_candidate) >= MUCH_LOST


def agreement_table(agreements: Sequence[Agreement]) -> Iterator[str]:
    """A line for each rule in each shared cell: both figures, and how many joint standard errors they are apart."""
    if not agreements:
        return
    yield "Whole nights / the rule alone, and their difference in joint standard errors; * measured again"
    for cell, block in groupby(agreements, key=lambda each: each.cell):
        yield describe(cell)
        for each in block:
            mark = "*" if each.first else " "
            figures = "  ".join(
                f"{one.what} {_short(one, one.driven)}/{_short(one, one.simulated)} {one.apart:.1f}"
                for one in each.figures
            )
            yield f"  {each.rule:<9}{mark} {figures}"
    furthest = max(agreements, key=lambda each: each.worst.apart)
    yield f"worst: {furthest.worst.apart:.2f}, {furthest.rule}, {furthest.worst.what}, {describe(furthest.cell)}"
    for each in agreements:
        for one in each.first:
            seen = f"{_short(one, one.driven)}/{_short(one, one.simulated)} {one.apart:.1f}"
            yield f"* at the first look: {seen}, {each.rule}, {one.what}, {describe(each.cell)}"


def _short(compared: Compared, estimate: Estimate) -> str:
    return f"{estimate.value:.1f}" if compared.what in {"pairs", "calls"} else f"{100 * estimate.value:.1f}%"


def nights_table(rows: Sequence[NightsFigures]) -> Iterator[str]:
    """A line for each gate."""
    yield "30 nights at 176 calls. wrong: percent of the accepted whose true mean effect, on the 40 tasks, is at most 0"
    yield f"{'gate':<48}{'tried':>7}{'accepted':>14}{'wrong %':>11}{'as drawn %':>12}{'true gain':>15}{'calls':>7}"
    for row in rows:
        yield (
            f"{row.gate:<48}{row.tried.value:>7.1f}{_plain(row.accepted, 2):>14}{_percent(row.wrong):>11}"
            f"{_percent(row.wrong_drawn):>12}{_plain(row.gain, 3):>15}{row.calls_a_night.value:>7.0f}"
        )


def bounds_table(bounds: Sequence[Bound]) -> Iterator[str]:
    """A line for each promise."""
    for bound in bounds:
        mark = "holds " if bound.holds else "BROKEN"
        yield f"{mark} {bound.promise}: {_plain(bound.worst, 4)}  ({bound.where})"


def _both(baseline: float, candidate: float) -> str:
    return f"{100 * baseline:.0f}/{100 * candidate:.0f}" if baseline or candidate else ""


def _percent(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f}±{100 * estimate.error:.1f}"


def _plain(estimate: Estimate, digits: int) -> str:
    error = f"±{estimate.error:.{digits}f}" if estimate.error else ""
    return f"{estimate.value:.{digits}f}{error}"
