"""Asks a model whether an answer does what a rubric demands.

The answer was written by another model, perhaps out of hostile text, so it is quoted as data: inside a tag that ends
in a digest of what it encloses, which the enclosed text cannot name beforehand, and with nothing in it that looks like
such a tag. What the answer says about its own score is then words of the answer like any others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeVar

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from skillopt_sleep.errors import BadReply
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Prompt
from skillopt_sleep.model.ports import Ask
from skillopt_sleep.model.replies import escape_tags, extract_json, make_tag_suffix
from skillopt_sleep.model.rollout import ReplayResult, Score
from skillopt_sleep.model.task import RubricReference, TaskRecord, require_reference
from skillopt_sleep.prompts import render

V = TypeVar("V")

LONGEST = 24_000
"""Characters of an answer that are judged; of a longer one the middle is left out, and the judge is told so."""

SCHEMA: dict[str, Json] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["reason", "score", "pass"],
    "properties": {
        "reason": {"type": "string"},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "pass": {"type": "boolean"},
    },
}

PAIR_SCHEMA: dict[str, Json] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["first", "second"],
    "properties": {"first": SCHEMA, "second": SCHEMA},
}

TAGS = ("request", "rubric", "answer", "first", "second")


class _Verdict(Struct, frozen=True, kw_only=True):
    reason: str = ""
    score: Annotated[float, Meta(ge=0, le=1)]
    passed: bool = field(name="pass")


class _PairVerdict(Struct, frozen=True, kw_only=True):
    first: _Verdict
    second: _Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricJudge:
    """Hard: the model's pass or fail. Soft: its graded score.

    An unreadable verdict is asked for ``tries`` times in all before it is a ``BadReply``.
    """

    name: ClassVar[str] = "rubric"
    reference: ClassVar[type[RubricReference]] = RubricReference

    tries: int = 2

    def score(self, task: TaskRecord, rollout: ReplayResult, ask: Ask) -> Score:
        """Score a response by ``RubricReference.rubric``, afresh for each sample of it.

        Equal answers of two samples are two calls: a verdict used twice would be one coin counted as two. Who is not
        going to count them gives both the same number.
        """
        return _score(self._asked(task, render_rubric_prompt(task, rollout.work), ask, _Verdict, rollout.sample))

    def score_pair(self, task: TaskRecord, first: ReplayResult, second: ReplayResult, ask: Ask) -> tuple[Score, Score]:
        """Score two responses in one call that does not say which is which, afresh for each sample of the pair.

        Equal answers get one score by one call, and so they tie whatever the judge says: that is exact, for a pair that
        ties takes no part in the score of an edit.
        """
        sample = min(first.sample, second.sample)
        if first.work == second.work:
            score = self.score(task, replace(first, sample=sample), ask)
            return score, score
        verdict = self._asked(task, render_pair_prompt(task, first.work, second.work), ask, _PairVerdict, sample)
        return _score(verdict.first), _score(verdict.second)

    def _asked(self, task: TaskRecord, prompt: Prompt, ask: Ask, wanted: type[V], sample: int) -> V:
        """The verdict on this sample; each try at it is a sample of its own, and no other's."""
        problem = ""
        for attempt in range(self.tries):
            reply = ask(replace(prompt, sample=sample * self.tries + attempt), phase="judge")
            try:
                return msgspec.convert(extract_json(reply.text), wanted)
            except ValueError as error:  # msgspec.ValidationError is one
                problem = str(error)
        raise BadReply(f"the judge's verdict on task {task.id} cannot be read: {problem}")


def _score(verdict: _Verdict) -> Score:
    return Score(hard=float(verdict.passed), soft=verdict.score, rationale=verdict.reason)


def render_rubric_prompt(task: TaskRecord, answer: str) -> Prompt:
    """What the judge is sent; the answer stands in it once, quoted."""
    request, rubric, quoted = _quoted(task, answer)
    system, user = render(
        "judge_rubric", seal=make_tag_suffix(request, rubric, quoted), request=request, rubric=rubric, answer=quoted
    )
    return Prompt(system=system, user=user, schema=SCHEMA)


def render_pair_prompt(task: TaskRecord, first: str, second: str) -> Prompt:
    """What the judge is sent of a pair: each answer once, quoted; swapped answers swap places and nothing else."""
    request, rubric, one, two = _quoted(task, first, second)
    system, user = render(
        "judge_pair",
        seal=make_tag_suffix(request, rubric, *sorted((one, two))),
        request=request,
        rubric=rubric,
        first=one,
        second=two,
    )
    return Prompt(system=system, user=user, schema=PAIR_SCHEMA)


def _quoted(task: TaskRecord, *answers: str) -> list[str]:
    """Request, rubric and answers, none of which can end its tag or begin another."""
    rubric = require_reference(task, RubricReference).rubric
    request = "\n\n".join(part for part in (task.system, task.context, task.intent) if part.strip())
    return [escape_tags(text, *TAGS) for text in (request, rubric, *map(_shortened, answers))]


def _shortened(answer: str) -> str:
    if len(answer) <= LONGEST:
        return answer
    half = LONGEST // 2
    return f"{answer[:half]}\n[{len(answer) - 2 * half} characters left out here]\n{answer[-half:]}"


PLUGIN = RubricJudge
