"""Everything on this user's own disk, opened when it is first asked for."""

from __future__ import annotations

from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING

from skillopt_sleep.app.invocation import Invocation
from skillopt_sleep.errors import DiskError
from skillopt_sleep.stores import staging
from skillopt_sleep.stores.archive import RejectedEditStore, TaskArchive
from skillopt_sleep.stores.database import Database
from skillopt_sleep.stores.inbox import SessionInbox
from skillopt_sleep.stores.journal import NightJournal, Renderers
from skillopt_sleep.stores.staging import ProposalStaging

if TYPE_CHECKING:
    from skillopt_sleep.stores.approvals import Approvals
    from skillopt_sleep.stores.trials import TrialStore

__all__ = ["Stores"]


class Stores(Invocation):
    """The database and what is kept in it."""

    @cached_property
    def database(self) -> Database:
        """The user's database, opened (and made) now; while rehearsing, a copy of it in memory.

        Live files that an adopt or revert left half changed when it was killed are put back first.
        """
        path = self.data_dir / "sleep.db"
        if not path.exists() and path.with_name("sleep.db.copy").exists():
            raise DiskError(
                f"{path} is gone, and a copy of it is there; to put it back: skillopt-sleep doctor --repair"
            )
        database = Database(path, extra_schema=staging.SCHEMA, rehearsal=self.rehearsing)
        if not database.rows("SELECT 1 FROM swaps LIMIT 1"):
            return database
        from skillopt_sleep.stores.swaps import undo_unfinished

        if self.rehearsing:
            database.close()
            with closing(Database(path, extra_schema=staging.SCHEMA)) as real:
                self.said += undo_unfinished(real)
            return Database(path, extra_schema=staging.SCHEMA, rehearsal=True)
        self.said += undo_unfinished(database)
        return database

    @cached_property
    def inbox(self) -> SessionInbox:
        """Sessions not yet mined."""
        return SessionInbox(self.database)

    @cached_property
    def archive(self) -> TaskArchive:
        """Tasks mined so far."""
        return TaskArchive(self.database)

    @cached_property
    def rejected(self) -> RejectedEditStore:
        """Edits a gate turned down."""
        return RejectedEditStore(self.database)

    @cached_property
    def trials(self) -> TrialStore:
        """What is undecided, and the account."""
        from skillopt_sleep.stores.trials import TrialStore

        return TrialStore(self.database)

    @cached_property
    def approvals(self) -> Approvals:
        """Commands the user lets replays be scored by."""
        from skillopt_sleep.stores.approvals import Approvals

        return Approvals(self.database)

    @cached_property
    def staging(self) -> ProposalStaging:
        """Proposals and adoptions."""
        return ProposalStaging(self.database, project=self.project, clock=self.clock)

    @cached_property
    def journal(self) -> NightJournal:
        """The nights."""
        from skillopt_sleep.reports import diagnostics, evidence, markdown

        def redacted(data: bytes) -> bytes:
            return self.redactor.redact(data.decode("utf-8")).encode("utf-8")

        renderers = Renderers(
            diagnostics=lambda report: redacted(diagnostics.render(report)),
            markdown=lambda report: redacted(markdown.render(report).encode("utf-8")),
            evidence=lambda rows: redacted(evidence.render(rows)),
        )
        return NightJournal(self.database, self.clock, renderers)
