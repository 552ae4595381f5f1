"""The adapter."""

from __future__ import annotations

from skillopt.datasets.base import BatchSpec
from skillopt.envs.base import EnvAdapter
from skillopt.gradient.reflect import run_minibatch_reflect
from skillopt.model import get_target_backend
from skillopt.utils import compute_score

from .dataloader import HouseDataLoader
from .rollout import roll_out


class ForTheReferenceAdapter(EnvAdapter):
    """With an own way to reflect."""

    def __init__(self, split_dir: str = "", workers: int = 4, analyst_workers: int = 4, seed: int = 42):
        self.workers = workers
        self.analyst_workers = analyst_workers
        self.backends = []
        self.scores = []
        self.dataloader = HouseDataLoader(split_dir=split_dir, split_mode="split_dir", seed=seed)

    def setup(self, cfg: dict) -> None:
        super().setup(cfg)
        self.dataloader.setup(cfg)
        assert self._env_name == "for_the_reference"

    def get_dataloader(self):
        return self.dataloader

    def build_env_from_batch(self, batch: BatchSpec, **kwargs):
        return list(batch.payload or [])

    def build_train_env(self, batch_size: int, seed: int, **kwargs):
        return self.build_env_from_batch(self.dataloader.build_train_batch(batch_size=batch_size, seed=seed))

    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs):
        return self.build_env_from_batch(self.dataloader.build_eval_batch(env_num=env_num, split=split, seed=seed))

    def rollout(self, env_manager, skill_content: str, out_dir: str, **kwargs) -> list[dict]:
        self.backends.append(get_target_backend())
        rows = [roll_out(item, skill_content, out_dir) for item in env_manager]
        self.scores.append(compute_score(rows))
        return rows

    def reflect(self, results: list[dict], skill_content: str, out_dir: str, **kwargs) -> list[dict | None]:
        return run_minibatch_reflect(
            results,
            skill_content,
            kwargs["prediction_dir"],
            kwargs["patches_dir"],
            workers=self.analyst_workers,
            failure_only=False,
            minibatch_size=3,
            error_system=self._load_env_prompt("analyst_error"),
            update_mode="patch",
        )

    def get_task_types(self) -> list[str]:
        return ["house_style"]
