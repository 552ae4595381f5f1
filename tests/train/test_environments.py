"""Environments: how an item is asked and scored, where the items come from, and one line for whatever is wrong."""

from __future__ import annotations

import contextlib
import json
import math
from types import SimpleNamespace

import pytest

from skillopt_sleep import registry
from skillopt_sleep.errors import BadReply, Overloaded, UsageError
from skillopt_sleep.mining.task_file import encode_tasks
from skillopt_sleep.model.task import (
    Check,
    CheckKind,
    ChecksReference,
    ExactReference,
    RubricReference,
    Split,
    TaskRecord,
)
from skillopt_sleep.train.environments import as_env, load_environment, roll_out
from skillopt_sleep.train.environments.checks import ChecksEnv
from skillopt_sleep.train.environments.simple_qa import SimpleQAEnv
from skillopt_sleep.train.ports import SkillEnv
from skillopt_sleep.train.recipe import read_recipe
from skillopt_sleep.train.results import RolloutResult, check_result
from skillopt_sleep.usecases.training import build_environment
from tests.fakes.package import install


class Client:
    """Answers each call with the next of these, or raises it."""

    model = "scripted"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def chat(self, *, system, user, **options):
        self.asked.append((system, user, options))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer, {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


ITEM = {"id": "a", "question": "Capital of France?", "answers": ["Paris"], "task_type": "geo"}


def rolled(env, item, answer, skill="- Say it short."):
    client = Client(answer)
    return env.rollout_one(item=item, skill=skill, target_client=client), client


def test_question_is_asked_with_skill_context_and_choices():
    """The body of the skill stands in the system prompt, context, question and lettered choices in the user's turn."""
    item = ITEM | {"context": "About Europe.", "choices": ["Rome", "Paris"], "scoring": "multiple_choice"}
    env = SimpleQAEnv(train_items=[item], max_completion_tokens=77)
    result, client = rolled(env, item, "B", skill="---\nname: x\ndescription: y\n---\n\n- Say it short.\n")
    ((system, user, options),) = client.asked
    assert "- Say it short." in system
    assert "description: y" not in system
    assert user == "About Europe.\n\nCapital of France?\nA. Rome\nB. Paris"
    assert options["max_completion_tokens"] == 77
    assert (result.id, result.hard, result.soft, result.task_type) == ("a", 1, 1, "geo")
    assert result.conversation[-1] == {"role": "assistant", "content": "B"}


def test_wrong_answer_tells_the_optimizer_why():
    """A wrong answer comes with its reference and reason; a right one has no reason."""
    env = SimpleQAEnv(train_items=[ITEM])
    wrong, _ = rolled(env, ITEM, "Rome")
    assert (wrong.hard, wrong.reference_text) == (0, "Paris")
    assert wrong.fail_reason == "answered 'Rome', wanted 'Paris'"
    assert rolled(env, ITEM, "Paris")[0].fail_reason == ""


@pytest.mark.parametrize(
    ("item", "answer"),
    [
        ({"scoring": "numeric", "answers": 12.5, "tolerance": 0.1}, "13"),
        ({"scoring": "regex", "answer": "^P"}, "Paris"),
        ({"scoring": "contains", "ground_truth": "paris"}, "It is Paris."),
        ({"scoring": "f1", "expected": "the city of Paris"}, "Paris city of"),
    ],
)
def test_item_may_say_how_it_is_scored(item, answer):
    """An item's own scoring wins, and answers may have any of the usual field names."""
    item = {"id": "x", "question": "?", **item}
    assert rolled(SimpleQAEnv(val_items=[item]), item, answer)[0].hard == 1


@pytest.mark.parametrize(
    ("scored", "hard", "soft"), [(0.9, 1, 0.9), (0.5, 0, 0.5), ((0, 0.7), 0, 0.7), ([1, 1], 1, 1), (True, 1, 1)]
)
def test_scoring_function_returns_soft_or_both_scores(scored, hard, soft):
    """With soft alone, hard is 1 from pass_at on."""
    result, _ = rolled(SimpleQAEnv(train_items=[ITEM], scoring=lambda _text, _item: scored), ITEM, "x")
    assert (result.hard, result.soft) == (hard, soft)


def raising(_text, item):
    raise KeyError(item["colour"])


BAD_SCORERS = {
    "raises": (raising, "the scorer raised KeyError on item 'a': 'colour'"),
    "NaN": (lambda *_: math.nan, "item 'a': the scorer's score is nan; a score is between 0 and 1"),
    "too much": (lambda *_: 7, "item 'a': the scorer's score is 7.0"),
    "no number": (lambda *_: "good", "item 'a': the scorer's score is 'good', not a number"),
    "three": (lambda *_: (1, 1, 1), "is neither a number nor (hard, soft)"),
    "NaN in soft": (lambda *_: (1, math.nan), "item 'a': the scorer's soft is nan"),
}


@pytest.mark.parametrize(("scorer", "says"), BAD_SCORERS.values(), ids=BAD_SCORERS)
def test_bad_scorer_is_found_before_a_call(scorer, says):
    """A scoring function is tried on the reference answer; one line names the item."""
    with pytest.raises(UsageError) as error:
        SimpleQAEnv(train_items=[ITEM], scoring=scorer)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


BAD_ITEMS = {
    "no id": ({"question": "?", "answers": ["x"]}, r"train\[0\] has no id"),
    "no question": ({"id": "a", "answers": ["x"]}, "item 'a' has no 'question', .*; it has only id, answers$"),
    "nearly a question": ({"id": "a", "qestion": "?", "answers": ["x"]}, "has no 'question'.*did you mean 'qestion'"),
    "no answers": ({"id": "a", "question": "?"}, "no 'answers' to compare the reply with; it has only id, question$"),
    "nearly answers": ({"id": "a", "question": "?", "awnsers": "x"}, "has no 'answers' .*; did you mean 'awnsers'"),
    "bad pattern": (
        {"id": "a", "question": "?", "answers": "(", "scoring": "regex"},
        "item 'a' cannot be used: .*not a regular expr",
    ),
    "bad scoring": (
        {"id": "a", "question": "?", "answers": "x", "scoring": "exat"},
        "item 'a': scoring is 'exat'.*exact",
    ),
    "too many choices": (
        {"id": "a", "question": "?", "answers": "1", "choices": [str(n) for n in range(27)]},
        "item 'a' has 27 choices",
    ),
    "answer is no choice": (
        {"id": "a", "question": "?", "answers": "D", "choices": ["x", "y"], "scoring": "multiple_choice"},
        "item 'a' cannot be used: 'D' is none of its choices",
    ),
}


@pytest.mark.parametrize(("item", "says"), BAD_ITEMS.values(), ids=BAD_ITEMS)
def test_bad_item_is_found_before_a_call(item, says):
    """One line names the item and what it lacks."""
    with pytest.raises(UsageError, match=says):
        SimpleQAEnv(train_items=[item])


def test_scorer_that_raises_later_ends_the_run_in_one_line(tmp_path):
    """An answer that the function cannot handle in mid-training ends the run with one line."""
    from skillopt_sleep.train import SkillOptConfig, SkillOptTrainer

    env = SimpleQAEnv(
        train_items=[{"id": "t", "question": "How many?", "answers": ["1"]}],
        val_items=[{"id": "v", "question": "How much?", "answers": ["2"]}],
        scoring=lambda text, item: 1 / 0 if text == "one" else 0.0,
    )
    config = SkillOptConfig(out_root=str(tmp_path), eval_test=False, verbose=False)
    clients = {"optimizer_client": Client(), "target_client": Client("one")}
    with pytest.raises(UsageError, match="the scorer raised ZeroDivisionError on item 'v': division by zero"):
        SkillOptTrainer(config=config, env=env, **clients).train()


def test_lists_are_taken_as_they_are():
    """Items in two of the lists are reported, and kept."""
    twin = ITEM | {"id": "b"}
    env = SimpleQAEnv(train_items=[ITEM, ITEM | {"id": "c", "question": "Colour of the sea?"}], test_items=[twin])
    assert [each["id"] for each in env.get_items("train")] == ["a", "c"]
    assert env.get_items("test") == [twin]
    assert env.notes == ("1 item of train kept, though: test asks the same",)
    assert env.get_task_types() == ["geo"]
    with pytest.raises(UsageError, match="no split 'vall'"):
        env.get_items("vall")


@pytest.mark.parametrize(
    ("env", "says"), [(SimpleQAEnv, "a file and a ratio, or a folder"), (ChecksEnv, "a task file")]
)
def test_environment_without_data_says_what_it_takes(env, says):
    """It says so before a run finds its split empty."""
    with pytest.raises(UsageError, match=f"{env.name} has no data: name {says}"):
        env()


def test_data_is_read_and_dealt(tmp_path):
    """A file with a ratio, or a folder; lists and data together are refused."""
    items = [ITEM | {"id": str(n), "question": f"Capital of country {n}?"} for n in range(10)]
    (tmp_path / "x.json").write_text(json.dumps(items))
    env = SimpleQAEnv(data=tmp_path / "x.json", ratio="5:2:3")
    assert [len(env.get_items(split)) for split in ("train", "val", "test")] == [5, 2, 3]
    with pytest.raises(UsageError, match="not both"):
        SimpleQAEnv(data=tmp_path / "x.json", ratio="5:2:3", train_items=items)


def task(name, reference, **fields):
    return TaskRecord(id=name, intent=f"Describe the {name}", reference=reference, **fields)


SHORT = ChecksReference(checks=(Check(kind=CheckKind.MAX_CHARS, value=5), Check(kind=CheckKind.CONTAINS, value="x")))


def test_checks_are_scored_and_not_shown():
    """Hard needs all checks, soft is their share; the optimizer sees the person's words only."""
    plain = task("anvil", SHORT, feedback=("Too long again.",), accepted="x")
    env = ChecksEnv(train_tasks=[plain])
    result, client = rolled(env, env.get_items("train")[0], "x and more")
    assert (result.hard, result.soft, result.task_type) == (0, 0.5, "checks")
    assert result.fail_reason == "Too long again."
    assert result.reference_text == "x"
    assert "- Say it short." in client.asked[0][0]
    shown = ChecksEnv(train_tasks=[plain], show_checks=True)
    assert "more than 5" in rolled(shown, shown.get_items("train")[0], "x and more")[0].fail_reason
    assert rolled(env, env.get_items("train")[0], "x")[0].hard == 1


def test_rubric_is_judged_by_the_optimizer():
    """Judging needs setup; without it, one line says so."""
    env = ChecksEnv(train_tasks=[task("anvil", RubricReference(rubric="It is short."))])
    (item,) = env.get_items("train")
    with pytest.raises(UsageError, match="call setup"):
        rolled(env, item, "x")
    judge = Client(json.dumps({"reason": "fine", "score": 0.8, "pass": True}))
    env.setup({}, optimizer_client=judge, target_client=Client())
    result, _ = rolled(env, item, "x")
    assert (result.hard, result.soft) == (1, 0.8)
    assert judge.asked[0][2]["schema"]["required"] == ["reason", "score", "pass"]


def test_task_file_keeps_pins_and_deals_the_rest(tmp_path):
    """A pinned task takes its group along, the most sealed pin wins; groups stay together."""
    words = ["anvil", "birch", "cobalt", "dune", "ember", "flint", "grove", "heron"]
    tasks = [task(word, ExactReference(answer=word)) for word in words]
    tasks += [
        task("pinned", SHORT, split=Split.TRAIN, group="g"),
        task("twin", SHORT, split=Split.TEST, group="g"),
        task("third", SHORT, group="g"),
    ]
    (tmp_path / "tasks.json").write_bytes(encode_tasks(tasks))
    env = ChecksEnv(data=tmp_path / "tasks.json", ratio="2:1:1")
    dealt = {split: {each["id"] for each in env.get_items(split)} for split in ("train", "val", "test")}
    assert dealt["test"] >= {"pinned", "twin", "third"}
    assert [len(dealt[split]) for split in dealt] == [4, 2, 5]


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (3, "expected a RolloutResult"),
        ({"id": "a", "soft": 1}, "no 'hard'"),
        ({"id": "a", "hard": math.nan, "soft": 1}, "item 'a': hard is nan"),
        ({"id": "a", "hard": 1, "soft": 1.01}, "item 'a': soft is 1.01"),
        ({"id": "a", "hard": "yes", "soft": 1}, "item 'a': hard is 'yes', not a number"),
        ({"id": " ", "hard": 1, "soft": 1}, "the result has no id"),
    ],
)
def test_result_of_an_environment_is_checked(result, says):
    """Whatever the environment returns, the error names the item."""
    with pytest.raises(UsageError, match=says):
        check_result(result, ITEM)


