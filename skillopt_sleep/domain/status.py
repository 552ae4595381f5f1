"""How things stand for a project between two nights."""

from __future__ import annotations

from msgspec import Struct

from skillopt_sleep.domain.account import Account
from skillopt_sleep.domain.report import NightReport, PendingReport
from skillopt_sleep.domain.schedule import Outlook
from skillopt_sleep.domain.sealed import SealedTest

__all__ = ["Status"]


class Status(Struct, frozen=True, kw_only=True):
    """The nights of a project, the latest first, and what waits.

    ``proposals`` are the nights whose proposal can still be adopted; ``adopted`` those that are live and can be
    reverted; ``waiting`` counts sessions in the inbox, ``fresh`` tasks no concluded night has used; ``pending`` edits
    are not decided yet, and ``account`` adds up all that were tried; ``sealed`` are the adopted changes that were
    scored on sealed tasks, the latest first. ``schedule`` is None when nothing is scheduled.
    """

    project: str
    nights: tuple[NightReport, ...] = ()
    proposals: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    waiting: int = 0
    fresh: int = 0
    pending: tuple[PendingReport, ...] = ()
    account: Account = Account()
    sealed: tuple[SealedTest, ...] = ()
    running: bool = False
    schedule: Outlook | None = None
