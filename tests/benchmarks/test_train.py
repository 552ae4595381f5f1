"""The benchmark of training measures what it says."""

from __future__ import annotations

import re

import pytest

from tests.benchmarks import train
from tests.benchmarks.train import main


def test_calls_by_stage_and_the_ideal(capsys):
    """A small run, slow calls: every stage is counted, and the ideal is of phases that really depend on each other."""
    main(["--items", "16", "--batch", "8", "--held-out", "8", "--workers", "8", "--latency", "0.02"])
    printed = capsys.readouterr().out
    calls = dict(re.findall(r"^  (\w+) +(\d+) calls$", printed, re.MULTILINE))
    assert (calls["rollout"], calls["test"]) == ("16", "16")
    together, phases = re.search(r"together +(\d+) calls in (\d+) dependent phases", printed).groups()
    assert int(together) == sum(map(int, calls.values()))
    wall, ideal, times = map(float, re.search(r"wall (.+) s, ideal (.+) s: (.+) x", printed).groups())
    assert ideal >= int(phases) * 0.02 - 1e-9
    assert wall >= ideal
    assert times >= 1


@pytest.mark.parametrize(("limit", "code"), [(1000.0, 0), (0.5, 1)])
def test_limit_decides_how_it_ends(capsys, monkeypatch, limit, code):
    """Over the limit it ends with 1, else with 0; of several runs the median counts."""
    monkeypatch.setattr(train, "LIMIT", limit)
    assert main(["--items", "8", "--batch", "8", "--held-out", "4", "--latency", "0.01", "--runs", "3"]) == code
    printed = capsys.readouterr().out
    walls = [float(each) for each in re.search(r"3 runs, in seconds: (.*)", printed)[1].split(", ")]
    assert sorted(walls)[1] == float(re.search(r"^wall (\S+) s", printed, re.MULTILINE)[1])
