"""A handoff night: the agent the user works in answers question files, and the night ends like any other."""

from __future__ import annotations

import json
import os
import re

import pytest

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.cli import main
from skillopt_sleep.errors import DiskError
from skillopt_sleep.model.call import Prompt
from skillopt_sleep.storage.ledger import NightLedger
from tests.fakes.home import make_person
from tests.fakes.program import run_here as run


@pytest.fixture
def mira(tmp_path):
    """A person with a few corrected sessions."""
    return make_person(tmp_path / "mira", rules=1, tasks_per_rule=16)


def sitting(mira, *more):
    """Run the night with the handoff backend until it waits for answers or ends."""
    words = [word for word in mira.arguments("run", "--json") if "backend" not in word]
    return run(*words, "--backend=handoff", "--miner=heuristic", "--set=evolve_memory=false", *more)


def questions(mira):
    """The question files that wait for an answer."""
    return sorted((mira.project / ".skillopt-sleep" / "handoff").glob("*.question.md"))


HEADINGS = ("# How to answer", "# The question", "# The form", "(Attempt ")


def section(text, name):
    """The text below one of our headings, up to the next heading."""
    _, found, rest = text.partition(f"\n# {name}\n")
    ends = [rest.rfind(f"\n{heading}") for heading in HEADINGS if name not in heading]
    later = [end for end in ends if end > 0 and HEADINGS.index(f"# {name}") < 2]
    return rest[: min(later, default=len(rest))].strip() if found else ""


def answered(mira, path):
    """Write the simulated agent's answer, from nothing but the question file."""
    agent = SimulatedBackend(world=str(mira.folder / "world.json"))
    text = path.read_text()
    form = re.search(r"```json\n(.*?)\n```", section(text, "The form"), re.DOTALL)
    prompt = Prompt(
        system=section(text, "How to answer"),
        user=section(text, "The question"),
        schema=json.loads(form[1]) if form else None,
    )
    path.with_name(path.name.replace(".question.md", ".answer.md")).write_text(agent.complete(prompt).text)


def test_whole_night(mira):
    """The night exits with 3 while answers are missing, asks each question once, and notes that it was not isolated."""
    asked, waits = set(), 0
    done = sitting(mira)
    while done.returncode == 3:
        waits += 1
        report = json.loads(done.stdout)
        assert report["stopped_by"] == "handoff"
        assert report["verdict"] == "unmeasured"
        files = questions(mira)
        assert f"{len(files)} answer" in done.stderr
        assert not asked & {path.name for path in files}
        asked |= {path.name for path in files}
        for path in files:
            answered(mira, path)
        done = sitting(mira)
        assert waits < 30
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == "accept", report["why"]
    assert any("not isolated" in note for note in report["notes"])
    assert sum(phase["calls"] for phase in report["phases"]) == len(asked)
    assert questions(mira) == []
    assert list((mira.project / ".skillopt-sleep" / "handoff").iterdir()) == []
    assert waits > 2


def test_answers_half_given(mira):
    """The answers that are there are used; only the missing ones are asked for again."""
    assert sitting(mira).returncode == 3
    files = questions(mira)
    for path in files[::2]:
        answered(mira, path)
    done = sitting(mira)
    assert done.returncode == 3
    left = set(questions(mira))
    assert set(files[1::2]) <= left
    assert not set(files[::2]) & left
    assert f"{len(left)} answers are awaited" in done.stderr


def test_answer_that_belongs_to_no_question(mira):
    """A stale or foreign answer is named and not used: its author does not know this user's key."""
    sitting(mira)
    folder = mira.project / ".skillopt-sleep" / "handoff"
    (folder / "0123456789abcdef.answer.md").write_text("accept everything")
    done = sitting(mira)
    assert done.returncode == 3
    assert "not used, because they answer nothing asked now: 0123456789abcdef.answer.md" in done.stderr
    assert (folder / "0123456789abcdef.answer.md").exists()


def test_names_are_this_users(tmp_path):
    """Another user's questions have other names, so nobody can supply answers in advance."""
    names = []
    for name in ("one", "two"):
        person = make_person(tmp_path / name, rules=1, tasks_per_rule=16)
        assert sitting(person).returncode == 3
        names.append({path.name for path in questions(person)})
    assert not names[0] & names[1]


@pytest.mark.sample(1)
@pytest.mark.parametrize("spoil", ["link", "long", "empty", "folder"])
def test_answer_that_is_none(mira, spoil, tmp_path):
    """A broken answer file is named with its fault and asked for again; links and more than a megabyte are not read."""
    sitting(mira)
    question = questions(mira)[0]
    path = question.with_name(question.name.replace(".question.", ".answer."))
    if spoil == "link":
        (tmp_path / "secret").write_text("hers")
        path.symlink_to(tmp_path / "secret")
    elif spoil == "folder":
        path.mkdir()
    elif spoil == "long":
        with path.open("wb") as file:
            file.truncate(3 << 30)
    else:
        path.write_bytes(b" \n")
    done = sitting(mira, "--set=retry_wait=0")
    why = {"link": "no regular file", "folder": "no regular file", "long": "longer than 1,000,000 bytes"}
    assert (done.returncode, json.loads(done.stdout)["stopped_by"]) == (3, "handoff")
    assert f"{path.name} ({why.get(spoil, 'empty')})" in done.stderr
    assert question.exists()
    assert os.path.lexists(path)


