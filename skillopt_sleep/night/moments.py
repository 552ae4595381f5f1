"""Finds the moments of tonight's sessions, proves their references, and finds other places where a lesson applies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.mining.fault import locate_steps
from skillopt_sleep.mining.moment_tasks import Talk, build_moment_tasks, find_siblings, list_wanted, renew_proof
from skillopt_sleep.mining.moments import find_moments
from skillopt_sleep.mining.references import Proved, prove, settle
from skillopt_sleep.model.moment import MomentReference, ProofState
from skillopt_sleep.model.ports import PairJudge
from skillopt_sleep.model.session import Feedback, Place, SessionKey
from skillopt_sleep.model.task import Split, TaskRecord, is_sibling, may_vote, require_reference
from skillopt_sleep.model.text import fold
from skillopt_sleep.night.plan import Kit
from skillopt_sleep.optimizer.replay import Models

SEARCHED = 60
"""How many of the latest sessions are searched for other places of a new lesson, and for moments if they never were."""


class FoundMoments(Struct, frozen=True, kw_only=True):
    """The moments of some sessions, as tasks."""

    tasks: tuple[TaskRecord, ...] = ()
    """New or changed tasks, of moments and of other places."""
    notes: tuple[str, ...] = ()


def find_moment_tasks(
    keys: Sequence[SessionKey],
    known: Sequence[TaskRecord],
    mined: Sequence[TaskRecord],
    kit: Kit,
    models: Models | None,
) -> FoundMoments:
    """Return the tasks at moments that these sessions add to the archive, and those that proofs have changed.

    A request that stands alone is a task already, among ``known`` or ``mined``, and gets no second one. Without
    ``models`` nobody is asked, and only references that were proven earlier count as proven. Raises ``FatalBackend``
    and ``BudgetSpent``; what was found out until then is kept.
    """
    alone = frozenset(
        (origin.session_id, fold(origin.words))
        for task in (*known, *mined)
        if not isinstance(task.reference, MomentReference)
        for origin in task.origins
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
    """Return a session with its moments; None where nothing is known of what the agent did."""
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
    """Return a session with the steps that a model names; without models, with those of rules."""
    if models is None:
        return talk
    wanted, ask = list_wanted(talk), models.optimizer
    located = locate_steps(wanted, talk.session, talk.conversation, ask, models.parallel)
    named = {moment.id: moment for moment in located}
    return replace(talk, moments=tuple(named.get(moment.id, moment) for moment in talk.moments))


def _list_others(seen: AbstractSet[tuple[str, str]], kit: Kit) -> list[SessionKey]:
    """Return the latest sessions of this project, without those ``seen``, by source and path."""
    others = (key for key in kit.inbox.recent() if (key.source, key.path) not in seen)
    return [key for key in others if kit.place(key.cwd, key.remote) is Place.OWN][:SEARCHED]


def _read_unexamined(
    earlier: Sequence[SessionKey],
    known: Sequence[TaskRecord],
    kit: Kit,
    alone: frozenset[tuple[str, str]],
    models: Models | None,
) -> list[Talk]:
    """Return the sessions with moments of which the archive has none: they were mined before there were moments."""
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
    """Return tasks where a lesson also applies: of a new lesson in the latest sessions, of any other in tonight's."""
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
    """Yield what the report says about the proofs."""
    references = [task.reference for task in proved.tasks if isinstance(task.reference, MomentReference)]
    silent = [reference for reference in references if not reference.may_vote]
    if references:
        votes = len(references) - len(silent)
        where = f"{votes} of the {len(references)} moments where you stepped in"
        why = "" if not silent else "; the others only teach, as nothing recorded there tells good from bad for certain"
        yield f"rules can be tested at {where}{why}"
    needy = [ref for ref in silent if ref.proof.by == "judge" and ref.proof.state is ProofState.UNPROVEN]
    if needy:
        count = "1 moment is" if len(needy) == 1 else f"{len(needy)} moments are"
        yield f"{count} not used for tests yet: {proved.calibration.in_words}"
    if proved.lost:
        yield f"some moments could not be proven tonight ({proved.lost}); another night asks again"


def pin_unproven(task: TaskRecord) -> TaskRecord:
    """Return the task, restricted to training when its reference cannot tell a good answer from a bad one."""
    return task if may_vote(task) else replace(task, split=Split.TRAIN)
