"""A benchmark of games: its loader says in a batch's metadata what is to be played, behind a manager object."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from skillopt_sleep.train.compat import EnvAdapter, SplitDataLoader, chat_target


@dataclass(frozen=True)
class Play:
    """What a rollout is given: no items, only which games to play, and what their results are called."""

    env_num: int
    seed: int
    is_train: bool
    gamefiles: list
    result_ids: list

    def __len__(self):
        return self.env_num


class GameLoader(SplitDataLoader):
    """Every batch brings the files of its games."""

    def load_split_items(self, split_path):
        return json.loads(Path(split_path, "items.json").read_text(encoding="utf-8"))

    def _with_games(self, batch):
        folder = Path(self.split_dir).parent / "games"
        batch.metadata = {
            "gamefiles": [str(folder / f"{item['id']}.json") for item in batch.payload],
            "result_ids": [item["id"] for item in batch.payload],
            "is_train": batch.phase == "train",
        }
        return batch

    def plan_train_epoch(self, **kwargs):
        return [self._with_games(batch) for batch in super().plan_train_epoch(**kwargs)]

    def build_train_batch(self, batch_size, seed, **kwargs):
        return self._with_games(super().build_train_batch(batch_size, seed, **kwargs))

    def build_eval_batch(self, env_num, split, seed, **kwargs):
        return self._with_games(super().build_eval_batch(env_num, split, seed, **kwargs))


class GameAdapter(EnvAdapter):
    """Plays what the metadata names; ``rigid`` builds its own batches, whatever it is asked for."""

    def __init__(self, split_dir="", seed=42):
        self.dataloader = GameLoader(split_dir=split_dir, split_mode="split_dir", seed=seed)
        self.played = []

    def setup(self, cfg):
        super().setup(cfg)
        self.dataloader.setup(cfg)

    def get_dataloader(self):
        return self.dataloader

    def build_env_from_batch(self, batch, **kwargs):
        told = batch.metadata
        return Play(batch.batch_size, batch.seed, told["is_train"], told["gamefiles"], told["result_ids"])

    def build_train_env(self, batch_size, seed, **kwargs):
        return self.build_env_from_batch(self.dataloader.build_train_batch(batch_size, seed, **kwargs))

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return self.build_env_from_batch(self.dataloader.build_eval_batch(env_num, split, seed, **kwargs))

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        self.played.append(env_manager)
        rows = []
        for file, name in zip(env_manager.gamefiles, env_manager.result_ids, strict=True):
            game = json.loads(Path(file).read_text(encoding="utf-8"))
            text, _ = chat_target(skill_content, game["question"])
            won = text == game["answer"]
            row = {"id": name, "hard": int(won), "soft": float(won), "predicted_answer": text}
            rows.append(row | {"task_description": game["question"], "fail_reason": "" if won else game["answer"]})
        return rows

    def get_task_types(self):
        return ["game"]


class RigidGameAdapter(GameAdapter):
    """With the base class's way to an environment: by size and seed, whatever the batch holds."""

    def build_env_from_batch(self, batch, **kwargs):
        return EnvAdapter.build_env_from_batch(self, batch, **kwargs)

    def build_train_env(self, batch_size, seed, **kwargs):
        return GameAdapter.build_env_from_batch(self, self.dataloader.build_train_batch(batch_size, seed))

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return GameAdapter.build_env_from_batch(self, self.dataloader.build_eval_batch(env_num, split, seed))
