"""Asks a model which step a correction is about where rules could only guess; one call for each such moment.

The steps are shown with numbers, and only steps before the correction, so a reply can only name one of these. Anything
else it says is checked or ignored: a model's reply never makes a moment vote that a rule keeps from voting.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import TransientBackend
from skillopt_sleep.mining.actions import ActionKind
from skillopt_sleep.mining.digest import CutNotFound, find_cut
from skillopt_sleep.mining.doubts import CHANGED_MIND, NOT_KNOWABLE
from skillopt_sleep.mining.fault import WINDOW, walk_back
from skillopt_sleep.mining.model_miner import ask_readable
from skillopt_sleep.mining.rendering import cut_text, describe_step, fold_paste, render_behaviour, render_step
from skillopt_sleep.mining.talk import Place, read_talk
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Prompt
from skillopt_sleep.model.moment import Basis, Moment, MomentKind
from skillopt_sleep.model.ports import Ask, Parallel
from skillopt_sleep.model.replies import escape_tags, make_tag_suffix
from skillopt_sleep.model.session import Conversation, Session
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.prompts import render

MOST_STEPS = 150
"""Steps shown, the last ones before the correction."""

SHOWN_STEP, SHOWN_REQUEST, SHOWN_CORRECTION = 400, 1_000, 2_000
"""Characters shown of a step that says or changes something, of a request, and of the correction."""

SHOWN = 24_000
"""Characters of all steps together, about 6,000 tokens."""

_SCHEMA: dict[str, Json] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["step", "as_asked", "knowable"],
    "properties": {"step": {"type": "integer"}, "as_asked": {"type": "boolean"}, "knowable": {"type": "boolean"}},
}


class _Reply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    step: int
    as_asked: bool
    knowable: bool


class _Shown(Struct, frozen=True, kw_only=True):
    """A prompt with numbered steps, and the turn and the step that each number stands for, from 1."""

    prompt: Prompt
    steps: tuple[tuple[int, int], ...]


def locate_steps(
    moments: Sequence[Moment], session: Session, conversation: Conversation, ask: Ask, parallel: Parallel
) -> tuple[Moment, ...]:
    """Return the moments of one session in order, with the steps that a model names where rules could only propose one.

    A moment whose call was lost, or whose reply cannot be used, keeps its guess. Raises ``FatalBackend`` and
    ``BudgetSpent``.
    """
    return tuple(parallel(functools.partial(_locate, places=read_talk(session, conversation), ask=ask), moments))


def needs_model(moment: Moment) -> bool:
    """Whether rules could only guess the step of a moment, so that a model is asked."""
    return moment.basis in (Basis.GUESS, Basis.WORDS) and not moment.void and moment.kind is not MomentKind.APPROVED


def _locate(moment: Moment, *, places: Sequence[Place], ask: Ask) -> Moment:
    if not needs_model(moment):
        return moment
    try:
        shown = _build_prompt(places, moment)
        return _apply(places, moment, shown, ask_readable(shown.prompt, ask, _Reply, phase="mine"))
    except (TransientBackend, ValueError, CutNotFound):
        return moment


def _build_prompt(places: Sequence[Place], moment: Moment) -> _Shown:
    last = _find_words(places, moment)
    window = places[max(0, last - WINDOW) : last]
    numbered = [
        (place.index, number)
        for place in window
        for number, action in enumerate(place.actions)
        if action.kind not in (ActionKind.WAITED, ActionKind.INSTRUCTED)
    ][-MOST_STEPS:]
    if not numbered:
        raise ValueError("there are no steps before the correction")
    parts: list[str] = []
    begun = -1
    for count, (index, number) in enumerate(numbered, start=1):
        place = places[index]
        if index != begun and place.prompt:
            parts.append(f"\nDeveloper: {cut_text(fold_paste(place.prompt), SHOWN_REQUEST)}\n")
        begun = index
        step, action = place.steps[number], place.actions[number]
        text = cut_text(render_step(step, action, with_output=False), SHOWN_STEP) if action.is_commitment else ""
        parts.append(f"[{count}] {text or describe_step(step, action)}")
    steps, correction = cut_text("\n".join(parts), SHOWN), cut_text(fold_paste(moment.words[0]), SHOWN_CORRECTION)
    seal = make_tag_suffix(steps, correction)
    tags = (f"part-{seal}", f"correction-{seal}")
    system, user = render(
        "locate_step", seal=seal, steps=escape_tags(steps, *tags), correction=escape_tags(correction, *tags)
    )
    return _Shown(prompt=Prompt(system=system, user=user, schema=_SCHEMA), steps=tuple(numbered))


def _find_words(places: Sequence[Place], moment: Moment) -> int:
    """Return the index of the prompt that corrects. Raises ``CutNotFound`` when the session no longer holds it."""
    place, _ = find_cut(places, moment)
    for other in places[place + 1 :]:
        if other.prompt == moment.words[0]:
            return other.index
    raise CutNotFound(f"session {moment.session_id} no longer holds the words {excerpt(moment.words[0], 60)!r}")


def _apply(places: Sequence[Place], moment: Moment, shown: _Shown, reply: _Reply) -> Moment:
    """Return the moment with the step that the model named. Raises ``ValueError`` for a step that was not shown."""
    if not 1 <= reply.step <= len(shown.steps):
        named = "no step" if not reply.step else f"step {reply.step}, but {len(shown.steps)} were shown"
        raise ValueError(f"the reply names {named}")
    index, number = shown.steps[reply.step - 1]
    place = places[index]
    first = walk_back(place, number)
    doubt = CHANGED_MIND if reply.as_asked else "" if reply.knowable else NOT_KNOWABLE
    return replace(
        moment,
        turn=place.id,
        request=place.prompt,
        step=place.steps[first].id,
        basis=Basis.MODEL,
        rejected=render_behaviour(place.steps[first:]),
        teaches_only=moment.teaches_only or doubt,
    )
