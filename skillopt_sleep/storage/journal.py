"""The journal of a night: each stage's outcome is kept, so a night cut short anywhere goes on where it was."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from skillopt_sleep.errors import Awaiting, BackendError, BudgetSpent, Interrupted, SleepError
from skillopt_sleep.gate.account import EvidenceRow
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.call import Spend
from skillopt_sleep.model.ports import Clock, Ledger
from skillopt_sleep.night.ports import Outcome
from skillopt_sleep.night.report import GateAction, NightReport, NightState, StoppedBy
from skillopt_sleep.storage.database import Database, decode_json
from skillopt_sleep.storage.files import make_own_folder, write_atomic
from skillopt_sleep.storage.ledger import NightLedger

P = ParamSpec("P")
OutcomeT = TypeVar("OutcomeT", bound=Outcome)

TOO_LITTLE_MEASURED = 5
"""Exit code of a night that had tasks and could not measure enough of them."""


def night_folder(project: str, night: str) -> Path:
    """Where a night leaves what a person reads."""
    return Path(project) / ".skillopt-sleep" / "nights" / night


class JournalledNight:
    """``ports.OpenNight``: outcomes in the database, the report in the night's folder after every stage."""

    def __init__(self, journal: NightJournal, report: NightReport, *, sitting: int) -> None:
        self._journal = journal
        self._report = report
        self._ledger = NightLedger(journal.database, night=report.night, sitting=sitting)
        self._started = journal.clock.monotonic()

    @property
    def id(self) -> str:
        """The night's name."""
        return self._report.night

    @property
    def seed(self) -> int:
        """The night's own seed."""
        return self._report.seed

    @property
    def ledger(self) -> Ledger:
        """This night's replies."""
        return self._ledger

    def spent(self) -> Spend:
        """What this sitting of the night has spent."""
        return replace(self._ledger.spent(), seconds=self._journal.clock.monotonic() - self._started)

    def stage(self, name: str, work: Callable[P, OutcomeT], *args: P.args, **kwargs: P.kwargs) -> OutcomeT:
        """Return the kept outcome, or do the work and keep it."""
        kept = self._journal.kept(self.id, name)
        if kept is not None:
            try:
                outcome: OutcomeT = msgspec.json.decode(kept, type=typing.get_type_hints(work)["return"])
            except (msgspec.DecodeError, UnicodeDecodeError):  # damaged: its replies are kept, so it costs little
                self._journal.forget(self.id, from_stage=name)
            else:
                return self._reported(name, outcome)
        outcome = work(*args, **kwargs)
        self._journal.keep(self.id, name, msgspec.json.encode(outcome))
        return self._reported(name, outcome)

    def look(self, name: str, work: Callable[P, OutcomeT], *args: P.args, **kwargs: P.kwargs) -> OutcomeT:
        """Do the work and report it; keep nothing."""
        return self._reported(name, work(*args, **kwargs))

    def _reported(self, name: str, outcome: OutcomeT) -> OutcomeT:
        self._report = outcome.add_to(replace(self._report, stage=name))
        self.write()
        return outcome

    def evidence(self, rows: Sequence[EvidenceRow]) -> None:
        """Write ``evidence.jsonl``."""
        self._journal.write(self._report, {"evidence.jsonl": self._journal.renderers.evidence(rows)})

    def report(self) -> NightReport:
        """The report, with the account as of now, or as of its end."""
        if self._report.finished_at:
            return self._report
        return replace(
            self._report,
            phases=self._ledger.tallies(),
            spend=self.spent(),
            spend_night=self._ledger.spent(whole_night=True),
            updated_at=self._journal.clock.now().isoformat(timespec="seconds"),
        )

    def write(self) -> None:
        """Write ``diagnostics.json`` and ``report.md`` as things stand."""
        self._report = self.report()
        self._journal.save(self._report)

    def end(self, error: BaseException | None) -> None:
        """Conclude: every way a night can end gets its words, its state and its exit code."""
        report = self.report()
        if error is not None:
            report = _ended_by(report, error)
        else:
            unmeasured = report.verdict is Verdict.UNMEASURED
            if unmeasured:  # the calls that were lost are to be made again when the night goes on
                self._journal.forget(self.id, from_stage="consolidate")
            report = replace(
                report,
                state=NightState.STOPPED if unmeasured else NightState.FINISHED,
                exit_code=TOO_LITTLE_MEASURED if unmeasured else 0,
            )
        self._report = replace(report, finished_at=report.updated_at)
        self.write()


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderers:
    """How a report becomes files; handed in, because stores and reports do not know each other."""

    diagnostics: Callable[[NightReport], bytes]
    markdown: Callable[[NightReport], bytes]
    evidence: Callable[[Sequence[EvidenceRow]], bytes]


