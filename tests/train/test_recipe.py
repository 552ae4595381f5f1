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
        ("[enviroment]\nname = 'x'", "no 'enviroment'"),
        ("env = 'simple_qa'", "must be a table"),
        ("batch_size = 'four'", "batch_size is 'four'"),
        ("_base_ = 'nope.toml'", "cannot read the training file"),
        ("_base_ = 'bad.toml'", "inherits from itself"),
        ("_base_ = 3", "must be the name of a file"),
        ("skill = 'nope.md'", "cannot read"),
        ("batch_size = ", "is not TOML"),
        ("[prompts]\nrankin = 'nope.md'", "no prompt 'rankin' to override.*mean 'ranking'"),
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
