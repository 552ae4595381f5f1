"""What the simulated agent replies: pure rules of a world, of the text in front of it, and of luck.

Four things are asked of a model in a night: to do a task, to judge an answer, to mine sessions for tasks, and to
propose rules. Each has its function here. What they know comes from the world and the text and nowhere else, and a
rule of the world is *used* only where the text states it, and *proposed* only where the text shows the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct
from rapidfuzz import fuzz

from skillopt_sleep.backends.simulation.world import (
    Passage,
    Rule,
    World,
    WorldTask,
    last_line,
    occurrences,
    owner,
    statements,
    tagged,
)
from skillopt_sleep.model import Json
from skillopt_sleep.model.text import excerpt, fold

REWORDED = 85
"""Likeness (0 to 100) from which a line is an ask in other words, or an answer a reply of the world."""

OVERLAP_WORTH = 0.4
"""The best an answer nobody knows can score, for having the words that its rubric quotes: a fail with some credit."""

QUOTE = 200
"""Characters of a person's words that are quoted, in a rule made of them or in a reply."""

QUOTED = re.compile(r"[\"“]([^\"“”\n]+)[\"”]")
WORD = re.compile(r"\w+")

BUDGET = re.compile(r"\b(\d+)\s+(?:bounded\s+)?(?:edits?|rules?)\b", re.IGNORECASE)
DOCUMENT = re.compile(r"\bdocument\b\W+(?:kind\W+|to\W+)?(?P<kind>skill|memory)\b", re.IGNORECASE)

LISTED = re.compile(r"[-*+•]\s")
"""A list item at the top level of a document: a rule the agent has to keep in mind."""

WORDINGS = ("{}", "Always: {}", "In every case: {}", "Take care of this: {}", "{} This is a house rule.")
"""The ways a rule may be worded; each still states it."""

EDIT_BUDGET = 4
"""Edits proposed at most where the prompt names no number; the default of a night."""


class Luck(Protocol):
    """Chance, with no memory."""

    def __call__(self, *name: str | int) -> float:
        """A number in [0, 1) for what it is named after: the same name, the same number, within one call."""


class Traits(Struct, frozen=True, kw_only=True):
    """How good the agent is; all but ``span`` are probabilities.

    ``skill``: a stated rule is followed. ``noise``: a reply, or a judge's verdict, is the opposite of what it should
    be. ``useless`` and ``harmful``: a proposed edit is one of the world's useless or harmful rules. ``careless``: it
    overwrites a rule that is there. ``reword``: it says its rule in words of its own. ``crowding``: for each rule over
    ``span`` that the agent has before it, the chance to overlook any of them.
    """

    skill: float = 1.0
    noise: float = 0.0
    useless: float = 0.0
    harmful: float = 0.0
    careless: float = 0.0
    reword: float = 0.0
    crowding: float = 0.0
    span: int = 8

    def heeds(self, rules: int) -> float:
        """The chance that one rule of so many is followed."""
        return self.skill * (1.0 - self.crowding) ** max(0, rules - self.span)


def do_task(world: World, text: str, request: str, traits: Traits, luck: Luck) -> str:
    """The agent's reply to ``request``, the last part of ``text``: good when it follows all the task's rules.

    A request nobody in this world makes gets a plain reply in which nothing depends on the rules.
    """
    task = _sighted_task(world, request)
    if task is None:
        asked = excerpt(last_line(request), QUOTE)
        return f"Asked for: {asked}\nI would make the smallest change that does it and run the tests."
    said = statements(text)
    heeds = traits.heeds(sum(1 for line in text.splitlines() if LISTED.match(line)))
    broken = {each for harmful in world.harmful if harmful.stated_in(said) for each in harmful.breaks}
    good = broken.isdisjoint({task.id, *task.rules}) and (
        all(rule.stated_in(said) and luck("follow", rule.id) < heeds for rule in _rules(world, task))
        or luck("untold") < task.base_pass
    )
    return task.good if good is not (luck("noise") < traits.noise) else task.bad


def judge_answer(world: World, text: str, traits: Traits, luck: Luck) -> dict[str, Json]:
    """The verdict on the answer that ``text`` delimits: pass when it is nearer to a good reply than to a bad one."""
    answer = next((passage.words for passage in tagged(text, "answer", "response", "reply")), text)
    return _verdict(world, text, answer, luck("noise") < traits.noise)


