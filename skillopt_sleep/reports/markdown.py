"""``report.md``: the morning report, for a person who does not know the program.

The verdict and what to do come first, then what was learnt, the proof, the cost, and at the end what an engineer looks
for. Everything quoted was written by others: it is escaped, so that it reads as it was written and can never become
markup (``escape``), a table cell, or the end of a code block.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from skillopt_sleep.model.call import PhaseTally
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.night.report import BackendHealth, NightReport
from skillopt_sleep.reports import tally
from skillopt_sleep.reports.ending import ending
from skillopt_sleep.reports.proof import account, proof, trusted
from skillopt_sleep.reports.rows import INTENT, bare, held, rule_row, within
from skillopt_sleep.reports.words import (
    ERRORS,
    PHASES,
    code,
    document,
    earlier,
    escape,
    expected,
    longest_run,
    number,
    plain,
    plain_lines,
    spending,
    table,
    when,
)

DIFF_LINES = 120
"""Lines of one file's diff that the report holds; ``show`` prints all of them."""

EXAMPLES = 2
"""Things named for each reason why something was left out."""


def render(report: NightReport) -> str:
    """The whole page, ended by a newline."""
    sections = (
        _opening(report),
        _edits("What was learnt" if report.accepted else "What was tried", "remark", report.applied_edits, report),
        _edits("What was tried and dropped", "why it was dropped", report.rejected_edits, report),
        _pending(report),
        _edits("What was held back", "why it is held back", held(report), report),
        proof(report),
        account(report),
        trusted(report),
        _read(report),
        _cost(report),
        _agents(report.backends),
        _notes(report),
        _change(report),
    )
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section))) + "\n"


def _opening(report: NightReport) -> Iterator[str]:
    told = ending(report)
    about = [f"night {escape(report.night)}", code(report.project) if report.project else "all projects"]
    if report.started_at:
        about.append(escape(when(report.started_at)))
    yield f"# {told.title[0].upper()}{told.title[1:]}"
    yield ""
    yield f"**{told.word}** · {' · '.join(about)}"
    yield ""
    yield escape(told.says)
    yield ""
    yield f"**What to do now.** {escape(told.now)}"
    if told.steps:
        yield ""
        yield from table(("command", "what it does"), ((code(s.command), escape(s.effect)) for s in told.steps))


def _edits(heading: str, why: str, edits: Sequence[AppliedEdit], report: NightReport) -> Iterator[str]:
    if not edits:
        return
    yield f"## {heading}"
    for count, applied in enumerate(edits, start=1):
        row = rule_row(applied, report)
        yield ""
        yield f"{count}. **{escape(row.text)}**"
        yield f"   - {row.does} {code(row.path)}".rstrip() + (
            f", instead of “{escape(row.instead_of)}”" if row.instead_of else ""
        )
        if row.reason:
            yield f"   - the reason: {escape(row.reason)}"
        for words in row.words:
            yield f"   - you said: “{escape(words)}”"
        if row.why:
            yield f"   - {why}: {escape(row.why)}"


def _pending(report: NightReport) -> Iterator[str]:
    if not report.pending:
        return
    yield "## Pending"
    yield ""
    yield (
        "Not decided yet. The next night goes on with what is closest to a decision, unless the text it changes or the"
        " model is another one by then."
    )
    for count, pending in enumerate(report.pending, start=1):
        rules = "**, tried together with **".join(escape(bare(rule)) for rule in pending.rules)
        yield ""
        yield f"{count}. **{rules}**"
        yield f"   - for the {document(pending.document)}"
        yield f"   - {escape(tally.going_on(pending, report.night))}"


