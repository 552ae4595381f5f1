"""Keeps what the agent did in sessions that have moments, compressed, so that it outlives the agent's own clean-up.

A session is due to be read when it was filed with a correction in it; one that grew is due again. What is kept was
redacted before. The oldest sessions go first when all together are too large.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import DiskError
from skillopt_sleep.model.session import Conversation
from skillopt_sleep.storage.database import REPAIR, Database

LEVEL = 6
"""Compression: a tenth smaller than the fastest level, and still faster than the redaction before it."""
FORGOTTEN = ""
"""The path under which the turns of forgotten sessions are known, so that no copy brings them back."""


class KeptSteps(Struct, frozen=True, kw_only=True):
    """A session whose steps are kept."""

    source: str
    path: str
    session_id: str
    ended_at: str
    size: int
    """Bytes that it takes, compressed."""


class StepArchive:
    """The kept steps, by source and path of the session. Raises ``DiskError`` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self) -> tuple[tuple[str, str], ...]:
        """Return source and path of the sessions whose steps are still to be read, the oldest first, as files go."""
        rows = self._database.rows(
            "SELECT source, path FROM steps_due LEFT JOIN sessions USING (source, path) ORDER BY ended_at, path"
        )
        return tuple((row[0], row[1]) for row in rows)

    def is_due(self, source: str, path: str) -> bool:
        """Whether a session was filed with more than is kept of it."""
        return bool(self._database.rows("SELECT 1 FROM steps_due WHERE source = ? AND path = ?", (source, path)))

    def keep(self, source: str, path: str, conversation: Conversation | None) -> None:
        """Replace what is kept of a session, which is then no longer due; None keeps what was kept before."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM steps_due WHERE source = ? AND path = ?", (source, path))
            if conversation is not None:
                names, data = (source, path, conversation.session_id), compress_steps(conversation)
                connection.execute(
                    "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?)", (*names, conversation.ended_at, data)
                )

    def load(self, source: str, path: str) -> Conversation | None:
        """Return the steps that are kept of a session, None when there are none."""
        rows = self._database.rows("SELECT data FROM steps WHERE source = ? AND path = ?", (source, path))
        if not rows:
            return None
        try:
            return decompress_steps(rows[0]["data"])
        except (ValueError, TypeError) as error:
            raise DiskError(f"the steps of {path} in sleep.db are damaged ({error}); {REPAIR}") from error

    def list_kept(self) -> tuple[KeptSteps, ...]:
        """Return the sessions whose steps are kept, the oldest first."""
        rows = self._database.rows(
            "SELECT source, path, session_id, ended_at, length(data) AS size FROM steps ORDER BY ended_at, path"
        )
        return tuple(KeptSteps(**row) for row in rows)

    def drop(self, sessions: Sequence[KeptSteps]) -> None:
        """Drop what is kept of some sessions; each is read again when it grows."""
        with self._database.transaction() as connection:
            connection.executemany(
                "DELETE FROM steps WHERE source = ? AND path = ?",
                [(session.source, session.path) for session in sessions],
            )

    def prune(self, size: int) -> tuple[KeptSteps, ...]:
        """Drop the oldest sessions until all together take at most ``size`` bytes; return those that were dropped."""
        kept = self.list_kept()
        total = sum(session.size for session in kept)
        dropped: list[KeptSteps] = []
        for session in kept:
            if total <= size:
                break
            dropped.append(session)
            total -= session.size
        self.drop(dropped)
        return tuple(dropped)

    def leave_out_forgotten(self, conversation: Conversation) -> Conversation | None:
        """Return a conversation without turns of forgotten sessions, which forks repeat; None for a forgotten one."""
        rows = self._database.rows(
            "SELECT 1 FROM forgotten_sessions WHERE source = ? AND session_id = ?",
            (conversation.source, conversation.session_id),
        )
        if rows:
            return None
        ids = msgspec.json.encode([turn.turn for turn in conversation.turns]).decode()
        found = self._database.rows(
            "SELECT turn FROM turns WHERE source = ? AND path = ? AND turn IN (SELECT value FROM json_each(?))",
            (conversation.source, FORGOTTEN, ids),
        )
        forgotten = {row["turn"] for row in found}
        return drop_turns(conversation, forgotten) if forgotten else conversation


def drop_turns(conversation: Conversation, turns: set[str]) -> Conversation:
    """Return a conversation without these turns and without the promptless turns that follow each of them."""
    left, dropping = [], False
    for turn in conversation.turns:
        dropping = turn.turn in turns or (dropping and not turn.turn)
        if not dropping:
            left.append(turn)
    return replace(conversation, turns=tuple(left))


def compress_steps(conversation: Conversation) -> bytes:
    """Return a conversation as it is stored: MessagePack, deflated."""
    return zlib.compress(msgspec.msgpack.encode(conversation), LEVEL)


def decompress_steps(data: object) -> Conversation:
    """Decode what ``compress_steps`` returned. Raises ``ValueError`` or ``TypeError`` for anything else."""
    if not isinstance(data, bytes):
        raise TypeError(f"expected bytes, got {type(data).__name__}")
    try:
        return msgspec.msgpack.decode(zlib.decompress(data), type=Conversation)
    except zlib.error as error:
        raise ValueError(str(error)) from error
