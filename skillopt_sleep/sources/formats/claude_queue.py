"""What a person typed while the agent worked, as the queue records of Claude Code tell it.

Nearly all such words are written a second time: as the next prompt (``dequeue``) or as an attachment of the running
turn. In sessions of early 2026 some were not: they survive only as an ``enqueue`` and the ``remove`` that handed them
to the agent.
"""

from __future__ import annotations

__all__ = ["Queue"]

ABSORBED = "absorbed_mid_turn"
"""The reason later versions give to a ``remove`` that hands words to the running turn; earlier ones give none."""

NOTIFICATION = "<task-notification"


class Queue:
    """The texts waiting in the queue, first in first out."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._gone_before = 0

    def move(self, operation: str, text: str, reason: str) -> str:
        """Follow one queue operation; the text that went to the agent by it and may stand nowhere else, or ""."""
        match operation:
            case "enqueue":
                self._waiting.append(text)
            case "dequeue" if self._waiting:
                self._waiting.pop(0)
            case "popAll":  # taken back into the input box, which notices are not
                self._waiting = [waiting for waiting in self._waiting if waiting.startswith(NOTIFICATION)]
            case "remove":
                removed = self._remove(text)
                return removed if reason in {"", ABSORBED} else ""
        return ""

    def attached(self, text: str) -> None:
        """The text went into the running turn as an attachment; its ``remove`` may be yet to come."""
        if text in self._waiting:
            self._waiting.remove(text)
            self._gone_before += 1

    def _remove(self, text: str) -> str:
        """Take out the named text, or the first one where the record names none."""
        if text:
            if text not in self._waiting:
                return ""
            self._waiting.remove(text)
            return text
        if self._gone_before:
            self._gone_before -= 1
            return ""
        return self._waiting.pop(0) if self._waiting else ""