def test_lost_result_needs_no_score():
    """An unmeasured attempt is not a score of 0."""
    lost = RolloutResult(id="a", hard=math.nan, soft=math.nan, call_error="TimedOut: gone")
    assert check_result(lost, ITEM) is lost


class Mine(SkillEnv):
    """An environment of somebody's own."""

    name = "mine"

    def get_items(self, split):
        return [ITEM]

    def rollout_one(self, *, item, skill, target_client):
        text, _ = target_client.chat(system=skill, user=item["question"])
        return {"id": item["id"], "hard": int(text == "Paris"), "soft": 1 / len(text), "colour": "red"}


def test_own_environment_is_rolled_out():
    """A dict is read as a result, an exception becomes one line, a lost call passes through."""
    env = Mine()
    result = roll_out(env, ITEM, "", Client("Paris"))
    assert (result.hard, result.soft, result.extras) == (1, 0.2, {"colour": "red"})
    with pytest.raises(UsageError, match="environment 'mine' raised ZeroDivisionError on item 'a': division by zero"):
        roll_out(env, ITEM, "", Client(""))
    with pytest.raises(Overloaded):
        roll_out(env, ITEM, "", Client(Overloaded("busy")))


def test_result_under_another_id_is_refused():
    """Otherwise a batch could be taken for attempts at one item."""

    class Same(Mine):
        def rollout_one(self, *, item, skill, target_client):
            return RolloutResult(id="x", hard=1.0)

    with pytest.raises(UsageError, match=r"item 'a': its result has the id 'x', must have the id of the item"):
        roll_out(Same(), ITEM, "", Client())


