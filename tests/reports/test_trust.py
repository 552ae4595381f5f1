"""How far a verdict can be trusted, in words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skillopt_sleep.gate.audit import Audit, NullTrial, Position
from skillopt_sleep.gate.rule import Tally, Verdict
from skillopt_sleep.model.call import Spend
from skillopt_sleep.model.task import Shortfall
from skillopt_sleep.reports import measurements
from skillopt_sleep.reports.markdown import render_report
from skillopt_sleep.reports.status import Status, render_status
from skillopt_sleep.reports.terminal import render_summary
from tests.reports.samples import PAIRED, UNDECIDED

KNOWN = PAIRED.audit
NEEDED = "needed for a verdict based on 5 test tasks"
NULL = NullTrial(
    tasks=12,
    tally=Tally(wins=1, losses=2, ties=5),
    k=6,
    verdict=Verdict.UNDECIDED,
    why="",
    spend=Spend(calls=24),
    audit=KNOWN,
)


def test_noise_is_told_with_what_it_lets_be_seen():
    """The share that differs, on how many replays, and the gains of a night and a week."""
    assert measurements.describe_noise(KNOWN) == (
        "With the same files on two different nights, 8% of replays differ (31 repeats of 14 tasks; a task's score"
        " varies by about 0.12). With 7 test tasks, a change that makes about 19 more of 100 replays pass is usually"
        " accepted within a week, and one that makes about 36 more pass in its first night (8 times in 10)."
    )


@pytest.mark.parametrize(
    ("audit", "said"),
    [
        (replace(KNOWN, repeats=3), "it takes 10 tasks replayed again on another night; so far there are 3."),
        (replace(KNOWN, repeats_same_night=5, differ_same_night=0.2), "Within one night 20% differ (5 repeats)."),
        (replace(KNOWN, tonight=None), "no change is sure to be accepted in its first night"),
        (replace(KNOWN, tonight=None, in_a_week=None), "too much noise to see any gain within a week"),
        (replace(KNOWN, val_tasks=0), "31 repeats of 14 tasks"),
    ],
)
def test_what_cannot_be_told_is_not(audit, said):
    """Too few repeats, too much noise, no test tasks."""
    assert said in measurements.describe_noise(audit)


def test_nothing_is_said_of_nothing():
    """Before anything was replayed."""
    assert list(measurements.describe_audit(Audit())) == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Position(first=9, second=7, ties=12), "which is no more than luck"),
        (Position(first=20, second=2), "which is more than luck"),
        (Position(ties=4), "won never, the second never."),
    ],
)
def test_place_is_told_with_its_chance(place, said):
    """In random order, with the exact chance."""
    assert said in measurements.describe_position(replace(KNOWN, position=place))


def test_drift_is_told_when_there_is_some():
    """And only then."""
    assert not any("Later replays" in line for line in measurements.describe_audit(KNOWN))
    drifting = replace(KNOWN, later_better=18, later_worse=2)
    assert any(
        "better 18 times and worse twice. That is more than luck" in line
        for line in measurements.describe_audit(drifting)
    )


def test_sealed_test_is_told_once_scored_and_while_it_waits():
    """Scores, counts and tries; or why it is put off."""
    assert measurements.describe_sealed(PAIRED.sealed) == (
        "The change of night 2026-07-02-ab12, scored on 5 sealed tasks that nothing had seen before: 0.40 without it,"
        " 0.82 with it (2 better, 0 worse). Scored once, at the first try; no verdict depends on it."
    )
    waits = replace(PAIRED.sealed, why="it takes 15 calls, and tonight 3 were left", attempts=1)
    assert measurements.describe_sealed(waits).endswith(
        "still has to be scored on 5 sealed tasks: it takes 15 calls, and tonight 3 were left; 1 try so far."
    )


@pytest.mark.parametrize(
    ("shortfall", "said"),
    [
        (
            Shortfall(groups=12, missing=3, days=2),
            f"3 more different tasks are {NEEDED}, about 2 days of work at your pace.",
        ),
        (Shortfall(groups=14, missing=1), f"1 more different task is {NEEDED}."),
        (Shortfall(groups=20), ""),
    ],
)
def test_shortfall_in_a_sentence(shortfall, said):
    """How many more tasks, and how many days of this user's work."""
    assert measurements.describe_shortfall(shortfall) == said


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict.UNDECIDED, "Not accepted, as it should be. Luck accepts at most 5 % of such tests."),
        (Verdict.ACCEPT, "ACCEPTED, although nothing changed. Luck does this with a chance of at most 5 %"),
        (Verdict.UNMEASURED, "Not measured: "),
    ],
)
def test_null_trial_says_what_its_verdict_means(verdict, said):
    """It must not be accepted, and if it is, says how much of that is luck."""
    page = measurements.render_audit(replace(NULL, verdict=verdict))
    assert said in page
    assert "1 win, 2 losses, 5 ties on 12 tasks: score -3" in page
    assert "24 calls" in page


def test_report_tells_all_of_it():
    """The page in full, the screen in brief."""
    page, screen = render_report(PAIRED).replace("\\", ""), render_summary(PAIRED, width=2000)
    for said in (
        measurements.describe_noise(PAIRED.audit),
        measurements.describe_position(PAIRED.audit),
        measurements.describe_sealed(PAIRED.sealed),
    ):
        assert said in page
    assert measurements.summarize_audit(PAIRED.audit) in screen
    assert measurements.summarize_sealed(PAIRED.sealed) in screen
    assert measurements.describe_shortfall(UNDECIDED.shortfall) in render_report(UNDECIDED).replace("\\", "")
    assert measurements.describe_shortfall(UNDECIDED.shortfall) in render_summary(UNDECIDED, width=2000)


@pytest.mark.parametrize(
    ("audit", "said"),
    [
        (Audit(), ""),
        (replace(KNOWN, repeats=3), ""),
        (KNOWN, "8% of replays vary; a night can show gains of 36 points, a week gains of 19"),
        (replace(KNOWN, tonight=None, in_a_week=None), "too much to see a gain within a week"),
        (replace(KNOWN, val_tasks=0), "8% of replays vary"),
        (replace(KNOWN, position=Position(first=20, second=2)), "the judge is influenced by the order of the answers"),
        (replace(KNOWN, later_better=18, later_worse=2), "later replays score differently from earlier ones"),
    ],
)
def test_audit_in_brief(audit, said):
    """A line of figures, and what is wrong only if something is."""
    assert said in measurements.summarize_audit(audit)
    assert bool(said) is bool(measurements.summarize_audit(audit))


def test_status_tells_it_too():
    """The audit as of the last night, and the sealed tests."""
    page = render_status(Status(project="/p", nights=(PAIRED,), sealed=(PAIRED.sealed,)), most=3)
    for said in (
        measurements.describe_noise(PAIRED.audit),
        measurements.describe_position(PAIRED.audit),
        measurements.describe_sealed(PAIRED.sealed),
    ):
        assert said in page
