"""The inputs of a night: its plan, its kit of stores and adapters, and what earlier nights left undecided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import Refused
from skillopt_sleep.gate.account import ALPHA, Account
from skillopt_sleep.gate.noise import NoiseReport
from skillopt_sleep.gate.pending import ClosedEdit, PendingEdit
from skillopt_sleep.gate.rule import GateMode, threshold
from skillopt_sleep.mining.digest import MAX_TOKENS
from skillopt_sleep.mining.references import ProofStore
from skillopt_sleep.model.call import Caps
from skillopt_sleep.model.document import Candidate, DocumentKind
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.model.ports import Ledger, Source
from skillopt_sleep.model.rollout import GateMetric
from skillopt_sleep.model.rules import Landing, MemoryBounds
from skillopt_sleep.model.session import Conversation, Place
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.model.text import sha256
from skillopt_sleep.night.harvest import Harvested, ReadFiles, Window
from skillopt_sleep.night.pools import Past, SplitPlan
from skillopt_sleep.night.ports import Archive, Inbox, Journal, RejectedEdits, Staging, Trials
from skillopt_sleep.night.report import Adopted, BackendHealth, NightReport, PendingReport
from skillopt_sleep.optimizer.replay import Manner, Models


class MiningPlan(Struct, frozen=True, kw_only=True):
    """The settings that say how tasks are found."""

    by_model: bool = False
    """Whether the optimizer finds tasks; otherwise rules alone find them."""
    target_skill: str = ""
    """The name of the skill whose tasks are used; tasks of other skills are not."""
    target_about: str = ""
    """The description of the skill ``target_skill``."""
    given: tuple[TaskRecord, ...] | None = None
    """The tasks of a task file, which are used instead of mined tasks; None to mine tasks."""
    rules_only: bool = False
    """Whether rules alone find corrections and approvals in prompts, even when a model finds the tasks."""

    @property
    def asks_for_labels(self) -> bool:
        """Whether a model is asked about the prompts in which rules find no feedback."""
        return self.by_model and self.given is None and not self.rules_only


class ConsolidatePlan(Struct, frozen=True, kw_only=True):
    """The settings of a night's optimizer step."""

    edit_budget: int = 4
    rollouts_k: int = 1
    """The number of rollouts of each training task."""
    gate_mode: GateMode = GateMode.PAIRED
    gate_metric: GateMetric = GateMetric.MIXED
    gate_mixed_weight: float = 0.5
    evolve_skill: bool = True
    evolve_memory: bool = True
    preferences: str = ""
    block_cap: int = 8000
    """The largest size of the managed block, in characters."""
    memory_rules: int = 0
    """The most rules in the managed block of a memory file; 0 leaves every rule in the document it was proposed for."""
    k: int = threshold(ALPHA)
    """The score from which a rule is shown as promising."""
    scope: str = "invoked"
    answered_by: tuple[str, str] = ("", "")
    """The names of the backends of target and optimizer."""

    @property
    def kinds(self) -> tuple[DocumentKind, ...]:
        """The kinds of documents that evolve, in order."""
        wanted = {DocumentKind.SKILL: self.evolve_skill, DocumentKind.MEMORY: self.evolve_memory}
        return tuple(kind for kind, evolves in wanted.items() if evolves)

    @property
    def memory_bounds(self) -> MemoryBounds:
        """The size limits of our block in a memory file; the limit is 0 rules when memory does not evolve."""
        return MemoryBounds(rules=self.memory_rules if self.evolve_memory else 0, chars=self.block_cap)