def test_object_with_the_methods_is_an_environment():
    """It needs no base class; missing methods are named."""

    class Ducked:
        name = "ducked"
        get_items = Mine.get_items
        rollout_one = Mine.rollout_one

    env = as_env(Ducked())
    assert isinstance(env, SkillEnv)
    assert env.name == "ducked"
    assert env.get_initial_skill() == ""
    assert env.get_task_types() == []
    assert roll_out(env, ITEM, "", Client("Paris")).hard == 1
    assert not hasattr(env, "rollout_batch")
    with pytest.raises(UsageError, match="no get_items and no rollout_one"):
        as_env(object())


FILE = """
from pathlib import Path

import beside
from skillopt_sleep.train.ports import SkillEnv


class One(SkillEnv):
    def __init__(self, *, size=1, data=""):
        self.size, self.data, self.word = size, data, beside.WORD

    def get_items(self, split):
        return [{"id": str(n)} for n in range(self.size)]

    def rollout_one(self, *, item, skill, target_client):
        raise NotImplementedError
"""


HALF = """
from skillopt_sleep.train.compat import EnvAdapter


class Half(EnvAdapter):
    build_train_env = build_eval_env = rollout = print
"""


@pytest.fixture
def file(tmp_path):
    """One environment in one file, with a module beside it."""
    (tmp_path / "beside.py").write_text("WORD = 'here'")
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path


