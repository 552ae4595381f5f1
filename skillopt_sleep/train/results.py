"""What training passes around in public: edits, patches, rollouts, gate results, as users of the reference know them.

These are mutable dataclasses with the published field names and dict forms, because environments written for the
reference build, read and change them. Inside, training works on the frozen values of ``domain``. What they are given
may come straight from a model, so texts and counts are read as such whatever they are; what is no edit stays in its
patch as it is, for ``editing.patch_of`` to name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from skillopt_sleep.model.text import did_you_mean

EditOp: TypeAlias = Literal["append", "insert_after", "replace", "delete"]
SourceType: TypeAlias = Literal["failure", "success"]
GateAction: TypeAlias = Literal["accept_new_best", "accept", "reject", "undecided", "unmeasured", "greedy_applied"]
"""What the gate did with a candidate; ``greedy_applied`` with the gate off, the others that let nothing pass."""

TEXTS = (
    "fail_reason",
    "task_type",
    "task_description",
    "predicted_answer",
    "question",
    "reference_text",
    "target_system_prompt",
    "target_user_prompt",
    "spreadsheet_preview",
    "call_error",
)
"""The fields of a rollout that are texts."""


@dataclass
class Edit:
    """One change of a skill document. ``target`` names what stands there already; ``append`` has none.

    ``support_count``: how many equal proposals it stands for. ``source_type``: what it was learnt from.
    ``merge_level``: after how many rounds of merging. ``update_origin`` and ``update_target`` say which part of
    training wrote it, and which part of the document it is for, where that is not the step itself.
    """

    op: str
    content: str = ""
    target: str = ""
    support_count: int | None = None
    source_type: SourceType | None = None
    merge_level: int | None = None
    update_origin: str = ""
    update_target: str = ""

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Edit:
        """Read the dict form; unknown keys are left out, ``op`` is ``append`` where none is given."""
        known = {each.name: d[each.name] for each in fields(cls) if d.get(each.name) is not None}
        counts = ("support_count", "merge_level")
        read: dict[str, Any] = {name: _count(value) if name in counts else value for name, value in known.items()}
        read |= {name: str(value) for name, value in known.items() if name not in {*counts, "source_type"}}
        return cls(**({"op": "append"} | read))

    def to_dict(self) -> dict[str, Any]:
        """The dict form: ``op`` and ``content`` always, the others where they say something."""
        rest = {name: value for name, value in vars(self).items() if value not in ("", None)}
        return {"op": self.op, "content": self.content} | rest


@dataclass
class Patch:
    """Edits that belong together, with the reasons for them, and how they were ranked."""

    edits: list[Edit] = field(default_factory=list)
    reasoning: str = ""
    ranking_details: dict[str, Any] | None = None

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Patch:
        """Read the dict form; what is no edit is left in its place."""
        edits = [Edit.from_dict(each) if isinstance(each, Mapping) else each for each in _listed(d.get("edits"))]
        return cls(edits=edits, reasoning=str(d.get("reasoning") or ""), ranking_details=d.get("ranking_details"))

    def to_dict(self) -> dict[str, Any]:
        """The dict form."""
        edits = [edit.to_dict() if isinstance(edit, Edit) else edit for edit in self.edits]
        form: dict[str, Any] = {"reasoning": self.reasoning, "edits": edits}
        return form if self.ranking_details is None else form | {"ranking_details": self.ranking_details}


@dataclass
class FailureSummaryEntry:
    """One kind of failure that an analyst saw, and how often."""

    failure_type: str
    count: int = 0
    description: str = ""

    @classmethod
    def from_dict(cls, d: object) -> FailureSummaryEntry:
        """Read the dict form, or a bare name."""
        if not isinstance(d, Mapping):
            return cls(str(d))
        return cls(str(d.get("failure_type") or ""), _count(d.get("count")) or 0, str(d.get("description") or ""))

    def to_dict(self) -> dict[str, Any]:
        """The dict form."""
        return dict(vars(self))


@dataclass
class RawPatch:
    """What one analyst proposed, from ``batch_size`` trajectories that all failed, or all succeeded."""

    patch: Patch
    source_type: SourceType = "failure"
    batch_size: int = 0
    failure_summary: list[FailureSummaryEntry] = field(default_factory=list)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any] | None) -> RawPatch | None:
        """Read the dict form: ``{"patch": {"edits": […]}, "source_type": …}``, or a bare patch; None stays None."""
        if d is None:
            return None
        inner = d.get("patch", d)
        if isinstance(inner, Patch):
            patch = inner
        elif isinstance(inner, Mapping):
            patch = Patch.from_dict(inner)
        else:
            return None
        return cls(
            patch=patch,
            source_type="success" if d.get("source_type") == "success" else "failure",
            batch_size=_count(d.get("batch_size")) or 0,
            failure_summary=[FailureSummaryEntry.from_dict(each) for each in _listed(d.get("failure_summary"))],
        )

    def to_dict(self) -> dict[str, Any]:
        """The dict form."""
        form: dict[str, Any] = {
            "patch": self.patch.to_dict(),
            "source_type": self.source_type,
            "batch_size": self.batch_size,
        }
        seen = [each.to_dict() for each in self.failure_summary]
        return form | {"failure_summary": seen} if seen else form


@dataclass
class SlowUpdateResult:
    """What the end of an epoch came to: the guidance that was written, and what became of it."""

    reasoning: str = ""
    slow_update_content: str = ""
    action: str = ""
    time_s: float | None = None
    prev_hard: float | None = None
    curr_hard: float | None = None
    selection_hard: float | None = None
    selection_soft: float | None = None
    candidate_hash: str = ""
    update_origin: str = ""
    update_target: str = ""

    @classmethod
    def from_dict(cls, d: Mapping[str, Any] | None) -> SlowUpdateResult | None:
        """Read the dict form; None stays None."""
        known = {each.name for each in fields(cls)}
        return None if d is None else cls(**{key: d[key] for key in d if key in known and d[key] is not None})

    def to_dict(self) -> dict[str, Any]:
        """The dict form: the reasoning and the guidance always, the others where they say something."""
        rest = {name: value for name, value in vars(self).items() if value not in ("", None)}
        return {"reasoning": self.reasoning, "slow_update_content": self.slow_update_content} | rest


AS_HARD = float("-1")
"""This very object in place of a soft score: it is the hard one."""


@dataclass
class RolloutResult:
    """One attempt at one item. ``hard`` is 0 or 1, ``soft`` lies in [0, 1] and is ``hard`` where it is not given.

    ``call_error`` says how transport lost the attempt: such a result is *unmeasured*, and no score of 0.
    ``conversation`` is what was said, as ``{"role": …, "content": …}``; ``extras`` what only the environment knows;
    ``given`` is the row of an adapter as its own reflection is to see it, and no part of the dict form.
    """

    id: str
    hard: float
    soft: float = AS_HARD
    n_turns: int = 0
    fail_reason: str = ""
    task_type: str = ""
    task_description: str = ""
    predicted_answer: str = ""
    question: str = ""
    reference_text: str = ""
    target_system_prompt: str = ""
    target_user_prompt: str = ""
    spreadsheet_preview: str = ""
    conversation: list[dict[str, Any]] = field(default_factory=list)
    call_error: str = ""
    extras: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read texts and counts as such, whatever an environment put there."""
        if self.soft is AS_HARD:
            self.soft = self.hard
        for name in TEXTS:
            value = getattr(self, name)
            if not isinstance(value, str):
                setattr(self, name, "" if value is None else str(value))
        self.n_turns = _count(self.n_turns) or 0
        self.conversation = [
            dict(turn) if isinstance(turn, Mapping) else {"role": "assistant", "content": str(turn)}
            for turn in _listed(self.conversation)
        ]
        extras: object = self.extras
        if not isinstance(extras, Mapping):
            self.extras = {} if extras is None else {"extras": extras}

    @property
    def response(self) -> str:
        """What the agent answered in the end."""
        if self.predicted_answer:
            return self.predicted_answer
        said = [str(turn.get("content") or "") for turn in self.conversation if turn.get("role") == "assistant"]
        return said[-1] if said else ""

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> RolloutResult:
        """Read the dict form; keys that no result has are kept in ``extras``.

        Raises ``ValueError`` for a dict without ``id`` or ``hard``, or with what ``soft`` seems to be meant by.
        """
        for needed in ("id", "hard"):
            if d.get(needed) is None:
                what = f"the {needed} None" if needed in d else f"no {needed!r}, only {sorted(map(str, d))}"
                near = "" if needed in d else did_you_mean(needed, map(str, d))
                raise ValueError(f"a rollout result has {what}{near}")
        if d.get("soft") is None and (near := did_you_mean("soft", (str(key) for key in d if key != "soft"))):
            raise ValueError(f"a rollout result has no 'soft', only {sorted(map(str, d))}{near}")
        known = {each.name for each in fields(cls)} - {"extras", "given"}
        own = {key: value for key, value in d.items() if key in known and value is not None}
        extras = d.get("extras") or {}
        extras = dict(extras) if isinstance(extras, Mapping) else {"extras": extras}
        extras |= {str(key): d[key] for key in d if key not in known and key != "extras"}
        return cls(**(own | {"id": str(d["id"]), "extras": extras}))

    def to_dict(self) -> dict[str, Any]:
        """The dict form: ``id``, ``hard`` and ``soft`` always, the others where they say something."""
        own = {name: value for name, value in vars(self).items() if name not in {"extras", "given"}}
        rest = {name: value for name, value in own.items() if value not in ("", 0, [])}
        return {"id": self.id, "hard": self.hard, "soft": self.soft} | rest | self.extras


@dataclass
class GateResult:
    """What stands after the gate: the skill that training goes on with, and the best one so far."""

    action: GateAction
    current_skill: str
    current_score: float
    best_skill: str
    best_score: float
    best_step: int


def _listed(value: object) -> list[Any]:
    """A list as it is; what is none stands in one alone, and nothing in an empty one."""
    if isinstance(value, list | tuple):
        return list(value)
    return [] if value is None or value == "" else [value]


def _count(value: object) -> int | None:
    """A whole number, however it is written; None for what is none."""
    try:
        return int(float(value))  # type: ignore[arg-type]  # numbers of other libraries are numbers too
    except (TypeError, ValueError, OverflowError):
        return None
