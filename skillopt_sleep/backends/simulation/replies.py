"""Give the simulated agent's replies: pure rules of a world, of the text in front of it, and of luck.

A night asks a model to do a task, to judge an answer or a move at a moment, to mine sessions for tasks and to propose
rules; training also asks it to merge and rank edits and to write guidance and notes. What the functions here know comes
from the world and the text and nowhere else: a rule of the world is *used* only where the text states it, and
*proposed* only where the text shows the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct
from rapidfuzz import fuzz

from skillopt_sleep.backends.simulation.world import (
    Passage,
    Rule,
    World,
    WorldTask,
    find_last_line,
    find_occurrences,
    find_owner,
    find_tagged,
    split_statements,
)
from skillopt_sleep.model import Json
from skillopt_sleep.model.text import excerpt, fold

REWORDED = 85
"""The likeness (0 to 100) from which a line counts as a reworded ask, or an answer as a reply of the world."""
OVERLAP_WORTH = 0.4
"""The score of an unknown answer that has all the words quoted in its rubric: a fail with some credit."""
QUOTE = 200
"""The most characters quoted of a person's words, in a rule made of them or in a reply."""
QUOTED = re.compile(r"[\"“]([^\"“”\n]+)[\"”]")
WORD = re.compile(r"\w+")
BUDGET = re.compile(r"\b(\d+)\s+(?:bounded\s+)?(?:edits?|rules?)\b", re.IGNORECASE)
DOCUMENT = re.compile(r"\bdocument\b\W+(?:kind\W+|to\W+)?(?P<kind>skill|memory)\b", re.IGNORECASE)
LISTED = re.compile(r"[-*+•]\s")
"""A list item at the top level of a document: a rule the agent has to keep in mind."""
WORDINGS = ("{}", "Always: {}", "In every case: {}", "Take care of this: {}", "{} This is a house rule.")
"""The ways a rule may be worded; each still states it."""
EDIT_BUDGET = 4
"""The most edits proposed when the prompt names no number: the default of a night."""
GUIDANCE_LIMIT = 4
"""Rules that one guidance holds."""
NOTES_LIMIT = 12
"""Rejected edits that one set of notes holds."""
_NUMBERED = re.compile(r"^(?P<number>\d+)\.\s(?P<head>.*(?:\n\s+\S.*)*)", re.MULTILINE)
_SUPPORT = re.compile(r"\bproposed (\d+) x")
_TEXT = re.compile(r"^\s+text: (?P<text>.*)$", re.MULTILINE)
_BETWEEN = re.compile(r"\bfrom (\d+) to (\d+)\b")
_STEP = re.compile(r"\bstep \d+:")
_REJECTED = re.compile(r"\breject", re.IGNORECASE)
_CASE = re.compile(r"<case\b[^<>]*>.*?</case>", re.DOTALL)
_SHOWN_STEP = re.compile(r"^\[(\d+)\] (\$?)", re.MULTILINE)


class Luck(Protocol):
    """A source of random numbers without memory."""

    def __call__(self, *name: str | int) -> float:
        """Return a number in [0, 1) for a name; within one call the same name gives the same number."""


class Traits(Struct, frozen=True, kw_only=True):
    """How good the agent is; all but ``span`` are probabilities."""

    skill: float = 1.0
    """The probability that the agent follows a stated rule."""
    noise: float = 0.0
    """The probability that a reply, or a judge's verdict, is the opposite of what it should be."""
    useless: float = 0.0
    """The probability that a proposed edit is one of the world's useless rules."""
    harmful: float = 0.0
    """The probability that a proposed edit is one of the world's harmful rules."""
    careless: float = 0.0
    """The probability that a proposed edit overwrites an existing rule."""
    reword: float = 0.0
    """The probability that a proposed edit words the rule differently."""
    crowding: float = 0.0
    """For each rule beyond ``span`` in front of the agent, the probability that it overlooks a given rule."""
    span: int = 8
    """Rules that the agent can keep in mind."""

    def chance_to_follow(self, rules: int) -> float:
        """Return the chance that the agent follows one rule when it has this many in front of it."""
        return self.skill * (1.0 - self.crowding) ** max(0, rules - self.span)


