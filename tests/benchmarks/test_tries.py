"""The benchmark of ``try`` in small."""

from __future__ import annotations

import pytest

from tests.benchmarks.tries import FOUND, NOISE, SENSE, STRAY, measure_files


@pytest.mark.slow
def test_rules_are_found_and_few_labels_are_wrong():
    """Two thirds of the rules that matter are found in twenty files; at most a tenth of the files has a wrong label."""
    results = measure_files(20, 1, noise=NOISE, sense=SENSE, stray=STRAY)
    assert sum(result.found for result in results) / (5 * len(results)) >= FOUND
    assert sum(result.wrong > 0 for result in results) <= 2
    assert all(result.is_priced for result in results)


def test_no_noise_gives_no_wrong_label():
    """What does nothing is never labelled when nothing is left to chance."""
    results = measure_files(2, 1, noise=0.0, sense=SENSE, stray=STRAY, priced=False)
    assert not any(result.wrong for result in results)
    assert sum(result.found for result in results) >= 8
