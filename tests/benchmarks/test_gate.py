"""The benchmark of the gate in small: bounds hold, and a useful rule is proven."""

from __future__ import annotations

import pytest

from tests.benchmarks.gate import CELLS, main, measure
from tests.benchmarks.months import EVERYTHING, live_months


@pytest.mark.slow
def test_bounds_hold_in_a_small_sample(capsys):
    """Forty lives a cell show no broken bound."""
    assert main(["--rules", "40"]) == 0
    assert "every bound holds" in capsys.readouterr().out


@pytest.mark.parametrize(("archive", "proven"), [(4, False), (40, True)])
def test_useful_rule_needs_enough_requests(archive, proven):
    """Four requests can never carry nine wins; forty prove most rules that lift the pass rate by .4."""
    cell = next(cell for cell in CELLS if cell.name == "+.4")
    assert (measure(cell, archive, 9, 40, 1) > 0.5) is proven


@pytest.mark.slow
def test_month_of_mixed_proposals():
    """In a sample of months hardly a useless rule is adopted, the gain is that of bundles, and the account is true."""
    new, old = (live_months(12, 1, 120, 30, EVERYTHING, bundles=bundles) for bundles in (False, True))
    assert new.useless <= 0.1 < old.useless
    assert new.harmful <= 0.05
    assert new.gain >= 0.8 * old.gain
    assert new.true >= 0.9
