"""What a run leaves in its folder, under the names that users of the reference know.

The files are for people. Where the run stands, it knows from its database, which no sudden end can leave half written;
there a piece of work counts as done last of all, when its files are in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from skillopt_sleep.domain import Json
from skillopt_sleep.optimize.step import StepProposal
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.editing import report_of, to_patch
from skillopt_sleep.train.ports import RunStore
from skillopt_sleep.train.results import Patch, RawPatch, RolloutResult
from skillopt_sleep.train.state import RunState, decode_state, encode_state

__all__ = ["Artefacts", "step_folder"]


def step_folder(step: int) -> str:
    """The folder of a step, counted from 1."""
    return f"steps/step_{step:04d}"


class Artefacts:
    """The files of one run."""

    def __init__(self, store: RunStore, config: SkillOptConfig) -> None:
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

    def proposal(self, step: int, made: StepProposal) -> None:
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
        self.text(f"{folder}/candidate_skill.md", made.skill)

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
