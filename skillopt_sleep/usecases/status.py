"""What a project's nights have left: its status, its reports, and how often adopted rules were still corrected."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from skillopt_sleep.errors import UsageError
from skillopt_sleep.night.report import NightReport, PendingReport
from skillopt_sleep.reports.status import Status
from skillopt_sleep.storage.lock import is_locked
from skillopt_sleep.usecases.sessions import count_waiting, load_archived

if TYPE_CHECKING:
    from skillopt_sleep.model.edit import EditRecord
    from skillopt_sleep.model.task import TaskRecord
    from skillopt_sleep.reports.watch import Watched
    from skillopt_sleep.storage.live_files import Adoption
    from skillopt_sleep.usecases.workspace import Workspace


def read_status(workspace: Workspace) -> Status:
    """Return the status of the project. Creates no database: a project without nights has an empty status."""
    from skillopt_sleep.usecases.failures import find_failure
    from skillopt_sleep.usecases.schedule import read_outlook

    workspace = workspace.open_for_looking()
    project = str(workspace.project)
    nights = workspace.journal.reports(project)
    return Status(
        project=project,
        nights=nights,
        proposals=tuple(proposal.manifest.night for proposal in workspace.staging.waiting()),
        adopted=workspace.staging.live_nights(),
        waiting=count_waiting(workspace),
        fresh=len(workspace.archive.fresh(workspace.scope)),
        pending=tuple(map(PendingReport.of, workspace.trials.pending(project))),
        account=workspace.trials.account(project),
        sealed=workspace.trials.sealed(project),
        running=is_locked(workspace.data_dir),
        failure=find_failure(workspace, project),
        schedule=read_outlook(workspace, nights),
    )


def read_report(workspace: Workspace, night: str | None = None) -> NightReport:
    """Return the report of a night of the project, by default the last one. Raises ``UsageError``."""
    nights = read_status(workspace).nights
    found = next((report for report in nights if night in {None, report.night}), None)
    if found is None:
        known = ", ".join(report.night for report in nights[:5]) or "none yet"
        raise UsageError(f"there is no night {night or ''} of {workspace.project}; the last ones: {known}")
    return found


def watch_rules(workspace: Workspace) -> tuple[Watched, ...]:
    """Every adopted rule of the project, the latest first, with the corrections before and since in the archive.

    A rule that is live for several agents is one rule.
    """
    from skillopt_sleep.reports.watch import LiveRule, compare_corrections
    from skillopt_sleep.storage.live_files import read_reverted_rules
    from skillopt_sleep.usecases.adopt import list_live_adoptions

    live = list_live_adoptions(workspace)
    if not live:
        return ()
    project = str(workspace.project)
    reports = {report.night: report for report in workspace.journal.reports(project)}
    lived = read_reverted_rules(workspace.database, project)
    tasks = {task.id: task for task in workspace.archive.tasks(workspace.scope)}
    places: dict[tuple[str, str], list[tuple[Adoption, EditRecord]]] = {}
    for adoption in reversed(live):
        for edit in adoption.edits:
            places.setdefault((adoption.night, edit.id), []).insert(0, (adoption, edit))
    rules = [
        LiveRule(
            edit=edit,
            night=adoption.night,
            path=", ".join(place.path for place, _ in found),
            adopted_at=adoption.adopted_at,
            how=adoption.how,
            lived=lived.get((adoption.path, edit.text or edit.anchor), ()),
            words=_list_words(edit.task_ids, tasks, reports.get(adoption.night)),
        )
        for found in places.values()
        for adoption, edit in found[:1]
    ]
    return compare_corrections(rules, load_archived(workspace))


def _list_words(ids: Collection[str], tasks: Mapping[str, TaskRecord], report: NightReport | None) -> tuple[str, ...]:
    """Return the user's words in the tasks an edit was written from.

    The report of the night holds only some of them, and none when the edit was written in an earlier night.
    """
    reported = [words for label in (report.tasks if report else ()) if label.id in ids for words in label.words]
    archived = [words for id_ in ids if id_ in tasks for words in tasks[id_].feedback]
    return tuple(dict.fromkeys((*archived, *reported)))
