"""A shop with tools, several turns an order: a loader without files, state that lives on, and errors that pass."""

from __future__ import annotations

import json
import random
from pathlib import Path

from skillopt_sleep.train.compat import BaseDataLoader, BatchSpec, EnvAdapter, chat_target_messages

PARTS = ("bell", "chain", "pedal", "tyre")
CALLED = {"valid_seen": "val", "valid_unseen": "test"}


class OrderLoader(BaseDataLoader):
    """Orders made by rule; of the published methods only those that must be there, and the size."""

    def __init__(self, sizes):
        self.orders = {split: [self.order(split, number) for number in range(size)] for split, size in sizes.items()}

    @staticmethod
    def order(split, number):
        part = PARTS[number % len(PARTS)]
        asked = f"Order {number} of {split}: one {part}, please."
        return {"id": f"{split}_{number}", "asked": asked, "part": part, "reference_text": f"LOOKUP {part}, then DONE"}

    def get_train_size(self):
        return len(self.orders["train"])

    def build_train_batch(self, batch_size, seed, **kwargs):
        orders = self.orders["train"]
        drawn = random.Random(seed).sample(orders, min(batch_size, len(orders)))
        return BatchSpec("train", "train", seed, len(drawn), drawn)

    def build_eval_batch(self, env_num, split, seed, **kwargs):
        orders = self.orders[CALLED.get(split, split)]
        orders = orders[:env_num] if env_num else orders
        return BatchSpec(phase="eval", split=split, seed=seed, batch_size=len(orders), payload=list(orders))


class Shop:
    """What rollouts are given: one object for the whole run, holding the orders of the batch under way."""

    def __init__(self):
        self.orders, self.steps = [], 0

    def step(self, order, said):
        self.steps += 1
        if said == f"LOOKUP {order['part']}":
            return "It is on shelf 3.", False
        return "Thank you." if said == "DONE" else "What?", said == "DONE"


class ShopAdapter(EnvAdapter):
    """An order is right when its part was looked up before it was done; what a call raises is not caught."""

    max_turns = 3

    def __init__(self, **sizes):
        self.loader, self.shop, self.folders = OrderLoader(sizes or {"train": 8, "val": 8, "test": 4}), Shop(), []

    def get_dataloader(self):
        return self.loader

    def build_env_from_batch(self, batch, **kwargs):
        self.shop.orders = batch.payload
        return self.shop

    def build_train_env(self, batch_size, seed, **kwargs):
        return self.build_env_from_batch(self.loader.build_train_batch(batch_size, seed, **kwargs))

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return self.build_env_from_batch(self.loader.build_eval_batch(env_num, split, seed, **kwargs))

    def rollout(self, env_manager, skill_content, out_dir, *, max_completion_tokens=64, **kwargs):
        self.folders.append(out_dir)
        rows = [self.serve(env_manager, order, skill_content, max_completion_tokens) for order in env_manager.orders]
        for row in rows:
            folder = Path(out_dir, "predictions", row["id"])
            folder.mkdir(parents=True)
            (folder / "conversation.json").write_text(json.dumps(row["messages"]))
        return self.attach_reference_context(rows, env_manager.orders)

    def serve(self, shop, order, skill, limit):
        messages = [{"role": "system", "content": skill}, {"role": "user", "content": order["asked"]}]
        looked = done = False
        while not done and len(messages) < 2 * (self.max_turns + 1):
            said, _ = chat_target_messages(messages, limit, stage="rollout")
            answer, done = shop.step(order, said)
            looked = looked or said.startswith("LOOKUP")
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": answer}]
        row = {"id": order["id"], "hard": int(looked and done), "soft": (looked + done) / 2, "messages": messages}
        return row | {"n_turns": len(messages) // 2 - 1, "task_type": order["part"], "task_description": order["asked"]}

    def get_task_types(self):
        return list(PARTS)
