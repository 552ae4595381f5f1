"""The morning report: ``report.md``, for a person who does not know the program.

The verdict and what to do come first, then what was learnt, the test, the cost, and at the end the details for an
engineer. Everything quoted was written by others: it is escaped, so that it reads as written and can never become
markup, a table cell, or the end of a code block.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.call import PhaseTally
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.night.report import BackendHealth, HoldoutRow, NightReport, PendingReport, TrialReport
from skillopt_sleep.reports import measurements
from skillopt_sleep.reports.formatting import (
    DOCUMENTS,
    ERRORS,
    PHASES,
    code,
    describe_earlier_spend,
    describe_expectation,
    escape,
    longest_backtick_run,
    number,
    plain,
    plain_lines,
    score,
    sentence,
    spending_rows,
    table,
    when,
)
from skillopt_sleep.reports.headline import summarize_night
from skillopt_sleep.reports.rows import (
    QUOTE_CHARACTERS,
    TASK_CHARACTERS,
    Outcome,
    TaskRow,
    describe_rule,
    list_held_back,
    list_said,
    list_tasks,
    list_undecided,
    relative_to_project,
    without_bullet,
)

DIFF_LINES = 120
"""Lines of one file's diff in the report."""

EXAMPLES = 2
"""Examples named for each reason why something was left out."""

ROLES = {
    "target": "does the tasks (target)",
    "optimizer": "finds tasks, judges, writes rules (optimizer)",
}
"""What the two models of a night do."""

VERDICTS = {
    Verdict.ACCEPT: "accepted",
    Verdict.REJECT: "dropped",
    Verdict.UNDECIDED: "not decided",
    Verdict.UNMEASURED: "not measured",
}
"""What became of a change that the strict rule compared."""


SAID = (
    "These rest on what you said once and for all. They are not proven, and nothing adopts them but your word, one by"
    " one. Until then their tests go on."
)
PENDING = (
    "The next night continues these tests, beginning with the one closest to a decision. A test ends when the text it"
    " changes, or the model, has changed by then."
)


def render_report(report: NightReport) -> str:
    """Return the whole page, with a final newline."""
    sections = (
        _opening(report),
        _edits("What was learnt" if report.accepted else "What was tried", "note", report.applied_edits, report),
        _edits("What was tried and dropped", "why it was dropped", report.rejected_edits, report),
        _pending(report, "You said so", SAID, list_said(report)),
        _pending(report, "Not decided yet", PENDING, list_undecided(report)),
        _edits("What was held back", "why it was held back", list_held_back(report), report),
        _test(report),
        _trust(report),
        _read(report),
        _cost(report),
        _agents(report.backends),
        _notes(report),
        _change(report),
    )
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section))) + "\n"


def _opening(report: NightReport) -> Iterator[str]:
    headline = summarize_night(report)
    about = [f"night {escape(report.night)}", code(report.project) if report.project else "all projects"]
    if report.started_at:
        about.append(escape(when(report.started_at)))
    yield f"# {headline.title[0].upper()}{headline.title[1:]}"
    yield ""
    yield f"**{headline.ending}** · {' · '.join(about)}"
    yield ""
    yield escape(headline.text)
    yield ""
    yield f"**What to do now.** {escape(headline.now)}"
    if headline.steps:
        yield ""
        rows = ((code(step.command), escape(step.effect)) for step in headline.steps)
        yield from table(("command", "what it does"), rows)


def _edits(heading: str, why: str, edits: Sequence[AppliedEdit], report: NightReport) -> Iterator[str]:
    if not edits:
        return
    yield f"## {heading}"
    for count, applied in enumerate(edits, start=1):
        row = describe_rule(applied, report)
        instead = f", instead of “{escape(row.instead_of)}”" if row.instead_of else ""
        yield ""
        yield f"{count}. **{escape(row.text)}**"
        yield f"   - {row.does} {code(row.path)}".rstrip() + instead
        if row.reason:
            yield f"   - reason: {escape(row.reason)}"
        for words in row.words:
            yield f"   - you said: “{escape(words)}”"
        if row.moments:
            yield f"   - {escape(row.moments)}"
        if row.why:
            yield f"   - {why}: {escape(row.why)}"


def _pending(report: NightReport, heading: str, about: str, rules_on_trial: Sequence[PendingReport]) -> Iterator[str]:
    if not rules_on_trial:
        return
    yield from (f"## {heading}", "", about)
    for count, pending in enumerate(rules_on_trial, start=1):
        rules = "**, tried together with **".join(escape(without_bullet(rule)) for rule in pending.rules)
        yield ""
        yield f"{count}. **{rules}**"
        yield f"   - for the {_document(pending.document)}"
        yield f"   - {escape(measurements.describe_pending(pending, report.night))}"