class NightPlan(Struct, frozen=True, kw_only=True):
    """Everything decided before a night begins; two nights with equal fingerprints are the same work."""

    project: str
    """The absolute path of the project folder that the night belongs to."""
    baseline: Candidate
    roles: tuple[BackendHealth, ...]
    """Backend and model of each role."""
    sources: tuple[str, ...] = ()
    window: Window = Window()
    mining: MiningPlan = MiningPlan()
    split: SplitPlan = SplitPlan()
    step: ConsolidatePlan = ConsolidatePlan()
    asked: int = 0
    """The required score as the settings give it; equal to ``step.k``, which earlier versions could raise."""
    manner: Manner = Manner()
    caps: Caps = Caps()
    rejected: tuple[AppliedEdit, ...] = ()
    pending: tuple[PendingEdit, ...] = ()
    closed: tuple[ClosedEdit, ...] = ()
    accepted: tuple[AppliedEdit, ...] = ()
    """Edits that earlier nights accepted and the user has not adopted yet."""
    restage: bool = False
    """Whether the proposal of ``accepted`` no longer fits the live files."""
    again: bool = False
    """Whether agent or replay mode differ from the last night's, so that all tasks count as fresh."""
    account: Account = Account()
    adopted: Adopted | None = None
    """The adopted change that waits for its sealed test."""
    audit: NoiseReport = NoiseReport()
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """The reasons why documents are left out of the night, with a remedy for each."""
    landings: tuple[Landing, ...] = ()
    """The documents of other agents that also receive the proven rules."""
    untried: str = ""
    """The same as ``Landing.untried`` for the night's documents; "" when the agent that reads them is the target."""

    @property
    def kinds(self) -> tuple[DocumentKind, ...]:
        """The kinds of documents that evolve tonight: those named by the settings and not left out."""
        return tuple(kind for kind in self.step.kinds if self.baseline[kind] is not None)

    def require_documents(self) -> None:
        """Raise ``Refused`` when every document that should evolve is left out: no call could change anything."""
        if self.left_out and self.step.kinds and not self.kinds:
            raise Refused(f"no file is left that a night could improve: {'; '.join(self.left_out)}")

    def recall_tasks(self, past: Past) -> Past:
        """Return how tasks were used so far; after a change of agent or replay mode all of them are fresh."""
        return replace(past, fresh=past.fresh | frozenset(past.as_val)) if self.again else past

    @property
    def retriable(self) -> tuple[PendingEdit, ...]:
        """The undecided edits that may be tried tonight: those of documents that evolve."""
        return tuple(edit for edit in self.pending if edit.kind in self.kinds)

    @property
    def on_hold(self) -> tuple[PendingEdit, ...]:
        """The undecided edits that wait, with their tallies, until their document evolves again."""
        return tuple(edit for edit in self.pending if edit.kind not in self.kinds)

    @property
    def fingerprint(self) -> str:
        """Digest of everything that a resumed night must share with its first sitting.

        It leaves out what may change in between: the caps, the date, and what the night itself changes, such as the
        score required of the next edit. A field that a new version adds to a plan is dropped here while it has its
        default; otherwise a night that an older version began could not be resumed.
        """
        same = replace(
            self,
            caps=Caps(),
            notes=(),
            rejected=(),
            pending=(),
            closed=(),
            account=Account(),
            adopted=None,
            audit=NoiseReport(),
            baseline=Candidate(documents=()),
            window=replace(self.window, since=""),
            step=replace(self.step, k=self.asked),
        )
        content = msgspec.to_builtins(same)
        del content["left_out"], content["accepted"], content["restage"], content["again"]
        del content["landings"], content["untried"], content["step"]["memory_rules"]
        del content["account"]["at_most"]
        if not self.mining.rules_only:
            del content["mining"]["rules_only"]
        return sha256(msgspec.json.encode(content) + self.baseline.digest.encode())[:32]

    def blank_report(self) -> NightReport:
        """Return the report of a night that has not begun."""
        return NightReport(
            night="",
            project=self.project,
            seed=self.split.seed,
            why="the night is running; if no process is, it was killed, and `run` resumes it",
            gate_mode=self.step.gate_mode,
            gate_metric=self.step.gate_metric,
            backends=self.roles,
            caps=self.caps,
            pending=tuple(map(PendingReport.of, self.pending)),
            account=self.account,
            audit=self.audit,
            notes=self.notes,
        )


class Connection(Protocol):
    """The connection of a night to target and optimizer, ready for calls."""

    @property
    def models(self) -> Models:
        """The models with their judges and worker threads."""

    def probe(self) -> tuple[BackendHealth, ...]:
        """Check every backend without a model call. Raises nothing."""

    def close(self) -> None:
        """End running calls and remove what they left. A second call has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """The external services of a night, each behind its protocol."""

    sources: Sequence[Source]
    inbox: Inbox
    archive: Archive
    rejected: RejectedEdits
    trials: Trials
    staging: Staging
    journal: Journal
    connect: Callable[[Ledger, Harvested], Connection]
    read: ReadFiles
    place: Callable[[str, str], Place]
    """A function that returns, for folder and remote, the ``Place`` of a session: in this night's project or not."""
    keep_steps: Callable[[], object] = lambda: None
    """A function that reads and stores the agent's steps in the sessions where the user stepped in."""
    proofs: ProofStore
    load_steps: Callable[[str, str], Conversation | None] = lambda _source, _path: None
    """A function that returns the agent's steps in a session, redacted, for the session's source and path."""
    moment_tokens: int = MAX_TOKENS
    """The most tokens of the session before a moment that a replay of the moment may contain."""
    commit_of: Callable[[TaskRecord], str] = lambda task: task.commit


class Recollected(Struct, frozen=True, kw_only=True):
    """What earlier nights left to this night, as it was when the night first began."""

    rejected: tuple[AppliedEdit, ...] = ()
    """Rejected edits, which analysts may be shown."""
    pending: tuple[PendingEdit, ...] = ()
    """Undecided edits with their tallies."""
    on_hold: tuple[PendingEdit, ...] = ()
    """Undecided edits of documents that do not evolve."""
    k: int = 0
    """The score at which a rule is promising; 0 means the plan's score."""
    accepted: tuple[AppliedEdit, ...] = ()
    """Accepted edits that wait for adoption."""
    restage: bool = False

    def add_to(self, report: NightReport) -> NightReport:
        """Return the night's report with a note on rules that wait because their document does not evolve."""
        counts = Counter(edit.kind for edit in self.on_hold)
        notes = (
            f"{'1 undecided rule' if count == 1 else f'{count} undecided rules'} of the {kind}"
            f" {'waits' if count == 1 else 'wait'}: that document does not evolve tonight (evolve_{kind} is false, or"
            " it is left out)"
            for kind, count in counts.items()
        )
        return replace(report, notes=(*report.notes, *notes))

    def apply_to(self, plan: NightPlan) -> NightPlan:
        """Return the plan with the score that this night began with."""
        return replace(plan, step=replace(plan.step, k=self.k or plan.step.k))


def recollect(plan: NightPlan, tasks: Sequence[TaskRecord]) -> Recollected:
    """Load what earlier nights left undecided or rejected; ``tasks`` are those of the archive and of tonight.

    A resumed night reads this from its journal, so that its tallies start where they first started and paid replies
    count once. An undecided edit gets the present group names of the tasks it was written from, because these groups
    may have gained near-duplicates that would otherwise be used to try it.
    """
    return Recollected(
        rejected=plan.rejected,
        pending=tuple(edit.among(tasks) for edit in plan.retriable),
        on_hold=plan.on_hold,
        k=plan.step.k,
        accepted=plan.accepted,
        restage=plan.restage,
    )
