"""Keeps what was found out about references of moments for ever, so that no proof is paid for twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from skillopt_sleep.mining.references import JudgedPair, KeptProof
from skillopt_sleep.storage.database import Database, decode_json


class MomentProofs:
    """The proposed checks and the judged pairs of this user (``mining.references.ProofStore``)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def checks(self) -> Mapping[str, KeptProof]:
        """Return what became of every check that was asked for, by the digest of its moment."""
        rows = self._database.rows("SELECT data FROM moment_checks")
        kept = (decode_json(row["data"], KeptProof) for row in rows)
        return {proof.digest: proof for proof in kept}

    def judged(self, judge: str) -> tuple[JudgedPair, ...]:
        """Return the recorded pairs that a judge was asked about, in the order they were kept."""
        rows = self._database.rows(
            "SELECT judge, moment, digest, separates FROM judged_moments WHERE judge = ? ORDER BY rowid", (judge,)
        )
        return tuple(
            JudgedPair(judge=row["judge"], moment=row["moment"], digest=row["digest"], separates=bool(row["separates"]))
            for row in rows
        )

    def keep(self, found: Sequence[KeptProof | JudgedPair]) -> None:
        """Store each result once; the first one stays."""
        with self._database.transaction() as connection:
            for item in found:
                if isinstance(item, KeptProof):
                    connection.execute(
                        "INSERT OR IGNORE INTO moment_checks VALUES (?, ?)", (item.digest, msgspec.json.encode(item))
                    )
                else:
                    connection.execute(
                        "INSERT OR IGNORE INTO judged_moments VALUES (?, ?, ?, ?)",
                        (item.judge, item.digest, item.moment, item.separates),
                    )
