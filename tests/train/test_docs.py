"""The two pages on training are run as they stand: their code, their commands, and the figures they name."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skillopt_sleep.cli import main

ROOT = Path(__file__).parents[2]
TRAINING = ROOT / "docs" / "training.md"
ENVIRONMENTS = ROOT / "docs" / "environments.md"
EXAMPLE = ROOT / "docs" / "examples" / "tickets"


def blocks(path, language):
    """The code blocks of a page in one language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def example(tmp_path, monkeypatch):
    """A copy of the example, to stand in."""
    shutil.copytree(EXAMPLE, tmp_path / "tickets")
    monkeypatch.chdir(tmp_path / "tickets")
    return tmp_path / "tickets"


def typed(command, capsys):
    """What a command of a page prints."""
    assert command.startswith("skillopt-sleep ")
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(shlex.split(command)[1:])
    out, err = capsys.readouterr()
    assert end.value.code == 0, err
    return out


@pytest.mark.slow
def test_worked_example_runs_as_told(example, capsys):
    """The commands in their order; scores and skill are those of the page."""
    commands = [line[2:] for block in blocks(TRAINING, "console") for line in block.splitlines()]
    price, trained, scored, matrix = [typed(command, capsys) for command in commands]
    page = TRAINING.read_text(encoding="utf-8")
    assert "no model was called and nothing was written" in price
    summary = json.loads((example / "outputs" / "summary.json").read_text())
    told = [
        f"score {summary['baseline_selection_score']:.0f} to {summary['best_selection_score']:.3f}",
        f"score {summary['baseline_test_hard']:.3f}\nto {summary['test_hard']:.3f}",
    ]
    assert all(each in page for each in told), told
    assert (example / "outputs" / "best_skill.md").read_text().rstrip() == blocks(TRAINING, "markdown")[0].rstrip()
    assert "selection score" in trained
    assert "(no skill)" in scored
    (shown,) = blocks(TRAINING, "text")
    assert matrix.startswith(shown)
    cells = [line.split("  ") for line in shown.splitlines()[3:]]
    assert f"{summary['test_hard']:.3f} +-" in cells[1][2] + cells[1][-1]


def test_training_file_for_own_data_is_read(tmp_path, monkeypatch, capsys):
    """With its three files in a folder, a dry run names both models and counts the calls."""
    monkeypatch.chdir(tmp_path)
    (file,) = blocks(TRAINING, "toml")
    Path("train.toml").write_text(file)
    Path("SKILL.md").write_text("Name the colour.\n")
    rows = [f"{n};What colour is {thing}?;{n}\n" for n, thing in enumerate(("snow", "coal", "grass", "rust", "rain"))]
    Path("items.csv").write_text("id;question;answer\n" + "".join(rows))
    price = typed("skillopt-sleep train train.toml --dry-run", capsys)
    assert "openai:the-small-one" in price
    assert "claude" in price
    assert re.search(r"Cap: \d+ calls, 5 USD \(which do not count openai: no price is reported\)", price)
    assert "Not ready: the target client openai cannot be used: " in price  # nothing answers at its base_url


def test_quick_start_of_the_library_runs(tmp_path, monkeypatch, capsys):
    """Config, three lists, two clients, train, a summary: 15 lines, and it prints what the page says it does."""
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(TRAINING, "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    exec(compile(code, str(TRAINING), "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("test score 0.00 before, 0.00 after training;")
    assert "steps accepted: outputs/titles/best_skill.md" in said


def test_code_on_environments_runs(tmp_path, monkeypatch):
    """Every block, one after the other; its own environment is found as a file, its adapter trains."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in blocks(ENVIRONMENTS, "python"):
        exec(compile(code, str(ENVIRONMENTS), "exec"), names)
    (own,) = [code for code in blocks(ENVIRONMENTS, "python") if code.startswith("# my_env.py")]
    Path("my_env.py").write_text(own)
    from skillopt_sleep.usecases.training import build_environment

    assert build_environment({"file": "my_env.py", "words": "a,b,c"}).get_items("test")[0]["id"] == "c"
    adapter = names["CapitalsAdapter"]
    rows = [{"id": n, "question": f"Capital of country {n}?", "answer": f"city {n}"} for n in range(12)]
    Path("rows.json").write_text(json.dumps(rows))
    from skillopt_sleep.train import SkillOptConfig, SkillOptTrainer, client

    summary = SkillOptTrainer(
        config=SkillOptConfig(num_epochs=1, verbose=False),
        env=adapter(data_path="rows.json"),
        optimizer_client=client("simulated"),
        target_client=client("simulated"),
    ).train()
    assert summary["test_hard"] == 0


def test_tables_of_options_are_complete():
    """Every way of scoring is in the table, and every name the pages claim is there."""
    from skillopt_sleep.train import compat
    from skillopt_sleep.train.answers import Scoring

    page = ENVIRONMENTS.read_text(encoding="utf-8")
    assert all(f"| `{each}` |" in page for each in Scoring)
    claimed = re.search(r"`skillopt_sleep.train.compat` has (.*?) with the\s+published", page, re.DOTALL)[1]
    assert all(hasattr(compat, name) for name in re.findall(r"`(\w+)`", claimed) if name != "_messages")


def test_example_is_what_its_script_writes(tmp_path):
    """Data, world and page cannot drift apart."""
    script = ROOT / "scripts" / "make_training_example.py"
    subprocess.run([sys.executable, script, tmp_path], check=True)
    for name in ("train.jsonl", "val.jsonl", "test.jsonl", "world.json"):
        assert (tmp_path / name).read_bytes() == (EXAMPLE / name).read_bytes(), name
