"""Drive an adapter of the reference as an environment of this program, and give it the models of the run.

Adapters call models through plain functions (``chat_target``). While an adapter works, these functions lead to the
clients of the run it belongs to, so that every call passes its ledger, caps and limits. One adapter works at a time.
"""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from skillopt_sleep.domain.nearest import did_you_mean
from skillopt_sleep.errors import SleepError, TransientBackend, UsageError
from skillopt_sleep.train.datasets import SPLITS
from skillopt_sleep.train.environments.checking import blamed, checked
from skillopt_sleep.train.ports import ChatClient, Item, SkillEnv
from skillopt_sleep.train.results import RawPatch, RolloutResult

if TYPE_CHECKING:
    from skillopt_sleep.train.compat import BatchSpec, EnvAdapter

__all__ = [
    "AdapterEnv",
    "chat_optimizer",
    "chat_optimizer_messages",
    "chat_target",
    "chat_target_messages",
    "run_minibatch_reflect",
]

Row = dict[str, Any]
CALLED = {"train": "train", "val": "valid_seen", "test": "valid_unseen"}
"""What adapters hear the splits called."""
FILES = {"target_system_prompt": "target_system_prompt.txt", "target_user_prompt": "target_user_prompt.txt"}
"""What adapters leave beside a conversation, by the field of the result it belongs to."""


