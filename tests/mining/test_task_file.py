"""A task file is read back exactly as written, or refused by file and field."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.errors import UsageError
from skillopt_sleep.mining.task_file import SCHEMA_VERSION, decode_tasks, encode_tasks
from skillopt_sleep.model.task import (
    Check,
    CheckKind,
    ChecksReference,
    ExactReference,
    Origin,
    Outcome,
    RubricReference,
    Split,
    TaskRecord,
)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
some = words.filter(bool)
checks = st.builds(Check, kind=st.just(CheckKind.CONTAINS), value=words.filter(str.strip))
references = (
    st.builds(RubricReference, rubric=some)
    | st.builds(ExactReference, answer=some)
    | st.builds(ChecksReference, checks=st.lists(checks, min_size=1, max_size=3).map(tuple))
)
origins = st.builds(Origin, source=words, session_id=words, path=words, words=words, at=words, cwd=words)
tasks = st.builds(
    TaskRecord,
    id=some,
    intent=some,
    reference=references,
    system=words,
    context=words,
    feedback=st.lists(words, max_size=2).map(tuple),
    accepted=words,
    rejected=words,
    outcome=st.sampled_from(Outcome),
    origins=st.lists(origins, max_size=2).map(tuple),
    skill_hint=words,
    project=words,
    group=words,
    split=st.none() | st.sampled_from(Split),
    reviewed=st.booleans(),
)
RUBRIC = {"kind": "rubric", "rubric": "Good."}


def decode(**task: object) -> TaskRecord:
    """The one task of a file written by hand."""
    (decoded,) = decode_tasks(json.dumps({"tasks": [task]}).encode(), "tasks.json")
    return decoded


@given(st.lists(tasks, max_size=4, unique_by=lambda task: task.id))
def test_any_tasks(written: list[TaskRecord]) -> None:
    """They are read back as they were written."""
    assert decode_tasks(encode_tasks(written), "tasks.json") == tuple(written)


def test_a_file_as_a_person_sees_it() -> None:
    """It says how it is read, that nobody has reviewed it, and puts what matters first."""
    data = encode_tasks([TaskRecord(id="t1", intent="Größe messen", reference=RubricReference(rubric="Good."))])
    file = json.loads(data)
    assert (file["schema_version"], file["reviewed"]) == (SCHEMA_VERSION, False)
    assert "skillopt-sleep run --tasks" in file["about"]
    assert list(file["tasks"][0])[:5] == ["id", "reviewed", "split", "intent", "reference"]
    assert '      "intent": "Größe messen",\n'.encode() in data


def test_a_task_written_by_hand() -> None:
    """It needs an intent and a reference; its id is a digest of the intent."""
    task = decode(intent="Say hello", reference={"kind": "exact", "answer": "Hello"})
    assert (task.reference, task.reviewed, task.split) == (ExactReference(answer="Hello"), False, None)
    assert task.id == decode(intent="Say hello", reference=RUBRIC).id


def test_a_check_in_another_spelling() -> None:
    """It is read as what it means."""
    task = decode(intent="Say hello", reference={"kind": "checks", "checks": [{"op": "regex", "pattern": "^H"}]})
    assert task.reference == ChecksReference(checks=(Check(kind=CheckKind.REGEX, value="^H"),))


@pytest.mark.parametrize(
    ("old", "split"),
    [("replay", Split.TRAIN), ("holdout", Split.VAL), ("test", Split.TEST), ("", None), (None, None)],
    ids=str,
)
def test_a_split_as_others_call_it(old: object, split: Split | None) -> None:
    """It becomes ours."""
    assert decode(intent="x", reference=RUBRIC, split=old).split is split


@pytest.mark.parametrize(
    ("top", "own", "reviewed"),
    [(True, False, True), (False, True, True), (False, False, False)],
    ids=["file", "task", "neither"],
)
def test_a_task_that_was_reviewed(top: bool, own: bool, reviewed: bool) -> None:
    """Either the file or the task says so."""
    file = {"reviewed": top, "tasks": [{"intent": "x", "reference": RUBRIC, "reviewed": own}]}
    (task,) = decode_tasks(json.dumps(file).encode(), "tasks.json")
    assert task.reviewed is reviewed


ONE = {"intent": "x", "reference": RUBRIC}
BAD = {
    "no json": (b'{"tasks": [\n{]}', "tasks.json:2: this is not JSON"),
    "no utf-8": (b'{"tasks": "\xff"}', "is not UTF-8 .at byte 11"),
    "deep": (b"[" * 100_000, "tasks.json"),
    "a list": (b"[]", "tasks.json must be an object"),
    "no tasks": (b"{}", '"tasks" must be a list of tasks, not None'),
    "newer": ({"schema_version": 99, "tasks": []}, "schema_version is 99; this version reads only 1"),
    "reviewed by word": ({"reviewed": "yes", "tasks": []}, "reviewed. must be true or false, not 'yes'"),
    "unknown key": ({"task": []}, "unknown key 'task'; did you mean 'tasks'"),
    "unknown task key": (
        {"tasks": [{**ONE, "intnet": "x"}]},
        r"tasks\[0\] has an unknown key 'intnet'; did you mean 'intent'",
    ),
    "task no object": ({"tasks": ["x"]}, r"tasks\[0\] must be an object, not 'x'"),
    "no intent": ({"tasks": [ONE, {"reference": RUBRIC}]}, r"tasks\[1\] has no intent"),
    "no reference": ({"tasks": [{"intent": "x"}]}, r"tasks\[0\] has no reference"),
    "no kind": (
        {"tasks": [{"intent": "x", "reference": {"rubric": "x"}}]},
        r"reference.kind is None; expected one of checks, command",
    ),
    "empty rubric": ({"tasks": [{"intent": "x", "reference": {**RUBRIC, "rubric": ""}}]}, "reference has no rubric"),
    "other's field": (
        {"tasks": [{"intent": "x", "reference": {**RUBRIC, "answer": ""}}]},
        "reference has an unknown key 'answer'",
    ),
    "bad check": (
        {"tasks": [{"intent": "x", "reference": {"kind": "checks", "checks": [{"kind": "contain"}]}}]},
        r"reference.checks\[0\]: this check cannot be used: there is no check 'contain'",
    ),
    "no checks": (
        {"tasks": [{"intent": "x", "reference": {"kind": "checks", "checks": []}}]},
        "reference has no checks",
    ),
    "bad split": ({"tasks": [{**ONE, "split": "dev"}]}, r"tasks\[0\].split is 'dev'; expected one of train, val, test"),
    "split in a list": ({"tasks": [{**ONE, "split": ["val"]}]}, r"tasks\[0\].split"),
    "wrong type": ({"tasks": [{**ONE, "feedback": ["a", 1]}]}, r"tasks\[0\].feedback\[1\] cannot be used: Expected"),
    "origin key": (
        {"tasks": [{**ONE, "origins": [{"sauce": "x"}]}]},
        r"origins\[0\] has an unknown key 'sauce'; did you mean",
    ),
    "origins no list": ({"tasks": [{**ONE, "origins": "x"}]}, r"tasks\[0\].origins cannot be used: Expected `array`"),
    "same id": ({"tasks": [ONE, ONE]}, r"tasks\[1\].id: another task has the id '\w{12}'"),
}


@pytest.mark.parametrize(("file", "message"), BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_used(file: object, message: str) -> None:
    """It is refused in one line that names the file and the field."""
    data = file if isinstance(file, bytes) else json.dumps(file).encode()
    with pytest.raises(UsageError, match=message) as caught:
        decode_tasks(data, "tasks.json")
    assert str(caught.value).startswith("tasks.json")
    assert "\n" not in str(caught.value)


OLD = {
    "id": "a1",
    "project": "/home/ada/shop",
    "intent": "Write the commit message.",
    "context_excerpt": "KL-7: labels",
    "system": "",
    "attempted_solution": "Add labels",
    "outcome": "fail",
    "reference_kind": "rule",
    "reference": "",
    "judge": {"kind": "rule", "checks": [{"op": "contains", "arg": "KL-7"}, {"op": "max_chars", "arg": "72"}]},
    "tags": ["commit"],
    "source_sessions": ["s1"],
    "split": "holdout",
    "origin": "real",
    "derived_from": "",
}
OLD_FILE = {
    "format": "skillopt_sleep.tasks.v1",
    "project": "/home/ada/shop",
    "transcript_source": "claude",
    "n_sessions": 1,
    "target_skill_path": "",
    "reviewed": True,
    "tasks": [
        OLD,
        {
            **OLD,
            "id": "a2",
            "judge": {},
            "reference_kind": "exact",
            "reference": "KL-7: Add labels",
            "outcome": "success",
        },
        {
            **OLD,
            "id": "a3",
            "judge": {},
            "reference_kind": "rubric",
            "reference": "names the ticket",
            "origin": "dream",
        },
    ],
}


@pytest.mark.parametrize("file", [OLD_FILE, OLD_FILE["tasks"]], ids=["file", "bare list"])
def test_file_of_the_reference_implementation(file):
    """Checks with ``arg``, exact answers and rubrics are read; what was tried before, too; made-up tasks only teach."""
    checks, exact, rubric = decode_tasks(json.dumps(file).encode(), "tasks.json")
    assert checks.reference == ChecksReference(
        checks=(Check(kind=CheckKind.CONTAINS, value="KL-7"), Check(kind=CheckKind.MAX_CHARS, value=72))
    )
    assert (checks.context, checks.rejected, checks.split) == ("KL-7: labels", "Add labels", Split.VAL)
    assert (exact.reference, exact.accepted) == (ExactReference(answer="KL-7: Add labels"), "Add labels")
    assert (rubric.reference, rubric.split) == (RubricReference(rubric="names the ticket"), Split.TRAIN)
    assert [task.reviewed for task in (checks, exact, rubric)] == [isinstance(file, dict)] * 3


def test_task_of_the_reference_implementation_without_a_reference():
    """Refused as one of ours would be, and so is another version of its format."""
    bare = {**OLD, "judge": {}, "reference_kind": "none"}
    with pytest.raises(UsageError, match=r"tasks\[0\] has no reference"):
        decode_tasks(json.dumps({**OLD_FILE, "tasks": [bare]}).encode(), "tasks.json")
    with pytest.raises(UsageError, match=r"format is 'skillopt_sleep.tasks.v2'; this version reads only"):
        decode_tasks(json.dumps({**OLD_FILE, "format": "skillopt_sleep.tasks.v2"}).encode(), "tasks.json")