SPOILT = {
    "I cannot say.": "no JSON in it; expected: one object of the form in the question",
    "[1, 2]": "answer is not of type object; expected: the form in the question",
    '{"anything": 1}': "expected: the form in the question",
}
"""Answers that cannot be read, and what the program says about them."""


@pytest.mark.slow
def test_answer_that_cannot_be_read(mira):
    """It is never kept: the question stays open, the message says what was expected, and a good answer is taken."""
    done = sitting(mira)
    while not (forms := [path for path in questions(mira) if "\n# The form\n" in path.read_text()]):
        assert done.returncode == 3, done.stdout
        for path in questions(mira):
            answered(mira, path)
        done = sitting(mira)
    path = forms[0].with_name(forms[0].name.replace(".question.", ".answer."))
    for text, why in SPOILT.items():
        path.write_text(text)
        for _ in range(2):  # the next sitting repeats the message
            done = sitting(mira)
            assert done.returncode == 3
            assert f"{path.name} (" in done.stderr
            assert why in done.stderr
            assert (forms[0].exists(), path.read_text()) == (True, text)
    answered(mira, forms[0])
    path.write_text(f"Here it is:\n```json\n{path.read_text()}\n```\n")  # read as any other reply is
    while (done := sitting(mira)).returncode == 3:
        assert f"{path.name} (" not in done.stderr
        for question in questions(mira):
            if question != forms[0]:
                answered(mira, question)
    assert (done.returncode, path.exists()) == (0, False), done.stderr


def test_answers_that_were_not_kept(mira, monkeypatch):
    """Answer files stay until the ledger holds their contents."""
    assert sitting(mira).returncode == 3
    files = questions(mira)
    for path in files:
        answered(mira, path)

    def full(*_args, **_more):
        raise DiskError("the disk is full")

    monkeypatch.setattr(NightLedger, "commit", full)
    words = [word for word in mira.arguments("run", "--json") if "backend" not in word]
    with pytest.raises(SystemExit):
        main([*words, "--backend=handoff", "--miner=heuristic", "--set=evolve_memory=false"])
    assert all(path.exists() for path in files)
    assert len(list(files[0].parent.glob("*.answer.md"))) == len(files)


def test_questions_of_another_plan(mira):
    """Old questions are removed, so that nobody answers them in vain; an answer already written stays and is named."""
    assert sitting(mira, "--set=seed=2").returncode == 3
    old = questions(mira)
    answered(mira, old[0])
    done = sitting(mira, "--set=seed=5", "--set=max_train=4")
    left = set(questions(mira)) - {old[0]}
    assert f"{len(left)} answer" in done.stderr
    stranger = old[0].name.replace(".question.", ".answer.")
    if old[0].exists():
        assert f"not used, because they answer nothing asked now: {stranger}" in done.stderr


def test_cap_below_the_questions(mira):
    """Waiting is no call: questions are written despite the cap, and the cap stops the answered ones as usual."""
    for _ in range(2):
        done = sitting(mira, "--max-calls=3", "--set=workers=4")
        assert (done.returncode, json.loads(done.stdout)["spend"]["calls"]) == (3, 0)
    files = questions(mira)
    assert len(files) >= 3
    for path in files:
        answered(mira, path)
    done = sitting(mira, "--max-calls=3", "--set=workers=1")
    calls = json.loads(done.stdout)["spend"]["calls"]
    assert 1 <= calls <= 3
    assert len(list(files[0].parent.glob("*.answer.md"))) == len(files) - calls


def test_looking_takes_no_question_away(mira):
    """A command that only checks whether a night could run leaves the questions."""
    sitting(mira)
    files = questions(mira)
    run(*[word for word in mira.arguments("doctor") if "backend" not in word], "--backend=handoff")
    assert questions(mira) == files


@pytest.mark.slow
def test_never_adopted_by_itself(mira):
    """A handoff night is not adopted automatically, however good its score."""
    done = sitting(mira, "--auto-adopt")
    while done.returncode == 3:
        for path in questions(mira):
            answered(mira, path)
        done = sitting(mira, "--auto-adopt")
    report = json.loads(done.stdout)
    assert (report["verdict"], bool(report["accepted"])) == ("accept", True), report["why"]
    assert any(note.startswith("not adopted by itself: the replays were not isolated") for note in report["notes"])
    assert not (mira.project / ".claude").exists()
