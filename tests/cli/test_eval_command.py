"""``eval``: what is printed, kept, capped and refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from skillopt_sleep.backends.simulated_world import write_world
from tests.benchmarks.worlds import make_world

WORLD = make_world(3, rules=3, tasks_per_rule=10)


@pytest.fixture
def bench(tmp_path):
    """A file of items, a world that knows them, and two skills: one rule of three, and all."""
    rows = [{"id": each.id, "question": each.asks[0], "answers": [each.good]} for each in WORLD.tasks]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "world.json").write_bytes(write_world(WORLD))
    (tmp_path / "some.md").write_text(f"- {WORLD.rules[0].text}\n")
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "SKILL.md").write_text("".join(f"- {rule.text}\n" for rule in WORLD.rules))
    return tmp_path


def arguments(bench, *more):
    """Both skills on the test split, 21 items."""
    data = ["--env", "simple_qa", "--data", bench / "items.jsonl", "--ratio", "2:1:7"]
    return [
        "eval",
        bench / "some.md",
        bench / "all",
        *data,
        "--set",
        f"backends.simulated.world={bench / 'world.json'}",
        *more,
    ]


def test_several_skills_and_targets_make_a_matrix(cli, bench):
    """A row for each skill, a column for each target; what was won and lost against the first row."""
    done = cli(*arguments(bench, "--no-skill", "--target=simulated:one", "--target=simulated:two"))
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "simple_qa, test: 21 items"
    assert lines[2].split() == ["skill", "simulated:one", "simulated:two"]
    assert [line.split("  ")[0] for line in lines[3:6]] == ["(no skill)", "some.md", "all/SKILL.md"]
    assert lines[5].count("1.000 +- 0.000 (1.000) 21 - 0") == 2
    assert "items won - lost against (no skill)" in done.out
    assert "126 calls" in done.out


def test_json_has_every_cell(cli, bench):
    """Scores, errors, attempts, kinds; and where the replies are."""
    matrix = cli(*arguments(bench, "--target=simulated", "--limit=6", "--rollouts-k=2", "--json")).json
    assert (matrix["items"], matrix["rollouts_k"], matrix["skills"]) == (6, 2, ["some.md", "all/SKILL.md"])
    cell = matrix["cells"][1]
    assert (cell["hard"], cell["measured"], cell["attempts"], cell["error"]) == (1.0, 12, 12, 0.0)
    assert Path(matrix["folder"]).is_dir()
    assert matrix["spend"]["calls"] == 24


def test_reply_is_never_paid_for_twice(cli, bench):
    """A cap ends it with exit 5; run again, it goes on; run once more, nothing is asked."""
    capped = cli(*arguments(bench, "--target=simulated", "--max-calls=10"))
    assert capped.code == 5
    assert "the cap of 10 calls is reached" in capped.refusal
    again = cli(*arguments(bench, "--target=simulated", "--json")).json
    assert again["spend"]["calls"] == 42 - 10
    assert cli(*arguments(bench, "--target=simulated", "--json")).json["spend"]["calls"] == 42 - 10


def test_dry_run_counts_and_writes_nothing(cli, bench, tree):
    """Everything is checked, no call is made."""
    before = tree()
    done = cli(*arguments(bench, "--target=simulated", "--target=claude", "--rollouts-k=3", "--dry-run"))
    assert done.code == 0
    assert "21 items of test x 2 skills x 2 targets x 3 attempts: at most 252 calls" in done.out
    assert "Cap: 315 calls" in done.out
    counted = cli(*arguments(bench, "--target=simulated", "--max-usd=1", "--dry-run", "--json")).json
    assert counted == {"items": 21, "skills": 2, "targets": 1, "rollouts_k": 1, "calls": 42}
    assert tree() == before


def test_training_file_brings_environment_and_target(cli, bench):
    """Its [env] and [target] hold where no flag says otherwise; paths begin where it lies."""
    (bench / "train.toml").write_text(
        'seed = 7\n[env]\nname = "simple_qa"\ndata = "items.jsonl"\nratio = "1:1:1"\n'
        f'[target]\nbackend = "simulated"\nworld = "{bench / "world.json"}"\n'
    )
    matrix = cli("eval", bench / "all", "--env", bench / "train.toml", "--json").json
    assert (matrix["items"], matrix["targets"], matrix["cells"][0]["hard"]) == (10, ["simulated:simulated"], 1.0)
    wider = cli("eval", bench / "all", "--env", bench / "train.toml", "--ratio=1:1:4", "--split=val", "--json").json
    assert (wider["items"], wider["split"]) == (5, "val")


def test_yaml_file_of_the_reference_brings_the_environment(cli, bench):
    """It is read as ``train`` reads it; keys that have no effect are named."""
    (bench / "run.yaml").write_text(
        "train: {batch_size: 4, unheard: 1}\n"
        f"env: {{name: simple_qa, data: {bench / 'items.jsonl'}, ratio: '1:1:1', out_root: {bench / 'out'}}}\n"
    )
    world = f"backends.simulated.world={bench / 'world.json'}"
    done = cli("eval", bench / "all", "--env", bench / "run.yaml", "--target=simulated", "--set", world, "--json")
    assert (done.json["items"], done.json["cells"][0]["hard"]) == (10, 1.0)
    assert "run.yaml: not known here, so it has no effect: train.unheard" in done.err


LOSING = """
from skillopt_sleep.errors import Overloaded
from skillopt_sleep.train import RolloutResult, SkillEnv