def _read(report: NightReport) -> Iterator[str]:
    counts = report.counts
    yield "## What was read"
    yield ""
    took = f"This night took up {number(counts.sessions, 'session')}"
    sealed = f", {counts.test} sealed for a later check" if counts.test else ""
    gave = f", which gave {number(counts.tasks, 'task')}: {counts.train} to learn from, {counts.val} to test on{sealed}"
    yield (
        f"Your session files held {number(counts.prompts, 'new prompt')} of yours,"
        f" {number(counts.corrections, 'correction')} among them. {took}{gave if counts.tasks else ''}."
    )
    left = (
        (counts.waiting, "session", "over the limit of one night, read in the next"),
        (counts.out_of_scope, "session", "of other projects, not read"),
        (counts.left, "task", "over the limit of one night, used in the next"),
    )
    if any(count for count, _, _ in left):
        yield ""
    yield from (f"- {number(count, noun)} {what}" for count, noun, what in left if count)
    if reasons := _left_out(report):
        yield ""
        yield from table(("left out", "why", "for example"), reasons)


def _left_out(report: NightReport) -> list[tuple[str, str, str]]:
    """What was skipped or refused, by reason, the most frequent first."""
    total: Counter[tuple[str, str]] = Counter()
    examples: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for skip in report.skipped:
        kind = ("line" if skip.line else "file", plain(skip.reason))
        total[kind] += skip.count
        examples[kind].append(code("/".join(PurePath(skip.path).parts[-2:]) + (f":{skip.line}" if skip.line else "")))
    for refusal in report.refused:
        kind = ("task or rule", plain(refusal.why))
        total[kind] += 1
        examples[kind].append(f"“{escape(plain(refusal.words, INTENT))}”" if refusal.words else code(refusal.subject))
    return [
        (number(count, what, "tasks or rules" if " " in what else ""), escape(why), _some(examples[what, why]))
        for (what, why), count in total.most_common()
    ]


def _some(examples: Iterable[str]) -> str:
    named = list(dict.fromkeys(examples))
    more = len(named) - EXAMPLES
    return ", ".join(named[:EXAMPLES]) + (f" and {more} more" if more > 0 else "")


def _cost(report: NightReport) -> Iterator[str]:
    yield "## What it cost"
    yield ""
    if report.spend.calls or report.phases:
        yield from table(("", "used", "cap"), spending(report.caps, report.spend))
        if before := earlier(report):
            yield ""
            yield f"That is this sitting, of its own caps: {before}."
        if expectation := expected(report):
            yield ""
            yield f"{expectation[0].upper()}{expectation[1:]}."
    else:
        yield "Nothing: no model was called."
    if report.phases:
        yield ""
        yield "Where it went: " + ", ".join(f"*{name}* {what}" for name, what in PHASES.items()) + "."
        yield ""
        yield from table(
            ("phase", "calls", "tokens in", "tokens out", "money", "seconds", "trouble"), map(_phase, report.phases)
        )
    if report.call_error and not (report.why and report.why in report.call_error):
        yield ""
        yield f"The first error, in its own words: {code(plain(report.call_error, 400))}"


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
    yield from table(
        ("role", "agent", "model", "state"),
        (
            (
                _ROLES.get(each.role, escape(each.role)),
                escape(f"{each.backend} {each.version}"),
                escape(each.model) or "its default",
                _state(each),
            )
            for each in backends
        ),
    )


def _state(health: BackendHealth) -> str:
    state = {True: "ready", False: "**not usable**", None: "not checked"}[health.ready]
    login = {True: ", logged in", False: ", not logged in", None: ""}[health.logged_in]
    return f"{state}{login}" + (f": {escape(health.detail)}" if health.detail else "")


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
        fence = "`" * max(3, 1 + longest_run("\n".join(lines)))  # a diff that holds a code block must not end ours
        yield ""
        yield f"The {document(change.kind)}, {code(within(change.path, report.project))}" + (
            " (in git: once you commit it, your team has it too):" if change.tracked else ":"
        )
        yield ""
        yield f"{fence}diff"
        yield from lines[:DIFF_LINES]
        yield fence
        if more > 0:
            yield ""
            yield f"{number(more, 'more line')}: {code(f'skillopt-sleep show {report.night}')}"


_ROLES = {
    "target": "does the tasks (target)",
    "optimizer": "finds the tasks, judges, writes the rules (optimizer)",
}
