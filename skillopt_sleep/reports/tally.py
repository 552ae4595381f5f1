"""The arithmetic of the paired gate in words: a trial, what it proves, what is pending, and the account of it all."""

from __future__ import annotations

import math

from skillopt_sleep.gate.account import Account
from skillopt_sleep.gate.rule import Tally, Verdict, exact_error
from skillopt_sleep.model.task import DECIDING
from skillopt_sleep.night.report import NightReport, PendingReport, TrialReport
from skillopt_sleep.reports.words import DOCUMENTS, number, plain


def paired(report: NightReport, *verdicts: Verdict) -> tuple[TrialReport, ...]:
    """The paired trials of a night that ended so, or all of them."""
    return tuple(
        each for each in report.trials if each.k is not None and (not verdicts or each.decision.verdict in verdicts)
    )


def trial(tried: TrialReport) -> str:
    """One paired trial on one line, not ended: its tally over all its nights, and what that came to."""
    k, verdict = tried.k or 0, tried.decision.verdict
    since = f" since night {plain(tried.since)}" if tried.since else ""
    tally = Tally(wins=tried.decision.wins, losses=tried.decision.losses, ties=tried.ties or 0).in_words + since
    match verdict:
        case Verdict.ACCEPT:
            return (
                f"{tally}: score {tried.score}, accepted at {k};"
                f" the chance that a useless edit gets there is at most {chance(k)}"
            )
        case Verdict.REJECT:
            return f"{tally}: score {tried.score}, so it was dropped; it would have been accepted at {k}"
        case Verdict.UNDECIDED:
            return f"{tally}: score {tried.score}, and it takes {k}; not decided yet"
        case Verdict.UNMEASURED:
            return f"{tally}, and nothing decided: {plain(tried.decision.why)}"


def claims(report: NightReport) -> str:
    """What the accepted trials of a night show, and no more than that; "" when none was accepted by the paired rule."""
    return " ".join(_claim(each) for each in paired(report, Verdict.ACCEPT))


def _claim(tried: TrialReport) -> str:
    improved, worsened = len(tried.improved), len(tried.worsened)
    whole = max(tried.tasks, tried.tasks_in_all)
    tasks = f"{'this' if whole == 1 else 'these'} {number(whole, 'task')} of yours"
    tonight = f", tonight on {tried.tasks} of them" if tried.tasks < whole else ""
    detail = f"{improved or 'none'} improved, {worsened or 'none'} got worse"
    if tried.since:
        decision = tried.decision
        detail = f"tonight {detail}; over all its nights {number(decision.wins, 'pair')} won, {decision.losses} lost"
    said = f"With it the {_document(tried.document)} is better on {tasks} as replayed{tonight} ({detail})."
    if worsened or tried.losses_before:
        said += f" {confirmed(tried)}"
    if whole >= DECIDING:
        return said
    return f"{said} That is few: with fewer than {DECIDING} different tasks it says little about your other work."


def confirmed(tried: TrialReport) -> str:
    """What became of the tasks that got worse under an accepted edit when they were replayed twice more."""
    lost, unknown = len(tried.confirmed_regressions), len(tried.unconfirmed)
    said = []
    if lost:
        them = "it" if lost == 1 else "them"
        said.append(f"{number(lost, 'task')} lost twice more when replayed again: look at {them} first.")
    elif len(tried.worsened) > unknown:
        whom = "the one that got worse" if len(tried.worsened) == 1 else "those that got worse"
        rest = " that could be replayed again" if unknown else ""
        said.append(f"Replayed twice more, {whom}{rest} did not keep losing.")
    if unknown:
        said.append(
            f"Whether {number(unknown, 'task')} that got worse would lose again is not known: calls ran out or were"
            " lost."
        )
    if tried.losses_before:
        said.append(f"Not replayed again: {number(tried.losses_before, 'pair')} lost in earlier nights.")
    return " ".join(said)


def going_on(pending: PendingReport, night: str = "") -> str:
    """What an undecided edit is away from, and where it stands; ``night`` is the one that reports it."""
    since = "first tried tonight" if pending.since == night else f"first tried in night {plain(pending.since)}"
    nights = f", in {number(pending.nights, 'night')} so far" if pending.nights > 1 else ""
    tally = Tally(wins=pending.wins, losses=pending.losses, ties=pending.ties)
    return f"{plain(pending.needs)} and it is accepted; it has {tally.in_words}; {since}{nights}"


def account(total: Account) -> str:
    """Everything that was ever tried here, added up, in a sentence or two; "" before the first edit was tried."""
    if not total.tried:
        return ""
    if not total.accepted:
        return f"{number(total.tried)} tried, none accepted."
    by_chance = _up(min(total.by_chance, total.accepted))
    said = f"{number(total.tried)} tried, {number(total.accepted)} accepted, at most {by_chance} of them by chance."
    return said if total.k == Account().k else f"{said} That may be too many: a new edit needs a score of {total.k}."


def chance(k: int) -> str:
    """The chance that a useless edit is ever accepted at ``k``, rounded up: "5 %"."""
    return f"{_up(100 * exact_error(k))} %"


def _up(value: float) -> str:
    """At most one decimal, never less than the value."""
    return f"{math.ceil(round(value * 10, 6)) / 10:g}"


def _document(kind: str) -> str:
    return DOCUMENTS.get(kind, plain(kind))
