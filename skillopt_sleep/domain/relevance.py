"""Whether work belongs to a skill, as far as a session tells."""

from __future__ import annotations

from collections.abc import Iterable

from skillopt_sleep.domain.text import terms

__all__ = ["relates"]


def relates(skill: str, invoked: Iterable[str], intent: str) -> bool:
    """Whether ``skill`` was invoked (with or without the name of its plugin), or its name's words are asked about."""
    if any(skill in {name, name.rpartition(":")[2]} for name in invoked):
        return True
    named = {term for term, weight in terms(skill.replace("-", " ").replace("_", " ")).items() if weight == 1.0}
    return not named.isdisjoint(terms(intent))
