"""A benchmark that takes up its own results file, asks an item several times, tries again, and ends in any order."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from skillopt_sleep.train.compat import EnvAdapter, SplitDataLoader, chat_target, run_minibatch_reflect

FILE = "results.jsonl"


class ResumingLoader(SplitDataLoader):
    """Items as they lie."""

    def load_split_items(self, split_path):
        return json.loads(Path(split_path, "items.json").read_text(encoding="utf-8"))


class ResumingAdapter(EnvAdapter):
    """``tries`` calls for an answer, ``turns`` questions an item; whatever is raised becomes a failed attempt."""

    def __init__(self, split_dir="", *, workers=4, tries=1, turns=1, telling=True, seed=42):
        self.workers, self.tries, self.max_turns, self.telling = workers, tries, turns, telling
        self.analyst_workers, self.failure_only, self.minibatch_size, self.edit_budget = 2, False, 3, 4
        self.dataloader = ResumingLoader(split_dir=split_dir, split_mode="split_dir", seed=seed)
        self.found, self.reflected = [], []

    def setup(self, cfg):
        super().setup(cfg)
        self.dataloader.setup(cfg)

    def get_dataloader(self):
        return self.dataloader

    def build_env_from_batch(self, batch, **kwargs):
        return list(batch.payload or [])

    def build_train_env(self, batch_size, seed, **kwargs):
        return self.build_env_from_batch(self.dataloader.build_train_batch(batch_size, seed, **kwargs))

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return self.build_env_from_batch(self.dataloader.build_eval_batch(env_num, split, seed, **kwargs))

    def ask(self, skill, question):
        for _ in range(self.tries - 1):
            try:
                return chat_target(skill, question, retries=1, stage="rollout", timeout=60)[0]
            except Exception:  # noqa: BLE001  as many adapters do
                continue
        return chat_target(skill, question, retries=1, stage="rollout", timeout=60)[0]

    def attempt(self, item, skill, out_dir):
        row = {"id": item["id"], "hard": 0, "soft": 0.0, "fail_reason": "", "predicted_answer": "", "tags": ()}
        folder = Path(out_dir, "predictions", item["id"])
        folder.mkdir(parents=True, exist_ok=True)
        try:
            said = [self.ask(skill, item["question"])]
            said += [
                self.ask(skill, f"{item['question']}\nIs that right? ({turn})") for turn in range(1, self.max_turns)
            ]
            row |= {"predicted_answer": said[0], "hard": int(said[0] == item["answer"]), "n_turns": len(said)}
            row |= {"soft": float(row["hard"]), "fail_reason": "" if row["hard"] else f"wanted {item['answer']}"}
            turns = [{"type": "message", "turn": number, "content": text} for number, text in enumerate(said)]
            (folder / "conversation.json").write_text(json.dumps(turns), encoding="utf-8")
        except Exception as error:  # noqa: BLE001  as many adapters do
            row["fail_reason"] = f"error: {error}" if self.telling else "no answer"
        return row

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        path = Path(out_dir, FILE)
        results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self.found.append(len(results))
        pending = [item for item in env_manager if item["id"] not in {row["id"] for row in results}]
        with ThreadPoolExecutor(self.workers) as pool, path.open("a") as file:
            for done in as_completed([pool.submit(self.attempt, item, skill_content, out_dir) for item in pending]):
                results.append(done.result())
                file.write(json.dumps(results[-1]) + "\n")
                file.flush()
        random.shuffle(results)
        return results

    def reflect(self, results, skill_content, out_dir, **kwargs):
        self.reflected.append([dict(row) for row in results])
        return run_minibatch_reflect(
            results=results,
            skill_content=skill_content,
            prediction_dir=kwargs["prediction_dir"],
            patches_dir=kwargs["patches_dir"],
            workers=self.analyst_workers,
            failure_only=self.failure_only,
            minibatch_size=self.minibatch_size,
            edit_budget=self.edit_budget,
            random_seed=kwargs["random_seed"],
            step_buffer_context=kwargs["step_buffer_context"],
            meta_skill_context=kwargs["meta_skill_context"],
        )

    def get_task_types(self):
        return ["qa"]