def _test(report: NightReport) -> Iterator[str]:
    """Yield the tasks before and after, and the trials they make up; nothing without any."""
    rows = list_tasks(report)
    if not rows:
        return
    yield "## How it was tested"
    yield ""
    yield (
        "These are past requests of yours, other than those the rules were learnt from. Each was replayed with your"
        " files as they are (before) and with the change (after)."
    )
    yield ""
    yield from table(
        ("", "task", "before", "after"),
        (
            (row.outcome, escape(plain(row.task, QUOTE_CHARACTERS)), _grade(row.before), _grade(row.after))
            for row in rows
        ),
    )
    if places := list(_places(rows)):
        yield ""
        yield from places
    if remarks := list(_remarks(rows, report.trials)):
        yield ""
        yield from remarks
    if measurements.paired_trials(report):
        yield ""
        yield from _paired_trials(report)
    elif report.trials:
        yield ""
        luck = " Every task was replayed once each way, so part of the difference may be luck."
        told = report.accepted and report.gate_mode == "strict"
        yield " ".join(map(_strict_trial, report.trials)) + (luck if told else "")


def _places(rows: Sequence[TaskRow]) -> Iterator[str]:
    """Yield each moment at which the change made a difference: what was said, what was done then, and what is now."""
    for row in rows:
        label = row.label
        if label is None or not label.moment or row.outcome not in (Outcome.BETTER, Outcome.WORSE):
            continue
        place = " · ".join(f"{origin.day} {origin.source} {origin.session_id[:8]}" for origin in label.origins[:1])
        yield f"- {escape(row.task)} ({escape(plain(place))})"
        yield f"   - then: {code(plain(label.then, QUOTE_CHARACTERS))}"
        yield f"   - now: {code(plain(row.after.response_head, QUOTE_CHARACTERS))}"


def _remarks(rows: Sequence[TaskRow], trials: Sequence[TrialReport]) -> Iterator[str]:
    """Yield why each task got worse and whether it did again; and why others could not be measured."""
    again = {task: " It got worse in two more replays as well." for t in trials for task in t.confirmed_regressions}
    again |= {task: " Whether it would get worse again is not known." for t in trials for task in t.unconfirmed}
    for row in rows:
        if row.outcome is Outcome.WORSE and row.after.why:
            task = escape(plain(row.task, QUOTE_CHARACTERS))
            yield f"- worse: “{task}” {escape(sentence(row.after.why))}{again.get(row.after.id, '')}"
    lost = Counter(row.after.why or row.before.why for row in rows if row.outcome is Outcome.UNMEASURED)
    for why, count in lost.most_common():
        yield f"- not measured: {number(count, 'task')}" + (f". {escape(sentence(why))}" if why else "")


def _paired_trials(report: NightReport) -> Iterator[str]:
    for trial in report.trials:
        said = sentence(trial.decision.why) if trial.k is None else f"{measurements.describe_trial(trial)}."
        yield f"- The {_document(trial.document)}: {escape(said)}"
    yield ""
    yield (
        "Each replay with the change is compared with one without it: a win is better, a loss worse, and the score is"
        " the wins less twice the losses."
    )


def _strict_trial(trial: TrialReport) -> str:
    decision = trial.decision
    said = f"The {_document(trial.document)} by itself was {VERDICTS[decision.verdict]}: "
    if not decision.measured:
        return f"{said}{escape(sentence(decision.why))}"
    means = f"{score(decision.baseline)} → {score(decision.candidate)}"
    return f"{said}{means}, {decision.wins} better, {decision.losses} worse."


def _grade(row: HoldoutRow) -> str:
    """One cell: whether the task passed, and its score when that says more."""
    if row.hard is None:
        return "not measured"
    partial = row.soft not in {None, row.hard}
    if row.hard == 0 and partial:
        return f"partly right ({score(row.soft)})"
    passed = {1.0: "passed", 0.0: "failed"}.get(row.hard, f"passed {row.hard:.0%} of the time")
    return f"{passed} ({score(row.soft)})" if partial else passed


def _trust(report: NightReport) -> Iterator[str]:
    """Yield all changes tried so far, how noisy the tests are, the sealed test, and how many tasks are missing."""
    account = measurements.describe_account(report.account)
    said = [f"In total: {account}" if account else "", *measurements.describe_audit(report.audit)]
    if report.sealed:
        said.append(measurements.describe_sealed(report.sealed))
    if report.trials:
        said.append(measurements.describe_shortfall(report.shortfall))
    if any(said):
        yield "## How far to trust it"
        yield ""
        yield from (f"- {escape(text)}" for text in said if text)


def _read(report: NightReport) -> Iterator[str]:
    counts = report.counts
    yield "## What was read"
    yield ""
    sealed = f", {counts.test} sealed for a later check" if counts.test else ""
    gave = f", which gave {number(counts.tasks, 'task')}: {counts.train} to learn from, {counts.val} to test on{sealed}"
    yield (
        f"Your session files held {number(counts.prompts, 'new prompt')} of yours, including"
        f" {number(counts.corrections, 'correction')}. This night used {number(counts.sessions, 'session')}"
        f"{gave if counts.tasks else ''}."
    )
    left = (
        (counts.waiting, "session", "above the limit of one night, kept for the next"),
        (counts.out_of_scope, "session", "of other projects, not read"),
        (counts.older, "session", "of this project from before `lookback_days`, not read"),
        (counts.unplaced, "session", "of deleted worktrees that may be of another project, not read"),
        (counts.left, "task", "above the limit of one night, kept for the next"),
    )
    if any(count for count, _, _ in left):
        yield ""
    yield from (f"- {number(count, noun)} {what}" for count, noun, what in left if count)
    if reasons := _left_out(report):
        yield ""
        yield from table(("left out", "why", "for example"), reasons)


