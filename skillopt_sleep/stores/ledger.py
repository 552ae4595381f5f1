"""Replies already paid for, and every attempt made for them; nothing here is ever updated or deleted by a night."""

from __future__ import annotations

from collections import Counter

import msgspec

from skillopt_sleep.domain.assignment import Assignment, Trajectory
from skillopt_sleep.domain.budget import Spend
from skillopt_sleep.domain.call import Attempt, Prompt, Reply, Role
from skillopt_sleep.domain.report import PhaseTally
from skillopt_sleep.stores.database import Database, decoded

__all__ = ["NightLedger"]


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
        return decoded(rows[0]["reply"], kind) if rows else None

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
