"""What your sessions already tell, as a page for someone who has never heard of this program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt_sleep.mining.insights import Correction, Insights, Recurring, Sighting
from skillopt_sleep.reports.words import number, plain

SHOWN = 8
"""Findings of each kind on the page; the rest is counted."""

WORDINGS = 3
"""Wordings shown of one recurring request."""

SEPARATOR = " \N{MIDDLE DOT} "

PLACES = 4
"""Sessions named of one recurring request."""

WORDS = 110
"""Characters shown of a person's words."""


def render(found: Insights) -> str:
    """The page, as markdown that reads well as plain text; not ended by a newline."""
    if not found.prompts:
        return (
            "# What your sessions already tell\n\n"
            "Nothing yet: no prompt that you typed was found here. Work with your agent as usual and look again, or"
            " look at all your projects with `--scope all`."
        )
    sections = [
        ["# What your sessions already tell", "", *_counts(found)],
        [*_asked(found.asked)],
        [*_corrected(found)],
        ["## What can be learnt from them", "", *_prospects(found)],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _counts(found: Insights) -> Iterator[str]:
    where = f", in {number(found.projects, 'folder')}" if found.projects > 1 else ""
    yield f"You typed {number(found.prompts, 'prompt')} in {number(found.sessions, 'session')}{_when(found)}{where}."
    yield (
        f"You corrected an answer {_times(len(found.corrections))} and approved one {_times(found.approvals)}."
        if found.corrections or found.approvals
        else "You neither corrected nor approved an answer in so many words."
    )
    yield "All of this was read from your own session files: no model was asked, and nothing left this machine."


def _when(found: Insights) -> str:
    if found.active_days < 2:  # noqa: PLR2004  one day is no span
        return f" on {found.first_day}" if found.first_day else ""
    return f" on {found.active_days} days from {found.first_day} to {found.last_day}"


def _asked(asked: Sequence[Recurring]) -> Iterator[str]:
    if not asked:
        return
    yield "## What you asked for again and again"
    yield ""
    for each in asked[:SHOWN]:
        yield from _recurring(each)
        if each.corrections:
            said = "; ".join(_quote(correction.said) for correction in each.corrections[:WORDINGS])
            yield f"  and corrected the answer {_times(len(each.corrections))}: {said}"
    yield from _more(len(asked))


def _corrected(found: Insights) -> Iterator[str]:
    """What was corrected in several sessions; without any, the latest corrections."""
    if not found.corrections:
        return
    if found.corrected:
        yield "## What you had to correct again and again"
        yield ""
        for each in found.corrected[:SHOWN]:
            yield from _recurring(each)
        yield from _more(len(found.corrected))
        yield ""
    yield "## What you had to say about answers, the latest first"
    yield ""
    about: dict[tuple[str, str], list[Correction]] = {}
    for correction in found.corrections:
        about.setdefault((correction.said.session_id, correction.asked), []).append(correction)
    for corrections in list(about.values())[:SHOWN]:
        first = corrections[0]
        yield f"- {'; '.join(_quote(each.said) for each in corrections[:WORDINGS])}"
        yield f"  when you had asked {_quoted(first.asked)} ({_place(first.said)})"
    yield from _more(len(about))


def _recurring(each: Recurring) -> Iterator[str]:
    first, *others = _wordings(each.sightings)
    yield f"- in {each.sessions} sessions: {_quote(first)}"
    if others:
        yield f"  or: {', '.join(_quote(other) for other in others[: WORDINGS - 1])}"
    places = _places(each.sightings)
    unsaid = f" and {len(places) - PLACES} more" if len(places) > PLACES else ""
    yield f"  {SEPARATOR.join(map(_place, places[:PLACES]))}{unsaid}"


def _prospects(found: Insights) -> Iterator[str]:
    if found.tasks:
        different = "" if found.groups == found.tasks else f", {number(found.groups)} of them different"
        yield f"{number(found.tasks, 'request')} can be replayed without the rest of the session{different}."
    else:
        yield "No request so far can be understood without the rest of its session, so there is nothing to replay yet."
    yield (
        f"To prove that a change of your agent's instructions helps takes {found.groups_needed} different ones: two"
        " thirds of them to learn the change from, and the others, which it has not seen, to decide."
    )
    if not found.groups_missing:
        yield "You have enough: a night can come to a verdict now."
    elif found.days_missing is None:
        yield f"{number(found.groups_missing)} more are needed. A night before that can still learn, but not yet prove."
    else:
        yield (
            f"{number(found.groups_missing)} more are needed: about {number(found.days_missing, 'day')} of work like"
            " yours. A night before that can still learn, but not yet prove."
        )
    yield ""
    yield (
        "To see what a night would do and cost at most, without calling a model or writing anything:"
        " `skillopt-sleep run --dry-run`"
    )


def _wordings(sightings: Sequence[Sighting]) -> list[Sighting]:
    """One sighting for each wording, the latest first."""
    return list({" ".join(each.words.casefold().split()): each for each in reversed(sightings)}.values())[::-1]


def _places(sightings: Sequence[Sighting]) -> list[Sighting]:
    """One sighting for each session, the latest first."""
    return list({(each.source, each.session_id): each for each in reversed(sightings)}.values())[::-1]


def _place(sighting: Sighting) -> str:
    return f"{sighting.day} {sighting.source} {plain(sighting.session_id)[:8]}".strip()


def _quote(sighting: Sighting) -> str:
    return _quoted(sighting.words)


def _quoted(words: str) -> str:
    return f"\N{LEFT DOUBLE QUOTATION MARK}{plain(words, WORDS)}\N{RIGHT DOUBLE QUOTATION MARK}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count) or f"{count:,} times"


def _more(count: int) -> Iterator[str]:
    if count > SHOWN:
        yield f"- and {count - SHOWN:,} more"
