"""The composition root: from settings to adapters to a night; the only place that builds.

What only a night needs is imported where it is built: `status` must not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from skillopt_sleep.calls.clock import SystemClock
from skillopt_sleep.domain.budget import Caps
from skillopt_sleep.domain.call import Role
from skillopt_sleep.domain.report import BackendHealth, NightReport, PendingReport
from skillopt_sleep.domain.session import Session
from skillopt_sleep.domain.status import Status
from skillopt_sleep.errors import UsageError
from skillopt_sleep.night.harvest import Filed, Harvested, Window, file_sessions, in_scope
from skillopt_sleep.registry import Kind, build, names, require
from skillopt_sleep.settings import Origins, Settings, agent_homes, secrets
from skillopt_sleep.stores import staging
from skillopt_sleep.stores.archive import RejectedEditStore, TaskArchive
from skillopt_sleep.stores.database import Database
from skillopt_sleep.stores.inbox import SessionInbox
from skillopt_sleep.stores.journal import NightJournal, Renderers
from skillopt_sleep.stores.lock import is_locked, one_night
from skillopt_sleep.stores.staging import ProposalStaging, ProposalStatus

if TYPE_CHECKING:
    from skillopt_sleep.domain.candidate import Candidate
    from skillopt_sleep.domain.expect import Rehearsal
    from skillopt_sleep.domain.insights import Insights
    from skillopt_sleep.domain.redact import Redactor
    from skillopt_sleep.domain.task import TaskRecord
    from skillopt_sleep.night.connection import NightConnection
    from skillopt_sleep.night.plan import Kit, NightPlan
    from skillopt_sleep.ports import Backend, Judge, Ledger, Progress, Source
    from skillopt_sleep.stores.trials import TrialStore

__all__ = ["App"]

SIMULATED = "simulated"
"""The one backend that costs nothing: rules mine for it, and it may replay tasks nobody has reviewed."""
SIMULATED_NOTE = "the agent was simulated: this shows how a night goes, and proves nothing about a real agent"


class App:
    """Everything one invocation may need, each part built when it is first asked for.

    Raises ``UsageError`` for settings with a table for an adapter that there is not.
    """

    def __init__(self, settings: Settings, origins: Origins, env: Mapping[str, str], project: Path) -> None:
        self.settings = settings
        self.origins = origins
        self.env = env
        self.project = project
        self.clock = SystemClock()
        self.progress: Progress | None = None
        self.rehearsing = False
        for kind in Kind:
            for name in getattr(settings, kind):
                require(kind, name)

    @cached_property
    def data_dir(self) -> Path:
        """Where this user's own data lies."""
        if self.settings.data_dir:
            return Path(self.settings.data_dir).expanduser().absolute()
        import platformdirs

        return platformdirs.user_data_path("skillopt-sleep")

    @cached_property
    def database(self) -> Database:
        """The user's database, opened (and made) now; while rehearsing, a copy of it in memory."""
        return Database(self.data_dir / "sleep.db", extra_schema=staging.SCHEMA, rehearsal=self.rehearsing)

    @cached_property
    def redactor(self) -> Redactor:
        """The redactor, which knows the secrets of this environment."""
        from skillopt_sleep.domain.redact import Redactor

        return Redactor(values=secrets(self.env))

    def redact(self, session: Session) -> Session:
        """Take the secrets out of a session."""
        from skillopt_sleep.domain.redact import redact_session

        return redact_session(session, self.redactor)

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

    @property
    def scope(self) -> str:
        """The folder whose work is looked at, "" for all of it."""
        return "" if self.settings.scope == "all" else str(self.project)

    def sources(self) -> tuple[Source, ...]:
        """The sources asked for. Raises ``UsageError`` when one was named that is none, or whose home is not there."""
        homes = agent_homes(self.env)
        every = {*homes, *self.settings.sources}  # a source with neither home nor options has nothing to read
        wanted = sorted(every) if self.settings.source in {"auto", "all"} else [self.settings.source]
        for name in wanted:
            require(Kind.SOURCE, name)
        found = []
        for name in wanted:
            options = self.settings.sources.get(name, {})
            if not options and not homes.get(name):
                if self.settings.source == name:
                    raise UsageError(f"no {name} sessions found; name their home with --{name}-home DIR")
                continue
            here = homes.get(name, ())
            found.append(cast("Source", build(Kind.SOURCE, name, options, homes=here, home=next(iter(here), ""))))
        return tuple(found)

    def file_sessions(self) -> Filed:
        """Harvest into the inbox, outside of a night."""
        return file_sessions(self.sources(), self.inbox, self.redact)

    @property
    def agent(self) -> str:
        """Whose files are written: Claude Code's or Codex's."""
        if self.settings.agent != "auto":
            return self.settings.agent
        return "codex" if "codex" in {self.settings.source, self.role(Role.TARGET)[0]} else "claude"

    def role(self, role: Role) -> tuple[str, str]:
        """Backend name and model asked for ("" = by default) of a role."""
        settings = self.settings
        if role is Role.TARGET:
            return settings.target_backend or settings.backend, settings.target_model
        return settings.optimizer_backend or settings.backend, settings.optimizer_model

    def backend(self, role: Role, *, usual: Harvested | None = None) -> Backend:
        """The backend of a role; its model, where none was asked for, is the one the sessions used."""
        name, model = self.role(role)
        options = dict(self.settings.backends.get(name, {}))
        model = model or str(options.pop("model", "")) or (usual.usual_model(name) if usual else "")
        given: dict[str, object] = {"env": self.env} | ({"model": model} if model else {})
        return cast("Backend", build(Kind.BACKEND, name, options, **given))

    def judges(self) -> Mapping[str, Judge]:
        """Every judge by its name."""
        options = self.settings.judges
        return {name: cast("Judge", build(Kind.JUDGE, name, options.get(name, {}))) for name in names(Kind.JUDGE)}

    def caps(self) -> Caps:
        """The caps of one night."""
        settings = self.settings
        return Caps(
            calls=settings.max_calls, tokens=settings.max_tokens, usd=settings.max_usd, minutes=settings.max_minutes
        )

    def plan(self, tasks: tuple[TaskRecord, ...] | None = None) -> NightPlan:
        """Everything decided before a night begins; nothing is written.

        Raises ``UsageError`` for tasks nobody has reviewed, unless the target is simulated, and for adapters that
        cannot be built as the settings have it.
        """
        from skillopt_sleep.domain.split import SplitPlan
        from skillopt_sleep.night.plan import MiningPlan, NightPlan
        from skillopt_sleep.night.trying import ConsolidatePlan

        settings = self.settings
        target, optimizer = self.role(Role.TARGET), self.role(Role.OPTIMIZER)
        unreviewed = sum(not task.reviewed for task in tasks or ())
        if unreviewed and {target[0], optimizer[0]} != {SIMULATED}:
            raise UsageError(
                f'{unreviewed} of {len(tasks or ())} tasks are not reviewed: read the file, set "reviewed": true, or'
                " try it with --backend simulated"
            )
        for each in Role:
            self.backend(each)
        self.judges()
        baseline, notes = self.baseline()
        account = self.trials.account(str(self.project))
        since = ""
        if settings.lookback_days:
            since = (self.clock.now() - timedelta(days=settings.lookback_days)).isoformat()
        return NightPlan(
            project=str(self.project),
            baseline=baseline,
            notes=(*notes, *(SIMULATED_NOTE,) * (target[0] == SIMULATED)),
            roles=tuple(
                BackendHealth(role=role, backend=name, model=model)
                for role, (name, model) in {Role.TARGET: target, Role.OPTIMIZER: optimizer}.items()
            ),
            sources=(settings.source,),
            window=Window(scope=self.scope, since=since[:10], max_sessions=settings.max_sessions),
            mining=MiningPlan(
                by_model=settings.miner == "model" or (settings.miner == "auto" and optimizer[0] != SIMULATED),
                target_skill=self.target_skill,
                target_about=self._description(baseline),
                given=tasks,
            ),
            split=SplitPlan(seed=settings.seed, max_train=settings.max_train, max_val=settings.max_val),
            step=msgspec.structs.replace(
                msgspec.convert(settings, ConsolidatePlan, from_attributes=True),
                k=account.k,
            ),
            caps=self.caps(),
            rejected=self.rejected.recall(str(self.project)),
            pending=self.trials.pending(str(self.project)),
            account=account,
        )

    def _description(self, baseline: Candidate) -> str:
        """What the one skill to improve says it is for. Raises ``UsageError`` when there is no such skill."""
        from skillopt_sleep.domain.document import DocumentKind, description

        if not self.target_skill:
            return ""
        skill = baseline[DocumentKind.SKILL]
        if skill is None or skill.content is None:
            where = skill.path if skill else self.settings.target_skill
            raise UsageError(f"--target-skill {self.settings.target_skill}: there is no skill at {where}")
        return description(skill)

    @property
    def target_skill(self) -> str:
        """The name of the one skill to improve, "" for what is learnt from all tasks."""
        named = Path(self.settings.target_skill)
        return named.absolute().parent.name if named.name == "SKILL.md" else self.settings.target_skill

    def baseline(self) -> tuple[Candidate, tuple[str, ...]]:
        """The live files a night may propose to change, as they are, and notes on those it may not."""
        from skillopt_sleep.stores.documents import Targets, read_baseline

        everywhere = self.settings.scope == "all"
        homes = self.settings.sources.get(self.agent, {})
        named = [*cast("list[str]", homes.get("homes", [])), *([str(homes["home"])] if "home" in homes else [])]
        home = next(iter((*named, *agent_homes(self.env).get(self.agent, ()))), "")
        return read_baseline(
            Targets(
                agent=self.agent,
                project=self.project,
                user_home=home if everywhere else "",
                skill=self.settings.target_skill,
            )
        )

    def kit(self, plan: NightPlan) -> Kit:
        """The outside world of a night; one with tasks of its own reads no sessions."""
        from skillopt_sleep.night.plan import Kit

        return Kit(
            sources=() if plan.mining.given is not None else self.sources(),
            inbox=self.inbox,
            archive=self.archive,
            rejected=self.rejected,
            trials=self.trials,
            staging=self.staging,
            journal=self.journal,
            connect=self.connect,
            redact=self.redact,
        )

    def run(self, plan: NightPlan) -> NightReport:
        """Run or resume a night; its report as it was kept, secrets taken out.

        Raises ``NightRunning``, ``DiskError`` and bugs; the rest is in the report.
        """
        from skillopt_sleep.night.night import run_night

        with one_night(self.data_dir):
            night = run_night(plan, self.kit(plan)).night
        return self.report(night)

    def rehearse(self, tasks: tuple[TaskRecord, ...] | None) -> Rehearsal:
        """A night up to the first call, on a copy in memory."""
        from skillopt_sleep.night.rehearse import rehearse

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
        from skillopt_sleep.domain.insights import insights
        from skillopt_sleep.night.mine_heuristic import mine_heuristic

        self.rehearsing = True
        self.file_sessions()
        sessions = self.in_scope(self.inbox.everything())
        return insights(sessions, mine_heuristic(sessions).tasks)

    def status(self) -> Status:
        """How things stand for the project; writes nothing, so a project that never ran has none."""
        self.rehearsing = not (self.data_dir / "sleep.db").exists()
        nights = self.journal.reports(str(self.project))
        proposals = self.staging.proposals()
        return Status(
            project=str(self.project),
            nights=nights,
            proposals=tuple(each.manifest.night for each in proposals if each.status is ProposalStatus.STAGED),
            adopted=tuple(each.manifest.night for each in proposals if each.status is ProposalStatus.ADOPTED),
            waiting=self.count_waiting(),
            fresh=len(self.archive.fresh(self.scope)),
            pending=tuple(map(PendingReport.of, self.trials.pending(str(self.project)))),
            account=self.trials.account(str(self.project)),
            running=is_locked(self.data_dir),
        )

    def report(self, night: str | None) -> NightReport:
        """The report of a night of this project, or of the last one. Raises ``UsageError``."""
        nights = self.status().nights
        found = next((report for report in nights if night in {None, report.night}), None)
        if found is None:
            known = ", ".join(report.night for report in nights[:5]) or "none yet"
            raise UsageError(f"there is no night {night or ''} of {self.project}; the last ones: {known}")
        return found

    def probe(self) -> tuple[BackendHealth, ...]:
        """Look at the backends of both roles, outside of a night."""
        backends = {role: self.backend(role) for role in Role}
        try:
            from skillopt_sleep.night.probe import health_of

            return health_of(backends)
        finally:
            for backend in backends.values():
                backend.close()

    def connect(self, ledger: Ledger, sessions: Harvested) -> NightConnection:
        """Both roles of a night, ready to be asked."""
        from skillopt_sleep.night.connection import NightConnection

        return NightConnection(
            {role: self.backend(role, usual=sessions) for role in Role},
            self.judges(),
            ledger,
            self.clock,
            caps=self.caps(),
            workers=self.settings.workers,
            first_wait=self.settings.retry_wait,
            progress=self.progress,
        )
