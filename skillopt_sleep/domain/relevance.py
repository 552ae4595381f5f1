"""Whether work belongs to a skill, as far as a session tells."""

from __future__ import annotations

from collections.abc import Iterable

from skillopt_sleep.domain.text import terms

__all__ = ["relates"]


def relates(skill: str, invoked: Iterable[str], intent: str, *, about: str = "") -> bool:
    """Whether ``skill`` was invoked (with or without the name of its plugin), or what it is for is asked about.

    What it is for are the words of its name, and of ``about``, its description.
    """
    if any(skill in {name, name.rpartition(":")[2]} for name in invoked):
        return True
    words = f"{skill} {about}".replace("-", " ").replace("_", " ")
    named = {term for term, weight in terms(words).items() if weight == 1.0}
    return not named.isdisjoint(terms(intent))
