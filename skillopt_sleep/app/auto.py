"""Adopting without being asked: only for who has said so once, and only what has shown more than a proposal must."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from skillopt_sleep.app.adapters import NOT_ISOLATED, SIMULATED
from skillopt_sleep.domain.auto import not_by_itself
from skillopt_sleep.domain.call import Role
from skillopt_sleep.errors import SleepError
from skillopt_sleep.stores.adoption import adopt

if TYPE_CHECKING:
    from skillopt_sleep.app import App
    from skillopt_sleep.domain.report import NightReport

__all__ = ["adopt_by_itself"]


def adopt_by_itself(app: App, report: NightReport) -> NightReport:
    """Make an accepted night's proposal live when it may be; the report, which says so, or why not.

    A proposal that is refused, or cannot be written, waits as any other does. Raises ``DiskError`` when the report
    cannot be kept.
    """
    if not report.accepted:
        return report
    backends = {app.role(role)[0] for role in Role}
    why = (
        "the agent was simulated"
        if SIMULATED in backends
        else not_by_itself(report, isolated=not backends & NOT_ISOLATED)
    )
    if not why:
        try:
            adopt(app.staging, report.night, how="by itself")
        except SleepError as error:
            why = str(error)
    note = (
        f"not adopted by itself: {why}"
        if why
        else f"adopted by itself, as auto_adopt says; to undo it, byte for byte: skillopt-sleep revert {report.night}"
    )
    noted = replace(report, notes=(*report.notes, note))
    app.journal.save(noted)
    return noted
