"""What a change must have shown to be adopted without being asked about: more than to be proposed."""

from __future__ import annotations

from collections.abc import Iterator

from skillopt_sleep.domain.account import STRICT_ALPHA
from skillopt_sleep.domain.edit import EditStatus
from skillopt_sleep.domain.report import Loading, NightReport, TrialReport
from skillopt_sleep.domain.verdict import Verdict, threshold

__all__ = ["AUTO_K", "AUTO_TASKS", "auto_adoptable", "not_by_itself"]

AUTO_K = threshold(STRICT_ALPHA)
"""The score it takes: 8."""

AUTO_TASKS = 12
"""Different tasks it takes, near-duplicates counted as one: with fewer, what was gained may be theirs alone."""


def not_by_itself(report: NightReport, *, isolated: bool = True) -> str:
    """Why the proposal of a night may not be adopted by itself, "" when it may.

    ``isolated``: replays were shown to be out of reach of the user's other instructions. Every trial that was accepted
    has to do; one that was not has left nothing in the proposal.
    """
    return next(filter(None, _reasons(report, isolated=isolated)), "")


def _reasons(report: NightReport, *, isolated: bool) -> Iterator[str]:
    """What speaks against it, the gravest first; "" where a condition is met."""
    trials = [each for each in report.trials if each.decision.verdict is Verdict.ACCEPT]
    replay = report.replay
    if not report.accepted or report.proposal is None:
        yield "nothing was accepted"
    if any(each.status is not EditStatus.APPLIED for each in report.applied_edits):
        yield "an edit of it is held back by the guard"
    if replay.loading in {Loading.NOT_LOADED, Loading.NOT_OPENED}:
        yield f"the agent does not use it by itself ({replay.why})"
    if not isolated:
        yield "the replays were not isolated from the user's other instructions"
    yield "" if trials else "no trial stands behind it"
    yield from map(auto_adoptable, trials)
    if replay.loading is not Loading.LOADED:
        yield f"nobody has seen the agent load it ({replay.why or 'it was not tried'})"


def auto_adoptable(trial: TrialReport) -> str:
    """Why what one trial accepted may not be adopted by itself, "" when it may."""
    if trial.decision.verdict is not Verdict.ACCEPT:
        return f"the trial of the {trial.document} ended in {trial.decision.verdict}"
    if trial.k is None or trial.score is None:
        return f"the {trial.document} was accepted by a rule whose error is not known"
    if trial.score < AUTO_K:
        return f"the {trial.document} has a score of {trial.score}, and it takes {AUTO_K}"
    if trial.tasks_in_all < AUTO_TASKS:
        tasks = f"{trial.tasks_in_all} different {'task' if trial.tasks_in_all == 1 else 'tasks'}"
        return f"the {trial.document} was tested on {tasks}, and it takes {AUTO_TASKS}"
    return _worse(trial)


def _worse(trial: TrialReport) -> str:
    """What got worse under it that has not been shown to be chance."""
    if lost := len(trial.confirmed_regressions):
        return f"{lost} {'task' if lost == 1 else 'tasks'} got worse under the {trial.document}, which was confirmed"
    if open_ := len(trial.unconfirmed) + trial.losses_before:
        what = "pair" if open_ == 1 else "pairs"
        return f"{open_} {what} got worse under the {trial.document}, and whether for good could not be found out"
    return ""
