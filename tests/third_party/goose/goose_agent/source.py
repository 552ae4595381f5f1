"""The sessions: one JSON file each, below ``chats`` in the agent's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from skillopt_sleep.model.session import Feedback, Session, SessionFile, Skip, Turn


class Line(msgspec.Struct):
    """What the person typed, what Goose answered, and whether the person had to say it again."""

    id: str
    you: str
    goose: str = ""
    again: bool = False
    at: str = ""


class Chat(msgspec.Struct):
    """One file."""

    id: str
    folder: str
    lines: list[Line]


@dataclass(frozen=True, kw_only=True)
class GooseSource:
    """Sessions of Goose; ``home`` is its folder."""

    home: str = ""
    name = "goose"

    def files(self, skipped: Callable[[Skip], None]) -> Iterator[SessionFile]:
        """Every chat."""
        for path in sorted(Path(self.home).glob("chats/*.json")) if self.home else ():
            stat = path.stat()
            yield SessionFile(path=str(path), size=stat.st_size, mtime_ns=stat.st_mtime_ns)

    def read(self, file: SessionFile, skipped: Callable[[Skip], None]) -> Session | None:
        """One chat as a session; None for a file that holds none."""
        try:
            chat = msgspec.json.decode(Path(file.path).read_bytes(), type=Chat)
        except (OSError, msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            skipped(Skip(path=file.path, reason=str(error)))
            return None
        turns = tuple(
            Turn(
                id=line.id,
                prompt=line.you,
                final=line.goose,
                at=line.at,
                feedback=Feedback.CORRECTION if line.again else Feedback.NEITHER,
            )
            for line in chat.lines
        )
        if not turns:
            return None
        return Session(
            source=self.name,
            path=file.path,
            session_id=chat.id,
            cwd=chat.folder,
            model="goose-1",
            started_at=turns[0].at,
            ended_at=turns[-1].at,
            turns=turns,
        )
