"""The models of a run, for adapters of the reference: they call them through plain functions.

While an adapter works, these functions lead to the clients of the run it belongs to, so that every call passes its
ledger, caps and limits. One adapter works at a time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skillopt_sleep.errors import SleepError, UsageError
from skillopt_sleep.prompts import template
from skillopt_sleep.train.ports import ChatClient
from skillopt_sleep.train.rows import Row, as_result, said

__all__ = [
    "chat_optimizer",
    "chat_optimizer_messages",
    "chat_target",
    "chat_target_messages",
    "load_prompt",
    "run_minibatch_reflect",
    "working",
]


class _Working:
    """The run an adapter works for at the moment, and the calls it lost in the meantime."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self.clients: dict[str, ChatClient] = {}
        self.lost: list[SleepError] = []

    @contextmanager
    def on(self, clients: dict[str, ChatClient]) -> Iterator[None]:
        """Work for this run until the context is left."""
        with self._turn:
            before = self.clients, self.lost
            self.clients, self.lost = clients, []
            try:
                yield
            finally:
                self.clients, self.lost = before

    def client(self, role: str) -> ChatClient:
        """The client of a role. Raises ``UsageError`` outside of a run."""
        if role not in self.clients:
            raise UsageError(f"chat_{role} works inside train() or eval only: a call needs a run to be counted in")
        return self.clients[role]

    def chat(self, role: str, messages: Sequence[Row], stage: str, limit: int, options: Row) -> tuple[str, Row]:
        """One call; a lost one is remembered, because adapters like to catch everything."""
        system = "\n\n".join(said(each) for each in messages if each.get("role") == "system")
        turns = [each for each in messages if each.get("role") != "system"]
        user = (
            said(turns[0]) if len(turns) == 1 else "\n\n".join(f"[{each.get('role')}]\n{said(each)}" for each in turns)
        )
        given = {name: value for name, value in options.items() if value is not None}
        try:
            text, usage = self.client(role).chat(
                system=system, user=user, max_completion_tokens=limit, stage=stage, **given
            )
        except SleepError as error:
            self.lost.append(error)
            raise
        return text, dict(usage)


working = _Working()


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


def run_minibatch_reflect(
    results: list[Row],
    skill_content: str,
    prediction_dir: str,
    patches_dir: str,
    workers: int,
    failure_only: bool,  # noqa: FBT001  published so
    minibatch_size: int = 8,
    edit_budget: int = 4,
    random_seed: int | None = None,
    *,
    error_system: str | None = None,
    success_system: str | None = None,
    rejection_context: str = "",
    trajectory_memory_context: str = "",
    step_buffer_context: str = "",
    meta_skill_context: str = "",
    update_mode: str = "patch",
) -> list[Row | None]:
    """Have the analysts of this program look at the results, and keep what they say in ``patches_dir``.

    Conversations are read from ``prediction_dir`` where a result brings none. Raises ``UsageError`` for an
    ``update_mode`` other than patch: whole rewrites are not trained here.
    """
    from skillopt_sleep.train.reflecting import reflect_on  # noqa: PLC0415  an adapter that never reflects needs none

    if update_mode != "patch":
        raise UsageError(f"update_mode {update_mode!r} is not trained here, only 'patch'")
    patches = reflect_on(
        [as_result(row, None, Path(prediction_dir)) for row in results],
        skill_content,
        optimizer_client=working.client("optimizer"),
        workers=workers,
        failure_only=failure_only,
        minibatch_size=minibatch_size,
        edit_budget=edit_budget,
        random_seed=random_seed or 0,
        error_system=_filled(error_system, edit_budget),
        success_system=_filled(success_system, edit_budget),
        step_buffer_context=step_buffer_context or rejection_context or trajectory_memory_context,
        meta_skill_context=meta_skill_context,
    )
    Path(patches_dir).mkdir(parents=True, exist_ok=True)
    rows = [patch.to_dict() for patch in patches]
    for number, row in enumerate(rows):
        name = f"minibatch_{'succ' if row['source_type'] == 'success' else 'fail'}_{number:03d}.json"
        Path(patches_dir, name).write_text(json.dumps(row, ensure_ascii=False, indent=2), encoding="utf-8")
    return [*rows]


def load_prompt(name: str, env: str | None = None) -> str:  # noqa: ARG001  an adapter reads its own beside itself
    """The instructions of this program's prompt of that name, to be added to. Raises ``FileNotFoundError``."""
    try:
        return template(name)[0]
    except OSError:
        raise FileNotFoundError(f"there is no prompt {name!r}") from None


def _filled(system: str | None, edit_budget: int) -> str | None:
    """Instructions with the fields that ``load_prompt`` leaves open."""
    if system is None:
        return None
    return system.replace("{{edit_budget}}", str(edit_budget)).replace("{{kind}}", "skill")


def _options(retries: int, reasoning_effort: str | None, timeout: int | None) -> Row:
    return {"retries": retries, "reasoning_effort": reasoning_effort, "timeout": timeout}


def _no_tools(tools: object, tool_choice: object) -> None:
    if tools or tool_choice:
        raise UsageError("chat with tools is not offered here: roll out an agent CLI of your own, or ask in text")
