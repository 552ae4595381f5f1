"""The agent the user is already in: questions are laid down as files, and the night goes on once they are answered.

For seats that have no way to call the agent from outside. Whoever answers knows more than the question says, so what
such a night proves is less: it is marked "not isolated", and never adopted by itself.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import msgspec

from skillopt_sleep.errors import Awaiting, BackendUnusable, Refused
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Health, Prompt, Reply, Usage
from skillopt_sleep.model.json_schema import violations
from skillopt_sleep.model.replies import extract_json

CHARACTERS_PER_TOKEN = 4
NAMED = 5
"""Files named of those awaited, and of those that answer nothing; the rest is counted."""
FRAME = frozenset({"type", "required", "minimum", "maximum"})
"""What is asked of each object and field in an answer."""

HEAD = """\
<!-- A question of a SkillOpt-Sleep night. Answer it as a model would that knows nothing but what stands below: do not
look at other files, and use no tools. Write the answer alone, without any remark, into {name}.answer.md beside it. -->
"""


class Questions(Protocol):
    """Where questions for the agent the user is in are laid down. Raises ``DiskError`` and ``Refused``."""

    @property
    def place(self) -> str:
        """Where that is, in words for the user."""

    @property
    def key(self) -> bytes:
        """A secret of this user, always the same."""

    def ask(self, name: str, text: str, fault: Callable[[str], str]) -> str | None:
        """The answer that lies there; without one the question is laid down under that name, and None returned.

        ``fault`` says what is wrong with an answer, "" for one that can be used; any other is none.
        """

    def missing(self) -> tuple[str, ...]:
        """Each question of this sitting that has no answer which could be used."""

    def strangers(self) -> tuple[str, ...]:
        """What lies there and answers no question of this sitting."""

    def kept(self, name: str) -> None:
        """Take away a question and its answer, which is in the ledger now."""

    def tidy(self) -> None:
        """Take away questions of an earlier sitting that nobody asks or has answered."""


@dataclass(kw_only=True)
class HandoffBackend:
    """``ports.Backend`` over questions and answers in files.

    A question's name is a keyed digest of the prompt, with a key that lies in the user's own data. So an answer
    belongs to one prompt of this user alone: files that come with a project answer nothing.
    """

    questions: Any = None
    """``Questions``, given by the program; None where there is no project."""
    model: str = ""

    def __post_init__(self) -> None:
        self._box: Questions | None = self.questions
        self._closed = threading.Event()

    @property
    def name(self) -> str:
        """The registry name."""
        return "handoff"

    @property
    def sees(self) -> str:
        """Who is sent the prompts."""
        return f"the agent you are in, through files in {self._box.place if self._box else 'the project'}"

    @property
    def provider(self) -> str:
        """Nobody by itself: whoever reads the questions was asked to by the user."""
        return ""

    @property
    def priced(self) -> bool:
        """It names no price."""
        return False

    def probe(self) -> Health:
        """Ready wherever there is a project to lay questions in."""
        if self._box is None:
            return Health(
                ready=False, detail="handoff needs a project to lay its questions in; name one with --project"
            )
        return Health(ready=True, detail="answered by the agent you are in, so not isolated")

    def complete(self, prompt: Prompt) -> Reply:
        """The answer that lies there; where there is none that can be used, the question is laid down.

        Raises ``Awaiting`` then, ``BackendUnusable`` where questions cannot lie, and ``DiskError``.
        """
        if self._box is None or self._closed.is_set():
            raise BackendUnusable("handoff has no project to lay its questions in, or the night has ended")
        name = _name(self._box, prompt)
        try:
            answer = self._box.ask(name, _question(name, prompt), lambda text: _fault(prompt, text))
        except Refused as error:
            raise BackendUnusable(f"handoff cannot lay its questions down: {error}") from error
        if answer is None:
            raise _awaiting(self._box)
        return Reply(
            text=answer,
            model="handoff",
            usage=Usage(
                input_tokens=(len(prompt.system) + len(prompt.user)) // CHARACTERS_PER_TOKEN,
                output_tokens=len(answer) // CHARACTERS_PER_TOKEN,
                estimated=True,
            ),
        )

    def kept(self, prompt: Prompt) -> None:
        """Take away the question and its answer. Raises ``DiskError``."""
        if self._box is not None:
            self._box.kept(_name(self._box, prompt))

    def close(self) -> None:
        """Take away questions that nobody asks any more; later calls raise. Idempotent."""
        if self._box is not None and not self._closed.is_set():
            self._box.tidy()
        self._closed.set()


def _name(questions: Questions, prompt: Prompt) -> str:
    return hmac.new(questions.key, f"{prompt.digest}:{prompt.sample}".encode(), hashlib.sha256).hexdigest()[:16]


def _fault(prompt: Prompt, answer: str) -> str:
    """What keeps an answer from being used, and what was expected; "" for nothing.

    Read as any other reply is, and no more strictly than its reader will: whoever reads a list leaves out what is
    amiss in it, but without the object and its fields nothing can be read, tonight or ever.
    """
    if prompt.schema is None:
        return ""
    try:
        value = extract_json(answer)
    except ValueError:
        return "no JSON in it; expected: one object of the form in the question"
    wrong = list(islice(violations(value, _frame(prompt.schema)), NAMED))
    return f"{', '.join(wrong)}; expected: the form in the question" if wrong else ""


def _frame(schema: dict[str, Json]) -> dict[str, Json]:
    """Of a schema its objects, their fields, and the kind and range of each; not what lists hold."""
    frame = {name: value for name, value in schema.items() if name in FRAME}
    fields = schema.get("properties")
    if isinstance(fields, dict):
        frame["properties"] = {name: _frame(each) for name, each in fields.items() if isinstance(each, dict)}
    return frame


def _awaiting(questions: Questions) -> Awaiting:
    """What is missing, where it goes, and which answers are of no use here."""
    missing, strangers = questions.missing(), questions.strangers()
    said = (
        f"{len(missing)} answer{'s are' if len(missing) != 1 else ' is'} awaited in {questions.place}: for each"
        f" NAME.question.md write NAME.answer.md, then run the same command again; awaited: {_named(missing)}"
    )
    if strangers:
        said += f"; not used, for they answer nothing asked now: {_named(strangers)}"
    return Awaiting(said, missing=len(missing))


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _question(name: str, prompt: Prompt) -> str:
    parts = [HEAD.format(name=name)]
    if prompt.system.strip():
        parts.append(f"# How to answer\n\n{prompt.system.strip()}\n")
    parts.append(f"# The question\n\n{prompt.user.strip()}\n")
    if prompt.schema is not None:
        schema = msgspec.json.format(msgspec.json.encode(prompt.schema), indent=2).decode()
        parts.append(f"# The form\n\nOne JSON object of this schema, and nothing else:\n\n```json\n{schema}\n```\n")
    if prompt.sample:
        parts.append(f"(Attempt {prompt.sample + 1}: answer afresh, as if you had not been asked before.)\n")
    return "\n".join(parts)


PLUGIN = HandoffBackend
