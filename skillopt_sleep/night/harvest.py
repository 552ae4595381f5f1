"""Files what is new in every source's session files, and chooses the sessions that a night mines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model.ports import Source
from skillopt_sleep.model.session import Feedback, Place, Session, SessionFile, SessionKey, Skip, Turn, list_typed
from skillopt_sleep.night.ports import Inbox
from skillopt_sleep.night.report import Counts, NightReport

RECENT = 20
"""Sessions from which the usual model is determined: so many that one with another model changes nothing."""
FILES_PER_COMMIT = 200
"""A harvest that was killed starts again after its last commit, so little is read twice."""


class ReadFiles(Protocol):
    """Reads session files of a source, in order."""

    def __call__(
        self, source: Source, files: Sequence[SessionFile], /
    ) -> Iterator[tuple[Session | None, Sequence[Skip]]]:
        """Yield for each file its session without secrets, None where there is none, and what was skipped."""


class Window(Struct, frozen=True, kw_only=True):
    """Which waiting sessions a night mines."""

    scope: str = ""
    """A project folder; "" for all."""
    since: str = ""
    """ISO 8601; "" for no limit."""
    max_sessions: int = 40


class Filed(Struct, frozen=True, kw_only=True):
    """What one harvest found."""

    seen: int = 0
    """Files listed."""
    read: int = 0
    """Files opened."""
    new: tuple[Session, ...] = ()
    """For every file, only the turns that had not been seen before."""
    skipped: tuple[Skip, ...] = ()


class Harvested(Struct, frozen=True, kw_only=True):
    """The sessions that a night mines."""

    sessions: tuple[SessionKey, ...] = ()
    recent: tuple[SessionKey, ...] = ()
    """The latest sessions of each source that name a model."""
    counts: Counts = Counts()
    skipped: tuple[Skip, ...] = ()

    def add_to(self, report: NightReport) -> NightReport:
        """Add the counts to the night's report."""
        return replace(report, counts=self.counts, skipped=self.skipped)

    def usual_model(self, source: str) -> str:
        """Return the model that most of the latest sessions of a source used; "" when none is recorded.

        Sessions that are not mined tonight count too, so a night without new ones uses the model of the night before.
        """
        known = self.recent or self.sessions
        models = Counter(key.model for key in known if key.source == source and key.model)
        return next((model for model, _ in models.most_common(1)), "")


def harvest(
    sources: Sequence[Source],
    window: Window,
    inbox: Inbox,
    read: ReadFiles,
    place: Callable[[str, str], Place],
    *,
    keep_steps: Callable[[], object] = lambda: None,
) -> Harvested:
    """File what is new, then choose the newest waiting sessions in scope; the others keep waiting.

    ``place`` tells by folder and remote whether a session is in scope. ``keep_steps`` reads what the agent did in the
    sessions where the person stepped in, once all are filed.
    """
    filed = file_sessions(sources, inbox, read)
    keep_steps()
    waiting = inbox.waiting()
    placed = [(key, place(key.cwd, key.remote)) for key in waiting]
    own = [key for key, where in placed if where is Place.OWN]
    in_window = [key for key in own if key.ended_at >= window.since]
    taken = tuple(in_window[: window.max_sessions])
    turns = list_typed(turn for key in taken for turn in _list_waiting_turns(inbox.load(key), key))
    return Harvested(
        sessions=taken,
        recent=_list_recent(inbox, place),
        skipped=filed.skipped,
        counts=Counts(
            files_seen=filed.seen,
            files_read=filed.read,
            sessions=len(taken),
            prompts=len(turns),
            corrections=sum(turn.feedback is Feedback.CORRECTION for turn in turns),
            waiting=len(in_window) - len(taken),
            out_of_scope=sum(where is Place.OTHER for _, where in placed),
            older=len(own) - len(in_window),
            unplaced=sum(where is Place.UNKNOWN for _, where in placed),
        ),
    )


def _list_recent(inbox: Inbox, place: Callable[[str, str], Place]) -> tuple[SessionKey, ...]:
    """Return the latest ``RECENT`` sessions of each source in scope."""
    found: dict[str, list[SessionKey]] = {}
    for key in inbox.recent():
        of_source = found.setdefault(key.source, [])
        if len(of_source) < RECENT and place(key.cwd, key.remote) is Place.OWN:
            of_source.append(key)
    return tuple(key for keys in found.values() for key in keys)


def _list_waiting_turns(session: Session, key: SessionKey) -> Iterator[Turn]:
    """Yield the turns that have not been mined, without the earlier ones that are loaded as context."""
    return dropwhile(lambda turn: turn.id != key.first_turn, session.turns)


def file_sessions(sources: Sequence[Source], inbox: Inbox, read: ReadFiles) -> Filed:
    """Read and file every session file that has changed since it was last filed."""
    skipped: list[Skip] = []
    new: list[Session] = []
    seen = opened = 0
    for source in sources:
        changed: list[SessionFile] = []
        for file in source.files(skipped.append):
            seen += 1
            if not inbox.unchanged(source.name, file):
                changed.append(file)
        opened += len(changed)
        results = read(source, changed)
        for start in range(0, len(changed), FILES_PER_COMMIT):
            with inbox.filing():
                for file, (session, skips) in zip(changed[start : start + FILES_PER_COMMIT], results, strict=False):
                    skipped += skips
                    if any(skip.line == 0 for skip in skips):
                        continue  # not remembered, so the next harvest tries the file again
                    filed = inbox.file(source.name, file, session)
                    if filed is not None:
                        new.append(filed)
    return Filed(seen=seen, read=opened, new=tuple(new), skipped=tuple(skipped))
