"""The report of ``try``: what a file of yours, and each of its rules, does for the agent on your own requests."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from skillopt_sleep.gate.part_trial import Effect
from skillopt_sleep.model.call import Expected, Spend
from skillopt_sleep.reports.formatting import money, number, plain

MAX_RULE = 160
"""Characters of a rule in the report."""
HEADINGS = {
    Effect.HARMS: "Does harm: your requests went better without it; take it out of the file yourself",
    Effect.CARRIES: "Carries weight: your requests went worse without it",
    Effect.NONE: "No effect seen, which does not prove that there is none",
    Effect.UNMEASURED: "Not measured: too many answers or verdicts were lost",
}
"""What each effect means; the report lists them in this order."""
SUMMARIES = {
    Effect.HARMS: "{other} does better",
    Effect.CARRIES: "{path} does better",
    Effect.NONE: "no difference seen",
    Effect.UNMEASURED: "too little could be measured",
}


class PartReport(Struct, frozen=True, kw_only=True):
    """A whole file or one rule of it, and what its pairs showed.

    ``better`` counts the pairs that went better with it, ``worse`` those that went better without it; ``requests`` are
    the different ones that were measured. ``line`` is 0 for the whole file.
    """

    text: str
    line: int
    effect: Effect
    better: int
    worse: int
    same: int
    requests: int


class TryReport(Struct, frozen=True, kw_only=True):
    """What ``try`` found out; ``whole`` compares the file with none, or with the file ``against``."""

    name: str
    path: str
    against: str
    requests: int
    price: Expected
    whole: PartReport
    rules: tuple[PartReport, ...]
    cut: str
    """The cap that ended it early, "" when it is finished."""
    spend: Spend = Spend()
    notes: tuple[str, ...] = ()

    @property
    def unfinished(self) -> str:
        """Why the command should be run again, "" when it is done."""
        parts = (self.whole, *self.rules)
        lost = all(part.effect is Effect.UNMEASURED for part in parts)
        return self.cut or ("too little could be measured" if lost else "")


def describe_price(what: str, price: Expected, *, rules: int, requests: int, paid: int, cap: int) -> str:
    """Return what it will cost to try ``what``, in a sentence, before it begins."""
    parts = f"as a whole and without each of its {number(rules, 'rule')}" if rules else "as a whole"
    said = f"{what} {parts}, on {number(requests, 'different request')} of yours"
    said += f": {price.least:,} to {price.most:,} calls, most often about {price.usual:,}"
    said += f"; {paid:,} are paid already" if paid else ""
    if price.most - paid > cap:
        said += f"; this run stops at {cap:,} (--max-calls), and the same command continues"
    return said


def render_try(report: TryReport) -> str:
    """Return the report as plain text, without a final newline."""
    return "\n".join(_list_lines(report))


def _list_lines(report: TryReport) -> Iterator[str]:
    path, other = plain(report.path), plain(report.against or "no file")
    said = SUMMARIES[report.whole.effect].format(path=path, other=other)
    yield f"{path} against {other}: {said} ({_count_pairs(report.whole)})."
    for effect, heading in HEADINGS.items():
        if rules := [rule for rule in report.rules if rule.effect is effect]:
            yield from ("", f"{heading} ({len(rules)})")
        for rule in rules:
            yield f"  line {rule.line:<4} {plain(rule.text, MAX_RULE)}"
            yield f"            {_count_pairs(rule)}"
    yield ""
    if not report.rules and not report.against:
        yield "The file has no list item, so there is no single rule to leave out; only the whole was tried."
    if any(rule.effect is Effect.HARMS for rule in report.rules):
        yield "What does harm was left out while the others were tried again."
    if report.unfinished:
        yield f"Not finished: {plain(report.unfinished)}"
    spent = f"{number(report.spend.calls, 'call')}, {money(report.spend)}" if report.spend.calls else "no call"
    yield f"Spent in this run: {spent}. Nothing was changed but this report."
    yield from map(plain, report.notes)


def _count_pairs(part: PartReport) -> str:
    return (
        f"{part.better} better with it, {part.worse} worse, {part.same} the same, on {number(part.requests, 'request')}"
    )