def judge_pair(world: World, text: str, traits: Traits, luck: Luck) -> dict[str, Json]:
    """The verdicts on the two answers that ``text`` delimits, each judged as if it stood alone."""
    verdicts: dict[str, Json] = {}
    for place in ("first", "second"):
        answer = next((passage.words for passage in tagged(text, place)), "")
        verdicts[place] = _verdict(world, text, answer, luck("noise", place) < traits.noise)
    return verdicts


def _verdict(world: World, text: str, answer: str, mistaken: bool) -> dict[str, Json]:  # noqa: FBT001
    asked = [task for task in world.tasks if any(True for ask in task.asks for _ in occurrences(ask, text))]
    likeness = [(_likeness(task.good, answer), _likeness(task.bad, answer)) for task in asked or world.tasks]
    good, bad = max(likeness, key=max, default=(0.0, 0.0))
    if max(good, bad) < REWORDED:
        rubric = " ".join(passage.words for passage in tagged(text, "rubric")) or text.replace(answer, " ")
        score = round(OVERLAP_WORTH * _overlap(rubric, answer), 2)
        return {"reason": "It does not do what was asked.", "score": score, "pass": False}
    passed = (good > bad) is not mistaken
    reason = "It is what this person wants." if passed else "It breaks a rule this person holds to."
    return {"reason": reason, "score": float(passed), "pass": passed}


def mine_sessions(world: World, text: str) -> dict[str, Json]:
    """One task for each known ask that the person went on to complain about, in the session's exact words."""
    asked = sorted(
        ((found, task) for task in world.tasks for ask in task.asks for found in occurrences(ask, text)),
        key=lambda each: each[0].start,
    )
    complaints = {rule.id: _complaints(rule, text) for rule in world.rules}
    tasks: dict[tuple[str, str], Json] = {}
    for index, (ask, task) in enumerate(asked):
        session = owner(text, ask.start, "session")
        end = asked[index + 1][0].start if index + 1 < len(asked) else len(text)
        said = [
            complaint.words
            for rule in _rules(world, task)
            for complaint in complaints[rule.id]
            if ask.end <= complaint.start < end and owner(text, complaint.start, "session") == session
        ]
        if said:
            tasks[session, task.id] = _mined(session, ask.words, said)
    return {"tasks": list(tasks.values())}


def propose_edits(world: World, text: str, traits: Traits, luck: Luck) -> dict[str, Json]:
    """Rules to append, from the failures ``text`` shows, at most as many as it allows."""
    document = found["kind"].casefold() if (found := DOCUMENT.search(text)) else "skill"
    evidence: Mapping[str, list[Passage]] = {
        rule.text: seen for rule in world.rules if (seen := _evidence(world, rule, text))
    }
    if not evidence:
        evidence = _quoted_feedback(text)
    budget = BUDGET.search(text)
    known = fold(text)
    ranked = sorted(evidence, key=lambda rule: (-len(evidence[rule]), rule))
    fresh = [rule for rule in ranked if fold(rule) not in known][: int(budget[1]) if budget else EDIT_BUDGET]
    edits: dict[str, Json] = {}
    for number, rule in enumerate(fresh or [""]):
        chosen = swapped(world, rule, number, traits, luck)
        owners = sorted({owner(text, passage.start, "task", "request") for passage in evidence.get(rule, ())} - {""})
        if chosen and fold(chosen) not in known:
            edits[chosen] = _edit(document, chosen, owners) | _put(text, chosen, number, traits, luck)
    return {"edits": list(edits.values())}


def written_about(world: World, text: str) -> list[str]:
    """The rules that a text tells of, those it tells most of first."""
    evidence = {rule.text: len(seen) for rule in world.rules if (seen := _evidence(world, rule, text))}
    return sorted(evidence, key=lambda rule: (-evidence[rule], rule))


def _rules(world: World, task: WorldTask) -> tuple[Rule, ...]:
    return tuple(rule for rule in world.rules if rule.id in task.rules)


def _complaints(rule: Rule, text: str) -> list[Passage]:
    return [found for complaint in rule.complaints for found in occurrences(complaint, text)]


