"""Twelve environments and configurations that cannot work: each is one line and exit code 2, before any paid call."""

from __future__ import annotations

import pytest

GOOD = """
from skillopt_sleep.train import RolloutResult, SkillEnv
class Env(SkillEnv):
    def get_items(self, split):
        return [{"id": f"{split}{number}", "question": "?"} for number in range(3)]
    def rollout_one(self, *, item, skill, target_client):
        return RolloutResult(id=item["id"], hard=1.0)
"""
EDITED = {
    "get_items": "    def get_items(self, split):\n        ",
    "rollout_one": "    def rollout_one(self, **given):\n        ",
}

BAD = {
    "misspelt field": (
        "num_epoch = 1",
        "",
        "'num_epoch' is not a setting of a training file; did you mean 'num_epochs'",
    ),
    "impossible value": ("batch_size = 0", "", "batch_size is 0, must be a whole number >= 1"),
    "update mode": ('skill_update_mode = "rewrite"', "", "skill_update_mode is 'rewrite', must be one of patch"),
    "engine": ('engine = "slurm"', "", "engine is 'slurm', must be one of local, ray"),
    "modes that exclude each other": (
        'skill_update_mode = "full_rewrite_minibatch"\nuse_skill_aware_reflection = true',
        "",
        "works only on edits",
    ),
    "gate on the test": ('selection_split = "test"', "", "selection_split is 'test'"),
    "no such environment": ('env = {name = "simple_q"}', "", "simple_q"),
    "no environment in the file": ("", "x = 1", "defines no environment"),
    "file that does not load": ("", "import nothing_of_that_name", "cannot be loaded: ModuleNotFoundError"),
    "items without an id": ("", EDITED["get_items"] + 'return [{"question": "?"}]', "has no id"),
    "items that raise": ("", EDITED["get_items"] + "raise SystemExit(3)", "raised SystemExit"),
    "id in two splits": ("", EDITED["get_items"] + 'return [{"id": "a"}]', "the id 'a' occurs twice"),
}
LATE = {
    "score that is none": ("return RolloutResult(id=given['item']['id'], hard=7)", "hard is 7"),
    "result of nobody": ("return RolloutResult(id='x', hard=1.0)", "its result has the id 'x'"),
    "no result": ("return None", "expected a RolloutResult"),
}


@pytest.fixture
def refused(cli, tmp_path):
    """Run a training file with this top and this environment; return what the program printed."""

    def run(top, body):
        extended = body.startswith("    def")
        (tmp_path / "mine.py").write_text(GOOD + body if extended or not body else body)
        env = "" if top.startswith("env") else '[env]\nfile = "mine.py"\n'
        roles = "".join(f'[{role}]\nbackend = "simulated"\n' for role in ("target", "optimizer"))
        out = f'out_root = "{tmp_path / "out"}"'
        (tmp_path / "train.toml").write_text(f"{out}\n{top}\n{env}{roles}")
        return cli("train", tmp_path / "train.toml")

    return run


def check_one_line(done, words):
    assert done.code == 2
    (line,) = [line for line in done.err.splitlines() if line.startswith(("skillopt-sleep: ", "Error: "))]
    assert words in line
    assert "Traceback" not in done.err


@pytest.mark.parametrize("name", BAD)
def test_refused_before_any_call(refused, tmp_path, name):
    """The value, what was expected and the fix; no run is begun."""
    top, body, words = BAD[name]
    check_one_line(refused(top, body), words)
    assert not (tmp_path / "out" / "runtime_state.json").exists()


@pytest.mark.parametrize("name", LATE)
def test_wrong_result_is_one_line(refused, name):
    """Only an attempt can show it: the first one does."""
    body, words = LATE[name]
    check_one_line(refused("", EDITED["rollout_one"] + body), words)
