"""The composition root: from settings to adapters to a night; the only place that builds.

What only a night needs is imported where it is built: `status` must not wait for it.

Everything on this user's own disk, opened when it is first asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_sleep.errors import DiskError, UsageError
from skillopt_sleep.model.call import Role
from skillopt_sleep.model.session import Session
from skillopt_sleep.night.harvest import Filed, Harvested, file_sessions, in_scope
from skillopt_sleep.night.report import NightReport, PendingReport
from skillopt_sleep.reports.status import Status
from skillopt_sleep.storage import staging
from skillopt_sleep.storage.archive import RejectedEditStore, SessionInbox, TaskArchive
from skillopt_sleep.storage.database import Database
from skillopt_sleep.storage.journal import NightJournal, Renderers
from skillopt_sleep.storage.lock import is_locked, one_night
from skillopt_sleep.storage.staging import ProposalStaging
from skillopt_sleep.usecases.adapters import Adapters
from skillopt_sleep.usecases.invocation import Invocation

if TYPE_CHECKING:
    from skillopt_sleep.mining.insights import Insights
    from skillopt_sleep.model.document import Candidate
    from skillopt_sleep.model.ports import Ledger
    from skillopt_sleep.model.task import TaskRecord
    from skillopt_sleep.night.connection import NightConnection
    from skillopt_sleep.night.forecast import Rehearsal
    from skillopt_sleep.night.plan import Kit, NightPlan
    from skillopt_sleep.storage.permissions import Approvals
    from skillopt_sleep.storage.trials import TrialStore


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
        from skillopt_sleep.storage.atomic_replace import undo_unfinished

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
        from skillopt_sleep.storage.trials import TrialStore

        return TrialStore(self.database)

    @cached_property
    def approvals(self) -> Approvals:
        """Commands the user lets replays be scored by."""
        from skillopt_sleep.storage.permissions import Approvals

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


class App(Stores, Adapters):
    """Everything one invocation may need, each part built when it is first asked for."""

    def plan(self, tasks: tuple[TaskRecord, ...] | None = None) -> NightPlan:
        """Everything decided before a night begins, as ``plan_night`` has it."""
        from skillopt_sleep.usecases.plan import plan_night

        return plan_night(self, tasks)

    def baseline(self) -> tuple[Candidate, tuple[str, ...]]:
        """The live files a night may propose to change, as they are, and notes on those it may not."""
        from skillopt_sleep.usecases.plan import baseline_of

        return baseline_of(self)

    @property
    def target_skill(self) -> str:
        """The name of the one skill to improve, "" for what is learnt from all tasks."""
        named = Path(self.settings.target_skill)
        return named.absolute().parent.name if named.name == "SKILL.md" else self.settings.target_skill

    def file_sessions(self) -> Filed:
        """Harvest into the inbox, outside of a night."""
        return file_sessions(self.sources(), self.inbox, self.redact)

    def kit(self, plan: NightPlan) -> Kit:
        """The outside world of a night; one with tasks of its own reads no sessions."""
        from skillopt_sleep.night.plan import Kit
        from skillopt_sleep.usecases.plan import commit_of_task

        self.manner = plan.manner
        own_tasks = plan.mining.given is not None
        return Kit(
            sources=() if own_tasks else self.sources(),
            inbox=self.inbox,
            archive=self.archive,
            rejected=self.rejected,
            trials=self.trials,
            staging=self.staging,
            journal=self.journal,
            connect=super().connect if own_tasks else self.connect,
            redact=self.redact,
            commit_of=functools.partial(commit_of_task, self),
        )

    def connect(self, ledger: Ledger, sessions: Harvested) -> NightConnection:
        """Both roles of a night, ready to be asked; ``NotAllowed`` when one may not be sent these sessions."""
        from skillopt_sleep.usecases.consent import require_agreement

        require_agreement(self, [self.backend(role) for role in Role])
        return super().connect(ledger, sessions)

    def run(self, plan: NightPlan, *, wait: float = 0.0) -> NightReport:
        """Run or resume a night; its report as it was kept, secrets taken out.

        One that had to wait for another, ``wait`` seconds at most, is planned anew: much may have changed meanwhile.
        Raises ``NightRunning``, ``DiskError`` and bugs; the rest is in the report.
        """
        from skillopt_sleep.night.night import run_night
        from skillopt_sleep.storage.space import check_disk
        from skillopt_sleep.usecases.adopt import adopt_by_itself
        from skillopt_sleep.usecases.upkeep import tidy

        with one_night(self.data_dir, wait=wait) as waited:
            plan = self.plan(plan.mining.given) if waited else plan
            check_disk(self.database, self.project)
            report = run_night(plan, self.kit(plan))
            if self.settings.auto_adopt:
                adopt_by_itself(self, report)
            tidy(self)
            if report.stopped_by is None:
                self.said += self.unused_answers()
        return self.report(report.night)

    def rehearse(self, tasks: tuple[TaskRecord, ...] | None) -> Rehearsal:
        """A night up to the first call, on a copy in memory."""
        from skillopt_sleep.night.forecast import rehearse

        self.rehearsing = True
        plan = self.plan(tasks)
        return rehearse(plan, self.kit(plan))

    def in_scope(self, sessions: Iterable[Session]) -> tuple[Session, ...]:
        """Those sessions that are of the work asked for."""
        return tuple(
            session
            for session in sessions
            if in_scope(session.cwd, self.scope) and self.settings.source in {"auto", "all", session.source}
        )

    def waiting(self) -> tuple[Session, ...]:
        """The sessions of that work that no night has mined."""
        return tuple(self.inbox.load(key) for key in self.inbox.waiting() if in_scope(key.cwd, self.scope))

    def count_waiting(self) -> int:
        """How many these are, without reading one."""
        return sum(count for cwd, count in self.inbox.waiting_by_folder().items() if in_scope(cwd, self.scope))

    def insights(self) -> Insights:
        """What the sessions already tell, on a copy in memory."""
        from skillopt_sleep.mining.heuristic import mine_heuristic
        from skillopt_sleep.mining.insights import insights

        self.rehearsing = True
        self.file_sessions()
        sessions = self.in_scope(self.inbox.everything())
        return insights(sessions, mine_heuristic(sessions).tasks)

    def status(self) -> Status:
        """How things stand for the project; writes nothing, so a project that never ran has none."""
        from skillopt_sleep.usecases.schedule import outlook_of

        self.rehearsing = not (self.data_dir / "sleep.db").exists()
        nights = self.journal.reports(str(self.project))
        return Status(
            project=str(self.project),
            nights=nights,
            proposals=tuple(each.manifest.night for each in self.staging.waiting()),
            adopted=self.staging.live_nights(),
            waiting=self.count_waiting(),
            fresh=len(self.archive.fresh(self.scope)),
            pending=tuple(map(PendingReport.of, self.trials.pending(str(self.project)))),
            account=self.trials.account(str(self.project)),
            sealed=self.trials.sealed(str(self.project)),
            running=is_locked(self.data_dir),
            schedule=outlook_of(self, nights),
        )

    def report(self, night: str | None) -> NightReport:
        """The report of a night of this project, or of the last one. Raises ``UsageError``."""
        nights = self.status().nights
        found = next((report for report in nights if night in {None, report.night}), None)
        if found is None:
            known = ", ".join(report.night for report in nights[:5]) or "none yet"
            raise UsageError(f"there is no night {night or ''} of {self.project}; the last ones: {known}")
        return found
