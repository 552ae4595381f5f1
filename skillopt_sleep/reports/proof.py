"""The part of the morning report that proves: how the tasks went, what the trials came to, and the account of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.night.report import HoldoutRow, NightReport, TrialReport
from skillopt_sleep.reports import tally, trust
from skillopt_sleep.reports.rows import INTENT, Outcome, TaskRow, task_rows
from skillopt_sleep.reports.words import document, escape, number, plain, score, sentence, table


def proof(report: NightReport) -> Iterator[str]:
    """The tasks before and after, and the trials they make; nothing without any."""
    rows = task_rows(report)
    if not rows:
        return
    yield "## The proof" if report.accepted else "## The test"
    yield ""
    yield (
        "These validation tasks are your own past requests; the rules were written from other ones. Each was replayed"
        " with your files as they are (before) and with the change (after), and the answers were scored from 0 to 1."
    )
    yield ""
    yield from table(
        ("", "task", "before", "after"),
        ((row.outcome, escape(plain(row.task, INTENT)), _graded(row.before), _graded(row.after)) for row in rows),
    )
    again = dict.fromkeys(_of(report, "confirmed_regressions"), " It lost twice more when it was replayed again.")
    again |= dict.fromkeys(_of(report, "unconfirmed"), " Whether it would lose again is not known.")
    if remarks := list(_remarks(rows, again)):
        yield ""
        yield from remarks
    if report.trials:
        yield ""
        yield from _counted(report) if tally.paired(report) else _compared(report)


def _of(report: NightReport, name: str) -> Iterator[str]:
    """The tasks that any trial has under that name."""
    return (task for trial in report.trials for task in getattr(trial, name))


def _remarks(rows: Sequence[TaskRow], again: Mapping[str, str]) -> Iterator[str]:
    """Why a task got worse, one by one, and what replaying it ``again`` said; why others were not measured."""
    lost = Counter(row.after.why or row.before.why for row in rows if row.outcome is Outcome.UNMEASURED)
    for row in rows:
        if row.outcome is Outcome.WORSE and row.after.why:
            more = again.get(row.after.id, "")
            yield f"- worse: “{escape(plain(row.task, INTENT))}” {escape(sentence(row.after.why))}{more}"
    for why, count in lost.most_common():
        yield f"- not measured: {number(count, 'task')}" + (f". {escape(sentence(why))}" if why else "")


def _compared(report: NightReport) -> Iterator[str]:
    yield " ".join(map(_tested, report.trials)) + (_LUCK.get(report.gate_mode, "") if report.accepted else "")


def _counted(report: NightReport) -> Iterator[str]:
    """The trials by the paired rule, and how to read them."""
    for trial in report.trials:
        if trial.k is None:
            yield f"- The {document(trial.document)}: {escape(sentence(trial.decision.why))}"
        else:
            evidence = "" if trial.e is None else f"; E = {trial.e:g}"
            yield f"- The {document(trial.document)}: {escape(tally.trial(trial))}{evidence}."
    yield ""
    yield _READING


def _tested(trial: TrialReport) -> str:
    decision = trial.decision
    means = (
        f": {score(decision.baseline)} → {score(decision.candidate)}, {decision.wins} better, {decision.losses} worse"
    )
    return f"The {document(trial.document)} by itself was {_VERDICTS[decision.verdict]}" + (
        f"{means}." if decision.measured else f": {escape(sentence(decision.why))}"
    )


def _graded(row: HoldoutRow) -> str:
    if row.hard is None:
        return "not measured"
    passed = {1.0: "passed", 0.0: "failed"}.get(row.hard, f"passed {row.hard:.0%} of the time")
    return passed if row.soft in {None, row.hard} else f"{passed}, {score(row.soft)}"


def account(report: NightReport) -> Iterator[str]:
    """Everything that was ever tried here, added up."""
    if said := tally.account(report.account):
        yield "## The account"
        yield ""
        yield (
            f"Of all edits that were ever tried here: {said} Edits that are tried together count as one. The bound adds"
            " up, over all that were tried, the chance that a useless one is accepted."
        )


def trusted(report: NightReport) -> Iterator[str]:
    """How far the measurement can be trusted, what the sealed tasks say, and how many tasks are missing."""
    said = [*trust.audited(report.audit), *([trust.sealed(report.sealed)] if report.sealed else [])]
    said += [each for each in (trust.missing(report.shortfall),) if each and report.trials]
    if said:
        yield "## How far to trust it"
        yield ""
        yield from (f"- {escape(each)}" for each in said)


_VERDICTS = {
    Verdict.ACCEPT: "accepted",
    Verdict.REJECT: "dropped",
    Verdict.UNDECIDED: "not decided",
    Verdict.UNMEASURED: "not measured",
}

_LUCK = {"strict": " Every task was replayed once each way, so part of the difference may be luck."}
"""What a gate mode leaves open."""

_READING = (
    "How to read this: each pair is one task replayed once without and once with the change. It is a win where the"
    " change did better, a loss where it did worse, else a tie; the score is the wins less twice the losses. E is 1.618"
    " (the golden ratio) to the score: for a change that helps no more than it harms, its mean over all nights is at"
    " most 1."
)
"""What a reader needs to recount a trial by the paired rule."""
