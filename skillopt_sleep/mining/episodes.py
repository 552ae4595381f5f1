"""What a person asked for, and all they had to say until it stood: the raw material of a task.

A session is cut where the person turns to something new. What comes before the cut belongs together: the ask, each
wrong answer with the words that corrected it, and the answer that stood in the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from skillopt_sleep.model.near_duplicates import matter
from skillopt_sleep.model.session import Command, Feedback, Session, Turn
from skillopt_sleep.model.task import Outcome
from skillopt_sleep.model.text import CONTINUE, HOUSEKEEPING, POINTING, QUESTIONS, REQUESTS

LONGEST = 20_000
"""Characters of a prompt that is replayed at most: a longer paste costs more than it teaches."""

CONTINUING = 4
"""Words up to which a prompt without matter of its own ("continue", "fix it") goes on with the work before it."""

AGREEING = 3
"""Words of matter from which an approval asks for something new as well."""

_PROMPT = re.compile(
    r"\s*(?:[\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}\u279c$%>]\s|[^\n]*[\ue000-\uf8ff])"
)
"""How a terminal's prompt begins; what follows it, up to a blank line, is what it printed."""

_PASTED = re.compile(
    r"""\s*(?:
      \[[\w:./ -]{2,40}\](?:\s|$)                            # [lint:go] …
    | (?:time|level|ts|msg)= | \d{4}-\d\d-\d\d[T ]\d | \d\d:\d\d:\d\d
    | at\s\S+\( | File\s" | Traceback | \w*(?:Error|Exception|Warning):\s | panic: | goroutine\s | npm\sERR
    | FAIL\b | PASS\b | ok\s+\S+\s+[\d.(] | ---\s | ===\s | \+\+\+\s | @@\s | diff\s--git
    | \S+\.\w{1,5}:\d+ | "[^"]*":\s | [{}\[\]();,]+$
    ) | \t | [ ]{4}""",
    re.VERBOSE,
)
"""How a line begins that was copied from a terminal, a log, a diff or a file."""

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE = re.compile(r"[.?!]+(?=\s|$)|\n")
_WORD = re.compile(r"\w[\w'\N{RIGHT SINGLE QUOTATION MARK}-]*")
_NUMBER = re.compile(r"(?<![\w#./-])\d(?![\w.])")
"""A number by which something listed before is meant."""


class Episode(Struct, frozen=True, kw_only=True):
    """One ask and what became of it.

    ``later`` are the turns that belong to it: corrections, approvals that ask nothing new, "go on". ``before`` is the
    answer the person had in front of them when they asked; ``wrong`` the one that was corrected first, ``stood`` the
    one that was corrected no more; each "" where there was none.
    """

    ask: Turn
    later: tuple[Turn, ...] = ()
    before: str = ""
    wrong: str = ""
    stood: str = ""
    approved: bool = False

    @property
    def corrections(self) -> tuple[Turn, ...]:
        """The turns that corrected an answer."""
        return tuple(turn for turn in self.later if turn.feedback is Feedback.CORRECTION)

    @property
    def skills(self) -> tuple[str, ...]:
        """The skills invoked in it, each once."""
        return tuple(dict.fromkeys(skill for turn in (self.ask, *self.later) for skill in turn.skills))

    @property
    def commands(self) -> tuple[Command, ...]:
        """The shell commands that were run in it, in order."""
        return tuple(command for turn in (self.ask, *self.later) for command in turn.commands)

    @property
    def used_tools(self) -> bool:
        """Whether the agent did anything but write its answer."""
        return any(turn.tools for turn in (self.ask, *self.later))

    @property
    def points_outside(self) -> bool:
        """Whether the ask points at something said or shown before, and not at what is pasted beneath it."""
        ask = self.ask.prompt.strip()
        pointing = not POINTING.isdisjoint(_WORD.findall(ask.casefold())) or bool(_NUMBER.search(ask))
        return pointing and "\n" not in ask

    @property
    def outcome(self) -> Outcome:
        """How the work ended: success when approved at once, mixed when only after corrections, fail when never."""
        if not self.corrections:
            return Outcome.SUCCESS if self.approved else Outcome.UNKNOWN
        return Outcome.MIXED if self.approved or self.stood else Outcome.FAIL


