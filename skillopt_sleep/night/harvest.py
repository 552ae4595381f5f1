"""Harvest: file what is new in every source's session files, and say which sessions this night is to mine."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile, islice
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model.ports import Source
from skillopt_sleep.model.session import Feedback, Session, SessionFile, SessionKey, Skip, Turn
from skillopt_sleep.night.ports import Inbox
from skillopt_sleep.night.report import Counts, NightReport

RECENT = 20
"""Sessions that tell which model is usual: enough that one done with another changes nothing."""
FILES_PER_COMMIT = 200
"""A harvest that is killed starts over from its last commit; few enough that little is read twice."""


class Window(Struct, frozen=True, kw_only=True):
    """Which waiting sessions a night takes up. ``scope`` is a project folder, "" for all; ``since`` ISO 8601 or ""."""

    scope: str = ""
    since: str = ""
    max_sessions: int = 40


class Filed(Struct, frozen=True, kw_only=True):
    """What one harvest found. ``new`` holds, for each file, only the turns that nobody had seen before."""

    seen: int = 0
    read: int = 0
    new: tuple[Session, ...] = ()
    skipped: tuple[Skip, ...] = ()


class Harvested(Struct, frozen=True, kw_only=True):
    """The sessions this night takes up, the latest ones of each source that name a model, and the counts."""

    sessions: tuple[SessionKey, ...] = ()
    recent: tuple[SessionKey, ...] = ()
    counts: Counts = Counts()
    skipped: tuple[Skip, ...] = ()

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        return replace(report, counts=self.counts, skipped=self.skipped)

    def usual_model(self, source: str) -> str:
        """The model that the latest sessions of a source used, most of them, "" when none is recorded.

        Those taken up tonight or not: a night without new sessions replays with the model of the night before.
        """
        known = self.recent or self.sessions
        models = Counter(key.model for key in known if key.source == source and key.model)
        return next((model for model, _ in models.most_common(1)), "")


def harvest(sources: Sequence[Source], window: Window, inbox: Inbox, redact: Callable[[Session], Session]) -> Harvested:
    """File what is new, then choose the newest waiting sessions in scope; the others go on waiting."""
    filed = file_sessions(sources, inbox, redact)
    waiting = inbox.waiting()
    in_window = [key for key in waiting if in_scope(key.cwd, window.scope) and key.ended_at >= window.since]
    taken = tuple(in_window[: window.max_sessions])
    turns = [turn for key in taken for turn in _waiting(inbox.load(key), key)]
    return Harvested(
        sessions=taken,
        recent=_recent(inbox, window.scope),
        skipped=filed.skipped,
        counts=Counts(
            files_seen=filed.seen,
            files_read=filed.read,
            sessions=len(taken),
            prompts=len(turns),
            corrections=sum(turn.feedback is Feedback.CORRECTION for turn in turns),
            waiting=len(in_window) - len(taken),
            out_of_scope=len(waiting) - len(in_window),
        ),
    )


def _recent(inbox: Inbox, scope: str) -> tuple[SessionKey, ...]:
    """The latest ``RECENT`` of each source, of the work in scope."""
    found: dict[str, list[SessionKey]] = {}
    for key in inbox.recent():
        of_source = found.setdefault(key.source, [])
        if len(of_source) < RECENT and in_scope(key.cwd, scope):
            of_source.append(key)
    return tuple(key for keys in found.values() for key in keys)


def _waiting(session: Session, key: SessionKey) -> Iterator[Turn]:
    """The turns that wait to be mined, without those shown before them for their sense."""
    return dropwhile(lambda turn: turn.id != key.first_turn, session.turns)


def file_sessions(sources: Sequence[Source], inbox: Inbox, redact: Callable[[Session], Session]) -> Filed:
    """Read every file that changed since it was last filed, redact it and file it."""
    skipped: list[Skip] = []
    new: list[Session] = []
    seen = read = 0
    for source in sources:
        changed: list[SessionFile] = []
        for file in source.files(skipped.append):
            seen += 1
            if not inbox.unchanged(source.name, file):
                changed.append(file)
        read += len(changed)
        for batch in _batches(changed, FILES_PER_COMMIT):
            with inbox.filing():
                new.extend(_file_batch(source, batch, inbox, redact, skipped))
    return Filed(seen=seen, read=read, new=tuple(new), skipped=tuple(skipped))


def _file_batch(
    source: Source,
    batch: Sequence[SessionFile],
    inbox: Inbox,
    redact: Callable[[Session], Session],
    skipped: list[Skip],
) -> Iterator[Session]:
    for file in batch:
        before = len(skipped)
        session = source.read(file, skipped.append)
        if any(skip.line == 0 for skip in skipped[before:]):
            continue  # the file as a whole could not be read: it is not remembered, so it is tried again next time
        filed = inbox.file(source.name, file, redact(session) if session else None)
        if filed is not None:
            yield filed


def _batches(items: Sequence[SessionFile], size: int) -> Iterator[Sequence[SessionFile]]:
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch


@functools.lru_cache(maxsize=4096)  # thousands of sessions lie in a few folders
def in_scope(cwd: str, scope: str) -> bool:
    """Whether work done in ``cwd`` belongs to the project folder ``scope`` ("" = everything does)."""
    if not scope:
        return True
    return bool(cwd) and PurePath(os.path.normpath(cwd)).is_relative_to(os.path.normpath(scope))
