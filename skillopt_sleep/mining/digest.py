"""Writes the digest of a conversation up to a moment: what an agent must know to make the next move.

The digest depends on the session and the cut alone, never on the documents under trial, and nothing after the cut
enters it. So both arms of a pair share it byte for byte, and a provider's prompt cache serves the second one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from skillopt_sleep.mining.actions import DIRECTORY, Action, ActionKind, Change, strip_output
from skillopt_sleep.mining.rendering import cut_text, describe_step, fold_paste, render_step, strip_own_rules
from skillopt_sleep.mining.talk import Place, read_talk
from skillopt_sleep.model.call import CHARACTERS_PER_TOKEN
from skillopt_sleep.model.moment import Moment
from skillopt_sleep.model.session import Conversation, Session, Step, StepKind, StepOutcome
from skillopt_sleep.model.text import excerpt

MAX_TOKENS = 3_000
"""Maximum tokens of a digest, as estimated from its length."""

RECENT = 20
"""Number of older steps before the cut that are shown in full, if there is room."""

ANSWERS = 4
"""Number of the latest answers that get room before steps of earlier turns do."""

LATEST = 3
"""Number of the latest steps that get room before anything else but the request and the last instruction."""

MARKS = 400
"""Characters reserved for headings and for notes about what is left out."""

REQUEST, INSTRUCTION, FILE, ANSWER, PROMPTS, LAST_STEP, STEP = 0.35, 0.25, 0.25, 0.15, 0.4, 0.12, 0.08
"""Maximum shares of a digest: of one request, instruction, file or answer, of all earlier prompts, and of one step."""

AGENTS = {"claude": "Claude Code", "codex": "Codex"}


_PRINTS = re.compile(
    r"(?:cat|nl(?:\s+-\w+)*|bat(?:\s+-\S+)*|head(?:\s+-n?\s*\d+)?|sed\s+-n\s+['\"]?(?P<first>\d+),\d+p['\"]?)"
    r"\s+(?P<path>[\w@%+./~-]+)\s*(?:\|\s*(?:cat|head|sed)\b[^|;&]*)?"
)
_FIRST_LINE = re.compile(r"\A[ \t]*(?P<number>\d+)(?:\u2192|\t)")

GAP = "\n(…)\n"


class CutNotFound(LookupError):
    """The conversation no longer holds the turn or the step of a moment."""


@dataclass(slots=True)
class _Piece:
    """One part of the digest, with the shorter and longer forms it can be shown in."""

    place: int
    is_prompt: bool
    forms: tuple[str, ...]
    """The forms, shortest first; the first is "" for a part that can be left out."""
    level: int = 0

    @property
    def text(self) -> str:
        return self.forms[self.level]


def find_cut(places: Sequence[Place], moment: Moment) -> tuple[int, int]:
    """Return the index of a moment's turn and the number of the step before which it is cut; 0 if it names no step.

    Raises ``CutNotFound``.
    """
    for place in places:
        if moment.step:
            number = next((number for number, step in enumerate(place.steps) if step.id == moment.step), None)
            if number is not None and place.id in ("", moment.turn):
                return place.index, number
        elif place.id == moment.turn:
            return place.index, 0
    raise CutNotFound(f"session {moment.session_id} no longer holds the step {moment.step or moment.turn}")


def build_digest(
    session: Session,
    conversation: Conversation,
    moment: Moment,
    *,
    max_tokens: int = MAX_TOKENS,
    without_skills: Collection[str] = (),
) -> str:
    """Return the conversation up to the moment's cut, in at most ``max_tokens``.

    Where there is no room for everything, newer parts come first. ``without_skills`` are the skills under trial: their
    bodies are left out, as the documents that follow the digest hold them. Raises ``CutNotFound``.
    """
    places = read_talk(session, conversation)
    last, cut = find_cut(places, moment)
    room = max_tokens * CHARACTERS_PER_TOKEN
    head = _describe_agent(conversation)
    file = _render_file(places, last, cut, int(room * FILE)) if moment.step else ""
    left = room - len(head) - len(file) - min(MARKS, room // 4)
    shown = _Layout(places, last, cut, left, without=frozenset(without_skills), folder=conversation.cwd).render()
    parts = [head, shown, file]
    return cut_text("\n\n".join(part for part in parts if part), room)


def _describe_agent(conversation: Conversation) -> str:
    agent = AGENTS.get(conversation.source, conversation.source)
    model = f", model {conversation.model}" if conversation.model else ""
    folder = f", in {conversation.cwd}" if conversation.cwd else ""
    return f"Agent: {agent}{model}{folder}"


class _Layout:
    """Decides how long each part is shown: all begin in their shortest form, and the most important grow first."""

    def __init__(
        self, places: Sequence[Place], last: int, cut: int, room: int, *, without: frozenset[str], folder: str
    ) -> None:
        self._without = without
        self._places = places[: last + 1]
        self._folder = folder
        self._last = last
        self._cut = cut
        self._all = max(room, 0)
        self._room = self._all
        self._prompts: list[_Piece] = []
        self._answers: list[_Piece] = []
        self._steps: list[_Piece] = []
        self._instructions: list[_Piece] = []
        self._pieces = [piece for place in self._places for piece in self._make_pieces(place)]

    def render(self) -> str:
        request = self._prompts[-1:]
        earlier = self._prompts[-2::-1]
        newest = [piece for piece in reversed(self._steps) if piece.place == self._last]
        older = [piece for piece in reversed(self._steps) if piece.place != self._last]
        answers = self._answers[::-1]
        self._grow(request)
        self._grow(self._instructions[-1:])
        self._grow((newest + older)[:LATEST])
        self._grow(answers[:1])
        self._grow(self._instructions[-2::-1], level=1)
        self._grow(earlier, room=int(self._all * PROMPTS))
        self._grow(newest, level=1)
        self._grow(answers[1:ANSWERS], room=int(self._all * ANSWER))
        self._grow(older[:RECENT], level=1)
        self._grow((newest + older)[:RECENT])
        self._grow(answers)
        self._grow(older, level=1)
        return "\n".join(self._join())

    def _make_pieces(self, place: Place) -> Iterator[_Piece]:
        steps = place.steps[: self._cut] if place.index == self._last else place.steps
        prompt = strip_own_rules(fold_paste(place.prompt)) if place.prompt else ""
        if prompt:
            share = REQUEST if place.index == self._last else ANSWER
            piece = _Piece(
                place.index, is_prompt=True, forms=("", excerpt(prompt, 160), self._cut_share(prompt, share))
            )
            self._prompts.append(piece)
            yield piece
        answer = _find_answer(place, len(steps)) if place.index < self._last else None
        for number, step in enumerate(steps):
            yield from self._make_step(place, step, place.actions[number], is_answer=number == answer)

    def _make_step(self, place: Place, step: Step, action: Action, *, is_answer: bool) -> Iterator[_Piece]:
        line = self._shorten_paths(describe_step(step, action))
        if not line:
            return
        if step.kind is StepKind.INSTRUCTION or (step.kind is StepKind.SHOWN and place.index == self._last):
            home, share = self._instructions, INSTRUCTION
        elif is_answer:
            home, share = self._answers, ANSWER
        else:
            home, share = self._steps, LAST_STEP
        short = f"- {line}"
        is_withheld = step.kind is StepKind.INSTRUCTION and not self._without.isdisjoint(
            (action.note, action.note.rpartition(":")[2])
        )
        full = "" if is_withheld else self._cut_share(self._shorten_paths(render_step(step, action)), share)
        piece = _Piece(place.index, is_prompt=False, forms=("", min(short, full or short, key=len), full or short))
        home.append(piece)
        yield piece

    def _shorten_paths(self, text: str) -> str:
        """Write paths below the working folder relative to it."""
        if not self._folder:
            return text
        return text.replace(f"cd {self._folder} && ", "").replace(f"{self._folder}/", "./")

    def _cut_share(self, text: str, share: float) -> str:
        return cut_text(text, int(self._all * share))

    def _grow(self, pieces: Sequence[_Piece], *, level: int = 2, room: int | None = None) -> None:
        """Show each piece, in order, in the longest form up to number ``level`` that there is still room for."""
        room = self._room if room is None else min(room, self._room)
        for piece in pieces:
            for wanted in range(level, piece.level, -1):
                cost = len(piece.forms[wanted]) - len(piece.text) + (12 if piece.level == 0 else 0)
                if cost <= room:
                    room -= cost
                    self._room -= cost
                    piece.level = wanted
                    break

    def _join(self) -> Iterator[str]:
        left_out, speaker = 0, None
        for piece in self._pieces:
            if not piece.text:
                left_out += 1
                continue
            if left_out:
                yield f"(… {left_out} left out here …)"
                left_out = 0
            if piece.is_prompt or speaker is not False:
                yield "\nPerson:" if piece.is_prompt else "\nAgent:"
            speaker = piece.is_prompt
            yield piece.text
        if left_out:
            yield f"(… {left_out} left out here …)"


def _find_answer(place: Place, count: int) -> int | None:
    """Return the number of the turn's last step in which the agent spoke; None when it said nothing."""
    said = [number for number in range(count) if place.actions[number].kind is ActionKind.SAID]
    return said[-1] if said else None


