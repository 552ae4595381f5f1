"""What ``insights`` prints: what a person asks and corrects again and again, for someone who is new to this program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from skillopt_sleep.mining.insights import Correction, Insights, Recurring, Sighting
from skillopt_sleep.reports.formatting import list_left_out, number, plain, times

FINDINGS = 8
"""Findings of each kind on the page; the rest is counted."""

WORDINGS = 3
"""Wordings shown of one recurring request."""

SESSIONS = 4
"""Sessions named of one recurring request."""

CAUSES = 4
"""Ways of correcting that are named."""

QUOTE_CHARACTERS = 110
"""Characters shown of a person's words."""


def render_insights(found: Insights) -> str:
    """Return the page, as Markdown that also reads well as plain text; without a final newline."""
    if not found.prompts:
        text = (
            "# What your sessions tell\n\n"
            "Nothing yet: no prompt that you typed was found here. Work with your agent as usual and look again, or"
            " look at all your projects with `--scope all`."
        )
        return "\n\n".join((text, *_left_out(found)))
    sections = [
        ["# What your sessions tell", "", *_counts(found)],
        list(_requests(found.asked)),
        list(_repeated_corrections(found.corrected)),
        list(_latest_corrections(found.corrections)),
        ["## What can be learnt from them", "", *_prospects(found)],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _counts(found: Insights) -> Iterator[str]:
    folders = f", in {number(found.projects, 'folder')}" if found.projects > 1 else ""
    days = ""
    if found.active_days > 1:
        days = f" on {found.active_days} days from {found.first_day} to {found.last_day}"
    elif found.first_day:
        days = f" on {found.first_day}"
    yield f"You typed {number(found.prompts, 'prompt')} in {number(found.sessions, 'session')}{days}{folders}."
    if found.corrections or found.approvals:
        yield (
            f"{_count_prompts(len(found.corrections))} as a correction of what the agent had just done,"
            f" {found.approvals:,} as an approval."
        )
        yield from _how(found.corrections)
    else:
        yield "None of them reads as a correction or an approval of what the agent had done."
    yield from _left_out(found)
    yield "This page was made from your own session files: no model was asked for it, and nothing left this machine."


def _count_prompts(count: int) -> str:
    return f"{count:,} of them reads" if count == 1 else f"{count:,} of them read"


def _how(corrections: Sequence[Correction]) -> Iterator[str]:
    """Yield how the corrections were made, the most frequent way first."""
    causes = Counter(correction.cause for correction in corrections if correction.cause)
    if len(causes) > 1:
        ways = ", ".join(f"{cause} ({count})" for cause, count in causes.most_common(CAUSES))
        yield f"What such a prompt does most often: it {ways}."


def _left_out(found: Insights) -> Iterator[str]:
    if sessions := list_left_out(out_of_scope=found.out_of_scope, unplaced=found.unplaced):
        yield f"Not counted: {'; '.join(sessions)}."


def _requests(asked: Sequence[Recurring]) -> Iterator[str]:
    if not asked:
        return
    yield "## What you ask for again and again"
    yield ""
    for request in asked[:FINDINGS]:
        yield from _recurring(request)
        if request.corrections:
            said = "; ".join(_quote(correction.said.words) for correction in request.corrections[:WORDINGS])
            yield f"  right after it you corrected what was done {times(len(request.corrections))}: {said}"
    yield from _more(len(asked))


def _repeated_corrections(corrected: Sequence[Recurring]) -> Iterator[str]:
    if not corrected:
        return
    yield "## What you correct again and again"
    yield ""
    for correction in corrected[:FINDINGS]:
        yield from _recurring(correction)
    yield from _more(len(corrected))


def _latest_corrections(corrections: Sequence[Correction]) -> Iterator[str]:
    """Yield the latest corrections, those of one request together."""
    if not corrections:
        return
    yield "## Your latest corrections"
    yield ""
    requests: dict[tuple[str, str], list[Correction]] = {}
    for correction in corrections:
        requests.setdefault((correction.said.session_id, correction.asked), []).append(correction)
    for group in list(requests.values())[:FINDINGS]:
        first = group[0]
        yield f"- {'; '.join(_quote(correction.said.words) for correction in group[:WORDINGS])}"
        asked = f"after you wrote {_quote(first.asked)} " if first.asked else ""
        yield f"  {asked}({_place(first.said)})"
    yield from _more(len(requests))


def _recurring(request: Recurring) -> Iterator[str]:
    """One request or correction with its wordings and sessions, the latest first."""
    newest = list(reversed(request.sightings))
    first, *others = list({" ".join(said.words.casefold().split()): said for said in newest}.values())[::-1]
    yield f"- in {request.sessions} sessions: {_quote(first.words)}"
    if others:
        yield f"  or: {', '.join(_quote(other.words) for other in others[: WORDINGS - 1])}"
    places = list({(said.source, said.session_id): said for said in newest}.values())[::-1]
    more = f" and {len(places) - SESSIONS} more" if len(places) > SESSIONS else ""
    yield f"  {' · '.join(map(_place, places[:SESSIONS]))}{more}"


def _prospects(found: Insights) -> Iterator[str]:
    if found.tasks:
        different = "" if found.groups == found.tasks else f", {number(found.groups)} of them different"
        yield f"{number(found.tasks, 'request')} may make sense without the rest of the session{different}."
    else:
        yield "No request makes sense without the rest of its session yet."
    if found.corrections:
        places = number(len(found.corrections), "place")
        yield (
            f"At up to {places} where you corrected it, a night can put the agent back and see whether you would have"
            " to say it again. A place counts only if a check or a judge can tell what you rejected from what you kept."
        )
    yield (
        f"It takes {found.groups_needed} different ones to show that a change of your agent's instructions helps: two"
        " thirds to learn the change from, the rest to test it on."
    )
    if not found.groups_missing:
        yield "There are as many: a night may come to a verdict."
    else:
        days = "" if found.days_missing is None else f", about {number(found.days_missing, 'day')} of work at your pace"
        missing = number(found.groups_missing, "more is", "more are")
        yield f"{missing} needed{days}. A night before that can learn, but not yet prove."
    yield ""
    yield (
        "To see what a night would do and cost, without calling a model or writing anything:"
        " `skillopt-sleep run --dry-run`"
    )


def _place(sighting: Sighting) -> str:
    return f"{sighting.day} {sighting.source} {plain(sighting.session_id)[:8]}".strip()


def _quote(words: str) -> str:
    return f"“{plain(words, QUOTE_CHARACTERS)}”"


def _more(count: int) -> Iterator[str]:
    if count > FINDINGS:
        yield f"- and {count - FINDINGS:,} more"
