"""Carries a rule that is not decided yet from night to night, with its tally: one life, whatever changes around it.

A rule that is rewritten in other words, or whose document the user edits, keeps its tally. Backend, model, metric and
replay mode change what is measured, so each combination has a tally of its own, which waits while another is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.rule import (
    MOST_LOSSES,
    PAIRS_A_LIFE,
    PROMISING,
    Verdict,
    choose_threshold,
    decide,
    describe_needs,
)
from skillopt_sleep.gate.tally import WINS_A_REQUEST, Tally
from skillopt_sleep.model.document import Candidate, DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord, EditStatus, apply_edits
from skillopt_sleep.model.task import TaskRecord, group_of
from skillopt_sleep.model.text import sha256

MOST_WAITING = 12
"""Rules on trial at the same time: with more, none would get enough pairs. New ones wait until one is decided."""
SAID = "you said so, not proven"
"""What reports call a rule on a standing wish of the person that worked where they said it and harmed nothing."""
CLOSED = (
    "an earlier version tried it together with others, or without counting requests; each rule now has a trial of"
    " its own, and this one begins anew when it is proposed again"
)
"""Why a life of an earlier version ends."""
IDLE_PAIRS = 24
"""Pairs after which a rule without a net win is given up: it shows no effect, and others wait for their turn."""
TOUCHED_FOR_ANOTHER = 4
"""Tasks that share words with a rule for one other that it is tried on: where a rule cannot help, noise takes two from
the score as often as it adds one. docs/gate.md has what this gains, and what rules that harm elsewhere come to."""
GIVE_UP_AT = -4
"""Score at which a rule is given up at the end of a night: it would take a place among those on trial for many nights,
at a pair each, because a round that has begun is left at ``PAUSE_AT``. Like every stop this cannot raise the error."""


class Base(Struct, frozen=True, kw_only=True):
    """What a tally of pairs was measured with, and the documents of its latest night."""

    documents: tuple[tuple[DocumentKind, str, str], ...] = ()
    """Kind, path and digest of the text of each document; a tally outlasts their changes."""
    target: str = ""
    """Backend and model that replay."""
    optimizer: str = ""
    """Backend and model that judge."""
    metric: str = ""
    """How scores are counted: a key, in which the number of the mixed metric is the weight of the soft score, whatever
    the words beside it say; other words would be another key, and lose the tallies kept under this one."""
    replay: str = ""
    """How tasks are replayed."""
    scope: str = ""
    """Whose work is learnt from."""

    @staticmethod
    def describe_documents(candidate: Candidate) -> tuple[tuple[DocumentKind, str, str], ...]:
        """List the documents of a candidate; a file that does not exist has a digest of its own."""
        return tuple(
            (document.kind, document.path, sha256(b"\0absent" if document.content is None else document.content))
            for document in candidate.documents
        )

    @property
    def digest(self) -> str:
        """Sixteen hex digits over all of it."""
        return sha256(msgspec.json.encode(self))[:16]

    @property
    def way(self) -> Base:
        """How it was measured, without the documents."""
        return replace(self, documents=())


class Parked(Struct, frozen=True, kw_only=True):
    """A tally that was measured in another way than the present one, and continues when that way comes back."""

    on: Base
    tally: Tally
    tasks: tuple[str, ...] = ()


def _touches(words: str, task: TaskRecord) -> bool:
    """Whether a request shares words with a rule; imported when asked, because ``status`` compares no texts."""
    from skillopt_sleep.model.rules import count_touched  # noqa: PLC0415

    return count_touched(words, task) > 0


class PendingEdit(Struct, frozen=True, kw_only=True):
    """A rule that is not decided yet. One that an earlier version stored may be a bundle of several."""

    id: str
    """The edit's id in its first wording."""
    night: str
    """The night that first tried it."""
    kind: DocumentKind
    k: int
    """The score that proves it."""
    edits: tuple[EditRecord, ...]
    """The rule, alone."""
    groups: tuple[str, ...]
    """Task groups its reflection saw, and the ids of their tasks (groups may merge); it is never tried on them."""
    tally: Tally
    on: Base = Base()
    """What the tally was measured with."""
    atop: bool = False
    """Whether an earlier version first tried it on top of another proposal instead of the live documents."""
    nights: int = 1
    tasks: tuple[str, ...] = ()
    """The different requests its pairs were measured on: their groups, or the ids of their tasks."""
    evidence: tuple[str, ...] = ()
    """The requests it rests on: groups of the tasks it was written from; empty for a bundle of an earlier version."""
    others: int | None = None
    """Other requests of the archive that can add to its score; None when they were not counted."""
    touched: int = 0
    """Those of them that share words with it."""
    parked: tuple[Parked, ...] = ()
    """Its tallies under other models, metrics and replay modes."""
    promising_at: int = PROMISING
    """The score from which it is shown as promising (the setting ``alpha``)."""
    wished: bool = False
    """Whether each sentence of it rests on a standing wish that the person typed: "always", "from now on"."""
    own: tuple[int, int] = (0, 0)
    """On how many of the requests it was written from it was tried, and on how many the agent then did as it says."""

    @property
    def rule(self) -> EditRecord:
        """The one edit."""
        return self.edits[0]

    @property
    def words(self) -> str:
        """What it says, or what it deletes."""
        return " ".join(edit.text or edit.anchor for edit in self.edits)

    @property
    def is_promising(self) -> bool:
        """Whether it has reached that score, beyond doubt and with enough size: worth a person's look, never more."""
        return decide(self.tally, self.promising_at) is Verdict.ACCEPT

    @property
    def you_said_so(self) -> str:
        """The result of a person's standing wish that worked wherever they said it and harmed nothing; "" otherwise."""
        tried, heeded = self.own
        if not (self.wished and 0 < tried == heeded and self._is_harmless):
            return ""
        where = "" if tried == 1 else f"at all {tried} requests "
        others = len(self.tasks) or 1
        return f"followed {where}where you said it; worse at none of {others} other request{'s' if others > 1 else ''}"

    @property
    def awaits_sources(self) -> bool:
        """Whether it rests on a standing wish, harmed nothing, and was not tried yet where the wish was said."""
        return self.wished and not self.own[0] and self._is_harmless

    @property
    def _is_harmless(self) -> bool:
        tallies = (self.tally, *(parked.tally for parked in self.parked))
        return self.tally.pairs > 0 and not any(tally.losses for tally in tallies)

    @property
    def missing(self) -> int:
        """How many more requests the archive must hold before it can be proven at all."""
        needed = -(-(self.k + self.tally.doubt) // WINS_A_REQUEST) + self.tally.losses
        return 0 if self.others is None else max(0, needed - self.others)

    @property
    def needs(self) -> str:
        """What it lacks to be proven: "2 more wins"."""
        more = describe_needs(self.tally, self.k)
        if not self.missing:
            return more
        requests = "1 more request" if self.missing == 1 else f"{self.missing} more requests"
        return f"{more}, and {requests} to try it on"

    def seen(self, tasks: Sequence[TaskRecord]) -> frozenset[str]:
        """Return the current names of the groups of ``tasks`` that its reflection saw.

        Pass all tasks there are: a group of which one is missing may not be recognized.
        """
        return frozenset((*self.groups, *(group_of(task) for task in tasks if task.id in self.groups)))

    def unseen(self, tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
        """Return the tasks of groups that its reflection has not seen."""
        seen = self.seen(tasks)
        return tuple(task for task in tasks if group_of(task) not in seen)

    @property
    def is_stuck(self) -> bool:
        """Whether it was tried twice on each request there is, and they are too few to prove it."""
        return self.tally.pairs >= WINS_A_REQUEST * len(self.tasks) > 0 and self.missing > 0

    def fitting(self, tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
        """Return the unseen tasks to try it on: those that share words with it, and some others, where it may harm.

        All of them if none of the archive shares any: its words do not tell what it is about. A rule that is stuck
        waits for new ones.
        """
        done = frozenset(self.tasks if self.is_stuck else ())
        unseen = tuple(task for task in self.unseen(tasks) if not done & {group_of(task), task.id})
        touched = [task for task in unseen if _touches(self.words, task)]
        if not touched:
            return () if self.touched else unseen
        others = [task for task in unseen if task not in touched]
        return (*touched, *others[: -(-len(touched) // TOUCHED_FOR_ANOTHER)])

    def may_change(self, tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
        """Return the unseen tasks on which it may still win: once each was tried twice, only those that it touches.

        It touches what shares words with it, and what it won or lost before.
        """
        twice = self.tally.pairs >= WINS_A_REQUEST * len(self.tasks)
        idle = frozenset(self.tasks if twice else ()) - {*self.tally.won, *self.tally.lost}
        return tuple(
            task for task in self.unseen(tasks) if not idle & {group_of(task), task.id} or _touches(self.words, task)
        )

    def among(self, tasks: Sequence[TaskRecord]) -> PendingEdit:
        """Update the names of requests to those that ``tasks`` use now, and count those it can be tried on."""
        names = {task.id: group_of(task) for task in tasks}
        renamed = replace(
            self,
            groups=tuple(sorted(self.seen(tasks))),
            tasks=current_groups(self.tasks, tasks),
            evidence=current_groups(self.evidence, tasks),
            tally=self.tally.rename_requests(names),
        )
        if not tasks:
            return renamed
        may_change = renamed.may_change(tasks)
        touched = {group_of(task) for task in may_change if _touches(self.words, task)}
        return replace(renamed, others=len({group_of(task) for task in may_change}), touched=len(touched))

    def after(self, tally: Tally | None, measured: Sequence[str], *, tried: bool) -> PendingEdit:
        """Return the rule after another night, with the tasks that added a pair to its tally."""
        tally = tally or self.tally
        kept = measured if tally.pairs > self.tally.pairs else ()
        return replace(self, tally=tally, tasks=tuple(dict.fromkeys((*self.tasks, *kept))), nights=self.nights + tried)

    def with_evidence(self, edit: EditRecord, evidence: Sequence[str], groups: Sequence[str]) -> PendingEdit:
        """Return the rule with the further requests that led to it once more, in whatever words.

        It keeps its first wording and its tally; a rule whose required score falls from 12 to 9 has the error bound of
        9. The second request is never tried, like the ``groups`` that wrote the rule. Later ones change nothing of the
        rule, so it can be tried on them.
        """
        named = filter(None, (*self.evidence, *evidence))  # one without a name is some request that is not known
        resting = tuple(dict.fromkeys(named)) or self.evidence
        tasks = tuple(dict.fromkeys((*self.rule.task_ids, *edit.task_ids)))
        rule = replace(self.rule, task_ids=tasks, support=self.rule.support + edit.support)
        seen = groups if choose_threshold(len(self.evidence)) != choose_threshold(len(resting)) else ()
        return replace(
            self,
            k=choose_threshold(len(resting)),
            edits=(rule,),
            evidence=resting,
            groups=tuple(sorted({*self.groups, *seen})),
        )

    def measured_with(self, on: Base) -> PendingEdit:
        """Return the rule with the tally of tonight's way of measuring; the present one is kept if it is another."""
        if self.on.way == on.way:
            return replace(self, on=on)
        fitting = next((parked for parked in self.parked if parked.on.way == on.way), Parked(on=on, tally=Tally()))
        others = tuple(parked for parked in self.parked if parked.on.way != on.way)
        if self.tally != Tally():
            others = (*others, Parked(on=self.on, tally=self.tally, tasks=self.tasks))
        return replace(self, on=on, tally=fitting.tally, tasks=fitting.tasks, parked=others)


class ClosedEdit(Struct, frozen=True, kw_only=True):
    """A rule whose life is over; without new evidence it gets no second one."""

    base: str
    """The digest of what it was last measured with."""
    edit: EditRecord
    why: str
    night: str
    """The night that ended it."""
    evidence: tuple[str, ...] = ()
    """The requests it rested on; none for one that an earlier version closed."""
    proven: bool = False
    """Whether it was proven, so that it is in a proposal or in the file, unless the user took it out."""


class Dropped(Struct, frozen=True, kw_only=True):
    """A rule whose trial cannot continue."""

    edit: PendingEdit
    why: str
    final: bool = False
    """Whether it comes back only with new evidence."""

    def close(self, night: str) -> ClosedEdit | None:
        """Return the record of a rule that may come back only with new evidence; None if it may be tried anew."""
        if not self.final:
            return None
        life = self.edit
        return ClosedEdit(base=life.on.digest, edit=life.rule, why=self.why, night=night, evidence=life.evidence)


def current_groups(names: Iterable[str], tasks: Iterable[TaskRecord]) -> tuple[str, ...]:
    """Translate task ids and group names into the different groups that ``tasks`` have now."""
    groups = {task.id: group_of(task) for task in tasks}
    return tuple(dict.fromkeys(groups.get(name, name) for name in names))


def choose_for_tonight(pending: Sequence[PendingEdit]) -> tuple[PendingEdit, ...]:
    """Return the rules in the order they are tried: those that rest on two requests first, then the oldest.

    No score decides about a turn.
    """
    return tuple(sorted(pending, key=lambda rule: (len(rule.evidence) < 2, rule.night)))  # noqa: PLR2004


def drop_if_over(pending: PendingEdit) -> Dropped | None:
    """Drop a rule that the pairs left in its life could no longer prove, or that shows no effect; None otherwise.

    What an earlier version tried together is dropped too, because no tally says which rule of it helped.
    """
    tally = pending.tally
    if len(pending.edits) > 1 or not pending.evidence:
        return Dropped(edit=pending, why=CLOSED)
    left = PAIRS_A_LIFE - tally.pairs
    for_good = tally.losses + tally.unjudged  # what transport lost of one arm may still be made up for
    why = f"undecided after {tally.pairs} pairs"
    if for_good > MOST_LOSSES:
        why += f", and the judge gave no readable verdict on {tally.unjudged} more"
    elif left <= 0:
        pass
    elif left < pending.k - tally.score + 2 * tally.unjudged:
        why += f", and at most {left} more could not decide it"
    elif tally.score <= GIVE_UP_AT:
        why = f"it harms more than it helps: {tally.in_words}"
    elif tally.pairs >= IDLE_PAIRS and tally.score <= 0:
        why = f"it shows no effect: {tally.in_words}"
    else:
        return None
    return Dropped(edit=pending, why=why, final=True)


def revive(pending: PendingEdit, live: Candidate) -> tuple[Candidate, EditRecord] | Dropped:
    """Rebuild the documents with a rule on top, or say why its trial cannot continue; with the edit that did it.

    A rule that stood below another one, which is gone, is added at the end.
    """
    document = live[pending.kind]
    if document is None:
        return Dropped(edit=pending, why=f"there is no {pending.kind} any more")
    rule = pending.rule
    changed, (applied,) = apply_edits(document, (rule,), cap=None)
    if applied.status is EditStatus.UNMATCHED and rule.op is EditOp.INSERT_AFTER:
        changed, (applied,) = apply_edits(document, (replace(rule, op=EditOp.APPEND, anchor=""),), cap=None)
    if applied.status is not EditStatus.APPLIED:
        return Dropped(edit=pending, why=f"it can no longer be applied: {applied.why}")
    return live.with_document(changed), applied.edit
