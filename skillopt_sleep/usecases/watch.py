"""The adopted rules of a project, and what its sessions say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_sleep.reports.watch import LiveRule, Watched, watch
from skillopt_sleep.storage.adoption import lived_before
from skillopt_sleep.usecases.adopt import live_adoptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillopt_sleep.night.report import NightReport
    from skillopt_sleep.usecases.app import App


def watched(app: App) -> tuple[Watched, ...]:
    """Every live rule of the project, the latest adopted first, counted over the sessions archived so far."""
    live = live_adoptions(app)
    if not live:
        return ()
    reports = {report.night: report for report in app.journal.reports(str(app.project))}
    lived = lived_before(app.database, str(app.project))
    rules = [
        LiveRule(
            edit=edit,
            night=adoption.night,
            path=adoption.path,
            adopted_at=adoption.adopted_at,
            lived=lived.get((adoption.path, edit.text or edit.anchor), ()),
            words=_words(edit.task_ids, reports, adoption.night),
        )
        for adoption in reversed(live)
        for edit in adoption.edits
    ]
    return watch(rules, app.in_scope(app.inbox.everything()))


def _words(tasks: tuple[str, ...], reports: Mapping[str, NightReport], night: str) -> tuple[str, ...]:
    """What the person had said in the tasks that an edit was written from."""
    report = reports.get(night)
    labels = report.tasks if report else ()
    return tuple(dict.fromkeys(words for label in labels if label.id in tasks for words in label.words))
