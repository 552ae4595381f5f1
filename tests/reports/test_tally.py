"""The arithmetic of the paired gate in words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skillopt_sleep.gate.account import Account
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.reports import measurements
from skillopt_sleep.reports.markdown import render_report
from skillopt_sleep.reports.rows import Outcome, list_held_back, list_tasks
from skillopt_sleep.reports.terminal import render_summary
from tests.reports.samples import ACCEPTED, GOES_ON, GUARDED, MEMORY_RULE, PAIRED, PENDING_RULE

TRIAL = PAIRED.trials[0]


def test_accepted_trial_can_be_recounted():
    """Wins, losses, ties, score, threshold, and how often a useless edit gets there."""
    assert measurements.describe_trial(TRIAL) == (
        "6 wins, 0 losses, 3 ties: score 6 of 6 needed, accepted (by luck with a chance of at most 5 %)"
    )


def test_trial_that_lost_calls_shows_its_tally_and_why_it_decides_nothing():
    """What was counted before is still shown."""
    decision = replace(TRIAL.decision, verdict=Verdict.UNMEASURED, wins=2, why="only 3 of 9 pairs could be measured")
    told = measurements.describe_trial(replace(TRIAL, decision=decision, since="2026-07-01-c9a0"))
    assert told == (
        "2 wins, 0 losses, 3 ties since night 2026-07-01-c9a0: not decided, because only 3 of 9 pairs could be measured"
    )


@pytest.mark.parametrize(("k", "said"), [(6, "5 %"), (7, "3 %"), (8, "1.8 %")])
def test_chance_is_rounded_up(k, said):
    """ "At most" stays true."""
    assert measurements.chance(k) == said


@pytest.mark.parametrize(
    ("tonight", "in_all", "few"), [(5, 5, False), (4, 4, True), (1, 1, True), (1, 4, True), (1, 5, False)]
)
def test_claim_is_no_wider_than_the_tasks(tonight, in_all, few):
    """It names how many different tasks it stands on over all nights, and says plainly when they are few."""
    said = measurements.describe_gains(replace(PAIRED, trials=(replace(TRIAL, tasks=tonight, tasks_in_all=in_all),)))
    assert f"on {in_all} different task" in said
    assert ("That is few" in said) is few
    assert (f"{tonight} of them tonight" in said) is (tonight < in_all)


@pytest.mark.parametrize(
    ("worsened", "confirmed", "said"),
    [
        ((), (), ""),
        (("v-04",), (), "In two more replays, the task that got worse did not keep losing."),
        (("v-04", "v-05"), ("v-05",), "1 task got worse in two more replays as well: look at it first."),
    ],
)
def test_confirmed_regression_is_said(worsened, confirmed, said):
    """A task that got worse is said to have got worse again, or not."""
    trial = replace(TRIAL, worsened=worsened, confirmed_regressions=confirmed)
    assert said in measurements.describe_gains(replace(PAIRED, trials=(trial,)))
    assert bool(worsened) is ("two more replays" in measurements.describe_gains(replace(PAIRED, trials=(trial,))))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"unconfirmed": ("v-04",)}, "Whether 1 task would get worse again is not known"),
        (
            {"unconfirmed": ("v-04",), "confirmed_regressions": ("v-05",)},
            "1 task got worse in two more replays as well",
        ),
        ({"losses_before": 4, "since": "2026-07-01-c9a0"}, "4 losses of earlier nights were not replayed again."),
        ({"since": "2026-07-01-c9a0"}, "over all nights 6 wins and 0 losses"),
    ],
)
def test_what_nobody_looked_at_again_is_said(changed, said):
    """Never as if it had been found to be chance; and the losses of a whole life are counted."""
    worsened = changed.get("unconfirmed", ()) + changed.get("confirmed_regressions", ())
    claim = measurements.describe_gains(replace(PAIRED, trials=(replace(TRIAL, worsened=worsened, **changed),)))
    assert said in claim
    assert "did not keep losing" not in claim


@pytest.mark.parametrize(
    ("account", "said"),
    [
        pytest.param(Account(), "", id="nothing-tried"),
        pytest.param(Account(tried=3, by_chance=0.15), "3 changes tried, none accepted.", id="none-accepted"),
        pytest.param(
            Account(tried=41, accepted=9, by_chance=2.0336),
            "41 changes tried, 9 accepted (by luck at most 2.1 of those).",
            id="rounded-up",
        ),
        pytest.param(
            Account(tried=60, accepted=1, by_chance=2.98, k=8),
            "60 changes tried, 1 accepted (by luck at most 1 of those). That may be too many, so a new change needs a"
            " score of 8.",
            id="all-by-chance",
        ),
    ],
)
def test_account_in_a_sentence(account, said):
    """Tried, accepted, and how many of these by chance at most."""
    assert measurements.describe_account(account) == said


@pytest.mark.parametrize("render", [render_report, lambda report: render_summary(report, width=500)])
def test_pending_edit_is_listed_once(render):
    """Under its own heading with what it would take, and not among those held back."""
    page = render(GOES_ON)
    assert page.count(MEMORY_RULE.edit.text) == 1
    assert "needs 1 more win to be accepted; so far 5 wins, 0 losses, 9 ties; first tried tonight" in page
    assert GUARDED.edit in [each.edit for each in list_held_back(GOES_ON)]


def test_undecided_edit_that_cannot_go_on_is_still_shown():
    """What is pending no more stays among what was held back."""
    assert [each.edit.id for each in list_held_back(replace(GOES_ON, pending=()))] == ["e-3", "e-4"]


@pytest.mark.parametrize("report", [PAIRED, replace(PAIRED, account=Account(tried=1, by_chance=0.05))])
def test_every_report_has_the_account(report):
    """On the screen and on the page."""
    assert measurements.describe_account(report.account) in render_report(report)
    assert measurements.describe_account(report.account) in render_summary(report, width=500)


def test_strict_night_claims_nothing_of_the_paired_rule():
    """Its words are those of two means."""
    assert measurements.describe_gains(ACCEPTED) == ""
    assert "E = " not in render_report(ACCEPTED)


@pytest.mark.parametrize(
    ("improved", "worsened", "outcome"),
    [
        (("v-04",), (), Outcome.BETTER),
        ((), ("v-04",), Outcome.WORSE),
        (("v-04",), ("v-04",), Outcome.MIXED),
        ((), (), Outcome.SAME),
    ],
)
def test_task_is_called_what_the_rule_counted(improved, worsened, outcome):
    """Several replays of a task have one mean, and may still have won once and lost once."""
    night = replace(PAIRED, trials=(replace(TRIAL, improved=improved, worsened=worsened),))
    (row,) = [row for row in list_tasks(night) if row.before.id == "v-04"]
    assert row.outcome is outcome


def test_pending_edit_of_an_earlier_night_is_dated():
    """In the status nothing is "tonight"."""
    assert measurements.describe_pending(replace(PENDING_RULE, nights=3)).endswith(
        "first tried in night 2026-07-10-beef, in 3 nights so far"
    )
