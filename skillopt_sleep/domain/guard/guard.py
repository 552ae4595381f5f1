"""The guard itself: length, what hides, what is dangerous."""

from __future__ import annotations

import unicodedata

from skillopt_sleep.domain.guard.dangers import danger
from skillopt_sleep.domain.guard.hiding import hiding

__all__ = ["LONGEST", "guard"]

LONGEST = 800
"""Characters of a rule. A good one has two sentences; what is longer hides something or solves one task."""

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
        "\u2014": "--",
        **dict.fromkeys("\u2018\u2019\u02bc\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
        "*": "",
    }
)


def guard(edit_text: str) -> str | None:
    """Why this proposed rule is held back, in one line; None when nothing speaks against it.

    Takes time linear in the text: one that is too long is not looked at any further.
    """
    if len(edit_text) > LONGEST:
        return f"length: {len(edit_text):,} characters, a rule has at most {LONGEST:,}"
    if why := hiding(edit_text):
        return why
    return danger(" ".join(unicodedata.normalize("NFKC", edit_text).translate(_PLAIN).split()))
