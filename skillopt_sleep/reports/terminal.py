"""The page that shows a night on one screen: ``run`` prints it at its end, and ``show`` on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt_sleep.reports.blocks import Cell, Facts, Items, Line, Page, Part, Section, Table, Tone, count_rest
from skillopt_sleep.reports.headline import TONES
from skillopt_sleep.reports.rows import Outcome
from skillopt_sleep.reports.rules import Group, RuleView, State
from skillopt_sleep.reports.view import NightView

MOST = {State.PROVEN: 3, State.UNTESTED: 3, State.SAID: 2, State.PROMISING: 1, State.WAITING: 1}
"""For each outcome, the most of its rules shown without ``--all``; of other outcomes only the count is shown."""
MOST_NOTES = 2


def describe_screen(
    night: NightView,
    *,
    program: str = "skillopt-sleep",
    place: str = "",
    again: Sequence[str] = (),
    everything: bool = True,
) -> Page:
    """Return a night as a page for a terminal; without ``everything`` the page fits on one screen.

    The page suggests commands. ``program`` is how the user calls this program, ``place`` holds options that lead to
    this night (``--project``), and ``again`` the options of this run, for a command that continues it.
    """
    steps = [(_complete(command, program, place, again), effect) for command, effect in night.steps]
    tone = Tone.GOOD if night.is_loaded else Tone.BAD if night.not_loaded else Tone.WAITING
    loads = [Line(f"{night.loads} {night.loads_why}".rstrip(), tone)] if night.loads else []
    lead = Line(f"{night.ending}: {night.said}", TONES.get(night.ending, Tone.PLAIN))
    return (
        Section("", (lead, *(Line(limit, Tone.WAITING) for limit in night.limits), night.text, *loads)),
        Section("What to do now", (night.now, *([Facts(steps)] if steps else ()))),
        *(
            _describe_group(group, f"{program} adopt {night.night}{place}", everything=everything)
            for group in night.groups
        ),
        Section("Tested", tuple(_list_tests(night)) if everything else ()),
        *(_describe_changes(night) if everything else ()),
        Section("Figures", tuple(_list_figures(night, everything=everything))),
        Section("Worth knowing", tuple(_list_notes(night.notes, len(night.notes) if everything else MOST_NOTES))),
    )


def _complete(command: str, program: str, place: str, again: Sequence[str]) -> str:
    """Return a shown command as the user has to type it here, so that it finds this night.

    A ``run`` gets those options of this run (``again``) that it lacks; any other command gets the options ``place``.
    """
    words = command.split()
    if words[1:2] == ["run"] and again:
        command = " ".join([command, *(option for option in again if option.split()[0] not in words)])
    else:
        command += place
    return command.replace("skillopt-sleep", program, 1)


def _describe_group(group: Group, adopt: str, *, everything: bool) -> Section:
    most = len(group.rules) if everything else MOST.get(group.state, 0)
    items = Items([list(_describe_rule(rule, adopt, everything=everything)) for rule in group.rules[:most]])
    return Section(
        f"{group.title}: {group.note}", (*([items] if most else []), *count_rest(len(group.rules), most, "rule"))
    )


def _describe_rule(rule: RuleView, adopt: str, *, everything: bool) -> Iterator[Cell]:
    yield rule.text
    quotes = rule.quotes if everything else rule.quotes[:1]
    yield from (f"you said: “{quote.words}”{f', {quote.day}' if quote.day else ''}" for quote in quotes)
    where = f"{rule.does} {rule.path}".rstrip() + (f"; live since {rule.live}" if rule.live else "")
    if rule.tally:
        yield Line(rule.tally, Tone.GOOD if rule.state is State.PROVEN else Tone.PLAIN)
    yield from filter(None, (rule.moments, rule.odds) if everything else ())
    if rule.state in {State.PROVEN, State.UNTESTED, State.PROMISING} or not rule.why:
        yield Line(where, Tone.QUIET)
    if rule.why and not rule.trial:  # else the tally says it
        yield Line(rule.why, Tone.QUIET)
    if rule.adopt and (everything or rule.state in {State.SAID, State.PROMISING}):
        yield Line("to adopt it alone:", Tone.QUIET)
        yield Line(f"{adopt} {rule.adopt}", Tone.COMMAND)


def _list_tests(night: NightView) -> Iterator[Part]:
    """Yield a line on each trial decided by mean scores, and the requests that came out better or worse in trials."""
    yield from night.trials
    rows = [row for row in night.tasks if row.outcome not in {Outcome.SAME, Outcome.UNMEASURED}]
    if rows:
        yield Table(("", "request"), [(row.outcome, row.task) for row in rows], elastic=1)
    yield from night.remarks


def _describe_changes(night: NightView) -> Iterator[Section]:
    for title, lines, more in night.changes:
        left = [f"{more} more lines are in diagnostics.json"] if more else []
        yield Section(title, (*(Line(line, _tone_change(line)) for line in lines), *left))


def _tone_change(line: str) -> Tone:
    if line.startswith(("---", "+++", "@@")):
        return Tone.QUIET
    return {"+": Tone.GOOD, "-": Tone.BAD}.get(line[:1], Tone.PLAIN)


def _list_notes(notes: Sequence[str], most: int) -> Iterator[Part]:
    if notes:
        yield Items([[note] for note in notes[:most]])
        yield from count_rest(len(notes), most)


def _list_figures(night: NightView, *, everything: bool) -> Iterator[Part]:
    spent = (
        "; ".join(f"{used} of {cap} {'' if what == 'dollars' else what}".rstrip() for what, used, cap in night.costs)
        or "nothing: no model was called"
    )
    rows: list[tuple[str, Cell]] = [("read", night.read), ("spent", spent)]
    if everything:
        rows += [("", text) for text in night.cost_remarks]
        rows += [("kept", text) for text in night.kept]
        rows += [("left out", f"{count}: {why}") for count, why, _ in night.left_out]
    trust = night.trust if everything else night.trust[:1]
    yield Facts([*rows, *(("trust", text) for text in trust)])
