"""Questions with known answers: one call each, scored without a model."""

from __future__ import annotations

import contextlib
import math
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from skillopt_sleep.errors import UsageError
from skillopt_sleep.model.document import Document, DocumentKind, region
from skillopt_sleep.model.replies import without_thinking
from skillopt_sleep.model.text import did_you_mean, excerpt
from skillopt_sleep.prompts import render
from skillopt_sleep.train.datasets import SPLITS, Splits, check_ids, load_splits, without_straddlers
from skillopt_sleep.train.environments.answers import Expected, Scoring, flaw, score_answer
from skillopt_sleep.train.environments.loading import as_score, blamed
from skillopt_sleep.train.ports import ChatClient, Item, SkillEnv
from skillopt_sleep.train.results import RolloutResult
from skillopt_sleep.train.twins import ANSWERS, answers_of, odd_answer, question_of

Scorer: TypeAlias = Callable[[str, Item], float | tuple[float, float]]
"""Scores an answer to an item: (hard, soft), or soft alone, and hard is then whether it reaches ``pass_at``."""


WRONG = "I do not know."
"""An answer that every scorer has to live with."""


class SimpleQAEnv(SkillEnv):
    """Items with ``id``, ``question``, ``answers`` and, where wanted, ``context``, ``choices``, ``task_type``.

    Take them from three lists, or from ``data``: a folder with train/, val/ and test/, or one file and a ``ratio``.
    ``scoring`` is ``exact``, ``f1``, ``regex``, ``multiple_choice``, ``numeric``, ``contains``, or a function; an item
    may name another under its own ``scoring``. ``notes`` says what of the data was left out, or stands in two splits.

    Raises ``UsageError`` naming the item for a reference that no answer could meet.
    """

    name = "simple_qa"

    def __init__(
        self,
        *,
        train_items: Sequence[Item] = (),
        val_items: Sequence[Item] = (),
        test_items: Sequence[Item] = (),
        data: str | Path = "",
        ratio: str = "",
        split_seed: int = 42,
        limit: int = 0,
        scoring: str | Scorer = Scoring.EXACT,
        tolerance: float = 1e-6,
        pass_at: float = 0.8,
        max_completion_tokens: int = 512,
        initial_skill: str = "",
    ) -> None:
        given = Splits(
            train=_listed("train_items", train_items),
            val=_listed("val_items", val_items),
            test=_listed("test_items", test_items),
        )
        if data and any(given[split] for split in SPLITS):
            raise UsageError("give items, or data to read them from, not both")
        if not data and not any(given[split] for split in SPLITS):
            raise UsageError("simple_qa has no data: name a file and a ratio, or a folder with train/, val/ and test/")
        self._splits = load_splits(data, ratio=ratio, seed=split_seed, limit=limit) if data else given
        self.notes = self._splits.notes if data else _told(given)
        self._scoring = scoring if callable(scoring) else _scoring(scoring, "scoring")
        self._tolerance = _number("tolerance", tolerance, 0.0, math.inf)
        self._pass_at = _number("pass_at", pass_at, 0.0, 1.0)
        self._max_completion_tokens = int(_number("max_completion_tokens", max_completion_tokens, 1, math.inf))
        self._initial_skill = initial_skill
        self._check()

    def get_initial_skill(self) -> str:
        """The skill given, "" by default."""
        return self._initial_skill

    def traits(self) -> dict[str, Any]:
        """What of it changes a score, besides the items."""
        return {
            "scoring": self._scoring,
            "tolerance": self._tolerance,
            "pass_at": self._pass_at,
            "max_completion_tokens": self._max_completion_tokens,
        }

    def get_items(self, split: str) -> list[Item]:
        """The items of a split. Raises ``UsageError`` where the data have none of it."""
        return list(self._splits.needed(split))

    def get_task_types(self) -> list[str]:
        """Every ``task_type`` of the items, in order of appearance."""
        return list(dict.fromkeys(str(each["task_type"]) for each in self._all() if each.get("task_type")))

    def rollout_one(self, *, item: Item, skill: str, target_client: ChatClient) -> RolloutResult:
        """Ask once, and score what is answered."""
        question, answers = question_of(item), answers_of(item)
        context, choices = str(item.get("context") or "").strip(), _choices(item)
        system, user = render(
            "answer_question",
            skill=_body(skill),
            context=f"{context}\n\n" if context else "",
            question=question,
            choices="".join(f"\n{letter}. {text}" for letter, text in choices.items()),
        )
        text, _ = target_client.chat(
            system=system, user=user, max_completion_tokens=self._max_completion_tokens, stage="rollout"
        )
        hard, soft, why = self._score(text, item)
        return RolloutResult(
            id=str(item["id"]),
            hard=hard,
            soft=soft,
            n_turns=1,
            fail_reason="" if hard >= 1 else why,
            task_type=str(item.get("task_type") or ""),
            predicted_answer=without_thinking(text).strip(),
            question=question,
            reference_text=" | ".join(answers),
            target_system_prompt=system,
            target_user_prompt=user,
            conversation=[{"role": "user", "content": user}, {"role": "assistant", "content": text}],
        )

    def _score(self, text: str, item: Item) -> tuple[float, float, str]:
        """Hard, soft, and why it is not right."""
        if not callable(self._scoring):
            score = score_answer(text, self._expected(item))
            return score.hard, score.soft, score.rationale
        try:
            scored: Any = self._scoring(without_thinking(text), item)
        except Exception as error:
            raise blamed("the scorer", error, item) from error
        what = f"item {str(item['id'])!r}: the scorer's"
        if isinstance(scored, tuple | list):
            if len(scored) != 2:  # noqa: PLR2004  hard and soft
                raise UsageError(f"{what} result {scored!r} is neither a number nor (hard, soft)")
            hard, soft = as_score(scored[0], f"{what} hard"), as_score(scored[1], f"{what} soft")
        else:
            soft = as_score(scored, f"{what} score")
            hard = float(soft >= self._pass_at)
        return hard, soft, f"scored {soft:g}"

    def _expected(self, item: Item) -> Expected:
        own = item.get("scoring")
        return Expected(
            answers=answers_of(item),
            scoring=_scoring(str(own), f"item {item['id']!r}: scoring") if own else Scoring(str(self._scoring)),
            choices=_choices(item),
            tolerance=_number(
                f"item {item['id']!r}: tolerance", item.get("tolerance") or self._tolerance, 0.0, math.inf
            ),
            pass_at=self._pass_at,
        )

    def _check(self) -> None:
        """Find what could never be scored. A function is tried on every item, with right and wrong answers."""
        check_ids(self._all(), [f"{split}[{index}]" for split in SPLITS for index in range(len(self._splits[split]))])
        for item in self._all():
            if not question_of(item).strip():
                near = did_you_mean("question", [name for name in item if name != "question"])
                raise UsageError(f"item {item['id']!r} asks nothing: it needs a 'question'{near}")
            if not callable(self._scoring):
                _check_answers(item)
            choices = item.get("choices") or item.get("options") or ()
            if not isinstance(choices, list | tuple | Mapping):
                raise UsageError(f"item {item['id']!r}: choices is {choices!r:.40}, must be a list or an object")
            if len(choices) > len(string.ascii_uppercase):
                raise UsageError(f"item {item['id']!r} has {len(choices)} choices, more than there are letters")
            if not callable(self._scoring) and (why := flaw(self._expected(item))):
                raise UsageError(f"item {item['id']!r}: {why}")
        if callable(self._scoring):
            for item in self._all():
                self._try(item)

    def _try(self, item: Item) -> None:
        for tried in (next(iter(answers_of(item)), ""), "", WRONG):
            try:
                self._score(tried, item)
            except UsageError as error:
                raise UsageError(f"{error} (tried with the answer {excerpt(repr(tried), 40)})") from error

    def _all(self) -> list[Item]:
        return [item for split in SPLITS for item in self._splits[split]]


