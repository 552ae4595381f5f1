"""Train a skill on an environment: epochs of steps, each gated, the best skill kept apart, resumable anywhere.

The beginning of a run: the state to go on from, else a new one with the initial skill scored.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from skillopt_sleep.calls.chain import chain
from skillopt_sleep.calls.clock import SystemClock
from skillopt_sleep.calls.parallel import Pool
from skillopt_sleep.errors import BackendUnusable, BudgetSpent, ConfigError, NotLoggedIn, UsageError
from skillopt_sleep.gate.rule import is_enough_measured
from skillopt_sleep.model.call import Prompt, Reply, Role
from skillopt_sleep.model.ports import Backend
from skillopt_sleep.optimizer.client import Optimizer
from skillopt_sleep.settings import environment, secrets
from skillopt_sleep.storage.ledger import TrainingFolder, open_training_folder
from skillopt_sleep.train.clients import as_backend
from skillopt_sleep.train.config import SkillOptConfig, check_prompts
from skillopt_sleep.train.conversations import AskClient, TurnClient
from skillopt_sleep.train.datasets import check_splits, notes_of
from skillopt_sleep.train.environments.loading import as_env
from skillopt_sleep.train.epoch import FIRST, end_epoch
from skillopt_sleep.train.gating import rolls_whole, score_selection
from skillopt_sleep.train.identity import client_traits, env_traits
from skillopt_sleep.train.ports import ChatClient, Item, SkillEnv, TrainProgress
from skillopt_sleep.train.pricing import Price, price, steps_of
from skillopt_sleep.train.run import Run
from skillopt_sleep.train.schedules import Scheduler, build_scheduler
from skillopt_sleep.train.skill_text import apply_to_skill
from skillopt_sleep.train.state import Artefacts, RunState, check_same_run, identity
from skillopt_sleep.train.step import train_step
from skillopt_sleep.train.summary import ended

if TYPE_CHECKING:
    from skillopt_sleep.safety.redaction.redactor import Redactor

DEFAULT_LIMIT = SkillOptConfig().optimizer_max_completion_tokens


def check_skill(skill: object, most: int) -> None:
    """Raise ``UsageError``, or ``Refused`` for frontmatter that never ends, for what cannot be trained from."""
    if not isinstance(skill, str):
        raise UsageError(f"the initial skill is {skill!r:.60}, must be a text; read the file first")
    if len(skill) > most:
        raise ConfigError(f"the initial skill has {len(skill):,} characters, more than max_skill_chars, {most:,}")
    apply_to_skill(skill, ())


def begun(run: Run, skill: str, backends: Mapping[Role, Backend], wording: Mapping[str, str]) -> RunState:
    """The state of the run in the folder, else a new one under the initial ``skill``; ``wording``: own prompts.

    Raises ``Refused`` when the folder holds another run, and ``BackendUnusable`` when too little could be measured.
    """
    wanted = identity(
        run.config,
        env=run.env.name,
        items={split: items for split, items in run.items.items() if split != run.config.test_split},
        initial_skill=skill,
        traits=env_traits(run.env),
        clients={
            str(role): (f"{backend.name}:{backend.model}", client_traits(backend)) for role, backend in backends.items()
        },
        wording=wording,
    )
    kept = run.artefacts.state()
    if kept is not None:
        check_same_run(kept.identity, wanted, run.config.out_root)
        if kept.current_score is not None:
            run.tell(f"going on with {run.config.out_root} after step {kept.last_completed_step}")
            return kept
    for note in notes_of(run.env):
        run.tell(f"data: {note}")
    limit, optimizer = run.config.optimizer_max_completion_tokens, backends[Role.OPTIMIZER]
    if limit != DEFAULT_LIMIT and not getattr(optimizer, "takes_limits", False):
        run.tell(f"{optimizer.name} takes no limit: optimizer_max_completion_tokens = {limit} changes nothing there")
    state = RunState(identity=wanted, initial_skill=skill, current_skill=skill, best_skill=skill, epoch_skill=skill)
    run.artefacts.begin()
    run.artefacts.commit(state, [], snapshot=True)
    return _with_first_score(run, state)


def _with_first_score(run: Run, state: RunState) -> RunState:
    state, score = score_selection(run, state, state.initial_skill, "baseline_selection_eval")
    if not is_enough_measured(score.measured, score.items):
        raise BackendUnusable(
            f"only {score.measured} of {score.items} selection items could be measured under the initial skill"
            f" ({score.lost or 'no reason given'}); nothing is scored: run again when that is mended"
        )
    value = run.value(score)
    state = replace(state, current_score=value, best_score=value)
    run.artefacts.commit(state, [], snapshot=False)
    run.tell(f"initial skill: selection {value:.4f} over {score.measured} items")
    return state


class _Nobody:
    """The models while a run is only priced."""

    model = ""

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Refused."""
        raise UsageError(f"an environment asked a model ({phase}, {prompt.user[:40]!r}) before the run began")


