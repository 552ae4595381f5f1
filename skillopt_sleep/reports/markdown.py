"""``report.md``: the morning report, for a person who does not know the program.

The verdict and what to do come first, then what was learnt, the proof, the cost, and at the end what an engineer looks
for. Everything quoted was written by others: it is escaped, so that it reads as it was written and can never become
markup (``escape``), a table cell, or the end of a code block.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from skillopt_sleep.domain.edit import AppliedEdit
from skillopt_sleep.domain.report import BackendHealth, HoldoutRow, NightReport, PhaseTally, TrialReport
from skillopt_sleep.domain.verdict import Verdict
from skillopt_sleep.reports import tally
from skillopt_sleep.reports.ending import ending
from skillopt_sleep.reports.phrases import DOCUMENTS, ERRORS, PHASES, earlier, number, score, sentence, spending, when
from skillopt_sleep.reports.plain import plain, plain_lines
from skillopt_sleep.reports.rows import Outcome, TaskRow, bare, held, rule_row, task_rows, within

__all__ = ["escape", "render"]

DIFF_LINES = 120
"""Lines of one file's diff that the report holds; ``show`` prints all of them."""

EXAMPLES = 2
"""Things named for each reason why something was left out."""

INTENT = 90
"""Characters of a task in the table of the proof."""

_MARKUP = re.compile(r"[\\`*\[<~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
"""What could start markup inside a line; an underscore inside a word and a lone & could not."""
_BLOCK = re.compile(r"[-+#>=:]|\d+(?=[.)])")
"""What could start a heading, list, quote or table at the beginning of a line."""


def render(report: NightReport) -> str:
    """The whole page, ended by a newline."""
    sections = (
        _opening(report),
        _edits("What was learnt" if report.accepted else "What was tried", "remark", report.applied_edits, report),
        _edits("What was tried and dropped", "why it was dropped", report.rejected_edits, report),
        _pending(report),
        _edits("What was held back", "why it is held back", held(report), report),
        _proof(report),
        _account(report),
        _read(report),
        _cost(report),
        _agents(report.backends),
        _notes(report),
        _change(report),
    )
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section))) + "\n"


def escape(text: str) -> str:
    """``text`` on one line, such that Markdown shows exactly its printable characters."""
    line = _MARKUP.sub(r"\\\g<0>", plain(text))
    if block := _BLOCK.match(line):
        at = block.end() if block[0].isdecimal() else 0
        line = f"{line[:at]}\\{line[at:]}"
    return line


def _opening(report: NightReport) -> Iterator[str]:
    told = ending(report)
    about = [f"night {escape(report.night)}", _code(report.project) if report.project else "all projects"]
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
        yield from _table(("command", "what it does"), ((_code(s.command), escape(s.effect)) for s in told.steps))


