"""The adopted rules of a project, and what its sessions say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_sleep.app.adopt import live_adoptions
from skillopt_sleep.domain.watch import LiveRule, Watched, watch
from skillopt_sleep.stores.adoption import lived_before

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillopt_sleep.app import App
    from skillopt_sleep.domain.report import NightReport

__all__ = ["watched"]


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