def do_task(world: World, text: str, request: str, traits: Traits, luck: Luck) -> str:
    """Return the agent's reply to ``request``, the last part of ``text``: good when it follows all the task's rules.

    A request nobody in this world makes gets a plain reply in which nothing depends on the rules.
    """
    task = _find_task(world, request)
    if task is None:
        asked = excerpt(find_last_line(request), QUOTE)
        return f"Asked for: {asked}\nI would make the smallest change that does it and run the tests."
    statements = split_statements(text)
    chance = traits.chance_to_follow(sum(1 for line in text.splitlines() if LISTED.match(line)))
    broken = {name for harmful in world.harmful if harmful.is_stated_in(statements) for name in harmful.breaks}
    good = broken.isdisjoint({task.id, *task.rules}) and (
        all(rule.is_stated_in(statements) and luck("follow", rule.id) < chance for rule in _find_rules(world, task))
        or luck("untold") < task.base_pass
    )
    return task.good if good is not (luck("noise") < traits.noise) else task.bad


def judge_answer(world: World, text: str, traits: Traits, luck: Luck) -> dict[str, Json]:
    """Judge the answer that ``text`` delimits: it passes when it is nearer to a good reply than to a bad one."""
    answer = next((passage.words for passage in find_tagged(text, "answer", "response", "reply")), text)
    return _judge(world, text, answer, luck("noise") < traits.noise)


def judge_places(
    world: World, text: str, places: Iterable[str], traits: Traits, luck: Luck, *, at_moment: bool
) -> dict[str, Json]:
    """Judge what ``text`` delimits at these places, each as if it were alone.

    At a moment, a move that breaks a rule is one about which the developer would have to complain again.
    """
    verdicts: dict[str, Json] = {}
    for place in places:
        answer = next((passage.words for passage in find_tagged(text, place)), "")
        verdict = _judge(world, text, answer, luck("noise", place) < traits.noise)
        if at_moment:
            verdict |= {"reached": True, "again": not verdict.pop("pass")}
        verdicts[place] = verdict
    return verdicts


def propose_checks(world: World, text: str) -> dict[str, Json]:
    """Propose for each case the check of the rule that its words complain about."""
    checks: list[Json] = []
    for case in _CASE.finditer(text):
        rule = next((rule for rule in world.rules if _find_complaints(rule, case[0])), None)
        check: Mapping[str, Json] = rule.check if rule and rule.check else {"none": "no program can tell"}
        checks.append({"case": find_owner(case[0], len(case[0]), "case"), "none": "", **check})
    return {"checks": checks}


def name_step(text: str) -> dict[str, Json]:
    """Name the step that was meant: the last command that the prompt shows, or else its last step."""
    steps = _SHOWN_STEP.findall(text)
    commands = [number for number, prompt in steps if prompt] or [number for number, _ in steps] or ["0"]
    return {"step": int(commands[-1]), "as_asked": False, "knowable": True}


def _judge(world: World, text: str, answer: str, mistaken: bool) -> dict[str, Json]:  # noqa: FBT001
    asked = [task for task in world.tasks if any(True for ask in task.asks for _ in find_occurrences(ask, text))]
    likeness = [
        (_measure_likeness(task.good, answer), _measure_likeness(task.bad, answer)) for task in asked or world.tasks
    ]
    good, bad = max(likeness, key=max, default=(0.0, 0.0))
    if max(good, bad) < REWORDED:
        rubric = " ".join(passage.words for passage in find_tagged(text, "rubric")) or text.replace(answer, " ")
        score = round(OVERLAP_WORTH * _measure_overlap(rubric, answer), 2)
        return {"reason": "It does not do what was asked.", "score": score, "pass": False}
    passed = (good > bad) is not mistaken
    reason = "It is what this person wants." if passed else "It breaks a rule this person holds to."
    return {"reason": reason, "score": float(passed), "pass": passed}


def mine_sessions(world: World, text: str) -> dict[str, Json]:
    """Return a task for each known ask that the person then complained about, in the session's exact words."""
    asked = sorted(
        ((found, task) for task in world.tasks for ask in task.asks for found in find_occurrences(ask, text)),
        key=lambda pair: pair[0].start,
    )
    complaints = {rule.id: _find_complaints(rule, text) for rule in world.rules}
    tasks: dict[tuple[str, str], Json] = {}
    for index, (ask, task) in enumerate(asked):
        session = find_owner(text, ask.start, "session")
        end = asked[index + 1][0].start if index + 1 < len(asked) else len(text)
        words = [
            complaint.words
            for rule in _find_rules(world, task)
            for complaint in complaints[rule.id]
            if ask.end <= complaint.start < end and find_owner(text, complaint.start, "session") == session
        ]
        if words:
            tasks[session, task.id] = _build_task(session, ask.words, words)
    return {"tasks": list(tasks.values())}


