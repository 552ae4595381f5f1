"""Environments written for the reference train after one ``sed`` over their imports."""

from __future__ import annotations

import importlib
import json
import random
import re
import subprocess
from pathlib import Path

import pytest

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.errors import UsageError
from skillopt_sleep.train import SkillOptConfig, SkillOptTrainer, run_rollout
from skillopt_sleep.train.compat import PATHS
from skillopt_sleep.train.compat.chats import CallLog, current
from skillopt_sleep.train.environments import load_environment
from skillopt_sleep.train.recipe import read_recipe
from tests.benchmarks.worlds import make_world
from tests.fakes.school import School, SchoolEnv

WORLD = make_world(3, rules=3, tasks_per_rule=10)
ENVIRONMENTS = Path(__file__).parents[2] / "docs" / "environments.md"
WRITTEN = Path(__file__).parent / "adapters" / "for_the_reference"


@pytest.fixture
def moved(tmp_path):
    """The package after the documented command, and a split folder."""
    folder = tmp_path / "for_the_reference"
    subprocess.run(["cp", "-r", WRITTEN, folder], check=True)
    (command,) = re.findall(r"^find my_env .*$", ENVIRONMENTS.read_text(), re.MULTILINE)
    subprocess.run(["bash", "-c", command.replace("my_env", str(folder))], check=True)
    assert "`skillopt-target`" in (folder / "rollout.py").read_text()  # a prompt is no import
    tasks = random.Random(1).sample(WORLD.tasks, 30)
    for split, part in {"train": tasks[:12], "val": tasks[12:20], "test": tasks[20:]}.items():
        (tmp_path / "split" / split).mkdir(parents=True)
        rows = [{"uid": tasks.index(task), "ask": task.asks[0], "gold": task.good} for task in part]
        (tmp_path / "split" / split / "items.json").write_text(json.dumps(rows))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("place", ["", "/adapter.py", "/adapter.py:ForTheReferenceAdapter"])
@pytest.mark.parametrize("backend", ["openai_chat", "codex_exec"])
def test_package_trains_to_the_end(moved, place, backend):
    """Relative and absolute imports, own prompts, integer ids, a chat model and an agent in a workspace."""
    env = load_environment(f"{moved}{place}", {"split_dir": str(moved.parent / "split")})
    out = moved.parent / "out"
    summary = SkillOptTrainer(
        config=SkillOptConfig(
            num_epochs=2,
            batch_size=6,
            verbose=False,
            out_root=str(out),
            extras={} if backend == "openai_chat" else {"target_backend": backend},
        ),
        env=env,
        optimizer_client=SimulatedBackend(worlds=WORLD, seed=1),
        target_client=SimulatedBackend(worlds=WORLD, seed=2),
        initial_skill="# Skill\n",
    ).train()
    assert (summary["baseline_test_hard"], summary["test_hard"]) == (0, 1)
    assert set(env.adapter.backends) == {backend}
    assert (1.0, 1.0) in env.adapter.scores
    assert bool(list(out.rglob("work/SKILL.md"))) is (backend == "codex_exec")


@pytest.mark.parametrize("path", [path for path in PATHS if path])
def test_every_path_and_name_is_importable(path):
    """The table has no name without a home."""
    module = importlib.import_module(f"skillopt_sleep.train.compat.{path}")
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("from skillopt_sleep.train.compat.model import set_target_backend", r"\[target\]"),
        ("from skillopt_sleep.train.compat.model import set_target_deployment", "docs/environments.md"),
    ],
)
def test_absent_name_is_one_line_with_a_substitute(statement, expected, tmp_path):
    """It is the message of the import, and of an environment that tries it."""
    with pytest.raises(ImportError, match=f"is not available here: .*{expected}"):
        exec(statement)
    (tmp_path / "mine.py").write_text(f"{statement}\n")
    with pytest.raises(UsageError, match=f"mine.py cannot be loaded: ImportError: skillopt.*{expected}") as raised:
        load_environment(str(tmp_path / "mine.py"), {})
    assert "\n" not in str(raised.value)


