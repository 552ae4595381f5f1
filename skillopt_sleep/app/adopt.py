"""What of a night is made live: its proposal, or by hand what no gate accepted."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from skillopt_sleep.domain.edit import AppliedEdit, EditRecord, EditStatus
from skillopt_sleep.errors import Refused
from skillopt_sleep.stores.adoption import BY_HAND, adopt, adopt_by_hand, adoptions
from skillopt_sleep.stores.files import read_regular
from skillopt_sleep.stores.staging import ProposalStatus, StagedDocument, sha256

if TYPE_CHECKING:
    from skillopt_sleep.app import App
    from skillopt_sleep.domain.adoption import Adoption
    from skillopt_sleep.domain.document import Document
    from skillopt_sleep.domain.report import NightReport
    from skillopt_sleep.night.outcome import Consolidated
    from skillopt_sleep.stores.adoption import LiveChange

__all__ = ["adopt_night", "live_adoptions"]

HELD = {
    EditStatus.GUARDED: "held back by the guard",
    EditStatus.PENDING: "undecided",
}
"""What of a night can be adopted by hand, and in which words."""


def adopt_night(
    app: App, night: str | None, *, edits: Collection[str] = (), undecided: bool = False
) -> tuple[str, tuple[LiveChange, ...]]:
    """Make a night's proposal live, or some of its edits; the night's name, and what changed.

    ``night`` None means the latest that waits, or the latest that has the edits. An edit of the proposal needs
    nothing more; one that the guard holds back must be named in ``edits``; undecided ones need ``undecided``, and are
    all of the night's where none is named. Both are recorded as adopted by hand. Raises ``Refused`` and what ``adopt``
    raises.
    """
    reports = {report.night: report for report in app.journal.reports(str(app.project))}
    if night is None:
        night = _waiting(app, reports.values(), edits, undecided=undecided)
    proposed = _proposed(app, night)
    if all(edit in proposed for edit in edits) and (edits or not undecided):
        return night, adopt(app.staging, night, only=edits or None)
    if any(edit in proposed for edit in edits):
        raise Refused("some of these edits are in the proposal and some are not; adopt them one after the other")
    report = reports.get(night)
    if report is None:
        raise Refused(f"there is no night {night} of {app.project}; `skillopt-sleep status` shows the last ones")
    held = _held(report, edits, undecided=undecided)
    live = {edit.id for each in live_adoptions(app) if each.night == night for edit in each.edits}
    if again := [each.edit.id for each in held if each.edit.id in live]:
        raise Refused(f"edit {again[0]} is live already; to undo it: skillopt-sleep revert --edit {again[0]}")
    reasons = "; ".join(dict.fromkeys(f"{HELD[each.status]} ({each.why})" for each in held))
    documents = _documents(app, night, held)
    return night, adopt_by_hand(app.staging, night, documents, how=f"{BY_HAND}: {reasons}")


def live_adoptions(app: App) -> tuple[Adoption, ...]:
    """What is live in this project, the oldest first; each keeps the bytes its file held before."""
    return tuple(each for each in adoptions(app.database) if each.project == str(app.project))


def _waiting(app: App, reports: Iterable[NightReport], edits: Collection[str], *, undecided: bool) -> str:
    if not undecided:
        several = app.staging.proposals() if edits else app.staging.waiting() or app.staging.proposals()
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
        raise Refused(f"no night of {app.project} has the edit {', '.join(edits)}; `skillopt-sleep show` lists them")
    what = "no edit is undecided" if undecided else "no proposal waits to be adopted"
    raise Refused(f"{what}; `skillopt-sleep status` shows the last nights")


def _proposed(app: App, night: str) -> set[str]:
    documents = [each.manifest.documents for each in app.staging.proposals() if each.manifest.night == night]
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


def _documents(app: App, night: str, held: Collection[AppliedEdit]) -> list[StagedDocument]:
    """The documents of these edits, on what the night looked at. Raises ``Refused`` when a live file is not that."""
    from skillopt_sleep.night.outcome import Consolidated

    data = app.journal.kept(night, "consolidate")
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
            [each.after for each in live_adoptions(app) if (each.path, each.night) == (base.path, night)][-1:],
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
        base_sha256=sha256(live),
        proposed_sha256=None,
        proposed=None,
        diff="",
        edits=edits,
    )
