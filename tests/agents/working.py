"""Minds for an agent at work: what stands behind the CLI opens its skill, runs commands, and follows what it was sent.

Like every mind they decide from the raw request alone: a rule is followed only where it stands in what was sent.
"""

from __future__ import annotations

import re

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.model.call import Prompt
from tests.loopback import Asked, Called, Said

LEARNED = "skillopt-sleep-learned"
PUT_THERE = re.compile(
    r"<system-reminder>.*?</system-reminder>|<environment_context>.*?</environment_context>"
    r"|# AGENTS\.md instructions.*?</INSTRUCTIONS>",
    re.DOTALL,
)
"""What the agents themselves put into the user's mouth."""
ROOT = re.compile(r"`(r\d+)` = `([^`]+)`")
LISTED = re.compile(r"- ([\w-]+): .*?\(file: (?:(r\d+)/)?([^)]+)\)")


def at_work(world, *, opens=True, writes=""):
    """The simulated agent of a world behind a CLI: it opens the learnt skill where one is offered (unless it is one
    that never does), then answers, or writes its answer into the file ``writes`` where it has a shell. Whatever has a
    schema it answers as it does over any API.
    """
    backend = SimulatedBackend(world=str(world))

    def mind(asked: Asked) -> Said:
        if asked.schema is not None:
            done = "StructuredOutput" in {call.name for call in asked.calls}
            prompt = Prompt(system=asked.system, user=asked.user, schema=asked.schema)
            return Said(text="done" if done else backend.complete(prompt).text)
        if opens and not asked.calls and (call := opening(asked)):
            return Said(text="I look at the house rules.", calls=(call,))
        answer = backend.complete(Prompt(system=asked.text, user=request_of(asked))).text
        if writes and (shell := shell_of(asked)) and not any(writes in str(call.given) for call in asked.calls):
            return Said(text="I write it down.", calls=(shell(f"echo '{answer}' > {writes}"),))
        return Said(text="It is written." if writes else answer)

    return mind


def shell_of(asked: Asked):
    """How a command is run by the agent that asks, None when it has no shell."""
    if "Bash" in asked.tools:
        return lambda command: Called(name="Bash", given={"command": command})
    if "exec_command" in asked.tools:
        return lambda command: Called(name="exec_command", given={"cmd": command})
    return None


def opening(asked: Asked, name: str = LEARNED) -> Called | None:
    """The call that opens a skill, where it is on the list that was sent."""
    if "Skill" in asked.tools and f"- {name}:" in asked.text:
        return Called(name="Skill", given={"skill": name})
    path = skill_path(asked, name)
    if path and "exec_command" in asked.tools:
        return Called(name="exec_command", given={"cmd": f"cat {path}"})
    return None


def skill_path(asked: Asked, name: str = LEARNED) -> str:
    """Where Codex was told that a skill lies, "" when it was not."""
    roots = dict(ROOT.findall(asked.text))
    found = {skill: f"{roots[root]}/{file}" if root else file for skill, root, file in LISTED.findall(asked.text)}
    return found.get(name, "")


def request_of(asked: Asked) -> str:
    """What the agent was asked for: the first words of the user that no agent has put there."""
    said = (PUT_THERE.sub("", text).strip() for role, text in asked.turns if role == "user")
    return next((words for words in said if words), "")
