"""Where a run stands: one value, written whole after every step and epoch, from which it goes on after any end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from skillopt_sleep.domain import Json
from skillopt_sleep.domain.digest import sha256
from skillopt_sleep.domain.edit import AppliedEdit
from skillopt_sleep.domain.skill_text import skill_hash
from skillopt_sleep.errors import DiskError, Refused
from skillopt_sleep.optimize.memory import StepNote
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.ports import Item

__all__ = ["RunState", "Scored", "check_same_run", "decode_state", "encode_state", "identity"]

SCHEMA_VERSION = 1
FREE = frozenset(
    {
        "workers",
        "out_root",
        "save_every_step",
        "verbose",
        "eval_test",
        "eval_current_on_test",
        "test_split",
        "max_calls",
        "max_tokens",
        "max_usd",
        "max_minutes",
    }
)
"""Fields that may differ when a run is gone on with: they change what it costs or reports, not where it leads."""


class Scored(Struct, frozen=True, kw_only=True):
    """Mean scores of a skill on the selection split; ``measured`` of ``items`` attempts came back.

    ``lost`` says how transport lost the first of the others.
    """

    hard: float
    soft: float
    measured: int
    items: int
    lost: str = ""


class RunState(Struct, frozen=True, kw_only=True):
    """A run between two pieces of its work.

    ``last_completed_step`` counts steps, ``epochs_ended`` the epochs whose end is worked off. ``current_score`` and
    ``best_score`` are selection scores under the gate metric. ``scored`` has every skill that the selection split was
    rolled out under, by ``skill_hash``. ``refuted`` are rules that were rejected alone. ``notes`` are the optimizer's
    own; ``tried`` are the steps of the epoch under way.
    """

    identity: dict[str, Any]
    initial_skill: str
    current_skill: str
    best_skill: str
    epoch_skill: str
    schema_version: int = SCHEMA_VERSION
    last_completed_step: int = 0
    epochs_ended: int = 0
    current_score: float | None = None
    best_score: float | None = None
    best_step: int = 0
    scheduler_state: dict[str, Any] = {}
    scored: dict[str, Scored] = {}
    rejected: tuple[AppliedEdit, ...] = ()
    refuted: tuple[str, ...] = ()
    notes: str = ""
    tried: tuple[StepNote, ...] = ()
    boundaries: tuple[dict[str, Any], ...] = ()


def identity(
    config: SkillOptConfig,
    *,
    env: str,
    traits: Mapping[str, Json],
    items: Mapping[str, Sequence[Item]],
    initial_skill: str,
    clients: Mapping[str, tuple[str, Mapping[str, Json]]],
    wording: Mapping[str, str],
) -> dict[str, Any]:
    """What makes a run this run: whatever of it changes where it leads, by name.

    ``traits`` are the environment's, ``clients`` the name of each role's client and its own traits.
    """
    own = {name: value for name, value in config.to_dict().items() if name not in FREE}
    digests = {f"the digest of the items of {split}": _digest(rows) for split, rows in items.items()}
    return (
        own
        | {"the environment": env}
        | {f"the environment's {name}": value for name, value in traits.items()}
        | digests
        | {"the digest of the initial skill": skill_hash(initial_skill)}
        | {f"the {role} client": name for role, (name, _) in clients.items()}
        | {f"the {role} client's {name}": each for role, (_, own) in clients.items() for name, each in own.items()}
        | {f"the digest of the prompt {name}": _digest(text) for name, text in wording.items()}
    )


def check_same_run(kept: Mapping[str, Any], wanted: Mapping[str, Any], folder: str) -> None:
    """Raise ``Refused`` naming what differs, when a folder holds another run than the one asked for."""
    wanted = msgspec.json.decode(msgspec.json.encode(wanted, enc_hook=str))
    for name in dict.fromkeys([*kept, *wanted]):
        if kept.get(name) != wanted.get(name):
            values = f"is {kept.get(name)!r:.60} there, {wanted.get(name)!r:.60} now"
            if name.startswith("the digest of "):
                name, values = name.removeprefix("the digest of "), "not the same"  # noqa: PLW2901  as it is told
            raise Refused(
                f"{folder} holds another run: {name} {values}; name another out_root, or remove that folder to begin"
                " anew"
            )


def encode_state(state: RunState) -> bytes:
    """The state as JSON."""
    return msgspec.json.encode(state, enc_hook=str)


def decode_state(data: bytes, path: str) -> RunState:
    """Read a state. Raises ``DiskError`` naming the run's folder for one that is none, or of another version."""
    try:
        found = msgspec.json.decode(data)
        version = found.get("schema_version") if isinstance(found, dict) else None
        if version != SCHEMA_VERSION:
            raise DiskError(f"{path}: the run has schema version {version}, this program knows {SCHEMA_VERSION}")
        return msgspec.convert(found, RunState)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DiskError(f"{path}: the run cannot be read ({error}); remove the folder to begin anew") from error


def _digest(value: object) -> str:
    return sha256(msgspec.json.encode(value, enc_hook=str))[:16]