class Losing(SkillEnv):
    def __init__(self, *, lost):
        self.lost = lost

    def get_items(self, split):
        return [{"id": str(n)} for n in range(10)]

    def rollout_one(self, *, item, skill, target_client):
        if int(item["id"]) < self.lost:
            raise Overloaded("the line is down")
        return RolloutResult(item["id"], 1.0, 1.0)
"""


@pytest.mark.parametrize(
    ("lost", "code", "says"), [(2, 0, "1.000 +- 0.000 (1.000) [2 lost]"), (3, 5, "unmeasured (7 of 10)")]
)
def test_lost_attempt_is_no_score(cli, tmp_path, lost, code, says):
    """What transport lost is left out and told; under four fifths there is no score, and exit 5 says so."""
    (tmp_path / "losing.py").write_text(LOSING)
    done = cli("eval", "--no-skill", "--env", tmp_path / "losing.py", "--option", f"lost={lost}", "--target=simulated")
    assert done.code == code
    assert says in done.out
    assert ("could be measured" in done.err) is bool(code)


WRONG = {
    "no environment": (["x.md"], ["--env"]),
    "no skill": (["--env", "simple_qa"], ["name a SKILL file, or use --no-skill"]),
    "no file": (["x.md", "--env", "simple_qa"], ["x.md: No such file"]),
    "environment": (["--no-skill", "--env", "simple_q"], ["no environment 'simple_q'", "did you mean 'simple_qa'"]),
    "environment file": (["--no-skill", "--env", "my_env.py"], ["no environment file", "my_env.py"]),
    "data file": (["--no-skill", "--env", "items.csv"], ["--env simple_qa --data items.csv"]),
    "folder": (["--no-skill", "--env", ".."], ["the folder .. has no adapter.py; name its environment file"]),
    "option": (["--no-skill", "--env", "simple_qa", "--option", "scorin=f1"], ["no option 'scorin'", "'scoring'"]),
    "option's form": (["--no-skill", "--env", "simple_qa", "--option", "f1"], ["--option f1", "KEY=VALUE"]),
    "no data": (["--no-skill", "--env", "simple_qa"], ["simple_qa has no data: name a file"]),
    "target": (["--no-skill", "--env", "simple_qa", "--target", ":x"], ["--target ':x'", "BACKEND:MODEL"]),
    "backend": (["--no-skill", "--env", "simple_qa", "--target", "clade"], ["no backend 'clade'", "'claude'"]),
    "target twice": (
        ["--no-skill", "--env", "simple_qa", *["--target=simulated"] * 2],
        ["the same --target is given twice"],
    ),
}


@pytest.mark.parametrize(("words", "says"), WRONG.values(), ids=WRONG)
def test_wrong_word_gets_one_line(cli, tree, words, says):
    """Exit 2, nothing written, one line that names the value and the fix."""
    before = tree()
    done = cli("eval", *words)
    assert done.code == 2
    assert all(part in done.refusal for part in says), done.err
    assert tree() == before


def test_skill_named_twice_is_refused(cli, bench):
    """By whatever path."""
    os.chdir(bench)
    assert "given twice" in cli("eval", "some.md", "some.md", "--env", "simple_qa").refusal


@pytest.fixture
def recipe(bench):
    """A training file whose target has a world and a noise of its own."""

    def write(noise=0.0, scoring="exact", world="world.json"):
        (bench / "train.toml").write_text(
            f'[env]\nname = "simple_qa"\ndata = "items.jsonl"\nratio = "1:1:1"\nscoring = "{scoring}"\n'
            f'[target]\nbackend = "simulated"\nworld = "{world}"\nnoise = {noise}\n'
        )
        return bench / "train.toml"

    return write


def test_named_target_keeps_what_the_file_says_of_its_backend(cli, bench, recipe):
    """Its world, its endpoint, its options; those of another backend are not taken over."""
    matrix = cli("eval", bench / "all", "--env", recipe(), "--target=simulated:small", "--json").json
    assert [cell["hard"] for cell in matrix["cells"]] == [1.0]
    (bench / "train.toml").write_text((bench / "train.toml").read_text().replace('"simulated"', '"claude"'))
    (bench / "train.toml").write_text(
        (bench / "train.toml").read_text().replace("noise = 0.0", "").replace("world =", "model =")
    )
    other = cli("eval", bench / "all", "--env", bench / "train.toml", "--target=simulated:small", "--json").json
    assert [cell["hard"] for cell in other["cells"]] == [0.0]


def test_changed_target_scoring_or_data_is_scored_anew(cli, bench, recipe):
    """No score of another model, another way of scoring, or other items is handed out again."""
    (bench / "other.json").write_bytes(write_world(make_world(4, rules=3, tasks_per_rule=10)))
    folders = []
    for options in ({}, {"noise": 0.5}, {"scoring": "f1"}, {"world": "other.json"}):
        found = cli("eval", bench / "all", "--env", recipe(**options), "--json").json
        folders.append((found["folder"], found["spend"]["calls"]))
    (bench / "items.jsonl").write_text((bench / "items.jsonl").read_text().replace('"answers": ["', '"answers": ["x '))
    found = cli("eval", bench / "all", "--env", recipe(), "--json").json
    folders.append((found["folder"], found["spend"]["calls"]))
    assert found["cells"][0]["hard"] == 0.0
    assert len(set(folders)) == 5
    assert {calls for _, calls in folders} == {10}
    assert cli("eval", bench / "all", "--env", recipe(), "--json").json["folder"] == found["folder"]


@pytest.mark.parametrize("limit", [1, 6])
def test_target_that_never_answers_is_named_with_its_error(cli, bench, monkeypatch, limit):
    """Exit 4, whatever the default cap: the retries of one item are not what ends it."""
    monkeypatch.setattr("skillopt_sleep.calls.clock.SystemClock.sleep", lambda self, seconds: None)
    where = ["--set", "backends.openai.base_url=http://127.0.0.1:9/v1"]
    done = cli(*arguments(bench, "--target=openai:m", f"--limit={limit}", *where))
    assert done.code == 4
    assert "http://127.0.0.1:9/v1" in done.refusal
    assert "cannot be reached" in done.refusal
    assert "the cap of" not in done.err


def test_data_that_is_left_out_is_told(cli, bench):
    """Before it is scored."""
    for split, names in {"train": "ab", "val": "cd", "test": "ea"}.items():
        rows = [{"id": f"{split}{name}", "question": f"What of the {name * 5}?", "answers": [name]} for name in names]
        (bench / "split").mkdir(exist_ok=True)
        (bench / "split" / f"{split}.json").write_text(json.dumps(rows))
    done = cli("eval", bench / "all", "--env=simple_qa", "--data", bench / "split", "--target=simulated")
    assert done.err == "data: 1 item of train left out: test asks the same\n"
