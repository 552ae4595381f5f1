"""What the agent did in the user's sessions: read when needed, redacted, and kept where the person stepped in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from skillopt_sleep.model.ports import ReadsSteps, Source
from skillopt_sleep.model.session import SessionFile
from skillopt_sleep.usecases.adapters import build_sources

if TYPE_CHECKING:
    from skillopt_sleep.model.step import Conversation
    from skillopt_sleep.usecases.workspace import Workspace

HARVEST_BYTES = 8 * 2**20
"""Bytes of session files whose steps a command reads while somebody waits, less than half a second's work; the next
commands and nights read the others, the oldest first."""
NIGHT_BYTES = 512 * 2**20
"""The same for a night, where nobody waits."""


class StepsRead(Struct, frozen=True, kw_only=True):
    """What one call of ``keep_steps`` did."""

    kept: int = 0
    """Sessions whose steps were read and kept."""
    left: int = 0
    """Sessions that are still to be read."""


def keep_steps(workspace: Workspace, limit: int = HARVEST_BYTES) -> StepsRead:
    """Read, redact and keep the steps of sessions in which the person stepped in, until ``limit`` bytes are read.

    Does nothing in a dry run, and where the setting ``keep_steps`` is off. A session that cannot be read, or whose
    file is gone, keeps what was kept before; what is wrong with a file was reported when it was filed. Raises
    ``DiskError``.
    """
    if workspace.dry_run or not workspace.settings.keep_steps:
        return StepsRead()
    archive = workspace.steps
    due = archive.due()
    readers = _list_readers(build_sources(workspace)) if due else {}
    known = [session for session in due if session.source in readers]
    kept = read = 0
    for number, session in enumerate(known):
        file = _find_file(session.path)
        if number and read + (file.size if file else 0) > limit:
            break
        read += file.size if file else 0
        conversation = _read(workspace, readers[session.source], file) if file else None
        archive.keep(session.source, session.path, conversation)
        kept += conversation is not None
    archive.prune(workspace.settings.steps_mb * 1_000_000)
    return StepsRead(kept=kept, left=len(archive.due()))


def load_steps(workspace: Workspace, source: str, path: str) -> Conversation | None:
    """Return the steps of a session, redacted: those that are kept, else those in its file; None without any.

    The file is read when more was filed than is kept. What is read is not kept. Raises ``DiskError``.
    """
    archive = workspace.steps
    archived = archive.load(source, path)
    if archived is not None and not archive.is_due(source, path):
        return archived
    reader = _list_readers(build_sources(workspace)).get(source)
    file = _find_file(path)
    found = _read(workspace, reader, file) if reader and file else None
    return found or archived


def _read(workspace: Workspace, reader: ReadsSteps, file: SessionFile) -> Conversation | None:
    """Read the steps of a file, without secrets and without what the user asked to forget."""
    from skillopt_sleep.safety.redaction.redactor import redact_conversation

    conversation = reader.read_steps(file, lambda _skip: None)
    if conversation is not None:
        conversation = workspace.steps.leave_out_forgotten(conversation)
    return redact_conversation(conversation, workspace.redactor) if conversation else None


def _list_readers(sources: Sequence[Source]) -> dict[str, ReadsSteps]:
    return {source.name: source for source in sources if isinstance(source, ReadsSteps)}


def _find_file(path: str) -> SessionFile | None:
    """Describe a session file; None when it is gone."""
    try:
        status = Path(path).lstat()
    except OSError:
        return None
    return SessionFile(path=path, size=status.st_size, mtime_ns=status.st_mtime_ns)
