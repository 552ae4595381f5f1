"""How many corrections among invented prompts are recognized, as a bound that no change may fall below."""

from __future__ import annotations

from tests.benchmarks.feedback import load_samples, main, tally

LEAST_RECALL = 0.9
LEAST_PRECISION = 0.85


def test_invented_corrections_are_found():
    """Recall and precision over the held-out half, and over all."""
    samples = load_samples()
    for count in (tally(samples), tally([sample for sample in samples if sample.held_out])):
        assert count.recall >= LEAST_RECALL
        assert count.precision >= LEAST_PRECISION


def test_claimed_approvals_are_some():
    """Most claimed approvals are right."""
    count = tally(load_samples())
    assert 0 < count.approvals <= 1.25 * count.approvals_right


def test_both_halves_are_printed(capsys):
    """``bash scripts/bench feedback`` prints a line for each half."""
    assert main(["--wrong"]) == 0
    assert capsys.readouterr().out.count("recall") == 2