def test_one_file_is_an_environment(file):
    """It is found relative to the training file, and made with the options of its table."""
    (file / "train.toml").write_text('[env]\nfile = "mine.py:One"\nsize = 3\ndata = "rows.json"\n')
    env = build_environment(read_recipe(file / "train.toml", {}).env)
    assert len(env.get_items("train")) == 3
    assert env.word == "here"
    assert env.data == str(file / "rows.json")


@pytest.mark.parametrize(
    ("name", "options", "text", "says"),
    [
        ("none.py", {}, None, r"there is no environment file .*none\.py"),
        ("mine.py", {"sise": 1}, FILE, "has no option 'sise'; its options are size, data; did you mean 'size'"),
        ("mine.py:Two", {}, FILE, "defines no 'Two'"),
        (
            "mine.py",
            {},
            FILE + "\nclass Two(One):\n    pass\n",
            r"defines 2 environments \(One, Two\); name one as mine",
        ),
        ("mine.py", {}, "x = 1", r"defines no environment: it needs a class with"),
        ("mine.py", {}, HALF, "mine.py cannot be made: TypeError: .* abstract class Half .*get_task_types"),
        ("mine.py", {}, "1 / 0", "mine.py cannot be loaded: ZeroDivisionError"),
        ("mine.py", {"size": 0}, FILE.replace("self.size,", "1 // size; self.size,"), "cannot be made: ZeroDivision"),
    ],
)
def test_bad_environment_file_is_reported(file, name, options, text, says):
    """The line names the file, the mistake and what would do."""
    if text is not None:
        (file / "mine.py").write_text(text)
    with pytest.raises(UsageError, match=says):
        load_environment(name, options, file)


GOOSE = {"skillopt_sleep.environments": {"pond": "goose_env:One", "lost": "goose_env:None_", "checks": "goose_env:One"}}