def _left_out(report: NightReport) -> list[tuple[str, str, str]]:
    """Return what was skipped or refused, by reason, the most frequent first."""
    total: Counter[tuple[str, str]] = Counter()
    examples: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for skip in report.skipped:
        kind = ("line" if skip.line else "file or folder", plain(skip.reason))
        total[kind] += skip.count
        examples[kind].append(code("/".join(PurePath(skip.path).parts[-2:]) + (f":{skip.line}" if skip.line else "")))
    for refusal in report.refused:
        kind = ("task or rule", plain(refusal.why))
        total[kind] += 1
        words = plain(refusal.words, TASK_CHARACTERS)
        examples[kind].append(f"“{escape(words)}”" if refusal.words else code(refusal.subject))
    plurals = {"file or folder": "files or folders", "task or rule": "tasks or rules"}
    return [
        (number(count, what, plurals.get(what, "")), escape(why), _list_examples(examples[what, why]))
        for (what, why), count in total.most_common()
    ]


def _list_examples(examples: Iterable[str]) -> str:
    named = list(dict.fromkeys(examples))
    more = len(named) - EXAMPLES
    return ", ".join(named[:EXAMPLES]) + (f" and {more} more" if more > 0 else "")


def _cost(report: NightReport) -> Iterator[str]:
    yield "## What it cost"
    yield ""
    if report.spend.calls or report.phases:
        yield from table(("", "used", "cap"), spending_rows(report.caps, report.spend))
        if earlier := describe_earlier_spend(report):
            yield ""
            yield f"Each run has its own caps: {earlier}."
        if expectation := describe_expectation(report):
            yield ""
            yield f"{expectation[0].upper()}{expectation[1:]}."
    else:
        yield "Nothing: no model was called."
    if report.phases:
        yield ""
        yield "The phases: " + ", ".join(f"*{name}* {what}" for name, what in PHASES.items()) + "."
        yield ""
        head = ("phase", "calls", "tokens in", "tokens out", "money", "seconds", "errors")
        yield from table(head, map(_phase, report.phases))
    if report.call_error and not (report.why and report.why in report.call_error):
        yield ""
        yield f"The first error: {code(plain(report.call_error, 400))}"


def _phase(phase: PhaseTally) -> tuple[str, ...]:
    return (
        escape(phase.phase),
        number(phase.calls) + (f" + {number(phase.reused)} reused" if phase.reused else ""),
        number(phase.input_tokens),
        number(phase.output_tokens),
        "" if phase.cost_usd is None else f"${phase.cost_usd:.2f}",
        f"{phase.seconds:.1f}",
        ", ".join(f"{count} x {ERRORS.get(name, escape(name))}" for name, count in phase.errors.items()),
    )


def _agents(backends: Sequence[BackendHealth]) -> Iterator[str]:
    if not backends:
        return
    yield "## Who did the work"
    yield ""
    yield from table(("role", "agent", "model", "state"), map(_agent, backends))


def _agent(health: BackendHealth) -> tuple[str, ...]:
    state = {True: "ready", False: "**not usable**", None: "not checked"}[health.ready]
    state += {True: ", logged in", False: ", not logged in", None: ""}[health.logged_in]
    return (
        ROLES.get(health.role, escape(health.role)),
        escape(f"{health.backend} {health.version}"),
        escape(health.model) or "its default",
        state + (f": {escape(health.detail)}" if health.detail else ""),
    )


def _notes(report: NightReport) -> Iterator[str]:
    if report.notes:
        yield "## Worth knowing"
        yield ""
        yield from (f"- {escape(note)}" for note in report.notes)


def _change(report: NightReport) -> Iterator[str]:
    if not report.documents:
        return
    yield "## The exact change"
    for change in report.documents:
        lines = plain_lines(change.diff)
        more = len(lines) - DIFF_LINES
        fence = "`" * max(3, 1 + longest_backtick_run("\n".join(lines)))  # a code block in the diff must not end ours
        yield ""
        yield (
            f"The {_document(change.kind)}, {code(relative_to_project(change.path, report.project))}"
            + (" (in git: once you commit it, your team has it too)" if change.tracked else "")
            + (f", {escape(change.untried)}:" if change.untried else ":")
        )
        yield ""
        yield f"{fence}diff"
        yield from lines[:DIFF_LINES]
        yield fence
        if more > 0:
            yield ""
            yield f"{number(more, 'more line')}: {code(f'skillopt-sleep show {report.night}')}"


def _document(kind: str) -> str:
    return DOCUMENTS.get(kind, escape(kind))
