"""What of a night is made live: its proposal, or by hand what no gate accepted.

What a change must have shown to be adopted without being asked about: more than to be proposed.

Adopting without being asked: only for who has said so once, and only what has shown more than a proposal must.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from skillopt_sleep.errors import Refused, SleepError
from skillopt_sleep.gate.account import STRICT_ALPHA
from skillopt_sleep.gate.rule import Verdict, threshold
from skillopt_sleep.model.call import Role
from skillopt_sleep.model.edit import AppliedEdit, EditRecord, EditStatus
from skillopt_sleep.night.report import Loading, NightReport, TrialReport
from skillopt_sleep.storage.adoption import BY_HAND, adopt, adopt_by_hand
from skillopt_sleep.storage.files import read_regular
from skillopt_sleep.storage.live_files import read_adoptions
from skillopt_sleep.storage.staging import ProposalStatus, StagedDocument, hash_content
from skillopt_sleep.usecases.adapters import NOT_ISOLATED, SIMULATED, role_of

if TYPE_CHECKING:
    from skillopt_sleep.model.document import Document
    from skillopt_sleep.night.outcome import Consolidated
    from skillopt_sleep.storage.adoption import LiveChange
    from skillopt_sleep.storage.live_files import Adoption
    from skillopt_sleep.usecases.workspace import Workspace

HELD = {
    EditStatus.GUARDED: "held back by the guard",
    EditStatus.PENDING: "undecided",
}
"""What of a night can be adopted by hand, and in which words."""


def adopt_night(
    workspace: Workspace, night: str | None, *, edits: Collection[str] = (), undecided: bool = False
) -> tuple[str, tuple[LiveChange, ...]]:
    """Make a night's proposal live, or some of its edits; the night's name, and what changed.

    ``night`` None means the latest that waits, or the latest that has the edits. An edit of the proposal needs
    nothing more; one that the guard holds back must be named in ``edits``; undecided ones need ``undecided``, and are
    all of the night's where none is named. Both are recorded as adopted by hand. Raises ``Refused`` and what ``adopt``
    raises.
    """
    reports = {report.night: report for report in workspace.journal.reports(str(workspace.project))}
    if night is None:
        night = _waiting(workspace, reports.values(), edits, undecided=undecided)
    proposed = _proposed(workspace, night)
    if all(edit in proposed for edit in edits) and (edits or not undecided):
        return night, adopt(workspace.staging, night, only=edits or None)
    if any(edit in proposed for edit in edits):
        raise Refused("some of these edits are in the proposal and some are not; adopt them one after the other")
    report = reports.get(night)
    if report is None:
        raise Refused(f"there is no night {night} of {workspace.project}; `skillopt-sleep status` shows the last ones")
    held = _held(report, edits, undecided=undecided)
    live = {edit.id for each in live_adoptions(workspace) if each.night == night for edit in each.edits}
    if again := [each.edit.id for each in held if each.edit.id in live]:
        raise Refused(f"edit {again[0]} is live already; to undo it: skillopt-sleep revert --edit {again[0]}")
    reasons = "; ".join(dict.fromkeys(f"{HELD[each.status]} ({each.why})" for each in held))
    documents = _documents(workspace, night, held)
    return night, adopt_by_hand(workspace.staging, night, documents, how=f"{BY_HAND}: {reasons}")


def live_adoptions(workspace: Workspace) -> tuple[Adoption, ...]:
    """What is live in this project, the oldest first; each keeps the bytes its file held before."""
    return tuple(each for each in read_adoptions(workspace.database) if each.project == str(workspace.project))


def _waiting(workspace: Workspace, reports: Iterable[NightReport], edits: Collection[str], *, undecided: bool) -> str:
    if not undecided:
        several = (
            workspace.staging.proposals() if edits else workspace.staging.waiting() or workspace.staging.proposals()
        )
        staged = [each.manifest for each in several if each.status is not ProposalStatus.REVERTED]
        known = (each.night for each in staged if set(edits) <= {e.id for d in each.documents for e in d.edits})
        if (night := next(known, None)) is not None:
            return night
    wanted = {EditStatus.PENDING} if undecided else set(HELD)
    for report in reports:
        held = {each.edit.id for each in report.held_edits if each.status in wanted}
        if held and (set(edits) <= held if edits else undecided):
            return report.night
    if edits:
        raise Refused(
            f"no night of {workspace.project} has the edit {', '.join(edits)}; `skillopt-sleep show` lists them"
        )
    what = "no edit is undecided" if undecided else "no proposal waits to be adopted"
    raise Refused(f"{what}; `skillopt-sleep status` shows the last nights")


def _proposed(workspace: Workspace, night: str) -> set[str]:
    documents = [each.manifest.documents for each in workspace.staging.proposals() if each.manifest.night == night]
    return {edit.id for several in documents for document in several for edit in document.edits}


def _held(report: NightReport, edits: Collection[str], *, undecided: bool) -> list[AppliedEdit]:
    """The edits meant, each of which may be adopted by hand. Raises ``Refused`` naming the first that may not."""
    every = {each.edit.id: each for each in (*report.applied_edits, *report.rejected_edits, *report.held_edits)}
    if not edits:
        found = [each for each in every.values() if each.status is EditStatus.PENDING]
        if not found:
            raise Refused(f"night {report.night} has no undecided edit; `skillopt-sleep show {report.night}` lists all")
        return found
    for name in edits:
        if name not in every:
            raise Refused(f"night {report.night} has no edit {name}; it has {', '.join(every) or 'none'}")
        if every[name].status not in HELD:
            raise Refused(f"edit {name} was {every[name].status} and cannot be adopted: {every[name].why}")
        if every[name].status is EditStatus.PENDING and not undecided:
            raise Refused(f"edit {name} is undecided ({every[name].why}); add --undecided to adopt it all the same")
    return [every[name] for name in edits]


def _documents(workspace: Workspace, night: str, held: Collection[AppliedEdit]) -> list[StagedDocument]:
    """The documents of these edits, on what the night looked at. Raises ``Refused`` when a live file is not that."""
    from skillopt_sleep.night.outcome import Consolidated

    data = workspace.journal.kept(night, "consolidate")
    if data is None:
        raise Refused(f"what night {night} was made of is not kept any more, so it cannot be adopted by hand")
    try:
        outcome = msgspec.json.decode(data, type=Consolidated)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(
            f"what night {night} was made of is damaged ({error}), so it cannot be adopted by hand"
        ) from error
    kinds = dict.fromkeys(each.edit.document for each in held)
    return [
        _document(
            base,
            outcome,
            tuple(each.edit for each in held if each.edit.document is kind),
            night,
            [each.after for each in live_adoptions(workspace) if (each.path, each.night) == (base.path, night)][-1:],
        )
        for kind in kinds
        if (base := outcome.baseline[kind]) is not None
    ]


def _document(
    base: Document,
    outcome: Consolidated,
    edits: tuple[EditRecord, ...],
    night: str,
    ours: Collection[bytes | None],
) -> StagedDocument:
    after = outcome.candidate[base.kind]
    live = read_regular(Path(base.path))
    if live not in (base.content, after.content if after else None, *ours):
        raise Refused(f"{base.path} was changed since night {night} looked at it; nothing was adopted")
    return StagedDocument(
        kind=base.kind,
        path=base.path,
        whole=base.whole,
        base_sha256=hash_content(live),
        proposed_sha256=None,
        proposed=None,
        diff="",
        edits=edits,
    )


AUTO_K = threshold(STRICT_ALPHA)
"""The score it takes: 8."""

AUTO_TASKS = 12
"""Different tasks it takes, near-duplicates counted as one: with fewer, what was gained may be theirs alone."""


def not_by_itself(report: NightReport, *, isolated: bool = True) -> str:
    """Why the proposal of a night may not be adopted by itself, "" when it may.

    ``isolated``: replays were shown to be out of reach of the user's other instructions. Every trial that was accepted
    has to do; one that was not has left nothing in the proposal.
    """
    return next(filter(None, _reasons(report, isolated=isolated)), "")


def _reasons(report: NightReport, *, isolated: bool) -> Iterator[str]:
    """What speaks against it, the gravest first; "" where a condition is met."""
    trials = [each for each in report.trials if each.decision.verdict is Verdict.ACCEPT]
    replay = report.replay
    if not report.accepted or report.proposal is None:
        yield "nothing was accepted"
    if any(each.status is not EditStatus.APPLIED for each in report.applied_edits):
        yield "an edit of it is held back by the guard"
    if replay.loading in {Loading.NOT_LOADED, Loading.NOT_OPENED}:
        yield f"the agent does not use it by itself ({replay.why})"
    if not isolated:
        yield "the replays were not isolated from the user's other instructions"
    yield "" if trials else "no trial stands behind it"
    yield from map(auto_adoptable, trials)
    if replay.loading is not Loading.LOADED:
        yield f"nobody has seen the agent load it ({replay.why or 'it was not tried'})"


def auto_adoptable(trial: TrialReport) -> str:
    """Why what one trial accepted may not be adopted by itself, "" when it may."""
    if trial.decision.verdict is not Verdict.ACCEPT:
        return f"the trial of the {trial.document} ended in {trial.decision.verdict}"
    if trial.k is None or trial.score is None:
        return f"the {trial.document} was accepted by a rule whose error is not known"
    if trial.score < AUTO_K:
        return f"the {trial.document} has a score of {trial.score}, and it takes {AUTO_K}"
    if trial.tasks_in_all < AUTO_TASKS:
        tasks = f"{trial.tasks_in_all} different {'task' if trial.tasks_in_all == 1 else 'tasks'}"
        return f"the {trial.document} was tested on {tasks}, and it takes {AUTO_TASKS}"
    return _worse(trial)


def _worse(trial: TrialReport) -> str:
    """What got worse under it that has not been shown to be chance."""
    if lost := len(trial.confirmed_regressions):
        return f"{lost} {'task' if lost == 1 else 'tasks'} got worse under the {trial.document}, which was confirmed"
    if open_ := len(trial.unconfirmed) + trial.losses_before:
        what = "pair" if open_ == 1 else "pairs"
        return f"{open_} {what} got worse under the {trial.document}, and whether for good could not be found out"
    return ""


def adopt_automatically(workspace: Workspace, report: NightReport) -> NightReport:
    """Make an accepted night's proposal live when it may be; the report, which says so, or why not.

    A proposal that is refused, or cannot be written, waits as any other does. Raises ``DiskError`` when the report
    cannot be kept.
    """
    if not report.accepted:
        return report
    backends = {role_of(workspace, role)[0] for role in Role}
    why = (
        "the agent was simulated"
        if SIMULATED in backends
        else not_by_itself(report, isolated=not backends & NOT_ISOLATED)
    )
    if not why:
        try:
            adopt(workspace.staging, report.night, how="by itself")
        except SleepError as error:
            why = str(error)
    note = (
        f"not adopted by itself: {why}"
        if why
        else f"adopted by itself, as auto_adopt says; to undo it, byte for byte: skillopt-sleep revert {report.night}"
    )
    noted = replace(report, notes=(*report.notes, note))
    workspace.journal.save(noted)
    return noted