class _Working:
    """The run an adapter works for at the moment, and the calls it lost in the meantime."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self.clients: dict[str, ChatClient] = {}
        self.settings: Mapping[str, Any] = {}
        self.lost: list[SleepError] = []

    @contextmanager
    def on(self, clients: dict[str, ChatClient], settings: Mapping[str, Any]) -> Iterator[None]:
        """Work for this run until the context is left."""
        with self._turn:
            before = self.clients, self.settings, self.lost
            self.clients, self.settings, self.lost = clients, settings, []
            try:
                yield
            finally:
                self.clients, self.settings, self.lost = before

    def client(self, role: str) -> ChatClient:
        """The client of a role. Raises ``UsageError`` outside of a run."""
        if role not in self.clients:
            raise UsageError(f"chat_{role} works inside train() or eval only: a call needs a run to be counted in")
        return self.clients[role]

    def chat(self, role: str, messages: Sequence[Row], stage: str, limit: int, options: Row) -> tuple[str, Row]:
        """One call; a lost one is remembered, because adapters like to catch everything."""
        system = "\n\n".join(_said(each) for each in messages if each.get("role") == "system")
        turns = [each for each in messages if each.get("role") != "system"]
        user = _said(turns[0]) if len(turns) == 1 else "\n\n".join(f"[{each.get('role')}]\n{_said(each)}" for each in turns)
        given = {name: value for name, value in options.items() if value is not None}
        try:
            text, usage = self.client(role).chat(
                system=system, user=user, max_completion_tokens=limit, stage=stage, **given
            )
        except SleepError as error:
            self.lost.append(error)
            raise
        return text, dict(usage)


_working = _Working()


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
    return _working.chat("target", messages, stage, max_completion_tokens, _options(retries, reasoning_effort, timeout))


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
    return _working.chat("optimizer", messages, stage, max_completion_tokens, options)


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
    text, usage = _working.chat("target", messages, stage, max_completion_tokens, options)
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
    text, usage = _working.chat("optimizer", messages, stage, max_completion_tokens, options)
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
        [_as_result(row, None, Path(prediction_dir)) for row in results],
        skill_content,
        optimizer_client=_working.client("optimizer"),
        workers=workers,
        failure_only=failure_only,
        minibatch_size=minibatch_size,
        edit_budget=edit_budget,
        random_seed=random_seed or 0,
        error_system=error_system,
        success_system=success_system,
        step_buffer_context=step_buffer_context or rejection_context or trajectory_memory_context,
        meta_skill_context=meta_skill_context,
    )
    Path(patches_dir).mkdir(parents=True, exist_ok=True)
    rows = [patch.to_dict() for patch in patches]
    for number, row in enumerate(rows):
        name = f"minibatch_{'succ' if row['source_type'] == 'success' else 'fail'}_{number:03d}.json"
        Path(patches_dir, name).write_text(json.dumps(row, ensure_ascii=False, indent=2), encoding="utf-8")
    return [*rows]


class AdapterEnv(SkillEnv):
    """An ``EnvAdapter`` as an environment of this program: the trainer's ``BatchEnv``.

    Where the adapter has no items of its own (a simulator), ``train_size`` and ``sel_env_num`` / ``test_env_num`` of
    the config say how many attempts a split has. Raises ``UsageError`` for what the adapter does wrong.
    """

    def __init__(self, adapter: EnvAdapter) -> None:
        self.adapter = adapter
        self.name = type(adapter).__name__
        self._clients: dict[str, ChatClient] = {}
        self._cfg: Row = {}
        self._rows: dict[str, Row] = {}
        self._items: dict[str, list[Item]] = {}

    def setup(self, config: Row, *, optimizer_client: ChatClient, target_client: ChatClient) -> None:
        """Hand the adapter its config under the names it knows, and load its items."""
        self._clients = {"optimizer": optimizer_client, "target": target_client}
        defaults = {
            "env": self.name,
            "accumulation": 1,
            "analyst_workers": config.get("workers", 8),
            "sel_env_num": 0,
            "test_env_num": 0,
            "train_size": 0,
            "skill_update_mode": "patch",
        }
        self._cfg = defaults | config | dict(config.get("extras") or {})
        with self._at_work("setup"):
            if self.adapter.requires_ray():
                _start_ray()
            self.adapter.setup(self._cfg)
            loader = self.adapter.get_dataloader()
            if loader is not None and self._cfg.get("out_root"):
                loader.set_out_root(str(self._cfg["out_root"]))
            self._items = {split: self._load(split) for split in SPLITS}

    def get_items(self, split: str) -> list[Item]:
        """The items of the adapter's loader, or as many nameless ones as a simulator is to be asked for."""
        if not self._items:
            raise UsageError(f"the environment {self.name} has no items before setup(), which train() calls first")
        if split not in self._items:
            raise UsageError(f"there is no split {split!r}, only {', '.join(SPLITS)}{did_you_mean(split, SPLITS)}")
        return self._items[split]

    def get_task_types(self) -> list[str]:
        """What the adapter says."""
        return [str(each) for each in self.adapter.get_task_types()]

    def plan_epoch(self, *, epoch: int, steps: int, batch_size: int, seed: int) -> list[list[Item]] | None:
        """The batches the adapter's loader plans for an epoch, where it plans items."""
        loader = self.adapter.get_dataloader()
        if loader is None:
            return None
        with self._at_work("plan_train_epoch"):
            batches = loader.plan_train_epoch(
                epoch=epoch, steps_per_epoch=steps, accumulation=1, batch_size=batch_size, seed=seed
            )
        planned = [_named(batch.payload) for batch in batches]
        return None if any(items is None for items in planned) else [items for items in planned if items]

    def rollout_one(self, *, item: Item, skill: str, target_client: ChatClient) -> RolloutResult:
        """Refused: an adapter rolls out batches."""
        raise UsageError(f"{self.name} rolls out batches; the trainer and eval call rollout_batch")

    def rollout_batch(
        self, *, items: list[Item], skill: str, split: str, seed: int, out_dir: str
    ) -> list[RolloutResult]:
        """Build the adapter's batch and roll it out; calls it lost and hid come back unmeasured."""
        Path(out_dir).mkdir(parents=True, exist_ok=True)
        with self._at_work("rollout"):
            manager = self._built(items, split, seed)
            rows = self.adapter.rollout(manager, skill, out_dir)
            lost = list(_working.lost)
        if not isinstance(rows, list | tuple) or not rows:
            raise UsageError(f"{self.name}.rollout returned {type(rows).__name__} without results for {len(items)} items")
        known = {str(item["id"]): item for item in items}
        results = [_as_result(row, known, Path(out_dir, "predictions")) for row in rows]
        doubles = sorted({each.id for each in results if [other.id for other in results].count(each.id) > 1})
        if doubles:
            raise UsageError(f"{self.name}.rollout returned the id {doubles[0]!r} twice; ids of results must be unique")
        _put_losses(lost, results)
        if split == "train":
            self._rows = {str(row["id"]): dict(row) for row in rows if isinstance(row, Mapping)}
        return results

    def reflect_batch(self, *, results: list[RolloutResult], skill: str, out_dir: str, **given: Any) -> list[RawPatch] | None:
        """The adapter's own reflection, None when it has none: then the trainer's analysts do it."""
        from skillopt_sleep.train.compat import EnvAdapter  # noqa: PLC0415  it imports this module

        adapter = self.adapter
        inherited = type(adapter).reflect is EnvAdapter.reflect
        if inherited and not (adapter.get_error_minibatch_prompt() or adapter.get_success_minibatch_prompt()):
            return None
        rows = [self._rows.get(each.id) or each.to_dict() for each in results if not each.call_error]
        with self._at_work("reflect"):
            said = adapter.reflect(rows, skill, out_dir, **{key: value for key, value in given.items() if key != "edit_budget"})
            lost = list(_working.lost)
        for error in lost:
            if not isinstance(error, TransientBackend):
                raise error
        if not isinstance(said, list | tuple):
            raise UsageError(f"{self.name}.reflect returned {type(said).__name__}, a list of patches is wanted")
        return [patch for each in said if each is not None for patch in [_as_patch(each, self.name)]]

    def _built(self, items: list[Item], split: str, seed: int) -> object:
        """What the adapter's rollout takes, for these items."""
        from skillopt_sleep.train.compat import BatchSpec  # noqa: PLC0415  it imports this module

        adapter, root = self.adapter, {"out_root": str(self._cfg.get("out_root") or "")}
        loader, nameless = adapter.get_dataloader(), any(item.get("nameless") for item in items)
        phase, called = ("train" if split == "train" else "eval"), CALLED.get(split, split)
        if loader is None and phase == "train":
            return adapter.build_train_env(batch_size=len(items), seed=seed, **root)
        if loader is None:
            return adapter.build_eval_env(env_num=len(items), split=called, seed=seed, **root)
        if not nameless:
            batch = BatchSpec(phase, called, seed, len(items), payload=list(items))
        elif phase == "train":
            batch = loader.build_train_batch(batch_size=len(items), seed=seed, **root)
        else:
            batch = loader.build_eval_batch(env_num=len(items), split=called, seed=seed, **root)
        return adapter.build_env_from_batch(batch, **root)

    def _load(self, split: str) -> list[Item]:
        loader, seed = self.adapter.get_dataloader(), int(self._cfg.get("seed") or 0)
        wanted = int(self._cfg.get({"train": "train_size", "val": "sel_env_num", "test": "test_env_num"}[split]) or 0)
        if loader is not None and hasattr(loader, "get_split_items"):
            items: list[Item] = loader.get_split_items(split)
            return items[:wanted] if wanted and split != "train" else items
        if split == "train":
            size = wanted or (loader.get_train_size() if loader is not None else 0) or 0
            if not size:
                raise UsageError(f"{self.name} has no items to count: give extras = {{'train_size': N}} in the config")
            return _nameless(split, size)
        if loader is None:
            manager = self.adapter.build_eval_env(env_num=wanted, split=CALLED[split], seed=seed)
            size = wanted or (len(manager) if hasattr(manager, "__len__") else 0)
        else:
            batch: BatchSpec = loader.build_eval_batch(env_num=wanted, split=CALLED[split], seed=seed)
            if items := _named(batch.payload) or []:
                return items
            size = batch.batch_size
        return _nameless(split, size)

    @contextmanager
    def _at_work(self, what: str) -> Iterator[None]:
        """The adapter's code at work, under this run's clients; its mistakes become one line."""
        with _working.on(self._clients, self._cfg):
            try:
                yield
            except SleepError:
                raise
            except Exception as error:
                raise blamed(f"{self.name}.{what}", error) from error


class _Loss(Struct, frozen=True):
    error: SleepError
    said: str
