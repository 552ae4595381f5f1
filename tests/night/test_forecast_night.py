"""What a night will take is said before it begins, and compared with what it took."""

from __future__ import annotations

from skillopt_sleep.cli.run import print_price
from skillopt_sleep.model.call import find_range
from skillopt_sleep.reports.page import render_report
from skillopt_sleep.usecases.plan import plan_night
from skillopt_sleep.usecases.run import run_night
from tests.fakes.home import make_person
from tests.gate.test_verdict import recording
from tests.reports.samples import show_night


def test_night_compared_with_what_was_expected(tmp_path, capsys):
    """The forecast before the night, the one with known tasks, and the real count all agree within their bounds."""
    mira = make_person(tmp_path / "mira", rules=1, tasks_per_rule=5)
    print_price(mira.workspace(max_calls=200), None)
    said = capsys.readouterr().err
    assert "calls expected; never more than 200 calls, 400,000 tokens, 2 USD or 60 minutes" in said
    workspace = mira.workspace(max_calls=200)
    workspace, seen = recording(workspace)
    report = run_night(workspace, plan_night(workspace))
    least, usual, most = (sum(getattr(each, end) for each in report.expected) for end in ("least", "usual", "most"))
    took = len(seen["target"]) + len(seen["optimizer"])
    assert any("judge" in each.phase for each in report.phases)
    assert 0 < least <= took <= most
    assert usual / 2 <= took <= usual * 2
    low, high = find_range(usual, 200)
    assert low <= took <= high <= 2 * low
    line = f"{took} calls were made where {low} to {high} were expected"
    assert line in render_report(report)
    assert line in " ".join(show_night(report).split())
