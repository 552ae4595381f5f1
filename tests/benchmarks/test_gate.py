"""The gate's benchmark: its made-up edits, its ways of measuring them, and what it says of them."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skillopt_sleep.gate.noise import chance_in_nights
from skillopt_sleep.gate.rule import Pair, Result, Verdict, compare_scores, decide_strict, exact_error, margin_for
from skillopt_sleep.model.rollout import GateMetric
from tests.benchmarks import gate
from tests.benchmarks.gate_bounds import CellResult, cell_bounds
from tests.benchmarks.gate_cells import GRADE, GRADE_NOISE, Cell, Judge, Spread, describe, grid, law, tasks_of
from tests.benchmarks.gate_exact import exact_paired
from tests.benchmarks.gate_figures import Estimate, apart, mean, ratio, share
from tests.benchmarks.gate_nights import NOISY, NightsFigures
from tests.benchmarks.gate_trial import MEAN_RULES, simulate_mean_rules, simulate_paired

FIGURES = ("tonight", "within_36", "life", "pairs", "pairs_life")


def cell(effect: float = 0.0, *, tasks: int = 12, judge: Judge = Judge.BINARY, base: float = 0.5, **rest) -> Cell:
    """A cell of the usual size with nothing lost."""
    return Cell(tasks=tasks, judge=judge, base=base, effect=effect, **rest)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(cell(0.4), id="binary"),
        pytest.param(cell(0.2, base=0.3, own_baseline=0.1, own_candidate=0.3), id="binary-own-failures"),
        pytest.param(cell(0.1, judge=Judge.GRADED, base=GRADE), id="graded"),
        pytest.param(cell(0.2, judge=Judge.GRADED, base=0.3, own_baseline=0.2, own_candidate=0.1), id="graded-own"),
    ],
)
def test_law_of_a_task(made):
    """It is how the pair rule judges scores drawn for the two arms."""
    random, runs = Random(1), 8000
    (task, *_), margin = tasks_of(made, random), margin_for(_metric(made))
    drawn = [compare_scores(*_scores(made, task, random), margin) for _ in range(runs)]
    expected = law(made, task)
    assert apart(share(drawn.count(Result.WIN), runs), Estimate(value=expected.win)) < 4
    assert apart(share(drawn.count(Result.LOSS), runs), Estimate(value=expected.loss)) < 4


def _metric(made: Cell) -> GateMetric:
    return GateMetric.HARD if made.judge is Judge.BINARY else GateMetric.SOFT


def _scores(made: Cell, task, random: Random) -> tuple[float, float]:
    """Baseline and candidate, drawn in the plainest way."""
    drawn = [
        float(random.random() < rate) if made.judge is Judge.BINARY else random.normalvariate(rate, GRADE_NOISE)
        for rate in (task.baseline, task.candidate)
    ]
    owns = (made.own_baseline, made.own_candidate)
    return tuple(0.0 if random.random() < own else score for own, score in zip(owns, drawn, strict=True))


def test_every_cell_of_the_grid_is_possible():
    """No pass rate leaves [0, 1], no cell comes twice, and none but a random mixture draws."""
    cells = list(grid())
    assert len(set(cells)) == len(cells) == len({describe(each) for each in cells})
    for each in cells:
        tasks = tasks_of(each, Random(0))
        assert len(tasks) == each.tasks
        assert all(0 <= task.candidate <= 1 for task in tasks)
        assert each.spread is Spread.RANDOM or tasks == tasks_of(each, Random(1))


@pytest.mark.parametrize("tasks", [4, 8, 12, 20, 40])
def test_mixed_effect_is_a_null_on_its_very_tasks(tasks):
    """A quarter gains what a quarter loses; a random mixture does not even out."""
    made = tasks_of(cell(0.3, tasks=tasks, spread=Spread.MIXED), Random(0))
    gains = [task.candidate - task.baseline for task in made]
    assert sum(gains) == pytest.approx(0)
    assert sum(gain > 0 for gain in gains) == tasks // 4
    random = tasks_of(cell(0.2, tasks=tasks, spread=Spread.RANDOM), Random(0))
    assert abs(sum(task.candidate - task.baseline for task in random)) > 0.01


def test_own_failures_of_the_candidate_are_harm():
    """A cell in which only the candidate fails on its own is no null, whatever its effect; alike in both it is."""
    assert cell(own_candidate=0.2).gain == pytest.approx(-0.1)
    assert not cell(own_candidate=0.2).is_null
    assert cell(own_baseline=0.1, own_candidate=0.1).is_null


@pytest.mark.parametrize("k", [6, 8])
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(cell(), id="useless"),
        pytest.param(cell(0.4, base=0.3), id="good"),
        pytest.param(cell(-0.13, tasks=8), id="harmful"),
        pytest.param(cell(0.1, judge=Judge.GRADED, base=GRADE, tasks=4), id="graded"),
        pytest.param(cell(0.2, tasks=40, own_baseline=0.1, own_candidate=0.1), id="own-failures"),
    ],
)
def test_simulation_agrees_with_exact_figures(made, k):
    """In every figure, within what chance explains."""
    simulated, exact = simulate_paired(made, k, 1500, "1"), exact_paired(made, k)
    assert max(apart(getattr(simulated, name), getattr(exact, name)) for name in FIGURES) < 4


@pytest.mark.parametrize("k", [6, 8])
@pytest.mark.parametrize("judge", Judge)
def test_useless_edit_is_accepted_as_seldom_as_promised(judge, k):
    """The exact figure of a life stays below the exact error, and comes near it where many pairs are decided."""
    life = exact_paired(cell(judge=judge, base=GRADE), k).life.value
    assert 0.95 * exact_error(k) < life < exact_error(k)


def test_power_is_what_the_rule_promises():
    """A +.4 edit on a base of .3 is accepted within its first 36 pairs by .91, and by .77 in its first night."""
    exact = exact_paired(cell(0.4, base=0.3), 6)
    assert (round(exact.within_36.value, 3), round(exact.tonight.value, 3)) == (0.910, 0.773)


@pytest.mark.parametrize("tasks", [4, 12, 40])
@pytest.mark.parametrize("k", [6, 8])
def test_first_night_is_the_one_that_is_told_of(tasks, k):
    """The chance of an accept in one night, added up here, is the one by which the program says what it can detect."""
    made = cell(0.2, base=0.3, tasks=tasks)
    chances = law(made, tasks_of(made, Random(0))[0])
    told = chance_in_nights(1, chances.win, chances.loss, k, tasks)
    assert exact_paired(made, k).tonight.value == pytest.approx(told, rel=1e-9)


def test_calls_count_what_confirms_losses():
    """An edit that is accepted has each task that lost replayed twice more, under both arms; none when all win."""
    sure, mixed = (simulate_paired(made, 6, 300, "1") for made in (cell(1.0, base=0.0), cell(0.4, base=0.3)))
    assert (sure.pairs.value, sure.calls.value) == (6.0, 12.0)
    assert mixed.calls.value > 2 * mixed.pairs.value + 1


@pytest.mark.parametrize("lost", [0.05, 0.2])
def test_useless_edit_when_transport_loses_pairs(lost):
    """It is accepted no more often; with 36 % of the pairs lost most nights say that too little was measured."""
    figures = simulate_paired(cell(lost_baseline=lost, lost_candidate=lost), 6, 600, "1")
    assert figures.life.value <= exact_error(6) + 3 * figures.life.error
    assert (figures.unmeasured.value > 0.6) is (lost == 0.2)


def test_edit_whose_every_replay_is_lost():
    """Nothing is measured and nothing accepted, by any rule."""
    made = cell(0.4, lost_candidate=1.0)
    for figures in (simulate_paired(made, 6, 5, "1"), *simulate_mean_rules(made, 5, "1")):
        assert (figures.unmeasured.value, figures.life.value) == (1.0, 0.0)


def test_same_seed_same_figures():
    """Whatever was measured before; another seed gives others."""
    order = [(12, "1"), (8, "1"), (12, "1"), (12, "2")]
    first, _, again, other = (gate.measure(cell(0.2, tasks=size), 30, seed) for size, seed in order)
    assert first == again
    assert first.figures != other.figures


@given(passed=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_strict_rule_is_the_programs_own(passed):
    """On the same scores ``strict`` accepts when ``decide_strict`` does."""
    pairs = [Pair(task_id=str(n), baseline=float(old), candidate=float(new)) for n, (old, new) in enumerate(passed)]
    accepts = decide_strict(pairs).verdict is Verdict.ACCEPT
    assert MEAN_RULES["strict"]([pair.candidate - pair.baseline for pair in pairs]) is accepts


@pytest.mark.parametrize(
    ("gains", "clearly"),
    [([1.0, 1.0, -1.0, 0.0], False), ([1.0, 1.0, 0.0, 0.0], True), ([1.0, 1.0], True), ([-1.0, -1.0, 0.0], False)],
)
def test_mean_and_one_standard_error(gains, clearly):
    """The mean gain must exceed its own standard error, which is 0 when all gains are alike."""
    assert MEAN_RULES["mean + 1 se"](gains) is clearly


def test_strict_rule_accepts_useless_edits():
    """On 12 tasks of a fair coin it accepts 42 % of them: the share of wins over losses with the ties out."""
    strict, clearly = simulate_mean_rules(cell(), 3000, "1")
    assert apart(strict.life, Estimate(value=0.4195)) < 4
    assert clearly.life.value < strict.life.value


def test_bound_that_is_broken_is_said():
    """A gate that accepts every second useless edit is named, with the figure."""
    strict, _ = simulate_mean_rules(cell(), 200, "1")
    result = CellResult(cell=cell(), figures=(replace(strict, rule="paired 6"),))
    (bound,) = cell_bounds([result], (6,))
    assert bound.worst == strict.life
    assert not bound.holds


def test_estimates():
    """Means, shares and ratios come with their errors, and a share's is never 0."""
    assert mean([1.0, 2.0, 3.0]) == Estimate(value=2.0, error=pytest.approx(3**-0.5))
    assert share(0, 98).error == pytest.approx(0.01, rel=0.01)
    assert ratio([1.0, 2.0], [2.0, 4.0]) == Estimate(value=0.5, error=0.0)
    assert apart(Estimate(value=1.0, error=3.0), Estimate(value=11.0, error=4.0)) == pytest.approx(2.0)
    assert apart(Estimate(value=1.0), Estimate(value=2.0)) == float("inf")
    assert apart(share(5, 4000), Estimate(value=0.0045551)) == pytest.approx(3.5, abs=0.1)
    assert apart(share(450, 1000), Estimate(value=0.5)) == pytest.approx(0.05 / 0.5 * 1000**0.5, abs=0.05)
    assert apart(share(1, 100), Estimate(value=0.00015)) == pytest.approx(2.17, abs=0.01)
    assert apart(share(10, 100), share(20, 100)) == pytest.approx(0.1 / (0.15 * 0.85 * 2 / 100) ** 0.5)
    assert apart(share(1, 100), Estimate(value=0.0)) == float("inf")