def _render_file(places: Sequence[Place], last: int, cut: int, limit: int) -> str:
    """Return the first file that is edited after the cut, as far as its content was seen before the cut."""
    done = [
        (step, place.actions[number])
        for place in places[: last + 1]
        for number, step in enumerate(place.steps)
        if place.index < last or number < cut
    ]
    paths: list[str] = []
    for action in places[last].actions[cut:]:
        for change in action.changes:
            if not any(is_same_file(change.path, path) for path in paths):
                paths.append(change.path)
    for path in paths:
        if text := rebuild_file(path, done):
            anchor = _find_anchor(places[last].actions[cut:], path, text)
            heading = f"The file {path} as it stands now:\n"
            return heading + _window(text, anchor, limit - len(heading))
    return ""


def _find_anchor(actions: Sequence[Action], path: str, text: str) -> int:
    """Return the offset in the file at which the next edit takes place; 0 when that cannot be told."""
    for action in actions:
        for change in action.changes:
            if is_same_file(change.path, path) and change.removed and (at := text.find(change.removed)) >= 0:
                return at
    return 0


def _window(text: str, anchor: int, limit: int) -> str:
    """Return at most ``limit`` characters of a text, around an offset."""
    if len(text) <= limit:
        return text
    start = max(0, min(anchor - limit // 3, len(text) - limit + 10))
    start = text.rfind("\n", 0, start) + 1
    head = "(…)\n" if start else ""
    return head + cut_text(text[start:], 10**9)[: max(limit - len(head) - 5, 0)].rstrip() + "\n(…)"


@dataclass(slots=True)
class SeenFile:
    """A file, reconstructed from those parts of it that the agent read or changed."""

    pieces: dict[int, str] = field(default_factory=dict)
    """The parts that were read, by the number of their first line."""
    loose: list[str] = field(default_factory=list)
    """The texts that later changes added to parts that were never read."""

    def read(self, text: str, first: int) -> None:
        """Record a part that was read, from line ``first`` on; it replaces what was known of these lines."""
        last = first + text.count("\n")
        known, self.pieces = self.pieces, {first: text}
        for start, piece in known.items():
            lines = piece.split("\n")
            if before := lines[: max(first - start, 0)]:
                self.pieces[start] = "\n".join(before)
            if after := lines[max(last + 1 - start, 0) :]:
                self.pieces[max(start, last + 1)] = "\n".join(after)

    def change(self, change: Change) -> None:
        """Apply a change where the changed text was seen; otherwise keep what it adds in ``loose``."""
        if change.is_whole:
            self.pieces, self.loose = {1: change.added}, []
            return
        for start, piece in self.pieces.items():
            if change.removed and change.removed in piece:
                self.pieces[start] = piece.replace(change.removed, change.added, 1)
                return
        if change.added.strip():
            self.loose.append(change.added)

    @property
    def text(self) -> str:
        """The known content: the pieces in order of their lines, then the loose texts."""
        pieces = [piece for _, piece in sorted(self.pieces.items())]
        return strip_own_rules(GAP.join([*pieces, *self.loose]))


def rebuild_file(path: str, done: Iterable[tuple[Step, Action]]) -> str:
    """Return what is known of a file after these steps, "" when it was never seen."""
    seen = SeenFile()
    for step, action in done:
        if step.outcome in (StepOutcome.REFUSED, StepOutcome.DENIED, StepOutcome.INTERRUPTED):
            continue
        for change in action.changes:
            if step.outcome is not StepOutcome.FAILED and is_same_file(change.path, path):
                seen.change(change)
        if action.kind is ActionKind.LOOKED and step.outcome is StepOutcome.DONE:
            name, first = _read_target(action)
            if name and is_same_file(name, path) and step.result:
                numbered = _FIRST_LINE.match(step.result)
                seen.read(strip_output(step.result), int(numbered["number"]) if numbered else first)
    return seen.text


def is_same_file(one: str, other: str) -> bool:
    """Whether two paths may name one file: equal, or one is the end of the other."""
    one, other = one.removeprefix("./"), other.removeprefix("./")
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _read_target(action: Action) -> tuple[str, int]:
    """Return the file that an action printed, and the number of the first line printed; "" for other actions."""
    if action.path:
        return action.path, 1
    match = _PRINTS.fullmatch(DIRECTORY.sub("", action.command).strip())
    return (match["path"], int(match["first"] or 1)) if match else ("", 1)