def episodes(session: Session) -> Iterator[Episode]:
    """The episodes of a session in order; weak words (a choice in a dialogue, a headless run) begin none."""
    draft: _Draft | None = None
    answer = ""
    for turn in session.turns:
        if draft and _goes_on(turn):
            draft.go_on(turn)
        elif not turn.kind.weak:
            if draft:
                draft.approved |= turn.feedback is Feedback.APPROVAL
                yield draft.episode()
            draft = _Draft(ask=turn, before=answer, stood=turn.final)
        answer = turn.final or answer
    if draft:
        yield draft.episode()


def own_words(prompt: str) -> str:
    """What the person typed of a prompt, without what was pasted into it; "" when all of it was."""
    own: list[str] = []
    printed = False
    for line in _FENCE.sub("\n", prompt).splitlines():
        if not line.strip():
            printed = False
        elif _PROMPT.match(line):
            printed = True
        elif not printed and not _PASTED.match(line):
            own.append(line)
    return "\n".join(own)


def why_not_a_task(episode: Episode) -> str:
    """Why an episode cannot be replayed or judged on its own, "" when it can."""
    own = own_words(episode.ask.prompt)
    if len(_WORD.findall(own)) < 2:  # noqa: PLR2004  a single word is a name or a "yes"
        return "only pasted text" if len(episode.ask.prompt) > len(own) else "a single word"
    if len(_substance(own)) < _needed(episode):
        return "not understood outside of its session"
    if len(episode.ask.prompt) > LONGEST:
        return f"longer than {LONGEST:,} characters"
    if not (episode.corrections or episode.approved) and _is_question(own):
        return "a question whose answer was neither corrected nor approved"
    if not (episode.corrections or episode.stood):
        return "no answer, and no words about one"
    return ""


def _needed(episode: Episode) -> int:
    """Words of matter that make an ask understood: fewer where corrections say what it was about."""
    if episode.corrections:
        return 1
    return 2 + (0 if not episode.points_outside else 1 if episode.before else 2)


@dataclass(slots=True)
class _Draft:
    """An episode that may still go on."""

    ask: Turn
    before: str
    stood: str
    wrong: str = ""
    approved: bool = False
    later: list[Turn] = field(default_factory=list)

    def go_on(self, turn: Turn) -> None:
        """Another turn of the same work."""
        self.later.append(turn)
        match turn.feedback:
            case Feedback.CORRECTION:
                self.wrong = self.wrong or self.stood
                self.stood = turn.final
                self.approved = False
            case Feedback.APPROVAL:
                self.approved = True  # of what stood before it; what follows is the work that was agreed on
            case Feedback.NEITHER:
                self.stood = turn.final or self.stood

    def episode(self) -> Episode:
        return Episode(
            ask=self.ask,
            later=tuple(self.later),
            before=self.before,
            wrong=self.wrong,
            stood=self.stood,
            approved=self.approved,
        )


def _goes_on(turn: Turn) -> bool:
    """Whether a turn belongs to the work before it: it corrects, or it approves or continues and asks nothing new."""
    if turn.kind.weak or turn.feedback is Feedback.CORRECTION:
        return True
    own = own_words(turn.prompt)
    if turn.feedback is Feedback.APPROVAL:
        return len(_substance(own)) < AGREEING
    words = _WORD.findall(own.casefold())
    return 0 < len(words) <= CONTINUING and not _substance(own) and HOUSEKEEPING.isdisjoint(set(words) - CONTINUE)


def _substance(words: str) -> frozenset[str]:
    return matter(words) - HOUSEKEEPING - CONTINUE - POINTING


def _is_question(words: str) -> bool:
    """Whether the first sentence asks for an answer rather than, politely, for work."""
    folded = words.casefold()
    if next(iter(_WORD.findall(folded)), "") in QUESTIONS:
        return True
    end = _SENTENCE.search(folded)
    asks = "?" in end[0] if end else False
    return asks and not any(each in folded for each in REQUESTS)
