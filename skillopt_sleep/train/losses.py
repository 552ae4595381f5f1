"""Whose attempt a lost call was part of: a score that an adapter made of one is no score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from skillopt_sleep.errors import TransientBackend
from skillopt_sleep.train.chats import Loss
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.results import RolloutResult

__all__ = ["put_losses"]

TELLING = 12
"""Characters from which on a text of an item, found in a prompt, says that the prompt is about that item."""


def put_losses(lost: Sequence[Loss], results: Sequence[RolloutResult], items: Sequence[Item]) -> None:
    """Mark the results that a lost call belongs to as unmeasured.

    They are those whose row tells of the error, else those whose item the prompt was about. What ends a run is raised,
    and so is a loss that can be nobody's in particular: then the batch as a whole is unmeasured.
    """
    about = _texts(results, items)
    for loss in lost:
        said = str(loss.error)
        names = {each.id for each in results if said and said in f"{each.fail_reason} {each.extras}"}
        names = names or _asked_about(loss.prompt, about)
        if not isinstance(loss.error, TransientBackend) or not names:
            raise loss.error
        for each in results:
            if each.id in names:
                each.call_error = f"{type(loss.error).__name__}: {loss.error}"


def _texts(results: Sequence[RolloutResult], items: Sequence[Item]) -> dict[str, set[str]]:
    """What is known of each item, and of its result, and of no other, that may stand in a prompt."""
    known: dict[str, set[str]] = {}
    rows: list[tuple[str, Mapping[str, object]]] = [(str(item["id"]), item) for item in items]
    rows += [(each.id, {"asked": each.question, "task": each.task_description}) for each in results]
    for name, row in rows:
        texts = {value for key, value in row.items() if key != "id" and isinstance(value, str)}
        known.setdefault(name, set()).update(text for text in texts if len(text) >= TELLING)
    held = Counter(text for texts in known.values() for text in texts)
    return {name: {text for text in texts if held[text] == 1} for name, texts in known.items()}


def _asked_about(prompt: str, about: Mapping[str, set[str]]) -> set[str]:
    """The item of which most stands in a prompt; none where nothing does."""
    found = {name: sum(len(text) for text in texts if text in prompt) for name, texts in about.items()}
    most = max(found.values(), default=0)
    return {name for name, share in found.items() if share == most} if most else set()
