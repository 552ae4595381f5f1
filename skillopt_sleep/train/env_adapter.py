"""An environment by the published signatures of the reference: what it must write, and what it need not."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from skillopt_sleep.train.analysts import run_minibatch_reflect
from skillopt_sleep.train.loaders import BaseDataLoader, BatchSpec
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.representatives import by_id, representative
from skillopt_sleep.train.rows import Row

__all__ = ["EnvAdapter"]


class EnvAdapter(ABC):
    """An environment as the reference has it: it builds batches, rolls them out, and may reflect on them."""

    def __init__(self, cfg: dict[str, Any] | None = None, **kwargs: Any) -> None:
        self._cfg: dict[str, Any] = dict(cfg or {}) | kwargs

    def setup(self, cfg: dict[str, Any]) -> None:
        """Called once with the whole config, before anything else."""
        self._cfg = dict(cfg)

    def get_dataloader(self) -> BaseDataLoader | None:
        """The loader of this adapter, if it has one."""
        return None

    def requires_ray(self) -> bool:
        """Whether Ray must be running."""
        return False

    def build_reference_text(self, item: Item) -> str:
        """What the optimizer may know of an item that the target must not."""
        return str(item.get("reference_text") or "").strip()

    def get_reference_metadata(self, item: Item) -> dict[str, Any]:
        """Which fields that text came from, and how it begins."""
        text = self.build_reference_text(item)
        return {"fields": ["reference_text"] if text else [], "preview": text[:400]}

    def attach_reference_context(self, results: list[Row], items: list[Item] | None) -> list[Row]:
        """The results, each with the reference text of its item."""
        texts = {name: self.build_reference_text(item) for name, item in by_id(items).items()}
        found = [(row, texts.get(str(row.get("id")))) for row in results]
        return [dict(row) | ({"reference_text": text} if text else {}) for row, text in found]

    def select_representative_items(
        self,
        results: list[Row],
        items: list[Item] | None,
        *,
        n_failures: int,
        n_successes: int,
        seed: int | None = None,
    ) -> list[Item]:
        """So many items that failed and so many that passed, of as many task types as there are."""
        return representative(results, by_id(items), failures=n_failures, successes=n_successes, seed=seed)

    def build_env_from_batch(self, batch: BatchSpec, **kwargs: Any) -> Any:
        """What ``rollout`` is given for a batch: by default as the two methods below build it."""
        if batch.phase == "train":
            return self.build_train_env(batch_size=batch.batch_size, seed=batch.seed, **kwargs)
        return self.build_eval_env(env_num=batch.batch_size, split=batch.split, seed=batch.seed, **kwargs)

    @abstractmethod
    def build_train_env(self, batch_size: int, seed: int, **kwargs: Any) -> Any:
        """What ``rollout`` is given for a batch to train on."""

    @abstractmethod
    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: Any) -> Any:
        """What ``rollout`` is given for a split; it is called ``valid_seen`` or ``valid_unseen``."""

    @abstractmethod
    def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any) -> list[Row]:
        """One attempt at each; a dict with ``id``, ``hard``, ``soft`` and whatever else is worth keeping."""

    def reflect(self, results: list[Row], skill_content: str, out_dir: str, **kwargs: Any) -> list[Row | None]:
        """Propose patches: by default with the analysts of this program, and this adapter's prompts."""
        own = {
            name: getattr(self, name)
            for name in ("failure_only", "minibatch_size", "edit_budget")
            if hasattr(self, name)
        }
        return run_minibatch_reflect(
            results,
            skill_content,
            kwargs.get("prediction_dir", str(Path(out_dir, "predictions"))),
            kwargs.get("patches_dir", str(Path(out_dir, "patches"))),
            workers=getattr(self, "analyst_workers", 8),
            **({"failure_only": False} | own),
            random_seed=kwargs.get("random_seed"),
            error_system=self.get_error_minibatch_prompt(),
            success_system=self.get_success_minibatch_prompt(),
            step_buffer_context=kwargs.get("step_buffer_context", ""),
            meta_skill_context=kwargs.get("meta_skill_context", ""),
        )

    @abstractmethod
    def get_task_types(self) -> list[str]:
        """The kinds of items there are."""

    def get_error_minibatch_prompt(self) -> str | None:
        """The analysts' prompt for failures: ``prompts/analyst_error.md`` beside the adapter, else None: the usual."""
        return self._own_prompt("analyst_error")

    def get_success_minibatch_prompt(self) -> str | None:
        """The same for successes: ``prompts/analyst_success.md``."""
        return self._own_prompt("analyst_success")

    def _own_prompt(self, name: str) -> str | None:
        try:
            path = Path(inspect.getfile(type(self))).parent / "prompts" / f"{name}.md"
        except (TypeError, OSError):  # a class typed into a session lies in no file
            return None
        return path.read_text(encoding="utf-8") if path.is_file() else None
