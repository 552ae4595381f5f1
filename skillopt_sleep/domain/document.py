"""A skill or memory file as exact bytes, and the one region of it that edits may touch."""

from __future__ import annotations

import enum

from msgspec import Struct

__all__ = ["Document", "DocumentKind"]


class DocumentKind(enum.StrEnum):
    """A skill is loaded when it is needed, memory is always in front of the agent."""

    SKILL = "skill"
    MEMORY = "memory"


class Document(Struct, frozen=True, kw_only=True):
    """A live file or a proposed version of it.

    ``content`` is None when the file does not exist. ``whole`` says that the file was handed over whole (its body is
    editable, its frontmatter never); otherwise only our managed block is.
    """

    kind: DocumentKind
    path: str
    content: bytes | None = None
    whole: bool = False
