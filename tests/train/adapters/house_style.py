"""A benchmark as the published guide has it: a split folder, a rollout helper in threads, an inherited reflect."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from skillopt_sleep.train.compat import BatchSpec, EnvAdapter, SplitDataLoader, chat_target


class HouseStyleDataLoader(SplitDataLoader):
    """Items from the first JSON file of each split folder, under names of their own."""

    def load_split_items(self, split_path: str) -> list[dict]:
        rows = json.loads(Path(split_path, "items.json").read_text(encoding="utf-8"))
        return [
            {"id": str(row["uid"]), "question": row["ask"], "ground_truth": row["gold"], "task_type": row["kind"]}
            for row in rows
        ]


def run_one(item: dict, skill_content: str, out_root: str) -> dict:
    """Ask once, score, and leave the conversation where reflection looks for it."""
    prediction, _usage = chat_target(system=skill_content, user=item["question"], max_completion_tokens=512)
    right = prediction.strip().lower() == item["ground_truth"].strip().lower()
    folder = Path(out_root, "predictions", item["id"])
    folder.mkdir(parents=True, exist_ok=True)
    said = [
        {"role": "assistant", "content": prediction},
        {"role": "system", "content": f"wanted {item['ground_truth']}"},
    ]
    (folder / "conversation.json").write_text(json.dumps(said), encoding="utf-8")
    return {
        "id": item["id"],
        "hard": int(right),
        "soft": 1.0 if right else 0.25,
        "predicted_answer": prediction,
        "question": item["question"],
        "reference_text": item["ground_truth"],
        "task_type": item["task_type"],
        "fail_reason": "" if right else "not the house style",
        "letters": len(prediction),
    }


class HouseStyleAdapter(EnvAdapter):
    """The adapter; the names of its arguments are those of the guide."""

    def __init__(self, split_dir: str = "", seed: int = 42, limit: int = 0, workers: int = 4, edit_budget: int = 4):
        self.workers = workers
        self.analyst_workers = 4
        self.failure_only = False
        self.minibatch_size = 8
        self.edit_budget = edit_budget
        self.dataloader = HouseStyleDataLoader(split_dir=split_dir, split_mode="split_dir", seed=seed, limit=limit)

    def setup(self, cfg: dict) -> None:
        super().setup(cfg)
        self.dataloader.setup(cfg)

    def get_dataloader(self):
        return self.dataloader

    def build_env_from_batch(self, batch: BatchSpec, **kwargs):
        return list(batch.payload or [])

    def build_train_env(self, batch_size: int, seed: int, **kwargs):
        batch = self.dataloader.build_train_batch(batch_size=batch_size, seed=seed, **kwargs)
        return self.build_env_from_batch(batch, **kwargs)

    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs):
        batch = self.dataloader.build_eval_batch(env_num=env_num, split=split, seed=seed, **kwargs)
        return self.build_env_from_batch(batch, **kwargs)

    def rollout(self, env_manager, skill_content: str, out_dir: str, **kwargs) -> list[dict]:
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            return list(pool.map(lambda item: run_one(item, skill_content, out_dir), env_manager))

    def get_task_types(self) -> list[str]:
        items = self.dataloader.train_items + self.dataloader.val_items + self.dataloader.test_items
        return list(dict.fromkeys(str(item.get("task_type") or "house_style") for item in items)) or ["house_style"]
