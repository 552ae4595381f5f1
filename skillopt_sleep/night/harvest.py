"""Stores new turns from every source's session files, chooses the sessions of a night, and finds their moments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import dropwhile
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.diagnostics import Counts, NightReport
from skillopt_sleep.model.moment import MomentReference, ProofState
from skillopt_sleep.model.ports import PairJudge, Source
from skillopt_sleep.model.session import Feedback, Place, Session, SessionFile, SessionKey, Skip, Turn, list_typed
from skillopt_sleep.model.task import Split, TaskRecord, is_sibling, may_vote, require_reference
from skillopt_sleep.model.text import fold
from skillopt_sleep.storage.archive import SessionInbox

if TYPE_CHECKING:
    from skillopt_sleep.mining.moment_tasks import Talk
    from skillopt_sleep.mining.references import Proved
    from skillopt_sleep.night.plan import Kit
    from skillopt_sleep.optimizer.replay import Models

RECENT = 20
"""How many of the latest sessions with an agent are counted to find the model that the user mostly works with."""
FILES_PER_COMMIT = 200
"""The number of session files stored in one transaction; an interrupted harvest resumes after the last one stored."""


class ReadFiles(Protocol):
    """A function that reads session files of one agent, in the given order."""

    def __call__(
        self, source: Source, files: Sequence[SessionFile], /
    ) -> Iterator[tuple[Session | None, Sequence[Skip], bytes]]:
        """Yield for each file its session, the parts that could not be read, and the mark from which to read on later.

        The session is redacted, and None for a file that holds no session.
        """


class Window(Struct, frozen=True, kw_only=True):
    """The limits on which of the stored, not yet mined sessions a night mines: project, age and number."""

    scope: str = ""
    """The project folder whose sessions are mined; "" for all projects."""
    since: str = ""
    """Sessions that ended before this time (ISO 8601) are not mined; "" for no limit."""
    max_sessions: int = 40


class Filed(Struct, frozen=True, kw_only=True):
    """The result of storing the changed session files."""

    seen: int = 0
    """The number of files listed."""
    read: int = 0
    """The number of files opened."""
    new: tuple[Session, ...] = ()
    """A session for every changed file, with only the turns that had not been seen before."""
    skipped: tuple[Skip, ...] = ()


class Harvested(Struct, frozen=True, kw_only=True):
    """The sessions that a night mines."""

    sessions: tuple[SessionKey, ...] = ()
    recent: tuple[SessionKey, ...] = ()
    """The latest sessions with each agent (source) that name the model used."""
    counts: Counts = Counts()
    skipped: tuple[Skip, ...] = ()

    def add_to(self, report: NightReport) -> NightReport:
        """Return the night's report with the counts of sessions and files, and with what was skipped."""
        return replace(report, counts=self.counts, skipped=self.skipped)

    def usual_model(self, source: str) -> str:
        """Return the model that most of the latest sessions with an agent (``source``) used; "" when none is recorded.

        Sessions that are not mined tonight count too, so a night without new ones uses the model of the night before.
        """
        known = self.recent or self.sessions
        models = Counter(key.model for key in known if key.source == source and key.model)
        return next((model for model, _ in models.most_common(1)), "")


