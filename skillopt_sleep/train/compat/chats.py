"""The chat functions of a run, for adapters of the reference: they call them through plain functions.

While an adapter works, these functions lead to the clients of the run it belongs to, so that every call passes its
ledger, caps and limits. One adapter works at a time.

Whose attempt a lost call was part of: a score that an adapter made of one is no score.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from skillopt_sleep.errors import SleepError, TimedOut, TransientBackend, UsageError
from skillopt_sleep.prompts import template
from skillopt_sleep.train.compat.rows import Row, said, unmeasured
from skillopt_sleep.train.ports import ChatClient, Item
from skillopt_sleep.train.results import RolloutResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """What was asked of whom."""

    role: str
    system: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A call that got no answer, and was not asked again with better luck."""

    error: SleepError
    call: _Call
    at: float


@dataclass(slots=True)
class Sitting:
    """One piece of an adapter's work: whose clients it has, what is under way, and what it lost."""

    clients: dict[str, ChatClient]
    under_way: list[_Call] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def asking(self, call: _Call) -> Iterator[None]:
        """Keep account of one call: adapters like to catch everything, and some ask again by themselves."""
        began = time.monotonic()
        with self.lock:
            self.under_way.append(call)
        try:
            yield
        except SleepError as error:
            with self.lock:
                self.losses.append(Loss(error=error, call=call, at=time.monotonic()))
            raise
        else:
            with self.lock:
                self.losses = [each for each in self.losses if not _made_good(each, call, began)]
        finally:
            with self.lock:
                self.under_way.remove(call)

    def lost(self) -> list[Loss]:
        """What has no answer: lost for good, or still under way, which an adapter did not wait for."""
        late = TimedOut("the adapter did not wait for the answer")
        with self.lock:
            waited_for = [Loss(error=late, call=call, at=time.monotonic()) for call in self.under_way]
            return [*self.losses, *waited_for]


def _made_good(loss: Loss, call: _Call, began: float) -> bool:
    """Whether a call that was begun then, and was answered, is the lost one asked again."""
    return loss.call == call and loss.at <= began and isinstance(loss.error, TransientBackend)


class _Working:
    """The run an adapter works for at the moment."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._sitting = Sitting({})

    @contextmanager
    def on(self, sitting: Sitting) -> Iterator[None]:
        """Work on this until the context is left."""
        with self._turn:
            before, self._sitting = self._sitting, sitting
            try:
                yield
            finally:
                self._sitting = before

    def client(self, role: str) -> ChatClient:
        """The client of a role. Raises ``UsageError`` outside of a run."""
        return _client(self._sitting, role)

    def chat(self, role: str, messages: Sequence[Row], stage: str, limit: int, options: Row) -> tuple[str, Row]:
        """One call of the piece of work under way."""
        sitting = self._sitting
        client = _client(sitting, role)
        system = "\n\n".join(said(each) for each in messages if each.get("role") == "system")
        turns = [each for each in messages if each.get("role") != "system"]
        user = (
            said(turns[0]) if len(turns) == 1 else "\n\n".join(f"[{each.get('role')}]\n{said(each)}" for each in turns)
        )
        given = {name: value for name, value in options.items() if value is not None}
        with sitting.asking(_Call(role=role, system=system, user=user)):
            text, usage = client.chat(system=system, user=user, max_completion_tokens=limit, stage=stage, **given)
        return text, dict(usage)


def _client(sitting: Sitting, role: str) -> ChatClient:
    if role not in sitting.clients:
        raise UsageError(f"chat_{role} works inside train() or eval only: a call needs a run to be counted in")
    return sitting.clients[role]


working = _Working()


def is_target_exec_backend() -> bool:
    """No: also an agent's command line is asked through ``chat_target`` here, and nothing is laid out for it."""
    return False


def is_target_chat_backend() -> bool:
    """Yes: the target is asked through ``chat_target``, whoever answers."""
    return True


def is_optimizer_chat_backend() -> bool:
    """Yes: the optimizer is asked through ``chat_optimizer``, whoever answers."""
    return True


def chat_target(
    system: str,
    user: str,
    max_completion_tokens: int = 16384,
    retries: int = 5,
    stage: str = "target",
    reasoning_effort: str | None = None,
    timeout: int | None = None,
) -> tuple[str, Row]:
    """Ask the target: its answer and the usage of the call. The run's own retries and limits count, not these."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return working.chat("target", messages, stage, max_completion_tokens, _options(retries, reasoning_effort, timeout))


def chat_optimizer(
    system: str,
    user: str,
    max_completion_tokens: int = 16384,
    retries: int = 5,
    stage: str = "optimizer",
    reasoning_effort: str | None = None,
    timeout: int | None = None,
) -> tuple[str, Row]:
    """Ask the optimizer, in the same way."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    options = _options(retries, reasoning_effort, timeout)
    return working.chat("optimizer", messages, stage, max_completion_tokens, options)


def chat_target_messages(
    messages: list[Row],
    max_completion_tokens: int = 16384,
    retries: int = 5,
    stage: str = "target",
    reasoning_effort: str | None = None,
    *,
    tools: list[Row] | None = None,
    tool_choice: object = None,
    return_message: bool = False,
    timeout: int | None = None,
) -> tuple[Any, Row]:
    """Ask the target with a whole conversation. Raises ``UsageError`` for tools, which no backend here takes."""
    _no_tools(tools, tool_choice)
    options = _options(retries, reasoning_effort, timeout)
    text, usage = working.chat("target", messages, stage, max_completion_tokens, options)
    return ({"role": "assistant", "content": text} if return_message else text), usage


def chat_optimizer_messages(
    messages: list[Row],
    max_completion_tokens: int = 16384,
    retries: int = 5,
    stage: str = "optimizer",
    reasoning_effort: str | None = None,
    *,
    tools: list[Row] | None = None,
    tool_choice: object = None,
    return_message: bool = False,
    timeout: int | None = None,
) -> tuple[Any, Row]:
    """Ask the optimizer with a whole conversation, in the same way."""
    _no_tools(tools, tool_choice)
    options = _options(retries, reasoning_effort, timeout)
    text, usage = working.chat("optimizer", messages, stage, max_completion_tokens, options)
    return ({"role": "assistant", "content": text} if return_message else text), usage


def load_prompt(name: str, env: str | None = None) -> str:  # noqa: ARG001  an adapter reads its own beside itself
    """The instructions of this program's prompt of that name, to be added to. Raises ``FileNotFoundError``."""
    try:
        return template(name)[0]
    except OSError:
        raise FileNotFoundError(f"there is no prompt {name!r}") from None


def _options(retries: int, reasoning_effort: str | None, timeout: int | None) -> Row:
    return {"retries": retries, "reasoning_effort": reasoning_effort, "timeout": timeout}


def _no_tools(tools: object, tool_choice: object) -> None:
    if tools or tool_choice:
        raise UsageError("chat with tools is not offered here: roll out an agent CLI of your own, or ask in text")


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
