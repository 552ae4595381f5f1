"""``try``, as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from skillopt_sleep.gate.part_trial import Effect
from skillopt_sleep.model.call import Expected
from tests.benchmarks.tries import count_labels, write_try_files

PROSE = """---
name: notes
description: How notes are written here.
---

# Notes

Some prose that explains why.

- Use the imperative mood.
  - Also in titles.
- Keep it short:

  a second paragraph of the item.

```
- no rule
```
"""


@pytest.fixture
def world(tmp_path):
    """A file of ten rules, forty requests and a world; the arguments of the command and the truth."""
    (tmp_path / "claude" / "projects").mkdir(parents=True)
    arguments, rules = write_try_files(tmp_path, 5)
    return arguments, dict(rules)


def with_file(arguments, path, *more):
    """The same command for another file."""
    return [arguments[0], path, *arguments[2:], *more]


@pytest.mark.slow
def test_whole_run_finds_what_carries_weight_and_what_does_harm(cli, world):
    """Labels, price and report; run again, it pays for nothing, and prints the same."""
    arguments, truth = world
    done = cli(*arguments, "--json")
    assert done.code == 0
    labels = {rule["text"]: Effect(rule["effect"]) for rule in done.json["rules"]}
    found = count_labels([*truth.values()], [labels[text] for text in truth], 0, None)
    assert found.found >= 3
    assert not found.wrong
    price = Expected(**done.json["price"])
    assert price.least <= done.json["spend"]["calls"] <= price.most
    again = cli(*arguments, "--json")
    assert again.json["spend"]["calls"] == 0
    assert again.json["rules"] == done.json["rules"]


def test_capped_run_continues_and_pays_for_nothing_twice(cli, world, tmp_path):
    """Exit code 5 until it is finished; all runs together make the calls of one whole run."""
    arguments, _ = world
    notes = tmp_path / "notes.md"
    notes.write_text("- Keep it short.\n")
    command = with_file(arguments, notes, "--limit=5", "--json")
    codes, calls = [], 0
    while not codes or codes[-1] == 5:
        done = cli(*command, "--max-calls=12")
        codes.append(done.code)
        calls += done.json["spend"]["calls"] if done.out else 12
    assert codes == [5] * (len(codes) - 1) + [0]
    assert len(codes) > 1
    shutil.rmtree(tmp_path / "data")
    assert cli(*command).json["spend"]["calls"] == calls


def test_real_file_with_prose_and_nested_lists(cli, world, tmp_path, tree):
    """Top-level list items are the rules, with the line they stand in; only the report is written."""
    arguments, _ = world
    skill = tmp_path / "notes" / "SKILL.md"
    skill.parent.mkdir()
    skill.write_text(PROSE)
    before = tree()
    done = cli(*with_file(arguments, skill.parent, "--limit=5"))
    assert done.code == 0
    assert "line 10   Use the imperative mood. - Also in titles." in done.out
    assert "line 12   Keep it short: a second paragraph" in done.out
    assert "no rule" not in done.out
    assert "different requests of yours: " in done.err
    changed = {path for path, kept in tree().items() if before.get(path) != kept and kept[1] is not None}
    assert {path for path in changed if "/data/" not in path} == {
        path for path in changed if "/.skillopt-sleep/" in path and path.endswith((".json", ".txt", ".gitignore"))
    }


def test_dry_run_prints_the_price_and_writes_nothing(cli, world, tree):
    """As text and as JSON."""
    arguments, _ = world
    before = tree()
    assert "without each of its 10 rules, on 6 different requests" in cli(*arguments, "--limit=6", "--dry-run").out
    priced = cli(*arguments, "--limit=6", "--dry-run", "--json").json
    assert priced["price"]["least"] <= priced["price"]["usual"] <= priced["price"]["most"]
    assert tree() == before


def test_two_files_are_compared_as_wholes(cli, world, tmp_path):
    """The better one is named, and no rule is tried by itself."""
    arguments, truth = world
    good = tmp_path / "good.md"
    good.write_text("".join(f"- {text}\n" for text, kind in truth.items() if kind is Effect.CARRIES))
    done = cli(*with_file(arguments, good, f"--against={tmp_path / 'CLAUDE.md'}", "--json"))
    assert done.code == 0
    assert done.json["whole"]["effect"] == "carries weight"
    assert done.json["rules"] == []
    assert done.json["against"].endswith("CLAUDE.md")


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (None, 2, "there is no file"),
        (b"", 2, "contains no text that an agent could follow"),
        (b"---\nname: a\ndescription: b\n---\n\n", 2, "contains no text"),
        (b"- a\0b", 8, "NUL byte"),
    ],
)
def test_file_that_cannot_be_tried(cli, world, content, code, said):
    """One line says what is wrong, before anything is spent."""
    arguments, _ = world
    path = Path(arguments[1]).with_name("odd.md")
    if content is not None:
        path.write_bytes(content)
    done = cli(*with_file(arguments, path))
    assert done.code == code
    assert said in done.refusal


def test_file_without_rules_is_tried_as_a_whole(cli, world, tmp_path):
    """The report says why there is no rule to leave out."""
    path = tmp_path / "prose.md"
    path.write_text("Be kind, and brief.\n")
    done = cli(*with_file(world[0], path, "--limit=5"))
    assert done.code == 0
    assert "no list item" in done.out
    assert "no difference seen" in done.out


def test_too_few_requests_cost_nothing(cli, world, tmp_path):
    """Before any night there is none; fewer than five can show nothing."""
    arguments, _ = world
    without = [argument for argument in arguments if not argument.startswith("--tasks")]
    assert "none of your requests can be replayed" in cli(*without).refusal
    assert "raise --limit" in cli(*arguments, "--limit=3").refusal
    assert "contain the same text" in cli(*arguments, f"--against={tmp_path / 'CLAUDE.md'}").refusal


def test_report_is_kept_in_the_project(cli, world, tmp_path):
    """``report.json`` is what ``--json`` prints, ``report.txt`` lists every rule."""
    arguments, truth = world
    done = cli(*arguments, "--limit=5", "--json")
    (folder,) = (tmp_path / "project" / ".skillopt-sleep" / "tries").iterdir()
    assert json.loads((folder / "report.json").read_text()) == done.json
    page = (folder / "report.txt").read_text()
    assert all(text in page for text in truth)