def harvest(
    sources: Sequence[Source],
    window: Window,
    inbox: SessionInbox,
    read: ReadFiles,
    place: Callable[[str, str], Place],
    *,
    keep_steps: Callable[[], object] = lambda: None,
) -> Harvested:
    """Store new sessions, then choose the newest unmined ones of this project for tonight; the others keep waiting.

    ``place`` tells from a session's folder and git remote whether it is of this project. ``keep_steps`` is called once
    all sessions are stored; it stores the agent's steps in the sessions where the user stepped in.
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


def _list_recent(inbox: SessionInbox, place: Callable[[str, str], Place]) -> tuple[SessionKey, ...]:
    """Return the latest sessions of this project, at most ``RECENT`` with each agent."""
    found: dict[str, list[SessionKey]] = {}
    for key in inbox.recent():
        of_source = found.setdefault(key.source, [])
        if len(of_source) < RECENT and place(key.cwd, key.remote) is Place.OWN:
            of_source.append(key)
    return tuple(key for keys in found.values() for key in keys)


def _list_waiting_turns(session: Session, key: SessionKey) -> Iterator[Turn]:
    """Yield the turns not yet mined, without the earlier ones that were loaded as their context."""
    return dropwhile(lambda turn: turn.id != key.first_turn, session.turns)


def file_sessions(sources: Sequence[Source], inbox: SessionInbox, read: ReadFiles) -> Filed:
    """Read every session file that has changed since it was last stored, and store its new turns in the inbox."""
    skipped: list[Skip] = []
    new: list[Session] = []
    seen = opened = 0
    for source in sources:
        changed: list[SessionFile] = []
        for file in source.files(skipped.append):
            seen += 1
            if not inbox.unchanged(source.name, file):
                changed.append(inbox.recall(source.name, file))
        opened += len(changed)
        results = read(source, changed)
        for start in range(0, len(changed), FILES_PER_COMMIT):
            with inbox.filing():
                for file, (session, skips, mark) in zip(
                    changed[start : start + FILES_PER_COMMIT], results, strict=False
                ):
                    skipped += skips
                    if any(skip.line == 0 for skip in skips):
                        continue  # not remembered, so the next harvest tries the file again
                    filed = inbox.file(source.name, replace(file, mark=mark), session)
                    if filed is not None:
                        new.append(filed)
    return Filed(seen=seen, read=opened, new=tuple(new), skipped=tuple(skipped))


# --- the moments of the chosen sessions -----------------------------------------------------------------------------

SEARCHED = 60
"""How many of the latest sessions are searched for other places where a new lesson applies, and for missed moments."""


class FoundMoments(Struct, frozen=True, kw_only=True):
    """The moments found in some sessions, as tasks."""

    tasks: tuple[TaskRecord, ...] = ()
    """New or changed tasks, at moments and at other places where a lesson applies."""
    notes: tuple[str, ...] = ()


def find_moment_tasks(
    keys: Sequence[SessionKey],
    known: Sequence[TaskRecord],
    mined: Sequence[TaskRecord],
    kit: Kit,
    models: Models | None,
) -> FoundMoments:
    """Return tasks made from the moments of these sessions: new ones, and known ones whose reference was proven by now.

    A reference is proven once a check or a judge tells by it the rejected work from what stood in the end. A request
    that is a task already, among ``known`` or ``mined``, gets no second task. Without ``models`` no model is asked, and
    only proofs stored earlier count. Raises ``FatalBackend`` and ``BudgetSpent``; proofs found before stay stored.
    """
    from skillopt_sleep.mining.moment_tasks import build_moment_tasks, renew_proof  # noqa: PLC0415  a harvest alone mines nothing

    alone = frozenset(
        (origin.session_id, fold(words))
        for task in (*known, *mined)
        if not isinstance(task.reference, MomentReference)
        for origin in task.origins
        for words in (origin.words, *task.feedback)  # a reply to its answer is part of the task, which may be a test
    )
    talks = [
        talk
        for key in keys
        if (talk := _read_talk(key, kit, alone, models=models, corrected_only=models is None)) is not None
    ]
    talks += _read_unexamined(_list_others({(key.source, key.path) for key in keys}, kit), known, kit, alone, models)
    new = {task.id: task for talk in talks for task in build_moment_tasks(talk)}
    before = {task.id: task for task in known if isinstance(task.reference, MomentReference)}
    places = {name for name, task in before.items() if is_sibling(task)}
    moments = [*new.values(), *(task for name, task in before.items() if name not in places and name not in new)]
    proved = _prove(moments, kit, models)
    siblings = _find_siblings(proved.tasks, talks, places, kit, alone)
    lessons = {require_reference(task, MomentReference).moment: task for task in proved.tasks}
    renewed = [
        renew_proof(before[name], lessons[at.moment])
        for name in sorted(places)
        if (at := require_reference(before[name], MomentReference)).check is None and at.moment in lessons
    ]
    return FoundMoments(
        tasks=tuple(task for task in (*proved.tasks, *siblings, *renewed) if before.get(task.id) != task),
        notes=tuple(_list_notes(proved)),
    )


def _read_talk(
    key: SessionKey,
    kit: Kit,
    alone: frozenset[tuple[str, str]],
    *,
    models: Models | None = None,
    corrected_only: bool = False,
) -> Talk | None:
    """Return a session's steps and moments; None without stored steps, or without correction if ``corrected_only``."""
    from skillopt_sleep.mining.moment_tasks import Talk  # noqa: PLC0415  a harvest alone mines nothing
    from skillopt_sleep.mining.moments import find_moments  # noqa: PLC0415  a harvest alone mines nothing

    session = kit.inbox.load_whole(key)
    if corrected_only and not any(turn.feedback is Feedback.CORRECTION for turn in session.turns):
        return None
    conversation = kit.load_steps(key.source, key.path)
    if conversation is None:
        return None
    words = frozenset(words for name, words in alone if name == session.session_id)
    moments = find_moments(session, conversation)
    talk = Talk(session=session, conversation=conversation, moments=moments, alone=words, max_tokens=kit.moment_tokens)
    return _locate(talk, models)


