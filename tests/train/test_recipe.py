"""A training run as a file."""

from __future__ import annotations

import pytest

from skillopt_sleep.errors import ConfigError, UsageError
from skillopt_sleep.train.recipe import read_recipe

BASE = """
num_epochs = 3
batch_size = 5
[env]
name = "simple_qa"
data = "items.jsonl"
ratio = "2:1:1"
[target]
backend = "openai"
model = "small"
"""
OWN = """
_base_ = "base/defaults.toml"
batch_size = 7
out_root = "out"
skill = "SKILL.md"
[target]
model = "other"
[prompts]
ranking = "ranking.md"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "defaults.toml").write_text(BASE)
    (tmp_path / "run.toml").write_text(OWN)
    (tmp_path / "SKILL.md").write_text("# Skill\n")
    (tmp_path / "ranking.md").write_text("Rank them.")
    return tmp_path


def test_base_is_inherited_table_by_table(folder):
    """A file overrides its base, and each path is relative to the file it is in."""
    recipe = read_recipe(folder / "run.toml", {})
    assert (recipe.config.num_epochs, recipe.config.batch_size) == (3, 7)
    assert recipe.config.out_root == str(folder / "out")
    assert recipe.env == {"name": "simple_qa", "data": str(folder / "base" / "items.jsonl"), "ratio": "2:1:1"}
    assert recipe.target == {"backend": "openai", "model": "other"}
    assert (recipe.skill, recipe.prompts) == ("# Skill\n", {"ranking": "Rank them."})


def test_flags_override_the_file(folder):
    """Another backend drops the options and the model of the old one."""
    recipe = read_recipe(folder / "run.toml", {"num_epochs": 1, "target": {"backend": "claude"}})
    assert recipe.config.num_epochs == 1
    assert recipe.target == {"backend": "claude"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num_epoch = 1", "did you mean 'num_epochs'"),
        ("[enviroment]\nname = 'x'", "'enviroment' is not a setting"),
        ("env = 'simple_qa'", "must be a table"),
        ("batch_size = 'four'", "batch_size is 'four'"),
        ("_base_ = 'nope.toml'", "cannot read the training file"),
        ("_base_ = 'bad.toml'", "inherits from itself"),
        ("_base_ = 3", "must be the name of a file"),
        ("skill = 'nope.md'", "cannot read"),
        ("batch_size = ", "is not TOML"),
        ("[prompts]\nrankin = 'nope.md'", "no prompt 'rankin' that .* could replace.*mean 'ranking'"),
    ],
)
def test_bad_training_file_is_reported(folder, text, said):
    """One line names the mistake."""
    (folder / "bad.toml").write_text(text)
    with pytest.raises(UsageError, match=said) as raised:
        read_recipe(folder / "bad.toml", {})
    assert "\n" not in str(raised.value)
    if "did you mean" in said:
        assert isinstance(raised.value, ConfigError)


REFERENCE = """
_base_: default.yaml
model:
  target: small
  target_backend: openai_chat
  optimizer: large
  optimizer_backend: codex_exec
  azure_openai_endpoint: https://models.example/v1
  azure_openai_api_key: ''
  qwen_chat_thinking_mode: deep
train: {batch_size: 10, accumulation: 2, train_size: 0}
optimizer: {learning_rate: 6, min_learning_rate: 3, slow_update_gate_with_selection: false,
  skill_update_mode: rewrite_from_suggestions, use_skill_aware_reflection: true,
  skill_aware_appendix_source: failure_only, lr_control_mode: none}
evaluation: {use_gate: false, sel_env_num: 4}
env: {name: simple_qa, data_path: items.jsonl, skill_init: initial.md, out_root: ''}
"""


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A training file in the reference's form, in the working directory, and the file it inherits from."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "default.yaml").write_text("train: {num_epochs: 2, seed: 7}\nenv: {limit: 5}\n")
    (tmp_path / "initial.md").write_text("# Skill\n")
    path = tmp_path / "configs" / "run.yaml"
    path.write_text(REFERENCE)
    return path


def test_file_in_the_form_of_the_reference_is_read(published):
    """Its names become ours, its paths start at the working directory, and what has no counterpart is listed."""
    recipe = read_recipe(published, {"workers": 3})
    config = recipe.config
    assert (config.num_epochs, config.seed, config.batch_size, config.accumulation, config.workers) == (2, 7, 10, 2, 3)
    assert (config.edit_budget, config.min_edit_budget, config.slow_update_gate, config.gate) == (6, 3, "force", "off")
    assert (config.skill_update_mode, config.skill_aware_appendix_source) == (
        "rewrite_from_suggestions",
        "failure_only",
    )
    assert (config.use_skill_aware_reflection, config.use_edit_budget) == (True, False)
    assert config.extras == {"train_size": 0, "sel_env_num": 4}
    assert recipe.target == {"backend": "openai", "model": "small", "base_url": "https://models.example/v1"}
    assert recipe.optimizer == {"backend": "codex", "model": "large"}
    assert recipe.env == {"name": "simple_qa", "data_path": "items.jsonl", "limit": 5}
    assert recipe.skill == "# Skill\n"
    assert recipe.ignored == ("model.qwen_chat_thinking_mode",)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("optimizer: {learning_rate: 4, skill_update_mode: rewrite}", "skill_update_mode is 'rewrite'"),
        ("model: {target_backend: minimax_chat}", "model.target_backend is 'minimax_chat'; known backends are"),
        ("train: {batch_size: many}", "batch_size is 'many', must be a whole number"),
        ("train: {batch_size: 3", "is not YAML"),
        ("- train", "is empty, or is a list"),
        ("", "is empty, or is a list"),
        ("data: {}", "tables are [env], [target], [optimizer], [prompts]"),
    ],
)
def test_mistake_in_a_file_of_the_reference_is_one_line(tmp_path, line, words):
    """The file and the key are named."""
    path = tmp_path / "run.yaml"
    path.write_text(line)
    with pytest.raises(UsageError, match=r"run\.yaml") as raised:
        read_recipe(path, {})
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
