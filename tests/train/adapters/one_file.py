"""A benchmark from one raw file dealt by ratio, that reflects through the published helper with a prompt of its own."""

from __future__ import annotations

import json
from pathlib import Path

from skillopt_sleep.train.compat import EnvAdapter, SplitDataLoader, chat_target, run_minibatch_reflect

ANALYST = "You improve a skill. Propose edits of the document from the failures shown: one JSON object with edits."


class OneFileLoader(SplitDataLoader):
    """Raw rows of one JSON file, in the raw form's own names."""

    def load_raw_items(self, data_path: str) -> list[dict]:
        raw = json.loads(Path(data_path).read_text(encoding="utf-8"))
        return [{"id": f"row-{number}", **row} for number, row in enumerate(raw["rows"])]

    def load_split_items(self, split_path: str) -> list[dict]:
        return json.loads(Path(split_path, "items.json").read_text(encoding="utf-8"))


class OneFileAdapter(EnvAdapter):
    """No build_env_from_batch of its own: batches come through build_train_env and build_eval_env."""

    def __init__(self, data_path="", split_ratio="2:1:7", split_seed=42, split_output_dir="", edit_budget=3, **kwargs):
        super().__init__()
        self.edit_budget = edit_budget
        self.reflected = []
        self.dataloader = OneFileLoader(
            data_path=data_path, split_ratio=split_ratio, split_seed=split_seed, split_output_dir=split_output_dir
        )

    def setup(self, cfg):
        super().setup(cfg)
        self.dataloader.setup(self._cfg)

    def get_dataloader(self):
        return self.dataloader

    def build_train_env(self, batch_size, seed, **kwargs):
        return self.dataloader.build_train_batch(batch_size, seed, **kwargs).payload

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return self.dataloader.build_eval_batch(env_num, split, seed, **kwargs).payload

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        results = []
        for item in env_manager:
            text, usage = chat_target(skill_content, item["question"], 256, stage="rollout")
            passed = text == item["answer"]
            row = {"id": item["id"], "hard": passed, "soft": float(passed), "response": text, "tokens": usage}
            results.append(row | {"fail_reason": "" if passed else f"wanted {item['answer']}"})
            folder = Path(out_dir, "predictions", item["id"])
            folder.mkdir(parents=True, exist_ok=True)
            said = [{"type": "message", "turn": 1, "content": text}]
            (folder / "conversation.json").write_text(json.dumps(said), encoding="utf-8")
        return self.attach_reference_context(results, self._with_references(env_manager))

    def _with_references(self, items):
        return [item | {"reference_text": item["answer"]} for item in items]

    def reflect(self, results, skill_content, out_dir, **kwargs):
        self.reflected.append(sorted(kwargs))
        return run_minibatch_reflect(
            results=results,
            skill_content=skill_content,
            prediction_dir=kwargs.get("prediction_dir", str(Path(out_dir, "predictions"))),
            patches_dir=kwargs.get("patches_dir", str(Path(out_dir, "patches"))),
            workers=2,
            failure_only=True,
            minibatch_size=4,
            edit_budget=self.edit_budget,
            random_seed=kwargs.get("random_seed"),
            error_system=ANALYST,
            success_system=self.get_success_minibatch_prompt(),
            step_buffer_context=kwargs.get("step_buffer_context", ""),
            meta_skill_context=kwargs.get("meta_skill_context", ""),
            update_mode=getattr(self, "_cfg", {}).get("skill_update_mode", "patch"),
        )

    def get_task_types(self):
        return ["one_file"]