def test_two_packages_of_one_name(tmp_path):
    """The second is imported anew, with its own prompts."""
    for number in (1, 2):
        folder = tmp_path / str(number) / "pack"
        (folder / "prompts").mkdir(parents=True)
        (folder / "prompts" / "rollout_system.md").write_text(f"Prompt {number}")
        (folder / "names.py").write_text(
            "from skillopt_sleep.train.compat.prompts import load_prompt\n"
            "TEXT = load_prompt('rollout_system', env='pack')\n"
        )
        (folder / "adapter.py").write_text(
            "from skillopt_sleep.train import SkillEnv\nfrom .names import TEXT\n\n\n"
            "class Env(SkillEnv):\n    name = TEXT\n    def get_items(self, split): return []\n"
            "    def rollout_one(self, **given): return None\n"
        )
    assert [load_environment(str(tmp_path / str(number) / "pack"), {}).name for number in (1, 2)] == [
        "Prompt 1",
        "Prompt 2",
    ]


def test_prompt_that_is_nowhere():
    """The error names it; a shared one needs no environment."""
    from skillopt_sleep.train.compat.prompts import load_prompt

    assert load_prompt("analyst_error", env="nowhere") == load_prompt("analyst_error")
    with pytest.raises(FileNotFoundError, match="no prompt 'no_such'"):
        load_prompt("no_such", env="nowhere")


class Replies:
    """An optimizer that answers by what it is asked for."""

    model = "m"

    def chat(self, *, system, user, **options):
        replies = {"guidance": {"guidance": "- Keep it short."}, "notes": {"notes": "Small edits helped."}}
        replies |= {"groups": {"groups": []}, "ranking": {"ranking": [2, 1]}}
        (wanted,) = options["schema"]["properties"]
        return json.dumps(replies[wanted]), {}


def test_stages_of_a_step():
    """Merging, ranking, the slow update and the notes work on the reference's dicts."""
    from skillopt_sleep.train.compat.gradient.aggregate import merge_patches
    from skillopt_sleep.train.compat.optimizer.clip import rank_and_select
    from skillopt_sleep.train.compat.optimizer.meta_skill import run_meta_skill
    from skillopt_sleep.train.compat.optimizer.slow_update import run_slow_update

    one, two = ({"edits": [{"op": "append", "content": text}]} for text in ("- Be brief.", "- Be kind."))
    rows = [{"id": 1, "hard": 0, "soft": 0.0}], [{"id": 1, "hard": 1, "soft": 1.0}]
    pairs = [{"id": 1, "prev": rows[0][0], "curr": rows[1][0]}]
    with current.use(CallLog({"optimizer": Replies()})):
        merged = merge_patches("# Skill", [{"patch": one}], [two])
        chosen = rank_and_select("# Skill", merged, 1)
        slow = run_slow_update("# Skill", *rows, [{"id": 1, "question": "Q?"}])
        paired = run_slow_update("# Skill", [], [], [], comparison_pairs=pairs)
        nothing = run_slow_update("# Skill", [], [], [])
        meta = run_meta_skill("# Skill", "# Skill\n- Be brief.", pairs)
    assert [edit["content"] for edit in merged["edits"]] == ["- Be brief.", "- Be kind."]
    assert [edit["content"] for edit in chosen["edits"]] == ["- Be kind."]
    assert slow == paired == {"reasoning": "", "slow_update_content": "- Keep it short."}
    assert nothing is None
    assert meta == {"reasoning": "", "meta_skill_content": "Small edits helped."}


def test_run_rollout_needs_no_run():
    """Every item once, in order, scored by the environment."""
    env = SchoolEnv()
    items = env.get_items("val")
    results = run_rollout(env, "", items, target_client=School(), workers=2)
    assert [result.id for result in results] == [item["id"] for item in items]


def test_workspace_file_outside_is_refused(tmp_path):
    """A name may not lead out of the folder."""
    from skillopt_sleep.train.compat.model.codex_harness import prepare_workspace

    with pytest.raises(UsageError, match="outside"):
        prepare_workspace(work_dir=str(tmp_path / "w"), skill_md="", extra_files={"../x": ""})