class SkillOptTrainer:
    """Train a skill, both models frozen.

    ``optimizer_client`` reflects and edits, ``target_client`` is the agent whose skill it is: each a backend
    (``client(NAME, model=…)``) or any object with the ``chat`` method of the reference. Without ``initial_skill`` the
    environment's is taken. ``prompt_overrides`` are texts for the optimizer, by the names in ``PROMPTS``. Raises
    ``UsageError`` (``ConfigError`` for a prompt that there is not) before anything is asked. ``environ``: the
    environment variables whose secrets are redacted, by default those of this process.

    ``history``, ``current_skill``, ``best_skill``, their scores and ``best_step`` are as the last step left them.
    """

    def __init__(
        self,
        *,
        config: SkillOptConfig,
        env: SkillEnv | object,
        optimizer_client: object,
        target_client: object,
        initial_skill: str | None = None,
        prompt_overrides: Mapping[str, str] | None = None,
        progress: TrainProgress | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(config, SkillOptConfig):
            raise ConfigError(
                f"config is {config!r:.60}, must be a SkillOptConfig; a table: SkillOptConfig.from_dict(…)"
            )
        self.config = config
        self.env = as_env(env)
        self.backends: dict[Role, Backend] = {
            Role.OPTIMIZER: as_backend(optimizer_client, "optimizer"),
            Role.TARGET: as_backend(target_client, "target"),
        }
        self.initial_skill = self.env.get_initial_skill() if initial_skill is None else initial_skill
        check_skill(self.initial_skill, config.max_skill_chars)
        self.prompt_overrides = dict(prompt_overrides or {})
        self.history: list[dict[str, Any]] = []
        self.current_skill = self.best_skill = self.initial_skill
        self.current_score: float | None = None
        self.best_score: float | None = None
        self.best_step = 0
        self._progress = progress
        self._environ = environ
        check_prompts(self.prompt_overrides)
        for name in self.prompt_overrides:
            if not isinstance(self.prompt_overrides[name], str) or not self.prompt_overrides[name].strip():
                raise ConfigError(f"the prompt {name} is {self.prompt_overrides[name]!r:.60}, must be a text")

    def train(self) -> dict[str, Any]:
        """Train, or go on with the run in ``out_root``; the summary, which is in ``summary.json`` as well.

        Raises ``UsageError`` for data or an environment that cannot be trained on, before any call where that can be
        known; ``FatalBackend``, and ``BudgetSpent`` at a cap: the run can be gone on with, and nothing is paid twice.
        """
        started = time.monotonic()
        with open_training_folder(Path(self.config.out_root)) as store:
            clock = SystemClock()

            def interrupted() -> None:
                clock.stop()
                self.close()

            pool = Pool(self.config.workers, on_interrupt=interrupted, progress=self._progress)
            run = self._run(store, clock, pool)
            try:
                state, history = self._trained(run)
                return ended(run, state, history, started=started)
            except BudgetSpent:
                store.new_allowance()
                raise

    def price(self) -> Price:
        """What the run would take at most, without a call. Raises ``UsageError`` as ``train`` does."""
        nobody = AskClient(ask=_Nobody())
        with TemporaryDirectory() as folder:  # an environment may write what it deals into the run's folder
            self._set_up(nobody, nobody, {"out_root": folder, "dry_run": True})
            items = self._items()
        rows = [item for split in items.values() for item in split]
        chars = sum(len(msgspec.json.encode(item, enc_hook=str)) for item in rows) / len(rows)
        calls_of = getattr(self.env, "calls_of", lambda _item: 1)
        calls = {split: [calls_of(item) for item in each] for split, each in items.items()}
        whole = rolls_whole(self.env, self.config.selection_split)
        return price(self.config, calls, chars_per_item=chars, skill_chars=len(self.initial_skill), whole_rounds=whole)

    def close(self) -> None:
        """End both clients; nothing can be asked of them afterwards."""
        for backend in self.backends.values():
            backend.close()

    def _redactor(self) -> Redactor | None:
        """What takes secrets out of prompts and replies; None unless the items stem from somebody's sessions."""
        if not self.env.from_sessions:
            return None
        from skillopt_sleep.safety.redaction.redactor import Redactor  # noqa: PLC0415  most runs need none

        return Redactor(values=secrets(environment() if self._environ is None else self._environ))

    def _run(self, store: TrainingFolder, clock: SystemClock, pool: Pool) -> Run:
        config = self.config
        asks = chain(
            self.backends,
            store.ledger,
            clock,
            caps=config.caps,
            workers=config.workers,
            progress=self._progress,
            redactor=self._redactor(),
        )
        limit = config.optimizer_max_completion_tokens
        optimizer = AskClient(ask=asks[Role.OPTIMIZER], max_completion_tokens=limit)
        target = AskClient(ask=asks[Role.TARGET])
        turn = TurnClient(target)
        self._set_up(optimizer, turn)
        return Run(
            config=config,
            env=self.env,
            optimizer=Optimizer(ask=optimizer, parallel=pool, wording=self.prompt_overrides),
            target=target,
            turn=turn,
            parallel=pool,
            store=store,
            artefacts=Artefacts(store, config),
            items=self._items(),
            progress=self._progress,
            tell=_tell if config.verbose else lambda _line: None,
        )

    def _set_up(self, optimizer: ChatClient, target: ChatClient, besides: Mapping[str, Any] | None = None) -> None:
        setup = getattr(self.env, "setup", None)
        if callable(setup):
            config = self.config.to_dict() | {"env": self.env.name, **(besides or {})}
            setup(config, optimizer_client=optimizer, target_client=target)

    def _items(self) -> dict[str, list[Item]]:
        """The items of the splits that are needed, checked."""
        splits = ["train", self.config.selection_split, *([self.config.test_split] if self.config.eval_test else [])]
        items = {split: list(self.env.get_items(split)) for split in splits}
        check_splits(items)
        return items

    def _trained(self, run: Run) -> tuple[RunState, list[dict[str, Any]]]:
        """Begin or go on, and do all steps and epochs that are left."""
        config, train = self.config, run.items["train"]
        self._probe()
        state = begun(run, self.initial_skill, self.backends, self.prompt_overrides)
        history = self.history = run.artefacts.history(state.last_completed_step)
        self._show(state)
        total = steps_of(config, len(train))
        scheduler = build_scheduler(config.lr_scheduler, config.edit_budget, config.min_edit_budget, total)
        if state.scheduler_state:
            scheduler.load_state_dict(state.scheduler_state)
        for epoch in range(state.epochs_ended + 1, config.num_epochs + 1):
            state = self._epoch(run, state, history, scheduler, epoch=epoch, total=total)
        return state, history

    def _probe(self) -> None:
        """Raise ``FatalBackend`` for a client that could not answer, before anything is spent on the other one."""
        for role, backend in self.backends.items():
            health = backend.probe()
            if not health.ready:
                kind = NotLoggedIn if health.logged_in is False else BackendUnusable
                raise kind(f"the {role} client {backend.name} cannot be used: {health.detail}")

    def _epoch(
        self,
        run: Run,
        state: RunState,
        history: list[dict[str, Any]],
        scheduler: Scheduler,
        *,
        epoch: int,
        total: int,
    ) -> RunState:
        config = self.config
        batches = run.batches_of(epoch)
        done_before = (epoch - 1) * len(batches)
        for index, batch in enumerate(batches):
            if state.last_completed_step > done_before + index:
                continue
            self._at(run, state, epoch, total)
            state, record = train_step(run, state, scheduler, batch, epoch=epoch, step_in_epoch=index)
            history.append(record)
            run.artefacts.commit(state, history, snapshot=True)
            self._show(state)
        if epoch >= FIRST:
            self._at(run, state, epoch, total)
        state = end_epoch(run, state, epoch=epoch, last=epoch == config.num_epochs)
        run.artefacts.commit(state, history, snapshot=False)
        self._show(state)
        return state

    def _show(self, state: RunState) -> None:
        """Let whoever holds the trainer see how things stand."""
        self.current_skill, self.current_score = state.current_skill, state.current_score
        self.best_skill, self.best_score, self.best_step = state.best_skill, state.best_score, state.best_step

    def _at(self, run: Run, state: RunState, epoch: int, total: int) -> None:
        current, best = ("-" if score is None else f"{score:.3f}" for score in (state.current_score, state.best_score))
        done = state.last_completed_step
        words = f"epoch {epoch}/{self.config.num_epochs}, {done}/{total} steps, current {current}, best {best}"
        if run.progress is not None:
            run.progress.at(done, total, words)
        else:
            run.tell(words)


def _tell(line: str) -> None:
    """Say it where it disturbs no output."""
    sys.stderr.write(f"{line}\n")
