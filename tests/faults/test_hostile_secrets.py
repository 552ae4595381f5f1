"""Canaries: secrets of every kind go through a whole night, and are found nowhere afterwards."""

from __future__ import annotations

import json

from msgspec.structs import replace

from skillopt_sleep.model.session import Command
from skillopt_sleep.model.task import ExactReference, RubricReference, TaskRecord
from skillopt_sleep.settings import load
from skillopt_sleep.usecases.plan import plan_night
from skillopt_sleep.usecases.run import run_night
from skillopt_sleep.usecases.workspace import Workspace
from tests.benchmarks.secret_samples import KINDS, samples
from tests.benchmarks.worlds import make_sessions
from tests.fakes.home import make_person
from tests.gate.test_verdict import recording

ENVIRONMENT = {
    "DEPLOY_TOKEN": "kite-42-blue-orchid",
    "DB_PASSWORD": 'quo"te/9 and+more',
    "PLAIN_WORD_SECRET": "swordfish",
}


def app_of(person, **changed):
    """Her app, with secrets in its environment."""
    env = {"HOME": str(person.folder), "PATH": "/usr/bin:/bin"} | ENVIRONMENT
    settings, origins = load({"HOME": str(person.folder)}, person.flags(**changed))
    return Workspace(settings, origins, env, person.project)


def with_canaries(sessions, canaries):
    """Her sessions, with a few canaries in every place of every turn."""
    left = list(canaries)
    places = 3 * sum(len(session.turns) for session in sessions)
    each_place = -(-len(left) // places)

    def some():
        taken, left[:] = left[:each_place], left[each_place:]
        return "\n\n".join(sample.text for sample in taken)

    def turn(each):
        commands = (*each.commands, Command(line=f"cat notes # {some()}", exit_status=0))
        return replace(
            each,
            prompt=f"{each.prompt}\n\n{some()}",
            final=f"{each.final}\n\n{some()}",
            commands=commands,
            files=(*each.files, f"/tmp/{ENVIRONMENT['DEPLOY_TOKEN']}/x.py"),
        )

    made = [replace(session, turns=tuple(map(turn, session.turns))) for session in sessions]
    assert not left, "there are more canaries than places"
    return made


def in_tool_output(person, text):
    """The same text in what tools printed, in every session file."""
    for path in person.claude.rglob("*.jsonl"):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        for record in records:
            if isinstance(record.get("toolUseResult"), dict):
                record["toolUseResult"]["stdout"] = text
                record["message"]["content"][0]["content"] = text
        path.write_text("".join(json.dumps(record) + "\n" for record in records))


def leaks(person, prompts, pieces):
    """Where any of the pieces is found: in the files of the data folder and the project, or in a prompt."""
    texts = {
        str(path): path.read_bytes().decode("utf-8", "replace")
        for folder in (person.data, person.project)
        for path in folder.rglob("*")
        if path.is_file()
    }
    texts |= {f"prompt {number}": f"{each.system}\n{each.user}" for number, each in enumerate(prompts)}
    forms = {form for piece in pieces for form in (piece, json.dumps(piece)[1:-1])}
    return [(where, form) for where, text in texts.items() for form in forms if form in text]


def test_canaries_of_every_kind_through_a_whole_night(tmp_path):
    """None is in the data folder, its journals included, in the project, or in any prompt that a backend saw."""
    person = make_person(tmp_path / "mira", rules=4, tasks_per_rule=14, sessions=False)
    canaries = list(samples(21))
    person.write(with_canaries(make_sessions(person.world, 1), canaries))
    in_tool_output(person, "\n".join(sample.text for sample in canaries[:40]))
    workspace = app_of(person, miner="model", max_sessions=200)
    workspace, seen = recording(workspace)
    report = run_night(workspace, plan_night(workspace))
    prompts = [prompt for each in seen.values() for prompt in each]
    pieces = {piece for sample in canaries for piece in sample.pieces}
    pieces |= {ENVIRONMENT["DEPLOY_TOKEN"], ENVIRONMENT["DB_PASSWORD"]}
    assert {sample.kind for sample in canaries} == set(KINDS)
    assert report.counts.tasks
    assert {"train", "val"} <= {phase.phase for phase in report.phases}
    assert any("[redacted:" in prompt.user for prompt in prompts)
    assert leaks(person, prompts, pieces) == []


def test_canaries_in_a_task_file(tmp_path):
    """They are taken out before the first prompt, and before anything is written."""
    person = make_person(tmp_path / "mira", sessions=False)
    canaries = [sample for sample in samples(22) if sample.setting != "split"][:120]
    tasks = tuple(
        TaskRecord(
            id=f"t{number}",
            intent=f"write down {number}: {sample.text}",
            reference=RubricReference(rubric=sample.text) if number % 2 else ExactReference(answer=sample.text),
            feedback=(f"no, not so: {sample.text}",),
            accepted=sample.text,
            reviewed=True,
        )
        for number, sample in enumerate(canaries)
    )
    workspace = app_of(person)
    workspace, seen = recording(workspace)
    run_night(workspace, plan_night(workspace, tasks))
    prompts = [prompt for each in seen.values() for prompt in each]
    assert prompts
    assert leaks(person, prompts, {piece for sample in canaries for piece in sample.pieces}) == []


def test_a_reply_and_a_complaint_with_a_secret(tmp_path):
    """What a model says, and what its transport complains of, is kept without it."""
    from skillopt_sleep.calls.send import Recorded
    from skillopt_sleep.errors import TimedOut
    from skillopt_sleep.model.call import Prompt, Reply, Role
    from skillopt_sleep.safety.redaction.redactor import Redactor
    from tests.fakes.clock import FakeClock

    key = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    kept = []

    class Backend:
        """Repeats what it is sent, then complains of it."""

        def complete(self, prompt):
            assert key not in prompt.user
            kept.append(prompt)
            if len(kept) > 1:
                raise TimedOut(f"could not send {key}")
            return Reply(text=f"said {key}")

    class Ledger:
        """Keeps what is committed."""

        def commit(self, role, prompt, model, reply, attempt):
            kept.append(reply)

        def record(self, attempt):
            kept.append(attempt)

    send = Recorded(
        role=Role.TARGET, model="m", backend=Backend(), ledger=Ledger(), clock=FakeClock(), redactor=Redactor()
    )
    prompt = Prompt(system="s", user=f"use {key}")
    assert "[redacted:github:" in send(prompt, phase="train", number=1).text
    try:
        send(prompt, phase="train", number=2)
    except TimedOut as error:
        complaint = str(error)
    assert "[redacted:github:" in complaint
    assert key not in repr(kept)
