"""Whose attempt a lost call was part of: a score that an adapter made of one is no score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from skillopt_sleep.errors import TransientBackend
from skillopt_sleep.train.chats import Loss
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.results import RolloutResult
from skillopt_sleep.train.rows import unmeasured

__all__ = ["lost_items", "put_losses"]

TELLING = 12
"""Characters from which on a text of an item, found in a prompt, says that the prompt is about that item."""
SHORTEST = 3
"""Characters from which on a text does so that is a whole line of the prompt."""


def put_losses(lost: Sequence[Loss], results: Sequence[RolloutResult], items: Sequence[Item]) -> None:
    """Mark the results that a lost call belongs to as unmeasured.

    They are those whose row tells of the error, else those whose item the prompt was about. What ends a run is raised,
    and so is a loss that can be nobody's in particular: then the batch as a whole is unmeasured.
    """
    about = _texts(results, items)
    for loss in lost:
        said = str(loss.error)
        names = {each.id for each in results if said and said in f"{each.fail_reason} {each.extras}"}
        names = names or _asked_about(loss, about)
        if not isinstance(loss.error, TransientBackend) or not names:
            raise loss.error
        for each in results:
            if each.id in names:
                each.call_error = _told(loss)


def lost_items(lost: Sequence[Loss], items: Sequence[Item]) -> list[RolloutResult]:
    """An unmeasured result for each item that a lost call was about; none when one of them cannot be told."""
    about, why = _texts((), items), dict[str, str]()
    for loss in lost:
        names = _asked_about(loss, about)
        if not names:
            return []
        why |= dict.fromkeys(names, _told(loss))
    return [unmeasured(item, why[str(item["id"])]) for item in items if str(item["id"]) in why]


def _told(loss: Loss) -> str:
    return f"{type(loss.error).__name__}: {loss.error}"


def _texts(results: Sequence[RolloutResult], items: Sequence[Item]) -> dict[str, set[str]]:
    """What is known of each item, and of its result, and of no other, that may stand in a prompt."""
    known: dict[str, set[str]] = {}
    rows: list[tuple[str, Mapping[str, object]]] = [(str(item["id"]), item) for item in items]
    rows += [(each.id, {"asked": each.question, "task": each.task_description}) for each in results]
    for name, row in rows:
        texts = {value.strip() for key, value in row.items() if key != "id" and isinstance(value, str)}
        known.setdefault(name, set()).update(text for text in texts if len(text) >= SHORTEST)
    held = Counter(text for texts in known.values() for text in texts)
    return {name: {text for text in texts if held[text] == 1} for name, texts in known.items()}


def _asked_about(loss: Loss, about: Mapping[str, set[str]]) -> set[str]:
    """The item of which most stands in what was asked, else in the system prompt; none where nothing does."""
    return _most(loss.call.user, about) or _most(loss.call.system, about)


def _most(prompt: str, about: Mapping[str, set[str]]) -> set[str]:
    lines = {line.strip() for line in prompt.splitlines()}

    def stands(text: str) -> bool:
        return text in lines or (len(text) >= TELLING and text in prompt)

    found = {name: sum(len(text) for text in texts if stands(text)) for name, texts in about.items()}
    most = max(found.values(), default=0)
    return {name for name, share in found.items() if share == most} if most else set()