def _sighted_task(world: World, text: str) -> WorldTask | None:
    """The task whose ask stands in ``text``, the last of several, or failing that, in other words."""
    exact = [
        ((found.end, found.end - found.start), task)
        for task in world.tasks
        for ask in task.asks
        for found in occurrences(ask, text)
    ]
    if exact:
        return max(exact, key=lambda each: each[0])[1]
    lines = [fold(line) for line in text.splitlines() if line.strip()]
    alike = [
        (fuzz.partial_ratio(fold(ask), line, score_cutoff=REWORDED), task)
        for task in world.tasks
        for ask in task.asks
        for line in lines
        if len(line) >= len(ask) * REWORDED / 100
    ]
    best, task = max(alike, key=lambda each: each[0], default=(0.0, None))
    return task if best else None


def _likeness(reply: str, answer: str) -> float:
    """How like a reply of the world an answer is, 0 to 100, whatever else has been written around it."""
    if len(answer) < len(reply) * REWORDED / 100:
        return fuzz.ratio(fold(reply), fold(answer))
    return fuzz.partial_ratio(fold(reply), fold(answer))


def _overlap(rubric: str, answer: str) -> float:
    """The share of the words which a rubric puts in quotes that the answer has."""
    quoted = {word for quote in QUOTED.findall(rubric) for word in WORD.findall(fold(quote))}
    return len(quoted & set(WORD.findall(fold(answer)))) / len(quoted) if quoted else 0.0


def _mined(session: str, ask: str, said: list[str]) -> Json:
    rubric = f"The answer does what the person asked for afterwards: {said[0]}"
    return {
        "session": session,
        "intent": ask,
        "words": ask,
        "feedback": [*said],
        "reference": {"kind": "rubric", "rubric": rubric, "evidence": said[0]},
    }


def _evidence(world: World, rule: Rule, text: str) -> list[Passage]:
    """Where a text tells of a rule: the person complains, or a good and a bad reply to one task can be compared."""
    compared = [
        passages[0]
        for task in world.tasks
        if rule.id in task.rules
        and (passages := [*occurrences(task.bad, text)])
        and any(True for _ in occurrences(task.good, text))
    ]
    return _complaints(rule, text) + compared


def _quoted_feedback(text: str) -> Mapping[str, list[Passage]]:
    """A rule for each complaint nobody in this world makes, in the person's own words: all that can be learnt."""
    said = tagged(text, "feedback", "correction", "said")
    return {f"When asked for similar work: {excerpt(each.words, QUOTE)}": [each] for each in said}


def swapped(world: World, rule: str, number: int, traits: Traits, luck: Luck) -> str:
    """The rule, or in its place a harmful or a useless one."""
    drawn, pick = luck("swap", number), luck("pick", number)
    harmful, useless = tuple(each.text for each in world.harmful), world.useless
    if drawn < traits.harmful:
        return _picked(harmful, pick)
    return _picked(useless, pick) if drawn < traits.harmful + traits.useless else rule


def _picked(texts: tuple[str, ...], pick: float) -> str:
    return texts[int(pick * len(texts))] if texts else ""


def _edit(document: str, rule: str, owners: Iterable[str]) -> dict[str, Json]:
    reason = "The person asked for it, and the answers shown do not do it."
    return {
        "op": "append",
        "document": document,
        "text": rule,
        "anchor": "",
        "reason": reason,
        "tasks": [*owners],
    }


def _put(text: str, rule: str, number: int, traits: Traits, luck: Luck) -> dict[str, Json]:
    """How the rule is put: in words of its own, and carelessly over one that is there."""
    reworded = luck("reword", number) < traits.reword
    wording = WORDINGS[int(luck("wording", number) * len(WORDINGS))] if reworded else WORDINGS[0]
    put: dict[str, Json] = {"text": wording.format(rule)}
    if luck("careless", number) < traits.careless:
        documents = [passage.words.splitlines() for passage in tagged(text, "document")]
        there = tuple(line[2:].strip() for lines in documents for line in lines if LISTED.match(line))
        if over := _picked(there, luck("over", number)):
            put |= {"op": "replace", "anchor": over}
    return put
