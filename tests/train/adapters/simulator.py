"""An environment without a dataset: a simulator behind a manager object, and reflection by hand."""

from __future__ import annotations

import random

from skillopt_sleep.train.compat import EnvAdapter


class Games:
    """A manager of so many games; ``close`` is to be called by nobody but the adapter."""

    def __init__(self, split, n, seed):
        self.split, self.n, self.seed, self.closed = split, n, seed, False

    def __len__(self):
        return self.n

    def play(self, number, skill):
        """Pass where the skill names the colour of the game's door, and there is no distraction."""
        colour = random.Random(f"{self.split}{self.seed}{number}").choice(["red", "green", "blue"])
        return colour, f"take the {colour} door" in skill.lower()

    def close(self):
        self.closed = True


class SimulatorAdapter(EnvAdapter):
    """Splits are known here by their published names only."""

    def __init__(self, games=9):
        self.games, self.managers = games, []

    def build_train_env(self, batch_size, seed, **kwargs):
        return self._made("train", batch_size, seed)

    def build_eval_env(self, env_num, split, seed, **kwargs):
        if split not in {"valid_seen", "valid_unseen"}:
            raise ValueError(f"unknown split {split}")
        return self._made(split, env_num or self.games, seed)

    def _made(self, split, n, seed):
        self.managers.append(Games(split, n, seed))
        return self.managers[-1]

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = []
        for number in range(len(env_manager)):
            colour, won = env_manager.play(number, skill_content)
            rows.append(
                {"id": f"game_{number:03d}", "hard": int(won), "soft": float(won), "n_turns": 3, "colour": colour}
            )
        env_manager.close()
        return rows

    def reflect(self, results, skill_content, out_dir, **kwargs):
        lost = sorted({row["colour"] for row in results if not row["hard"]})
        patches = [None]
        for colour in lost[:2]:
            edit = {"op": "append", "content": f"- Take the {colour} door.", "support_count": 2}
            patch = {"reasoning": f"{colour} was lost", "edits": [edit]}
            patches.append({"patch": patch, "source_type": "failure", "batch_size": len(results)})
        return patches

    def get_task_types(self):
        return ["door"]