def month(name: str, *, noisy: bool, histories: int, seed: str) -> NightsFigures:
    """A made-up month, at no price."""
    one = Estimate(value=histories / len(seed), error=0.1)
    row = dict.fromkeys(("tried", "accepted", "wrong", "wrong_drawn", "gain", "calls_a_night"), one)
    return NightsFigures(gate=f"{NOISY if noisy else ''}{name}", **row)


FEW = ("--repeats", "30", "--driven", "8", "--histories", "2", "--processes", "1")


def test_command_prints_tables(capsys):
    """Errors, cells with standard errors, nights beside the rule, months and bounds; the exit code says if all hold."""
    code = gate.main(["--only", "binary 0.3, +0.40 on every task, 12 tasks", *FEW])
    printed = capsys.readouterr().out
    assert "paired 6: exact error 4.96 %" in printed
    assert "binary 0.3, +0.40 on every task\n" in printed
    assert "94.99" in printed
    assert "Whole nights / the rule alone" in printed
    assert "noisy judge: strict, 12 tasks, 1 a night" in printed
    assert "30 edits a cell, 8 through nights, 2 months, seed 1: " in printed
    assert (code == 0) is ("BROKEN" not in printed)


def test_command_prints_json(capsys, monkeypatch):
    """The same as one object, with every figure's standard error and the exact ones beside them."""
    monkeypatch.setattr(gate, "nights", month)
    gate.main(["--only", "graded 0.5, +0.00 on every task, 8 tasks", "--json", *FEW])
    printed = json.loads(capsys.readouterr().out)
    assert [each["cell"]["lost_baseline"] for each in printed["cells"]] == [0.0, 0.05, 0.1, 0.2]
    assert {"value", "error", "runs"} == set(printed["cells"][0]["figures"][0]["life"])
    assert [len(each["exact"]) for each in printed["cells"]] == [2, 0, 0, 0]
    assert printed["agreement"] == []
    assert printed["seconds"] > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--repeats", "1"], "at least 2"),
        (["--driven", "1"], "at least 2"),
        (["--processes", "0"], "--processes is 0"),
        (["--only", "binary 0.7"], "no cell is described by 'binary 0.7'"),
        (["--only", "binary 0.5", "--plot", "g.svg"], "leave --only out"),
    ],
)
def test_command_refuses(flags, message, capsys):
    """One run has no standard error; a plot of some cells is none; a name nobody has is said."""
    with pytest.raises(SystemExit):
        gate.main(flags)
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_measure_the_same(capsys):
    """Who does the work changes no figure."""
    printed = []
    for processes in ("1", "2"):
        gate.main(["--only", "graded 0.5, +0.10 on every task, 4 tasks", "--json", *FEW[:-1], processes])
        printed.append(json.loads(capsys.readouterr().out) | {"seconds": 0})
    assert printed[0] == printed[1]


@pytest.mark.parametrize("base", [0.1, 0.3, 0.5])
@pytest.mark.parametrize(("k", "least"), [(6, 0.90), (8, 0.80)])
def test_large_gain_is_accepted_within_the_pairs_of_one_night(base, k, least):
    """An edit of +.4 on 12 tasks, in its first 36 pairs: exactly."""
    figures = exact_paired(Cell(tasks=12, judge=Judge.BINARY, base=base, effect=0.4), k)
    assert figures.within_36.value >= least


def test_gain_of_a_grade_is_accepted_within_the_pairs_of_one_night():
    """+.1 with a deviation of .1, at the margin of .1."""
    figures = exact_paired(Cell(tasks=12, judge=Judge.GRADED, base=GRADE, effect=0.1), 6)
    assert figures.within_36.value >= 0.90


@pytest.mark.parametrize("base", [0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("k", [6, 8])
def test_harmful_edit_is_hardly_ever_accepted(base, k):
    """In a whole life, with a pass rate that falls by .13."""
    assert exact_paired(Cell(tasks=12, judge=Judge.BINARY, base=base, effect=-0.13), k).life.value <= 0.01