def _locate(talk: Talk, models: Models | None) -> Talk:
    """Return a session in which a model has named the step that each moment is about; without ``models``, unchanged."""
    from skillopt_sleep.mining import fault, moment_tasks  # noqa: PLC0415  a harvest alone mines nothing

    if models is None:
        return talk
    wanted, ask = moment_tasks.list_wanted(talk), models.optimizer
    located = fault.locate_steps(wanted, talk.session, talk.conversation, ask, models.parallel)
    named = {moment.id: moment for moment in located}
    return replace(talk, moments=tuple(named.get(moment.id, moment) for moment in talk.moments))


def _list_others(seen: AbstractSet[tuple[str, str]], kit: Kit) -> list[SessionKey]:
    """Return the latest sessions of this project, without the (source, path) pairs in ``seen``."""
    others = (key for key in kit.inbox.recent() if (key.source, key.path) not in seen)
    return [key for key in others if kit.place(key.cwd, key.remote) is Place.OWN][:SEARCHED]


def _read_unexamined(
    earlier: Sequence[SessionKey],
    known: Sequence[TaskRecord],
    kit: Kit,
    alone: frozenset[tuple[str, str]],
    models: Models | None,
) -> list[Talk]:
    """Return earlier sessions with moments that the archive lacks because an older version did not look for them."""
    from skillopt_sleep.mining.moment_tasks import list_wanted  # noqa: PLC0415  a harvest alone mines nothing

    examined = {
        origin.session_id for task in known if isinstance(task.reference, MomentReference) for origin in task.origins
    }
    waiting = {(key.source, key.path) for key in kit.inbox.waiting()}
    talks = (
        _read_talk(key, kit, alone, corrected_only=True) for key in earlier if (key.source, key.path) not in waiting
    )
    found = [talk for talk in talks if talk and talk.session.session_id not in examined and list_wanted(talk)]
    return [_locate(talk, models) for talk in found]


def _prove(moments: Sequence[TaskRecord], kit: Kit, models: Models | None) -> Proved:
    from skillopt_sleep.mining.references import prove, settle  # noqa: PLC0415  a harvest alone mines nothing

    if models is None:
        return settle(moments, kit.proofs, "")
    judge = models.judges.get("moment")
    return prove(
        moments, kit.proofs, judge if isinstance(judge, PairJudge) else None, models.optimizer, models.parallel
    )


def _find_siblings(
    moments: Sequence[TaskRecord],
    talks: Sequence[Talk],
    known: set[str],
    kit: Kit,
    alone: frozenset[tuple[str, str]],
) -> list[TaskRecord]:
    """Return tasks at other places where lessons apply: for new lessons in all latest sessions, else in tonight's."""
    from skillopt_sleep.mining.moment_tasks import find_siblings  # noqa: PLC0415  a harvest alone mines nothing

    lessons = [task for task in moments if may_vote(task)]
    searched = {name.rpartition("-")[0] for name in known}
    fresh = [task for task in lessons if f"s-{task.id.removeprefix('m-')}" not in searched]
    seen = {(talk.session.source, talk.session.path) for talk in talks}
    others = _list_others(seen, kit) if fresh else []
    older = [talk for key in others if (talk := _read_talk(key, kit, alone)) is not None]
    found: list[TaskRecord] = []
    for lesson in lessons:
        found += find_siblings(lesson, [*talks, *(older if lesson in fresh else ())], known)
    return found


def _list_notes(proved: Proved) -> Iterable[str]:
    """Yield report notes: how many corrections are used to learn and to test, and why others are not."""
    references = [task.reference for task in proved.tasks if isinstance(task.reference, MomentReference)]
    silent = [reference for reference in references if not reference.may_vote]
    if references:
        votes = len(references) - len(silent)
        where = "1 correction of yours has" if len(references) == 1 else f"{len(references)} corrections of yours have"
        all_of_them = "it" if len(references) == 1 else f"all {len(references)}"
        why = ", as a test must know for certain what is right; the others are tested by your words" if silent else ""
        yield (
            f"{where} a record of the agent's work before and after: rules are learnt from {all_of_them}, and"
            f" {votes or 'none'} of these {'is a test' if votes < 2 else 'are tests'} so far{why}"  # noqa: PLR2004
        )
    needy = [ref for ref in silent if ref.proof.by == "judge" and ref.proof.state is ProofState.UNPROVEN]
    if needy:
        count = f"{len(needy)} of these {len(references)} {'becomes a test' if len(needy) == 1 else 'become tests'}"
        so_far = f"so far, {proved.calibration.in_words}; until then no verdict rests on them"
        yield f"{count} once the judge has shown that it can tell such work apart: {so_far}"
    if proved.lost:
        yield f"some corrections could not be examined tonight ({proved.lost}); another night asks again"


def pin_unproven(task: TaskRecord) -> TaskRecord:
    """Return the task, kept for training if its reference is not proven to tell a good answer from a bad one."""
    return task if may_vote(task) else replace(task, split=Split.TRAIN)