class NightJournal:
    """``ports.Journal`` over the database and the project's ``.skillopt-sleep`` folder."""

    def __init__(self, database: Database, clock: Clock, renderers: Renderers) -> None:
        self.database = database
        self.clock = clock
        self.renderers = renderers

    @contextmanager
    def open(self, report: NightReport, fingerprint: str) -> Iterator[JournalledNight]:
        """Begin or go on, and conclude."""
        night = self._resume(report, fingerprint) or self._begin(report, fingerprint)
        night.write()
        try:
            yield night
        except (BackendError, BudgetSpent, Interrupted, KeyboardInterrupt) as error:
            night.end(error)
        except BaseException as error:
            night.end(error)
            raise
        else:
            night.end(None)

    def _begin(self, report: NightReport, fingerprint: str) -> JournalledNight:
        import secrets  # noqa: PLC0415  it loads OpenSSL, and whoever only looks at nights draws no seed

        now = self.clock.now()
        seed = report.seed or secrets.randbelow(2**31 - 1) + 1
        night = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        started = now.isoformat(timespec="seconds")
        with self.database.transaction() as connection:
            connection.execute(
                "INSERT INTO nights VALUES (?, ?, ?, ?, ?, 1, ?, NULL)",
                (night, report.project, fingerprint, seed, NightState.RUNNING, started),
            )
        return JournalledNight(self, replace(report, night=night, seed=seed, started_at=started), sitting=1)

    def _resume(self, report: NightReport, fingerprint: str) -> JournalledNight | None:
        """Go on with the last night of this project, when it was cut short and nothing of its plan has changed."""
        rows = self.database.rows(
            "SELECT * FROM nights WHERE project = ? ORDER BY started_at DESC, rowid DESC LIMIT 1", (report.project,)
        )
        if not rows or rows[0]["plan"] != fingerprint or rows[0]["state"] == NightState.FINISHED:
            return None
        last = rows[0]
        before = decode_json(last["report"], NightReport) if last["report"] else None
        fresh_allowance = before is not None and before.stopped_by is StoppedBy.BUDGET
        sitting = last["sitting"] + fresh_allowance
        with self.database.transaction() as connection:
            connection.execute(
                "UPDATE nights SET state = ?, sitting = ? WHERE id = ?", (NightState.RUNNING, sitting, last["id"])
            )
            if last["state"] == NightState.STOPPED and not self._is_pinned(last["id"]):
                connection.execute("DELETE FROM stages WHERE night = ?", (last["id"],))  # sessions may have come since
        report = replace(
            report,
            night=last["id"],
            seed=last["seed"],
            started_at=last["started_at"],
            resumed=before.resumed + 1 if before else 1,
        )
        return JournalledNight(self, report, sitting=sitting)

    def _is_pinned(self, night: str) -> bool:
        """Whether anything of the night is paid for or mined, so that its sessions must stay those it has."""
        paid = self.database.rows("SELECT 1 FROM replies WHERE night = ? LIMIT 1", (night,))
        return bool(paid) or self.kept(night, "mine") is not None

    def kept(self, night: str, name: str) -> bytes | None:
        """The outcome of a finished stage."""
        rows = self.database.rows("SELECT outcome FROM stages WHERE night = ? AND name = ?", (night, name))
        return bytes(rows[0]["outcome"]) if rows else None

    def keep(self, night: str, name: str, outcome: bytes) -> None:
        """Keep the outcome of a stage."""
        with self.database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO stages VALUES (?, ?, ?)", (night, name, outcome))

    def forget(self, night: str, *, from_stage: str) -> None:
        """Drop the outcomes of a stage and of those kept after it."""
        with self.database.transaction() as connection:
            connection.execute(
                "DELETE FROM stages WHERE night = :night AND rowid >="
                " (SELECT rowid FROM stages WHERE night = :night AND name = :name)",
                {"night": night, "name": from_stage},
            )

    def save(self, report: NightReport) -> None:
        """Keep a report, as files and in the database.

        The database comes last: a night killed in between is one that goes on, and writes its files again.
        """
        diagnostics = self.renderers.diagnostics(report)
        self.write(report, {"diagnostics.json": diagnostics})
        if report.finished_at:
            self.write(report, {"report.md": self.renderers.markdown(report)})
        with self.database.transaction() as connection:
            connection.execute(
                "UPDATE nights SET state = ?, report = ? WHERE id = ?",
                (report.state, diagnostics, report.night),
            )

    def write(self, report: NightReport, files: Mapping[str, bytes]) -> None:
        """Write files into the night's folder, each atomically."""
        folder = make_own_folder(Path(report.project), "nights", report.night)
        for name, data in files.items():
            write_atomic(folder / name, data)

    def reports(self, project: str) -> tuple[NightReport, ...]:
        """Every night of a project, the latest first."""
        rows = self.database.rows(
            "SELECT report FROM nights WHERE project = ? AND report IS NOT NULL ORDER BY started_at DESC, rowid DESC",
            (project,),
        )
        return tuple(decode_json(row["report"], NightReport) for row in rows)


def _ended_by(report: NightReport, error: BaseException) -> NightReport:
    """Say what ended a night, in the words of the error."""
    said = str(error) or type(error).__name__
    stopped = {Awaiting: StoppedBy.HANDOFF, BackendError: StoppedBy.BACKEND, BudgetSpent: StoppedBy.BUDGET}
    by = next((by for kind, by in stopped.items() if isinstance(error, kind)), StoppedBy.CRASH)
    code = error.exit_code if isinstance(error, SleepError) else 1
    if isinstance(error, Interrupted | KeyboardInterrupt):
        by, code = StoppedBy.INTERRUPTED, getattr(error, "exit_code", 130)
        said = "interrupted; run again to go on with this night"
    return replace(
        report,
        state=NightState.STOPPED,
        verdict=Verdict.UNMEASURED,
        accepted=False,
        gate_action=GateAction.UNMEASURED,
        stopped_by=by,
        why=said,
        exit_code=code,
        call_error=f"{type(error).__name__}: {said}"
        if by in {StoppedBy.BACKEND, StoppedBy.CRASH}
        else report.call_error,
    )
