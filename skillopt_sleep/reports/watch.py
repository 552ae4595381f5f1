"""What became of the adopted rules, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt_sleep.domain.watch import Period, Watched, WatchState
from skillopt_sleep.reports.phrases import number
from skillopt_sleep.reports.plain import plain

__all__ = ["notes", "render"]

RULE = 90
"""Characters shown of a rule."""


def render(watched: Sequence[Watched]) -> str:
    """One paragraph a rule, the latest adopted first; not ended by a newline."""
    if not watched:
        return "No rule of this project is live, so there is nothing to watch."
    head = "Corrections of each rule's kind, per 100 prompts you typed in this project:"
    return "\n\n".join([head, *("\n".join(_paragraph(each)) for each in watched)])


def notes(watched: Sequence[Watched]) -> tuple[str, ...]:
    """What a night's report should say: only rules after which corrections did not fall."""
    return tuple(
        f"since “{plain(each.rule.text, RULE)}” went live, corrections of its kind did not fall"
        f" ({_period(each.before)} before, {_period(each.after)} since); to take it out: {_revert(each)}"
        for each in watched
        if each.state is WatchState.DID_NOT_FALL
    )


def _paragraph(each: Watched) -> Iterator[str]:
    yield f"{each.rule.edit.id}  “{plain(each.rule.text, RULE)}”"
    yield f"  live since {each.rule.adopted_at[:10]} (night {each.rule.night}), {each.rule.path}"
    yield f"  before: {_period(each.before)}; since: {_period(each.after)}"
    yield f"  {_said(each)}"


def _said(each: Watched) -> str:
    match each.state:
        case WatchState.FELL:
            return f"They fell: so few come by chance once in {round(1 / max(each.p or 0.0, 0.001)):,} times."
        case WatchState.UNCLEAR:
            return f"Fewer, but chance alone makes so few {each.p or 0:.0%} of the time: too little to tell."
        case WatchState.DID_NOT_FALL:
            return f"They did not fall: the rule does not help here. To take it out: {_revert(each)}"
        case WatchState.EARLY:
            return f"Too early to tell: about {number(each.missing, 'more prompt')} until it could show."
        case WatchState.NEVER_SAID:
            return "Nothing of its kind was said before it, so there is nothing to compare with."


def _period(period: Period) -> str:
    if period.rate is None:
        return "no prompt"
    return f"{period.rate:.1f} ({period.corrections} in {number(period.prompts, 'prompt')})"


def _revert(each: Watched) -> str:
    return f"skillopt-sleep revert {each.rule.night} --edit {each.rule.edit.id}"
