"""Proofs of references are kept for ever."""

from __future__ import annotations

from pathlib import Path

from skillopt_sleep.mining.references import JudgedPair, KeptProof
from skillopt_sleep.model.moment import Condition, Feature, MoveCheck, Order, Requirement
from skillopt_sleep.storage.database import Database
from skillopt_sleep.storage.trials import MomentProofs

COMMIT = Condition(feature=Feature.RUNS, pattern="git commit")
CHECK = MoveCheck(
    trigger=(COMMIT,),
    required=(Requirement(feature=Feature.RUNS, pattern="git switch", order=Order.BEFORE, mark=COMMIT),),
    forbidden=(Condition(feature=Feature.ADDS, pattern="x", path="*.go"),),
)


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    """In another process too: checks as they were, pairs by judge in their order; the first result stays."""
    path = tmp_path / "sleep.db"
    kept = KeptProof(moment="m1", digest="d1", check=CHECK)
    pairs = [
        JudgedPair(judge="j", moment=f"m{number}", digest=f"d{9 - number}", separates=bool(number % 2))
        for number in range(4)
    ]
    first = MomentProofs(Database(path))
    first.keep([kept, *pairs, JudgedPair(judge="other", moment="m1", digest="d1", separates=True)])
    first.keep(
        [
            KeptProof(moment="m1", digest="d1", why="another time"),
            JudgedPair(judge="j", moment="m0", digest="d9", separates=True),
        ]
    )
    again = MomentProofs(Database(path))
    assert again.checks() == {"d1": kept}
    assert again.judged("j") == tuple(pairs)