def _check_answers(item: Item) -> None:
    """Raise ``UsageError`` for an item without answers, or with one that is neither a text nor a number."""
    if not answers_of(item):
        near = did_you_mean("answers", [name for name in item if name not in ANSWERS])
        raise UsageError(f"item {item['id']!r} has no answer to compare with: it needs 'answers'{near}")
    if odd := odd_answer(item):
        raise UsageError(f"item {item['id']!r}: the answer {excerpt(odd, 40)} is neither a text nor a number")


def _listed(name: str, items: object) -> tuple[Item, ...]:
    """The items of one of the three lists. Raises ``UsageError`` for what is none."""
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise UsageError(f"{name} is {excerpt(repr(items), 60)}, must be a list of items")
    return tuple(items)


def _number(what: str, value: object, least: float, most: float) -> float:
    """A number within bounds. Raises ``UsageError`` that names it."""
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with contextlib.suppress(ValueError):
            number = float(value)
    if not least <= number <= most:
        bounds = f"{least:g} or more" if most == math.inf else f"from {least:g} to {most:g}"
        raise UsageError(f"{what} is {excerpt(repr(value), 40)}, must be a number, {bounds}")
    return number


def _scoring(name: object, where: str) -> Scoring:
    known = [str(each) for each in Scoring]
    if not isinstance(name, str) or name not in known:
        if not isinstance(name, str):
            raise UsageError(f"{where} is {excerpt(repr(name), 40)}, must be one of {', '.join(known)}, or a function")
        raise UsageError(f"{where} {name!r} is none of {', '.join(known)}{did_you_mean(name, known)}")
    return Scoring(name)


def _choices(item: Item) -> Mapping[str, str]:
    """The texts of a multiple choice by letter: a list gets A, B, C …; an object keeps its letters."""
    found = item.get("choices") or item.get("options") or ()
    if isinstance(found, Mapping):
        return {str(letter).strip().upper(): str(text) for letter, text in found.items()}
    return {letter: str(text) for letter, text in zip(string.ascii_uppercase, found, strict=False)}


def _body(skill: str) -> str:
    """The skill as an agent reads it, without frontmatter, between tags; "" for none."""
    text = region(Document(kind=DocumentKind.SKILL, path="SKILL.md", whole=True, content=skill.encode())).strip()
    return f"<skill>\n{text}\n</skill>" if text else ""


def _told(given: Splits) -> tuple[str, ...]:
    """What is worth saying of lists that are taken as they are."""

    def notes() -> Iterator[str]:
        try:
            check_ids([item for split in SPLITS for item in given[split]], "items")
            yield from (note.replace("left out", "kept, though") for note in without_straddlers(given).notes)
        except UsageError as error:
            yield str(error)

    return tuple(notes())


PLUGIN = SimpleQAEnv
