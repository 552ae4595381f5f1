"""Whole nights over moments with the real Claude Code: it is put back into the person's own sessions."""

from __future__ import annotations

import json
import shutil

import pytest

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.call import Prompt
from skillopt_sleep.settings import load
from skillopt_sleep.usecases.plan import plan_night
from skillopt_sleep.usecases.run import run_night
from skillopt_sleep.usecases.workspace import Workspace
from tests.agents.clis import CLIS
from tests.agents.nights import MODELS
from tests.fakes.committer import CANARY, COMPLAINT, make_committer
from tests.loopback import Called, Said

GOOD, BAD = "git switch -c work && git commit -am done", "git commit -am done"
LATEST = [cli for cli in CLIS if cli.name == "claude"][-1]


def committing(person):
    """An agent that commits on the main branch, unless what it was sent says otherwise; then it is done."""
    simulated = SimulatedBackend(world=str(person.folder / "world.json"))

    def mind(asked):
        if asked.schema is not None:
            is_said = "StructuredOutput" in {call.name for call in asked.calls}
            prompt = Prompt(system=asked.system, user=asked.user, schema=asked.schema)
            return Said(text="done" if is_said else simulated.complete(prompt).text)
        if "Bash" not in asked.tools:
            return Said(text=simulated.complete(Prompt(system=asked.text, user=asked.user)).text)
        if asked.user.strip() != "continue" or has_moved(asked):
            return Said(text="Finished.")
        command = GOOD if "Before every commit cut a branch" in asked.text else BAD
        return Said(calls=(Called(name="Bash", given={"command": command}),))

    return mind


def has_moved(asked):
    """Whether it has made its move since it was put back."""
    last = asked.body["messages"][-1]["content"]
    return isinstance(last, list) and any(block.get("type") == "tool_result" for block in last)


@pytest.mark.parametrize("mode", ["text", "native"])
def test_lesson_is_tried_where_it_applies(mode, agents, loopback, tmp_path):
    """As text, and then confirmed at two moments; or at all of them. Nothing that came later is ever sent."""
    if not (shutil.which("bwrap") and shutil.which("socat")):
        pytest.fail("this needs a sandbox: apt-get install bubblewrap socat")
    person = make_committer(tmp_path / "mira", corrected=2)
    loopback.mind = committing(person)
    flags = person.flags(
        backend="claude",
        agent="claude",
        target_model=MODELS["claude"],
        optimizer_model=MODELS["claude"],
        replay=mode,
        miner="heuristic",
        workers=2,
        max_tokens=10**8,
        evolve_skill=False,
        evolve_memory=True,
    )
    flags["backends"] = {"claude": {"timeout": 60}}
    env = agents.env(clis=(LATEST,), HOME=str(person.folder))
    workspace = Workspace(*load(env, flags), env, person.project)
    report = run_night(workspace, plan_night(workspace))
    assert report.verdict is Verdict.ACCEPT
    assert "cut a branch" in report.applied_edits[0].edit.text
    put_back = [asked for asked in loopback.requests if asked.user.strip() == "continue"]
    sent = json.dumps([asked.body for asked in put_back])
    assert CANARY not in sent
    assert COMPLAINT not in sent
    assert "Where do the labels of shelf" in sent
    confirmation = report.replay.confirmation
    if mode == "text":
        assert (confirmation.tried, confirmation.heeded) == (2, 2)
        assert "the agent itself did what you asked at 2 of 2 moments" in " ".join(report.notes)
    else:
        assert confirmation.tried == 0
        assert report.replay.rollouts >= 12
        assert report.replay.failures == {}
