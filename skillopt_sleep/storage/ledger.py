"""Replies already paid for, and every attempt made for them; nothing here is ever updated or deleted by a night.

The folder of a training run: its files, its ledger, and what of it is finished already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from skillopt_sleep.errors import DiskError, NightRunning
from skillopt_sleep.model.call import Attempt, PhaseTally, Prompt, Reply, Role, Spend
from skillopt_sleep.model.rollout import Assignment, Trajectory
from skillopt_sleep.storage.database import Database, decode_json
from skillopt_sleep.storage.files import make_folders, write_atomic


class NightLedger:
    """The ledger of one night (``ports.Ledger``). ``sitting`` counts the times the night was given a new allowance."""

    def __init__(self, database: Database, *, night: str, sitting: int) -> None:
        self._database = database
        self._night = night
        self._sitting = sitting
        self._reused: Counter[str] = Counter()

    def find(self, role: Role, prompt: Prompt, model: str) -> Reply | None:
        """The committed reply to this prompt and sample, if there is one."""
        rows = self._database.rows(
            "SELECT reply FROM replies WHERE night = ? AND role = ? AND digest = ? AND model = ? AND sample = ?",
            (self._night, role, prompt.digest, model, prompt.sample),
        )
        kind = Trajectory if isinstance(prompt, Assignment) else Reply
        return decode_json(rows[0]["reply"], kind) if rows else None

    def reuse(self, phase: str) -> None:
        """Count, for this process, a reply that cost nothing."""
        self._reused[phase] += 1

    def commit(self, role: Role, prompt: Prompt, model: str, reply: Reply, attempt: Attempt) -> None:
        """Keep a reply and account of its attempt in one transaction."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?)",
                (self._night, role, prompt.digest, model, prompt.sample, msgspec.json.encode(reply)),
            )
            self.record(attempt)

    def record(self, attempt: Attempt) -> None:
        """Keep account of one attempt."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    self._night,
                    self._sitting,
                    attempt.phase,
                    attempt.role,
                    attempt.error,
                    attempt.number,
                    attempt.usage.input_tokens,
                    attempt.usage.output_tokens,
                    attempt.cost_usd,
                    attempt.seconds,
                ),
            )

    def spent(self, *, whole_night: bool = False) -> Spend:
        """What this sitting, or the whole night, has spent so far; ``seconds`` is left to the clock of the process."""
        row = self._database.rows(
            "SELECT COUNT(*) AS calls, TOTAL(input_tokens + output_tokens) AS tokens, TOTAL(cost_usd) AS usd,"
            " COUNT(*) FILTER (WHERE error = '' AND cost_usd IS NULL) AS unpriced"
            " FROM calls WHERE night = ? AND sitting >= ?",
            (self._night, 0 if whole_night else self._sitting),
        )[0]
        return Spend(calls=row["calls"], tokens=int(row["tokens"]), usd=row["usd"], unpriced=row["unpriced"])

    def spent_on(self, day: str) -> Spend:
        """What the nights that asked so have spent on a day, each since it first asked."""
        before = self.spent(whole_night=True)
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO days VALUES (?, ?, ?, ?, ?, ?)",
                (day, self._night, before.calls, before.tokens, before.usd, before.unpriced),
            )
        row = self._database.rows(
            "SELECT COUNT(*) AS calls, TOTAL(input_tokens + output_tokens) AS tokens, TOTAL(cost_usd) AS usd,"
            " COUNT(*) FILTER (WHERE error = '' AND cost_usd IS NULL) AS unpriced"
            " FROM calls WHERE night IN (SELECT night FROM days WHERE day = ?)",
            (day,),
        )[0]
        earlier = self._database.rows(
            "SELECT SUM(calls) AS calls, SUM(tokens) AS tokens, TOTAL(usd) AS usd, SUM(unpriced) AS unpriced"
            " FROM days WHERE day = ?",
            (day,),
        )[0]
        return Spend(
            calls=row["calls"] - earlier["calls"],
            tokens=int(row["tokens"]) - earlier["tokens"],
            usd=max(0.0, row["usd"] - earlier["usd"]),
            unpriced=row["unpriced"] - earlier["unpriced"],
        )

    def tallies(self) -> tuple[PhaseTally, ...]:
        """What each phase of the whole night cost, in the order the phases began."""
        errors: dict[str, dict[str, int]] = {}
        for row in self._database.rows(
            "SELECT phase, error, COUNT(*) AS count FROM calls WHERE night = ? AND error != '' GROUP BY phase, error",
            (self._night,),
        ):
            errors.setdefault(row["phase"], {})[row["error"]] = row["count"]
        return tuple(
            PhaseTally(
                phase=row["phase"],
                calls=row["calls"],
                reused=self._reused[row["phase"]],
                retries=row["retries"],
                input_tokens=row["input_tokens"],
                output_tokens=row["output_tokens"],
                cost_usd=row["cost_usd"],
                seconds=round(row["seconds"], 3),
                errors=errors.get(row["phase"], {}),
            )
            for row in self._database.rows(
                "SELECT phase, COUNT(*) AS calls, COUNT(*) FILTER (WHERE attempt > 1) AS retries,"
                " SUM(input_tokens) AS input_tokens, SUM(output_tokens) AS output_tokens, SUM(cost_usd) AS cost_usd,"
                " TOTAL(seconds) AS seconds FROM calls WHERE night = ? GROUP BY phase ORDER BY MIN(rowid)",
                (self._night,),
            )
        )


RUN = "train"
"""The name of the one run that a folder's ledger knows."""
SITTING = "sitting"
PAGES = 20_000
"""Pages of the log, of 4 KB, before SQLite tidies it up: every worker waits while it does, and closing does it too."""


