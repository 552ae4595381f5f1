"""The workspace: everything one invocation works on, as a frozen value that opens its stores when they are first used.

Use cases are functions over it. Whether anything is written is decided once, by `dry_run` when the workspace is made,
so no order of calls can change it.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_sleep.calls.clock import SystemClock
from skillopt_sleep.model.call import Role
from skillopt_sleep.model.ports import Backend
from skillopt_sleep.registry import Kind, require
from skillopt_sleep.settings import TABLES, Origins, Settings, secrets
from skillopt_sleep.storage import staging
from skillopt_sleep.storage.archive import SessionInbox, TaskArchive
from skillopt_sleep.storage.database import Database
from skillopt_sleep.storage.journal import NightJournal, Renderers
from skillopt_sleep.storage.questions import QuestionBox
from skillopt_sleep.storage.staging import ProposalStaging

if TYPE_CHECKING:
    from skillopt_sleep.night.report import NightReport
    from skillopt_sleep.safety.redaction.redactor import Redactor
    from skillopt_sleep.storage.projects import ProjectScope
    from skillopt_sleep.storage.questions import Approvals
    from skillopt_sleep.storage.steps import StepArchive
    from skillopt_sleep.storage.trials import MomentProofs, RejectedEditStore, TrialStore

CHOICES = {Kind.AGENT: ("auto",), Kind.SOURCE: ("auto", "all")}
"""Words that a setting may hold in place of a plugin's name."""

DATABASE = "sleep.db"
"""The database file in the data folder."""


