"""Give the simulated agent's replies about moments: the step that was meant, a check, whether it must be said again.

As everywhere in this world, what it knows comes from the world and from the text in front of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from skillopt_sleep.backends.simulation.replies import Luck, Traits, judge_move
from skillopt_sleep.backends.simulation.world import Rule, World, find_occurrences, find_owner
from skillopt_sleep.model import Json

_CASE = re.compile(r"<case\b[^<>]*>.*?</case>", re.DOTALL)
_STEP = re.compile(r"^\[(\d+)\] (\$?)", re.MULTILINE)


def propose_checks(world: World, text: str) -> dict[str, Json]:
    """Propose for each case the check of the rule that its words complain about."""
    checks: list[Json] = []
    for case in _CASE.finditer(text):
        rule = next((rule for rule in world.rules if _is_broken(rule, case[0])), None)
        check: Mapping[str, Json] = rule.check if rule and rule.check else {"none": "no program can tell"}
        checks.append({"case": find_owner(case[0], len(case[0]), "case"), "none": "", **check})
    return {"checks": checks}


def _is_broken(rule: Rule, case: str) -> bool:
    return any(True for words in rule.complaints for _ in find_occurrences(words, case))


def judge_moves(world: World, text: str, places: tuple[str, ...], traits: Traits, luck: Luck) -> dict[str, Json]:
    """Judge each move in a prompt: whether the developer would have to complain about it again."""
    return {place: judge_move(world, text, place, traits, luck) for place in places}


def name_step(text: str) -> dict[str, Json]:
    """Name the step that was meant: the last command that the prompt shows, or else its last step."""
    steps = _STEP.findall(text)
    commands = [number for number, prompt in steps if prompt] or [number for number, _ in steps] or ["0"]
    return {"step": int(commands[-1]), "as_asked": False, "knowable": True}