class TrainingFolder:
    """The folder of one training run, with its database; only one process at a time writes to it."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        self._database = database
        self.ledger = NightLedger(database, night=RUN, sitting=int(self.kept(SITTING) or 1))

    def tallies(self) -> tuple[PhaseTally, ...]:
        """What each stage of the whole run cost."""
        return self.ledger.tallies()

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Put a file in place whole, for its user alone: prompts and answers may hold what is nobody else's."""
        path = self.folder / name
        if not path.parent.is_dir():
            make_folders(path.parent, within=self.folder, mode=0o700)
        write_atomic(path, data, durable=durable)

    def kept(self, name: str) -> bytes | None:
        """The outcome of a piece of work that was finished before."""
        rows = self._database.rows("SELECT outcome FROM stages WHERE night = ? AND name = ?", (RUN, name))
        return bytes(rows[0]["outcome"]) if rows else None

    def keep(self, name: str, outcome: bytes) -> None:
        """Keep the outcome of a piece of work."""
        with self._database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO stages VALUES (?, ?, ?)", (RUN, name, outcome))

    def new_allowance(self) -> None:
        """The next process may spend up to the caps again."""
        self.keep(SITTING, str(int(self.kept(SITTING) or 1) + 1).encode())


@contextmanager
def training_folder(folder: Path) -> Iterator[TrainingFolder]:
    """Open a folder for one run, made if need be, held by this process alone.

    Raises ``NightRunning`` when another process trains into it, ``Refused`` for a link, and ``DiskError``.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  only a run needs it

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = FileLock(folder / "run.lock", mode=0o600).acquire(timeout=0)
    except Timeout:
        raise NightRunning(
            f"another process trains into {folder}; wait for it, or name another folder as out_root"
        ) from None
    except OSError as error:
        raise DiskError(f"cannot write to {folder}: {error.strerror}; name another folder as out_root") from error
    with held:
        database = _opened(folder)
        database.rows(f"PRAGMA wal_autocheckpoint = {PAGES}")
        try:
            yield TrainingFolder(folder, database)
        finally:
            database.close()


def _opened(folder: Path) -> Database:
    """The database of a run. Raises ``DiskError`` that says what helps here: the repair is for the user's own."""
    path = folder / "ledger.db"
    try:
        return Database(path)
    except DiskError as error:
        if "is damaged" not in str(error):
            raise
        raise DiskError(
            f"{path} is damaged, so this run cannot be gone on with; remove {folder} to begin anew"
        ) from error
