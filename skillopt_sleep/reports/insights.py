"""What your sessions already tell, as a page for someone who has never heard of this program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt_sleep.domain.insights import Correction, Insights, Recurring, Sighting
from skillopt_sleep.reports.phrases import number
from skillopt_sleep.reports.plain import plain

__all__ = ["render"]

SHOWN = 8
"""Findings of each kind on the page; the rest is counted."""

WORDINGS = 3
"""Wordings shown of one recurring request."""

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