@pytest.mark.parametrize("place", ["__init__", "setup", "get_dataloader", "rollout", "reflect", "get_task_types"])
def test_mistake_of_an_adapter_is_one_line(moved, place):
    """Wherever it exits, the error names the method."""
    text = (moved / "adapter.py").read_text()
    (moved / "adapter.py").write_text(f"{text}\n    def {place}(self, *given, **named):\n        raise SystemExit(3)\n")
    with pytest.raises(UsageError, match="SystemExit: 3") as raised:
        SkillOptTrainer(
            config=SkillOptConfig(num_epochs=1, batch_size=6, verbose=False, out_root=str(moved.parent / "out")),
            env=load_environment(str(moved), {"split_dir": str(moved.parent / "split")}),
            optimizer_client=SimulatedBackend(worlds=WORLD, seed=1),
            target_client=SimulatedBackend(worlds=WORLD, seed=2),
            initial_skill="# Skill\n",
        ).train()
    assert "\n" not in str(raised.value)


PUBLISHED = """
model: {target_backend: codex_exec, codex_exec_sandbox: read-only}
train: {num_epochs: 1, batch_size: 6}
env: {name: for_the_reference, split_dir: split, workers: 2, house: mine}
"""


def test_file_of_the_reference_names_its_folder(moved):
    """Settings of ``env`` reach the class where it takes them, and ``setup`` in any case; the exec target is chosen."""
    (moved / "config.yaml").write_text(PUBLISHED)
    recipe = read_recipe(moved / "config.yaml", {})
    assert recipe.env["file"] == str(moved)
    options = {name: value for name, value in recipe.env.items() if name != "file"}
    env = load_environment(str(recipe.env["file"]), options, config=recipe.config.to_dict())
    assert (env.adapter.workers, env.adapter.dataloader.split_dir) == (2, "split")
    extras = recipe.config.extras
    assert (extras["house"], extras["target_backend"], extras["codex_exec_sandbox"]) == (
        "mine",
        "codex_exec",
        "read-only",
    )


def test_published_script_trains(moved, monkeypatch):
    """``load_config`` with overrides, then ``ReflACTTrainer``, as scripts written for the reference do."""
    from skillopt_sleep.train.compat.config import load_config
    from skillopt_sleep.train.compat.engine.trainer import ReflACTTrainer

    from skillopt_sleep.train.compat import stages

    monkeypatch.setattr(stages, "client", lambda _name, model="", **_: SimulatedBackend(worlds=WORLD, seed=len(model)))
    (moved / "config.yaml").write_text(PUBLISHED)
    split, out = moved.parent / "split", moved.parent / "out"
    cfg = load_config(str(moved / "config.yaml"), [f"env.split_dir={split}", f"env.out_root={out}", "train.seed=7"])
    assert cfg["train"] == {"num_epochs": 1, "batch_size": 6, "seed": 7}
    adapter = load_environment(str(moved), {"split_dir": str(split)}).adapter
    summary = ReflACTTrainer(cfg, adapter).train()
    assert (summary["config"]["seed"], summary["total_steps"], adapter.backends[0]) == (7, 2, "codex_exec")
    with pytest.raises(UsageError, match=r"'seed' must have the form section\.key=value"):
        load_config(str(moved / "config.yaml"), ["seed"])


def test_tools_end_the_run_before_anything_is_paid(moved):
    """An adapter that catches the refusal, as many catch everything, would train on zeros."""
    (moved / "adapter.py").write_text(
        (moved / "adapter.py").read_text() + "\n    def rollout(self, env_manager, skill_content, out_dir, **kwargs):\n"
        "        from skillopt_sleep.train.compat.model import chat_target_messages\n"
        "        try:\n            chat_target_messages([], tools=[{}])\n        except Exception:\n            pass\n"
        "        return [{'id': str(item['id']), 'hard': 0} for item in env_manager]\n"
    )
    school = School()
    with pytest.raises(UsageError, match="chat with tools is not available"):
        SkillOptTrainer(
            config=SkillOptConfig(verbose=False, out_root=str(moved.parent / "out")),
            env=load_environment(str(moved), {"split_dir": str(moved.parent / "split")}),
            optimizer_client=school,
            target_client=school,
        ).train()
    assert not school.calls
