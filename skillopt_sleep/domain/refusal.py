"""What was not made into a task or an edit, and why; apart, because whatever reads a model's reply needs it."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Refusal"]


class Refusal(Struct, frozen=True, kw_only=True):
    """Something that was not made into a task or an edit, by name. ``subject`` is a session id, task id or edit."""

    subject: str
    words: str
    why: str
