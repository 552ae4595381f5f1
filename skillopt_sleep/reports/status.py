"""What ``status`` prints: the last nights in a table, and what waits for the user's word."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from skillopt_sleep.domain.report import NightReport
from skillopt_sleep.reports.ending import Word, ending
from skillopt_sleep.reports.phrases import money, number
from skillopt_sleep.reports.plain import plain

__all__ = ["render"]

HEAD = ("night", "ended", "score", "rules", "calls", "money", "proposal")


def render(
    nights: Sequence[NightReport],
    *,
    adopted: Collection[str] = (),
    reverted: Collection[str] = (),
    waiting: int = 0,
) -> str:
    """The table, the newest night first as given, and the commands for what waits.

    ``adopted`` and ``reverted`` name nights (a reverted one was adopted before); ``waiting`` counts sessions that no
    night has taken up yet.
    """
    if not nights:
        return f"No night yet. {_sessions(waiting)}\n\n" + "".join(f"  {line}\n" for line in _FIRST)
    rows = [HEAD, *(_row(night, adopted, reverted) for night in nights)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join((*table, "", *_waits(nights, adopted, reverted), _sessions(waiting))) + "\n"


def _row(night: NightReport, adopted: Collection[str], reverted: Collection[str]) -> tuple[str, ...]:
    told = ending(night)
    tested = night.baseline_score is not None and night.candidate_score is not None
    return (
        plain(night.night),
        f"stopped: {told.title}" if told.word is Word.STOPPED else told.word.lower(),
        f"{night.baseline_score:.2f} -> {night.candidate_score:.2f}" if tested else "",
        number(len(night.applied_edits)) if night.applied_edits else "",
        number(night.spend.calls),
        money(night.spend),
        _proposal(night, adopted, reverted),
    )


def _proposal(night: NightReport, adopted: Collection[str], reverted: Collection[str]) -> str:
    if night.night in reverted:
        return "reverted"
    if night.night in adopted:
        return "adopted"
    return "waits for you" if night.proposal else ""


def _waits(nights: Sequence[NightReport], adopted: Collection[str], reverted: Collection[str]) -> Iterator[str]:
    for night in nights:
        if night.proposal and night.night not in adopted and night.night not in reverted:
            yield f"A change waits for you: skillopt-sleep show {night.night}, then skillopt-sleep adopt {night.night}."
            return


def _sessions(waiting: int) -> str:
    return f"{number(waiting, 'session')} {'waits' if waiting == 1 else 'wait'} for the next night." if waiting else ""


_FIRST = (
    "skillopt-sleep insights  shows in seconds what your sessions tell, and calls no model",
    "skillopt-sleep doctor    says what a night would do and cost, and spends nothing",
    "skillopt-sleep run       runs a night",
)
