"""The gate's benchmark through whole nights, its months, and its picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from random import Random

import pytest
from msgspec.structs import replace

from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.rollout import GateMetric
from skillopt_sleep.night.consolidate import consolidate
from skillopt_sleep.night.plan import ConsolidatePlan
from tests.benchmarks import gate_bounds
from tests.benchmarks.gate import measure
from tests.benchmarks.gate_bounds import DEVIATIONS, agreement_bounds, compare, nights_bounds
from tests.benchmarks.gate_cells import Cell, Judge, grid, tasks_of
from tests.benchmarks.gate_driven import BASELINE, RULE, STRICT, MemoryLedger, connect, drive, driven_cells, pools
from tests.benchmarks.gate_exact import exact_paired
from tests.benchmarks.gate_figures import Estimate, apart
from tests.benchmarks.gate_nights import AS_RUN, CALLS_A_NIGHT, GATES, NOISY, Month, NightsFigures, nights
from tests.benchmarks.gate_plot import drawing
from tests.benchmarks.gate_trial import simulate_mean_rules, simulate_paired

USUAL = Cell(tasks=12, judge=Judge.BINARY, base=0.5, effect=0.0)


def test_driven_cells_are_shared():
    """Every cell that is driven through nights is one of the large grid, and none comes twice."""
    cells = list(driven_cells())
    assert len(set(cells)) == len(cells)
    assert set(cells) <= set(grid())


@pytest.mark.parametrize("name", ["tonight", "life", "pairs", "pairs_life"])
@pytest.mark.parametrize("made", [replace(USUAL, effect=0.4), replace(USUAL, tasks=4)], ids=["good", "useless"])
def test_whole_nights_come_to_the_exact_figures(made, name):
    """Reflection, applying, judging, pending and reviving change nothing of what the rule does."""
    driven, exact = _driven(made, 6), exact_paired(made, 6)
    assert apart(getattr(driven, name), getattr(exact, name)) < 4


DRIVEN = {}


def _driven(made: Cell, k: int):
    """Measured once for all its figures."""
    if (made, k) not in DRIVEN:
        DRIVEN[made, k] = drive(made, k, 60, "test")
    return DRIVEN[made, k]


@pytest.mark.parametrize("k", [6, STRICT])
def test_whole_nights_lose_what_the_simulation_loses(k):
    """With a tenth of the replays lost after every try, by either rule, as often unmeasured and as often accepted."""
    made = replace(USUAL, effect=0.4, lost_baseline=0.1, lost_candidate=0.1)
    drawn = simulate_paired(made, k, 600, "1") if k else simulate_mean_rules(made, 600, "1")[0]
    for name in ("tonight", "unmeasured", "calls"):
        assert apart(getattr(_driven(made, k), name), getattr(drawn, name)) < 4


def test_night_of_a_cell_passes_the_programs_own_wrappers():
    """A call that transport loses is tried four times, and one that is answered is paid once; the rule gets applied."""
    made = replace(USUAL, effect=0.4, lost_candidate=1.0)
    ledger = MemoryLedger()
    plan = ConsolidatePlan(gate_metric=GateMetric.HARD, evolve_memory=False)
    models = connect(made, tasks_of(made, Random(0)), ledger, Random(0))
    outcome = consolidate(BASELINE, pools(made), plan, models, night="n", seed=1)
    (step,) = outcome.steps
    assert [edit.edit.text for edit in step.edits] == [RULE]
    assert {result.call_error.split(":")[0] for result in step.trial.candidate} == {"Overloaded"}
    pairs = len(step.trial.candidate)
    assert (ledger.calls["val"], ledger.tries["val"]) == (2 * pairs, 5 * pairs)
    assert ledger.calls["train"] == ledger.calls["reflect skill"] == 1
    assert outcome.candidate[DocumentKind.SKILL].content == b""


def test_comparison_agrees_where_nothing_is_wrong():
    """One cell, both figures and their distance."""
    agreement = compare(replace(USUAL, effect=0.4), 6, 60, "1")
    assert {each.what for each in agreement.figures} >= {"ever", "tonight", "pairs", "calls"}
    assert agreement.worst.apart <= DEVIATIONS
    (bound,) = agreement_bounds([agreement])
    assert bound.holds


def test_comparison_finds_a_night_that_is_not_the_rule(monkeypatch):
    """Nights of another edit than the simulated one are looked at twice and stay apart: the bound is broken."""
    useless = drive(USUAL, 6, 60, "1")
    monkeypatch.setattr(gate_bounds, "drive", lambda *_: useless)
    agreement = compare(replace(USUAL, effect=0.4), 6, 60, "1")
    assert {each.what for each in agreement.first} >= {"ever", "tonight"}
    assert agreement.worst.apart > DEVIATIONS
    (bound,) = agreement_bounds([agreement])
    assert not bound.holds


@pytest.mark.parametrize("noisy", [False, True], ids=["pass-or-fail", "noisy"])
def test_months_of_few_histories(noisy):
    """The paired gate lets in a smaller share of wrong edits than the strict one, gains more, and keeps its budget."""
    ours, theirs = (nights(name, noisy=noisy, histories=10, seed="1") for name in ("paired 6", next(iter(AS_RUN))))
    assert ours.wrong.value < theirs.wrong.value
    assert ours.gain.value > theirs.gain.value
    assert ours.gate == f"{NOISY if noisy else ''}paired 6"
    assert 0.9 * CALLS_A_NIGHT < ours.calls_a_night.value <= CALLS_A_NIGHT


def test_month_of_a_noisy_judge():
    """It grades a pass around 1 and a fail around 0, and half of its mood counts."""
    month = Month(Random(1), noisy=True)
    scores = [month.replay(1.0) for _ in range(2000)]
    mean = sum(scores) / len(scores)
    assert mean == pytest.approx(1.0, abs=0.01)
    assert sum((score - mean) ** 2 for score in scores) / len(scores) == pytest.approx(0.05**2, rel=0.1)
    assert {Month(Random(1), noisy=False).replay(1.0) for _ in range(9)} == {1.0}


def _months(**changed: NightsFigures) -> list[NightsFigures]:
    """Made-up months in which everything holds, but for what is changed."""

    def row(gate: str, wrong: float, gain: float) -> NightsFigures:
        some = Estimate(value=5.0, error=0.1)
        share = Estimate(value=wrong, error=0.001)
        return NightsFigures(
            gate=gate,
            tried=some,
            accepted=some,
            wrong=share,
            wrong_drawn=share,
            gain=Estimate(value=gain, error=0.001),
            calls_a_night=some,
        )

    rows = {name: row(name, 0.05, 0.45) for judge in ("", NOISY) for gate in GATES for name in [f"{judge}{gate}"]}
    rows |= {name: row(name, 0.65, 0.2) for judge in ("", NOISY) for gate in AS_RUN for name in [f"{judge}{gate}"]}
    return [*(rows | {name: row(name, *values) for name, values in changed.items()}).values()]


def test_bounds_of_a_month():
    """All hold when little is wrong and much is gained; each is broken by the one row that breaks it."""
    assert all(bound.holds for bound in nights_bounds(_months()))
    strict = f"{NOISY}strict, 8 tasks, 1 a night"
    for name, values in {
        f"{NOISY}paired 6, account kept": (0.21, 0.45),
        "paired 8": (0.11, 0.45),
        "strict, 12 tasks, 2 a night": (0.65, 0.4),
        strict: (0.55, 0.2),
    }.items():
        assert [bound.holds for bound in nights_bounds(_months(**{name: values}))].count(False) == 1


def test_picture_is_drawn():
    """Sound SVG with a line for each rule in two panels, a dot for each month, and colours for the dark."""
    cells = [
        measure(each, 20, "1")
        for each in grid()
        if each.base == 0.5 and not each.lost_candidate and not each.own_candidate and each.effect in {0.0, 0.4}
    ]
    drawn = drawing(cells, _months())
    root = ET.fromstring(drawn)
    kinds = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert kinds.count("polyline") == 8
    words = [element.text for element in root.iter() if element.tag.endswith("text")]
    for name in ("A useless edit is accepted", "paired 6", "mean + 1 se", "strict, as it is run"):
        assert name in words
    assert "prefers-color-scheme: dark" in drawn
    assert "var(" not in drawn