def propose_edits(world: World, text: str, traits: Traits, luck: Luck) -> dict[str, Json]:
    """Propose rules to append, from the failures ``text`` shows, at most as many as it allows."""
    document = found["kind"].casefold() if (found := DOCUMENT.search(text)) else "skill"
    evidence: Mapping[str, list[Passage]] = {
        rule.text: seen for rule in world.rules if (seen := _find_evidence(world, rule, text))
    }
    if not evidence:
        evidence = _quote_feedback(text)
    budget = BUDGET.search(text)
    known = fold(text)
    ranked = sorted(evidence, key=lambda rule: (-len(evidence[rule]), rule))
    fresh = [rule for rule in ranked if fold(rule) not in known][: int(budget[1]) if budget else EDIT_BUDGET]
    edits: dict[str, Json] = {}
    for number, rule in enumerate(fresh or [""]):
        chosen = _swap_rule(world, rule, number, traits, luck)
        owners = sorted(
            {find_owner(text, passage.start, "task", "request") for passage in evidence.get(rule, ())} - {""}
        )
        if chosen and fold(chosen) not in known:
            reason = "The person asked for it, and the answers shown do not do it."
            edit: dict[str, Json] = {"op": "append", "document": document, "anchor": "", "reason": reason}
            edits[chosen] = edit | {"tasks": [*owners]} | _word_rule(text, chosen, number, traits, luck)
    return {"edits": list(edits.values())}


def _find_evident_rules(world: World, text: str) -> list[str]:
    """Return the rules that a text shows evidence of, those with most evidence first."""
    evidence = {rule.text: len(seen) for rule in world.rules if (seen := _find_evidence(world, rule, text))}
    return sorted(evidence, key=lambda rule: (-evidence[rule], rule))


def _find_rules(world: World, task: WorldTask) -> tuple[Rule, ...]:
    return tuple(rule for rule in world.rules if rule.id in task.rules)


def _find_complaints(rule: Rule, text: str) -> list[Passage]:
    return [found for complaint in rule.complaints for found in find_occurrences(complaint, text)]


def _find_task(world: World, text: str) -> WorldTask | None:
    """Return the task whose ask occurs last in ``text``; failing that, one asked in other words."""
    exact = [
        ((found.end, found.end - found.start), task)
        for task in world.tasks
        for ask in task.asks
        for found in find_occurrences(ask, text)
    ]
    if exact:
        return max(exact, key=lambda pair: pair[0])[1]
    lines = [fold(line) for line in text.splitlines() if line.strip()]
    alike = [
        (fuzz.partial_ratio(fold(ask), line, score_cutoff=REWORDED), task)
        for task in world.tasks
        for ask in task.asks
        for line in lines
        if len(line) >= len(ask) * REWORDED / 100
    ]
    best, task = max(alike, key=lambda pair: pair[0], default=(0.0, None))
    return task if best else None


def _measure_likeness(reply: str, answer: str) -> float:
    """Return how much of a world's reply an answer repeats, 0 to 100, whatever else surrounds it."""
    if len(answer) < len(reply) * REWORDED / 100:
        return fuzz.ratio(fold(reply), fold(answer))
    return fuzz.partial_ratio(fold(reply), fold(answer))


def _measure_overlap(rubric: str, answer: str) -> float:
    """Return the share of the rubric's quoted words that the answer has."""
    quoted = {word for quote in QUOTED.findall(rubric) for word in WORD.findall(fold(quote))}
    return len(quoted & set(WORD.findall(fold(answer)))) / len(quoted) if quoted else 0.0


def _build_task(session: str, ask: str, feedback: list[str]) -> Json:
    rubric = f"The answer does what the person asked for afterwards: {feedback[0]}"
    return {
        "session": session,
        "intent": ask,
        "words": ask,
        "feedback": [*feedback],
        "reference": {"kind": "rubric", "rubric": rubric, "evidence": feedback[0]},
    }


def _find_evidence(world: World, rule: Rule, text: str) -> list[Passage]:
    """Find where a text shows a rule: a complaint, or a good and a bad reply to one task side by side."""
    compared = [
        passages[0]
        for task in world.tasks
        if rule.id in task.rules
        and (passages := [*find_occurrences(task.bad, text)])
        and any(True for _ in find_occurrences(task.good, text))
    ]
    return _find_complaints(rule, text) + compared


def _quote_feedback(text: str) -> Mapping[str, list[Passage]]:
    """Make a rule of each complaint that is unknown in this world, in the person's own words."""
    complaints = find_tagged(text, "feedback", "correction", "said")
    return {f"When asked for similar work: {excerpt(passage.words, QUOTE)}": [passage] for passage in complaints}


