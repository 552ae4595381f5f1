"""The sealed test of a change that was adopted: tasks nothing has seen, scored once, for the record only.

Whoever looks at a test again and again ends up fitting it. So a change is scored once, after it was adopted, every try
is counted, and no verdict ever depends on the outcome.
"""

from __future__ import annotations

from msgspec import Struct

from skillopt_sleep.domain.candidate import Candidate

__all__ = ["MOST_ATTEMPTS", "Adopted", "SealedTest"]

MOST_ATTEMPTS = 3
"""Nights that may try to score a change before it is given up: calls that transport lost are no score."""


class Adopted(Struct, frozen=True, kw_only=True):
    """An adopted change that waits for its sealed test: the documents before and after, and the tries so far.

    ``change`` is the night whose proposal it was.
    """

    change: str
    before: Candidate
    after: Candidate
    attempts: int = 0


class SealedTest(Struct, frozen=True, kw_only=True):
    """What the sealed tasks made of an adopted change; ``before`` and ``after`` are means under the gate metric.

    ``change`` is the night whose proposal was adopted, ``night`` the one that scored it, ``attempts`` the tries it
    took. ``why`` says what kept it from being scored, "" when it was: then it never is again.
    """

    change: str
    night: str
    tasks: int = 0
    wins: int = 0
    losses: int = 0
    ties: int = 0
    before: float | None = None
    after: float | None = None
    attempts: int = 0
    why: str = ""