def test_environment_of_a_package_is_found_by_name(tmp_path, monkeypatch):
    """Built-in names win over entry points, and a broken package is named."""
    source = FILE.replace("import beside\n", "").replace("beside.WORD", "'pond'")
    folder = install(tmp_path / "site", "goose_env", source=source, entry_points=GOOSE)
    monkeypatch.syspath_prepend(folder)
    registry.forget_installed()
    try:
        assert "pond" in registry.names(registry.Kind.ENVIRONMENT)
        assert len(build_environment({"name": "pond", "size": 2}).get_items("val")) == 2
        with pytest.raises(UsageError, match="checks has no data: name a task file"):
            build_environment({"name": "checks"})
        for table, says in [
            ({"name": "lost"}, "environment 'lost' .*cannot be loaded"),
            ({"name": "pont"}, "there is no environment 'pont'; known are checks, lost, pond, simple_qa.*mean 'pond'"),
            ({"name": "pond", "sise": 2}, r"\[env\] pond has no option 'sise'"),
            ({}, r"\[env\] needs a `name`, .* or a `file` with an environment$"),
            ({"nam": "pond", "size": 2}, r"needs a `name`, .*; it has only nam, size$"),
            ({"name": "pond", "file": "x.py"}, r"has both a name, 'pond', and a file, 'x.py'; keep one of the two"),
        ]:
            with pytest.raises(UsageError, match=says):
                build_environment(table)
    finally:
        registry.forget_installed()


def test_object_in_a_file_needs_no_options(file):
    """``ENVIRONMENT`` may be an environment, or what makes one."""
    (file / "mine.py").write_text(FILE + "\nENVIRONMENT = One(size=2)\n")
    assert len(load_environment("mine.py", {}, file).get_items("train")) == 2
    with pytest.raises(UsageError, match="takes no options"):
        load_environment("mine.py", {"size": 1}, file)


def test_thoughts_of_the_target_are_not_scored():
    """Neither rules nor functions see them; the conversation keeps them."""
    seen = []

    def scorer(text, item):
        seen.append(text)
        return 1.0

    for scoring in ("exact", scorer):
        env = SimpleQAEnv(train_items=[ITEM], scoring=scoring)
        result = roll_out(env, ITEM, "", Client("<think>Answer: Rome</think>\nParis"))
        assert (result.hard, result.predicted_answer) == (1.0, "Paris")
        assert "Rome" in result.conversation[-1]["content"]
    assert seen[-1] == "Paris"


def test_scorer_that_raises_on_wrong_answers_is_found_beforehand():
    """A function that reads every answer as a number fails when it is tried."""
    with pytest.raises(
        UsageError, match=r"raised ValueError on item '1'.*found when the scorer was tried on the answer"
    ):
        SimpleQAEnv(
            train_items=[{"id": "1", "question": "How many?", "answers": ["1"]}],
            scoring=lambda text, item: float(float(text) == float(item["answers"][0])),
        )


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([], r"has no 'answers' to compare the reply with; it has only "),
        ([math.nan], "the answer nan is neither"),
        ({"text": "x"}, "is neither a text nor a number"),
        ([["x"]], "is neither a text nor a number"),
    ],
)
def test_items_without_answers_are_refused(answers, says):
    """The error names the item, and suggests no name that it already has."""
    with pytest.raises(UsageError, match=says):
        SimpleQAEnv(train_items=[ITEM | {"answers": answers}])


def test_result_takes_the_type_of_its_item():
    """An environment may leave the task type out."""
    assert roll_out(Mine(), ITEM | {"task_type": "geo"}, "", Client("Paris")).task_type == "geo"


def test_settings_of_judges_reach_checks(tmp_path):
    """A rubric judge that the settings let try five times asks five times, and a run knows that it did."""
    task = TaskRecord(
        id="t", intent="Write a title.", split=Split.TRAIN, reference=RubricReference(rubric="It is short.")
    )
    (tmp_path / "tasks.json").write_bytes(encode_tasks([task]))
    table = {"name": "checks", "data": str(tmp_path / "tasks.json")}
    workspace = SimpleNamespace(settings=SimpleNamespace(judges={"rubric": {"tries": 5}}))
    calls = {}
    for name, where in {"default": None, "set": workspace}.items():
        env = build_environment(table, workspace=where)
        client = Client(*["no verdict"] * 9)
        env.setup({}, optimizer_client=client, target_client=client)
        with contextlib.suppress(BadReply):
            roll_out(env, env.get_items("train")[0], "", client)
        calls[name] = len(client.asked), "judges" in env.traits()
    assert calls == {"default": (3, False), "set": (6, True)}