def _swap_rule(world: World, rule: str, number: int, traits: Traits, luck: Luck) -> str:
    """Return the rule, or by chance a harmful or a useless one in its place."""
    drawn, pick = luck("swap", number), luck("pick", number)
    harmful, useless = tuple(wrong.text for wrong in world.harmful), world.useless
    if drawn < traits.harmful:
        return _pick(harmful, pick)
    return _pick(useless, pick) if drawn < traits.harmful + traits.useless else rule


def _pick(texts: tuple[str, ...], pick: float) -> str:
    return texts[int(pick * len(texts))] if texts else ""


def _word_rule(text: str, rule: str, number: int, traits: Traits, luck: Luck) -> dict[str, Json]:
    """Word the rule, by chance differently, and by chance as an overwrite of an existing rule."""
    reworded = luck("reword", number) < traits.reword
    wording = WORDINGS[int(luck("wording", number) * len(WORDINGS))] if reworded else WORDINGS[0]
    fields: dict[str, Json] = {"text": wording.format(rule)}
    if luck("careless", number) < traits.careless:
        documents = [passage.words.splitlines() for passage in find_tagged(text, "document")]
        there = tuple(line[2:].strip() for lines in documents for line in lines if LISTED.match(line))
        if over := _pick(there, luck("over", number)):
            fields |= {"op": "replace", "anchor": over}
    return fields


def merge_edits(world: World, text: str) -> dict[str, Json]:
    """Group the edits that state the same rule, or hold the same other text of the world."""
    groups: dict[str, list[int]] = {}
    for number, edit in _read_edits(text):
        for known in _find_known(world, edit):
            groups.setdefault(known, []).append(number)
    return {
        "groups": [{"same": [*numbers], "text": known} for known, numbers in groups.items() if len(numbers) > 1],
    }


def rank_edits(text: str) -> dict[str, Json]:
    """Rank the edits by how often they were proposed, and ask for those that several analysts proposed."""
    support = {number: int(found[1]) if (found := _SUPPORT.search(edit)) else 1 for number, edit in _read_edits(text)}
    ranking = sorted(support, key=lambda number: (-support[number], number))
    asked = _BETWEEN.search(text)
    least, most = (int(asked[1]), int(asked[2])) if asked else (1, len(ranking))
    seconded = sum(1 for count in support.values() if count > 1)
    return {"ranking": [*ranking], "budget": max(least, min(most, seconded))}


def write_guidance(world: World, text: str, traits: Traits, luck: Luck) -> dict[str, Json]:
    """Write down the rules that the cases show and the document does not state, after those of the last guidance."""
    before = [fold(passage.words) for passage in find_tagged(text, "guidance")]
    lines = dict.fromkeys(rule.text for rule in world.rules for words in before if fold(rule.text) in words)
    document = fold("\n".join(passage.words for passage in find_tagged(text, "document")))
    learnt = [rule for rule in _find_evident_rules(world, text) if fold(rule) not in document]
    lines |= {_swap_rule(world, rule, number, traits, luck) or rule: None for number, rule in enumerate(learnt)}
    return {"guidance": "\n".join(f"- {line}" for line in [*lines][:GUIDANCE_LIMIT])}


def write_notes(world: World, text: str) -> dict[str, Json]:
    """Note what was rejected, after what earlier notes say, so that it is not tried again."""
    before = [known for passage in find_tagged(text, "notes") for known in _find_known(world, passage.words)]
    tried: list[str] = []
    accepted: set[str] = set()
    for step in _STEP.split(" ".join(passage.words for passage in find_tagged(text, "history"))):
        known = _find_known(world, step)
        if _REJECTED.search(step):
            tried += known
        else:
            accepted |= {*known}
    noted = [known for known in dict.fromkeys([*before, *tried]) if known not in accepted]
    return {"notes": "\n".join(f"- Rejected before: {known}" for known in noted[-NOTES_LIMIT:])}


def _read_edits(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each edit in a prompt."""
    edits = next((passage.words for passage in find_tagged(text, "edits")), text)
    for match in _NUMBERED.finditer(edits):
        marked = _TEXT.search(match["head"])
        support = _SUPPORT.search(match["head"])
        yield int(match["number"]), f"{support[0] if support else ''} {marked['text'] if marked else match['head']}"


def _find_known(world: World, text: str) -> list[str]:
    """Return the rules of the world, also harmful and useless ones, that a text holds word for word."""
    every: Mapping[str, None] = dict.fromkeys(
        [*(rule.text for rule in world.rules), *(rule.text for rule in world.harmful), *world.useless]
    )
    return [known for known in every if any(True for _ in find_occurrences(known, text))]
