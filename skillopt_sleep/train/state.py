"""Where a run stands: one value, written whole after every step and epoch, from which it goes on after any end.

What a run leaves in its folder, under the names that users of the reference know.

The files are for people. Where the run stands, it knows from its database, which no sudden end can leave half written;
there a piece of work counts as done last of all, when its files are in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import DiskError, Refused
from skillopt_sleep.model import Json
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.model.text import sha256
from skillopt_sleep.optimizer.step import StepProposal
from skillopt_sleep.storage.ledger import TrainingFolder
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.editing import report_of, to_patch
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.results import Patch, RawPatch, RolloutResult
from skillopt_sleep.train.skill_text import skill_hash
from skillopt_sleep.train.slow_update import StepNote

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


def step_folder(step: int) -> str:
    """The folder of a step, counted from 1."""
    return f"steps/step_{step:04d}"


class Artefacts:
    """The files of one run."""

    def __init__(self, store: TrainingFolder, config: SkillOptConfig) -> None:
        self._store = store
        self._config = config

    def state(self) -> RunState | None:
        """Where the run of this folder stands; None when it holds none."""
        data = self._store.kept("state")
        return None if data is None else decode_state(data, str(self._store.folder))

    def history(self, steps: int) -> list[dict[str, Any]]:
        """The records of the first so many steps."""
        kept = [self._store.kept(_record(step)) for step in range(1, steps + 1)]
        return [msgspec.json.decode(record) for record in kept if record is not None]

    def begin(self) -> None:
        """Write the config."""
        self.json("config.json", self._config.to_dict())

    def json(self, name: str, value: object) -> None:
        """Write a value as JSON."""
        self._store.write(name, msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2) + b"\n")

    def text(self, name: str, text: str) -> None:
        """Write a text."""
        self._store.write(name, text.encode("utf-8", "surrogatepass"))

    def results(self, folder: str, results: Sequence[RolloutResult], scores: Mapping[str, Json]) -> None:
        """Write an evaluation: every result, and the means."""
        self.json(f"{folder}/results.json", [each.to_dict() for each in results])
        self.json(f"{folder}/summary.json", scores)

    def proposal(self, step: int, made: StepProposal[str]) -> None:
        """Write what a step came to, stage by stage."""
        folder = step_folder(step)
        raw = [
            RawPatch(
                patch=to_patch(each.patch),
                source_type="success" if each.patch.learnt == "success" else "failure",
                batch_size=each.patch.cases,
            ).to_dict()
            | {"replies": list(each.raw), "nothing": each.nothing}
            for each in made.analyses
        ]
        ranked = Patch(
            edits=to_patch(type(made.merged)(proposals=made.selected.chosen)).edits,
            reasoning=made.merged.reasoning,
            ranking_details={
                "how": made.selected.how,
                "asked": made.selected.asked,
                "left_out": [each.edit.text or each.edit.anchor for each in made.selected.left_out],
            },
        )
        self.json(f"{folder}/raw_patches.json", raw)
        self.json(f"{folder}/merged_patch.json", to_patch(made.merged).to_dict() | {"notes": list(made.notes)})
        self.json(f"{folder}/ranked_patch.json", ranked.to_dict())
        self.json(
            f"{folder}/edit_apply_report.json",
            {
                "edits": [report_of(each) for each in made.edits],
                "refused": [msgspec.to_builtins(each) for each in made.refused],
            },
        )
        self.text(f"{folder}/candidate_skill.md", made.document)

    def commit(self, state: RunState, history: Sequence[Mapping[str, Any]], *, snapshot: bool) -> None:
        """Put a piece of work behind the run. Until the state is kept, it counts as not done."""
        self.json("history.json", list(history))
        if snapshot and self._config.save_every_step:
            self.text(f"skills/skill_v{state.last_completed_step:04d}.md", state.current_skill)
        self.text("current_skill.md", state.current_skill)
        self.text("best_skill.md", state.best_skill)
        encoded = encode_state(state)
        self._store.write("runtime_state.json", msgspec.json.format(encoded, indent=2) + b"\n")
        if history:
            self._store.keep(_record(len(history)), msgspec.json.encode(history[-1], enc_hook=str))
        self._store.keep("state", encoded)


def _record(step: int) -> str:
    return f"record {step}"