def describe_fault(error: Exception) -> str:
    """Name a fault of this program in one line, with the place to report."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(at.filename).name}:{at.lineno}"
    return f"a fault of this program, which cost no result; please report it: {type(error).__name__}: {error} ({place})"


@dataclass(frozen=True)
class Workspace:
    """Settings, environment and project of one invocation, and this user's stores.

    Raises ``UsageError`` when the settings name an agent, or have a table of an adapter, that does not exist.
    """

    settings: Settings
    origins: Origins
    """Where each setting came from."""
    env: Mapping[str, str]
    """The environment variables, a copy."""
    project: Path
    """The project folder, absolute."""
    clock: SystemClock = field(default_factory=SystemClock)
    dry_run: bool = False
    """Work on a copy of the database, and write nothing."""
    notify: Callable[[str], None] = lambda _line: None
    """Takes each notice for the user, one line: what was repaired or could not be done besides the answer."""
    wrap_backend: Callable[[Role, Backend], Backend] = lambda _role, backend: backend
    """Applied to every backend that is built; measurements and tests watch the calls here."""

    def __post_init__(self) -> None:
        for kind in map(Kind, TABLES):
            for name in getattr(self.settings, kind):
                require(kind, name)
        self.require_named(Kind.AGENT, "agent")

    def require_named(self, kind: Kind, setting: str) -> None:
        """Raise ``UsageError``, with the place of the setting, when it names no plugin of that kind."""
        name, origin = getattr(self.settings, setting), self.origins.get(setting, "default")
        where = "" if origin in {"default", "flag"} else f"{origin}: {setting} = {name!r}: "
        require(kind, name, where=where, besides=CHOICES.get(kind, ()))

    def make_dry_run(self) -> Workspace:
        """This workspace if it is a dry run, else one that writes nothing."""
        return self if self.dry_run else replace(self, dry_run=True)

    def open_for_looking(self) -> Workspace:
        """This workspace, or a dry run where the database is missing or cannot be written, as in an agent's sandbox."""
        path = self.data_dir / DATABASE
        return self if all(os.access(place, os.W_OK) for place in (path, path.parent)) else self.make_dry_run()

    @property
    def scope(self) -> str:
        """The folder whose sessions are looked at, "" for all of them."""
        return "" if self.settings.scope == "all" else str(self.project)

    @cached_property
    def project_scope(self) -> ProjectScope:
        """Tells which sessions are looked at: those of the project with its worktrees and clones, or all."""
        from skillopt_sleep.storage.projects import ProjectScope

        return ProjectScope(self.scope, self.inbox.folders)

    @cached_property
    def data_dir(self) -> Path:
        """The folder with this user's own data."""
        if self.settings.data_dir:
            return Path(self.settings.data_dir).expanduser().absolute()
        import platformdirs

        return platformdirs.user_data_path("skillopt-sleep")

    @cached_property
    def redactor(self) -> Redactor:
        """The redactor, which knows the secrets of this environment."""
        from skillopt_sleep.safety.redaction.redactor import Redactor

        return Redactor(values=secrets(self.env))

    @cached_property
    def database(self) -> Database:
        """The user's database, created if need be; a copy of it in a dry run.

        Live files that a killed adopt or revert left half changed are restored first, in a dry run as well.
        """
        path = self.data_dir / DATABASE
        database = Database(path, extra_schema=staging.SCHEMA, as_copy=self.dry_run)
        if not database.rows("SELECT 1 FROM swaps LIMIT 1"):
            return database
        from skillopt_sleep.storage.atomic_replace import undo_unfinished

        if not self.dry_run:
            undone = undo_unfinished(database)
        else:
            database.close()
            with closing(Database(path, extra_schema=staging.SCHEMA)) as real:
                undone = undo_unfinished(real)
            database = Database(path, extra_schema=staging.SCHEMA, as_copy=True)
        for line in undone:
            self.notify(line)
        return database

    @cached_property
    def inbox(self) -> SessionInbox:
        """The sessions read so far, and which of them wait to be mined."""
        return SessionInbox(self.database)

    @cached_property
    def steps(self) -> StepArchive:
        """What the agent did in the sessions that have moments."""
        from skillopt_sleep.storage.steps import StepArchive

        return StepArchive(self.database)

    @cached_property
    def archive(self) -> TaskArchive:
        """The tasks mined so far."""
        return TaskArchive(self.database)

    @cached_property
    def proofs(self) -> MomentProofs:
        """What is known of the references of moments."""
        from skillopt_sleep.storage.trials import MomentProofs

        return MomentProofs(self.database)

    @cached_property
    def rejected(self) -> RejectedEditStore:
        """The edits a gate rejected."""
        from skillopt_sleep.storage.trials import RejectedEditStore

        return RejectedEditStore(self.database)

    @cached_property
    def trials(self) -> TrialStore:
        """Undecided edits with their tallies, and the error account."""
        from skillopt_sleep.storage.trials import TrialStore

        return TrialStore(self.database)

    @cached_property
    def approvals(self) -> Approvals:
        """The commands the user approved for scoring replays."""
        from skillopt_sleep.storage.questions import Approvals

        return Approvals(self.database)

    @cached_property
    def staging(self) -> ProposalStaging:
        """Proposals and adoptions."""
        return ProposalStaging(self.database, project=self.project, clock=self.clock)

    @cached_property
    def questions(self) -> QuestionBox:
        """The folder where the handoff backend leaves its questions."""
        return QuestionBox(self.project, self.data_dir)

    @cached_property
    def journal(self) -> NightJournal:
        """The nights and their reports, which are redacted before they reach the disk."""
        from skillopt_sleep.reports.page import render_diagnostics, render_evidence

        def render_markdown(report: NightReport) -> bytes:
            from skillopt_sleep.reports.page import render_report

            try:
                return redacted(render_report(report).encode("utf-8"))
            except Exception as error:  # noqa: BLE001  a fault in a template must not end a night that has its result
                self.notify(describe_fault(error))
                return b"This report could not be written; diagnostics.json beside it has the whole night.\n"

        def redacted(data: bytes) -> bytes:
            return self.redactor.redact(data.decode("utf-8")).encode("utf-8")

        renderers = Renderers(
            diagnostics=lambda report: redacted(render_diagnostics(report)),
            markdown=render_markdown,
            evidence=lambda rows: redacted(render_evidence(rows)),
        )

        def explain(error: BaseException) -> str:
            from skillopt_sleep.usecases.announce import explain_failure

            return explain_failure(self, error)

        return NightJournal(self.database, self.clock, renderers, explain)
