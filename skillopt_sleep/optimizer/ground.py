"""Reduces proposed rules to what the person asked for: by the words the person typed, then by a model's reading.

The typed words decide first, by fixed rules (``provenance.py``). The optimizer then reads the remaining sentences in
one call. It can only take more of them out: a reply that is lost or unreadable changes nothing, and is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model.edit import AppliedEdit, EditStatus
from skillopt_sleep.model.replies import Refusal, escape_tags
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.optimizer.client import TAGS, Optimizer, make_object_schema, quote
from skillopt_sleep.optimizer.reflect import Analysis
from skillopt_sleep.safety.demands import split_sentences
from skillopt_sleep.safety.provenance import Grounds, ground_rule, is_evidence

SCHEMA = make_object_schema(unasked={"type": "array", "items": {"type": "integer"}})
MOST_QUOTES = 12
"""Maximum number of the person's texts that are shown to the model together with one rule."""
UNRELATED = "named as a source of a rule, but nothing typed there speaks of it"
UNASKED = "second reading: the model that read it finds that you did not ask for this"


class _Opinion(Struct, frozen=True):
    unasked: tuple[int, ...]


def ground_edits(
    analyses: Sequence[Analysis], tasks: Sequence[TaskRecord], optimizer: Optimizer, *, also: tuple[str, ...]
) -> tuple[list[Analysis], list[AppliedEdit]]:
    """Return the analyses with each rule cut to the sentences that the person asked for, and the other sentences.

    A sentence was asked for if typed words of the tasks that its edit names (of all tasks when it names none), or the
    texts in ``also``, speak of it. A named task stays a source of the edit only if the rule shares words with what was
    typed there. The other sentences come as edits that are never applied. Raises ``FatalBackend`` and ``BudgetSpent``.
    """
    grounded, held = [], []
    intents = {task.id: excerpt(task.intent, 80) for task in tasks}
    rules: dict[str, Grounds] = {}
    for analysis in analyses:
        proposals, refused = [], list(analysis.refused)
        for proposal in analysis.patch.proposals:
            edit = proposal.edit
            grounds = Grounds.of([task for task in tasks if task.id in edit.task_ids] or tasks, also=also)
            rule = ground_rule(edit.text, grounds)
            held += [
                AppliedEdit(edit=edit.with_text(dropped.text), status=EditStatus.GUARDED, why=dropped.why)
                for dropped in rule.dropped
            ]
            if rule.dropped and not rule.text:
                continue
            kept = edit.with_text(rule.text) if rule.dropped else edit
            words = kept.text or kept.anchor
            if kept.text:
                rules[kept.text] = grounds
            sources = [task.id for task in tasks if task.id in kept.task_ids and is_evidence(task, words)]
            refused += [
                Refusal(subject=f"edit {edit.id}", words=intents.get(name, name), why=UNRELATED)
                for name in kept.task_ids
                if name not in sources
            ]
            proposals.append(replace(proposal, edit=replace(kept, task_ids=tuple(sources))))
        nothing = "" if proposals or not analysis.patch.proposals else "no proposed rule rests on words you typed"
        patch = replace(analysis.patch, proposals=tuple(proposals))
        grounded.append(replace(analysis, patch=patch, refused=tuple(refused), nothing=analysis.nothing or nothing))
    if rules:
        grounded, unasked = _read_again(grounded, rules, optimizer)
        held += unasked
    return grounded, held


def _read_again(
    analyses: list[Analysis], rules: Mapping[str, Grounds], optimizer: Optimizer
) -> tuple[list[Analysis], list[AppliedEdit]]:
    """Ask the optimizer once which sentences of the rules nobody asked for; return the analyses and these apart."""
    numbers: dict[int, tuple[str, str]] = {}
    prompt = optimizer.prompt("unasked", SCHEMA, rules=_quote_rules(rules, numbers))
    opinion, answer = optimizer.read(prompt, _Opinion, phase="reflect")
    if opinion is None:
        refusal = Refusal(subject="second reading", words=excerpt(answer.text, 80), why=answer.error)
        return [replace(analyses[0], refused=(*analyses[0].refused, refusal)), *analyses[1:]], []
    doubted = {numbers[number] for number in opinion.unasked if number in numbers}
    changed, held = [], []
    for analysis in analyses:
        proposals = []
        for proposal in analysis.patch.proposals:
            edit = proposal.edit
            sentences = split_sentences(edit.text)
            out = [sentence for sentence in sentences if (edit.text, sentence) in doubted]
            held += [
                AppliedEdit(edit=edit.with_text(sentence), status=EditStatus.GUARDED, why=UNASKED) for sentence in out
            ]
            rest = " ".join(sentence for sentence in sentences if sentence not in out)
            if not out or rest:
                proposals.append(replace(proposal, edit=edit.with_text(rest)) if out else proposal)
        nothing = UNASKED if analysis.patch.proposals and not proposals else analysis.nothing
        changed.append(replace(analysis, patch=replace(analysis.patch, proposals=tuple(proposals)), nothing=nothing))
    return changed, held


def _quote_rules(rules: Mapping[str, Grounds], numbers: dict[int, tuple[str, str]]) -> str:
    """Return each rule as numbered sentences below the person's words; note in ``numbers`` which number is which."""
    blocks = []
    for text, grounds in rules.items():
        typed = [quote("the-developer-said", words) for words in grounds.typed[:MOST_QUOTES] if words.strip()]
        lines = []
        for sentence in split_sentences(text):
            numbers[len(numbers) + 1] = (text, sentence)
            lines.append(f"{len(numbers)}. {escape_tags(sentence, *TAGS)}")
        blocks.append("\n".join((*typed, "<candidate>", *lines, "</candidate>")))
    return "\n\n".join(blocks)