def _edits(heading: str, why: str, edits: Sequence[AppliedEdit], report: NightReport) -> Iterator[str]:
    if not edits:
        return
    yield f"## {heading}"
    for count, applied in enumerate(edits, start=1):
        row = rule_row(applied, report)
        yield ""
        yield f"{count}. **{escape(row.text)}**"
        yield f"   - {row.does} {_code(row.path)}".rstrip() + (
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
        yield f"   - for the {_document(pending.document)}"
        yield f"   - {escape(tally.going_on(pending, report.night))}"


def _account(report: NightReport) -> Iterator[str]:
    if said := tally.account(report.account):
        yield "## The account"
        yield ""
        yield (
            f"Of all edits that were ever tried here: {said} Edits that are tried together count as one. The bound adds"
            " up, over all that were tried, the chance that a useless one is accepted."
        )


def _proof(report: NightReport) -> Iterator[str]:
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
    yield from _table(
        ("", "task", "before", "after"),
        ((row.outcome, escape(plain(row.task, INTENT)), _graded(row.before), _graded(row.after)) for row in rows),
    )
    if remarks := list(_remarks(rows)):
        yield ""
        yield from remarks
    if report.trials:
        yield ""
        yield from _counted(report) if tally.paired(report) else _compared(report)


def _remarks(rows: Sequence[TaskRow]) -> Iterator[str]:
    """Why a task got worse, one by one; why tasks were not measured, by reason."""
    lost = Counter(row.after.why or row.before.why for row in rows if row.outcome is Outcome.UNMEASURED)
    for row in rows:
        if row.outcome is Outcome.WORSE and row.after.why:
            yield f"- worse: “{escape(plain(row.task, INTENT))}” {escape(sentence(row.after.why))}"
    for why, count in lost.most_common():
        yield f"- not measured: {number(count, 'task')}" + (f". {escape(sentence(why))}" if why else "")


def _compared(report: NightReport) -> Iterator[str]:
    yield " ".join(map(_tested, report.trials)) + (_LUCK.get(report.gate_mode, "") if report.accepted else "")


def _counted(report: NightReport) -> Iterator[str]:
    """The trials by the paired rule, and how to read them."""
    for trial in report.trials:
        if trial.k is None:
            yield f"- The {_document(trial.document)}: {escape(sentence(trial.decision.why))}"
        else:
            evidence = "" if trial.e is None else f"; E = {trial.e:g}"
            yield f"- The {_document(trial.document)}: {escape(tally.trial(trial))}{evidence}."
    yield ""
    yield _READING


def _tested(trial: TrialReport) -> str:
    decision = trial.decision
    means = (
        f": {score(decision.baseline)} → {score(decision.candidate)}, {decision.wins} better, {decision.losses} worse"
    )
    return f"The {_document(trial.document)} by itself was {_VERDICTS[decision.verdict]}" + (
        f"{means}." if decision.measured else f": {escape(sentence(decision.why))}"
    )


def _graded(row: HoldoutRow) -> str:
    if row.hard is None:
        return "not measured"
    passed = {1.0: "passed", 0.0: "failed"}.get(row.hard, f"passed {row.hard:.0%} of the time")
    return passed if row.soft in {None, row.hard} else f"{passed}, {score(row.soft)}"


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
        yield from _table(("left out", "why", "for example"), reasons)


def _left_out(report: NightReport) -> list[tuple[str, str, str]]:
    """What was skipped or refused, by reason, the most frequent first."""
    total: Counter[tuple[str, str]] = Counter()
    examples: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for skip in report.skipped:
        kind = ("line" if skip.line else "file", plain(skip.reason))
        total[kind] += skip.count
        examples[kind].append(_code("/".join(PurePath(skip.path).parts[-2:]) + (f":{skip.line}" if skip.line else "")))
    for refusal in report.refused:
        kind = ("task or rule", plain(refusal.why))
        total[kind] += 1
        examples[kind].append(f"“{escape(plain(refusal.words, INTENT))}”" if refusal.words else _code(refusal.subject))
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
        yield from _table(("", "used", "cap"), spending(report.caps, report.spend))
        if before := earlier(report):
            yield ""
            yield f"That is this sitting, of its own caps: {before}."
    else:
        yield "Nothing: no model was called."
    if report.phases:
        yield ""
        yield "Where it went: " + ", ".join(f"*{name}* {what}" for name, what in PHASES.items()) + "."
        yield ""
        yield from _table(
            ("phase", "calls", "tokens in", "tokens out", "money", "seconds", "trouble"), map(_phase, report.phases)
        )
    if report.call_error and not (report.why and report.why in report.call_error):
        yield ""
        yield f"The first error, in its own words: {_code(plain(report.call_error, 400))}"


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
    yield from _table(
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
        fence = "`" * max(3, 1 + _longest_run("\n".join(lines)))  # a diff that holds a code block must not end ours
        yield ""
        yield f"The {_document(change.kind)}, {_code(within(change.path, report.project))}" + (
            " (in git: once you commit it, your team has it too):" if change.tracked else ":"
        )
        yield ""
        yield f"{fence}diff"
        yield from lines[:DIFF_LINES]
        yield fence
        if more > 0:
            yield ""
            yield f"{number(more, 'more line')}: {_code(f'skillopt-sleep show {report.night}')}"


def _document(kind: str) -> str:
    return DOCUMENTS.get(kind, escape(kind))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(head)
    yield _row(["---"] * len(head))
    for cells in rows:
        yield _row([cell.replace("|", "\\|") for cell in cells])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """A code span of the text on one line, whatever backticks it has; "" for nothing."""
    line = plain(text)
    fence = "`" * (1 + _longest_run(line))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}" if line else ""


def _longest_run(text: str) -> int:
    """The length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)


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

_ROLES = {
    "target": "does the tasks (target)",
    "optimizer": "finds the tasks, judges, writes the rules (optimizer)",
}
