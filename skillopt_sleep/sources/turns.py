"""Groups what happened in a session into turns: a prompt, and what the agent did until the next one.

Every agent writes its own records, but a conversation has the same shape in all of them. A transcript reader tells
this log what happened, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import structs

from skillopt_sleep.model.session import Command, PromptKind, Turn
from skillopt_sleep.sources.feedback import Before, label_feedback


@dataclass(slots=True)
class RunningCommand:
    """A shell command and its exit status, None as long as it is unknown."""

    line: str
    status: int | None = None


@dataclass(slots=True)
class Draft:
    """A turn under construction; without ``prompt`` it holds work that no person's words started."""

    id: str = ""
    prompt: str = ""
    kind: PromptKind = PromptKind.TYPED
    at: str = ""
    interrupted: bool = False
    """Whether the person stopped the agent just before this prompt."""
    stopped: bool = False
    """Whether the person stopped the agent in this turn."""
    final: str = ""
    tools: dict[str, None] = field(default_factory=dict)
    skills: dict[str, None] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)
    commands: list[RunningCommand] = field(default_factory=list)

    def build(self, before: Before) -> Turn:
        """Return the finished turn, labelled with what its prompt says about what was ``before`` it."""
        label = label_feedback(self.prompt, before, self.kind, interrupted=self.interrupted)
        return Turn(
            id=self.id,
            prompt=self.prompt,
            kind=self.kind,
            at=self.at,
            feedback=label.feedback,
            cause=label.cause,
            final=self.final,
            tools=tuple(self.tools),
            skills=tuple(self.skills),
            commands=tuple(Command(line=command.line, exit_status=command.status) for command in self.commands),
            files=tuple(self.files),
        )

    def show(self, before: Before) -> Before:
        """Return what the person has in front of them after this draft, given what they had before it."""
        if not (self.final or self.tools):
            return before if not self.prompt else structs.replace(before, asked=self.prompt)
        return Before(
            asked=self.prompt or before.asked,
            answer=self.final or before.answer,
            files=tuple(self.files),
            commands=tuple(command.line for command in self.commands),
            used_tools=bool(self.tools),
        )


class TurnLog:
    """Collects the turns of one session."""

    def __init__(self) -> None:
        self.current = Draft()
        """The turn to which the agent's present work belongs."""
        self.drafts = [self.current]
        """Every turn so far, finished or not, and the words typed within one (``add_aside``)."""
        self._running: dict[str, tuple[Draft, RunningCommand]] = {}
        self._interrupted = False

    def begin_turn(self, prompt: str, *, id: str, kind: PromptKind, at: str) -> Draft:  # noqa: A002 - Turn's own word
        """Begin a turn with what a person typed."""
        self.current = Draft(id=id, prompt=prompt, kind=kind, at=at, interrupted=self._interrupted)
        self._interrupted = False
        self.drafts.append(self.current)
        return self.current

    def add_aside(self, prompt: str, *, id: str, kind: PromptKind, at: str) -> None:  # noqa: A002 - see begin_turn
        """Add words that a person typed within a turn; the agent's work still belongs to the turn before."""
        self.drafts.append(Draft(id=id, prompt=prompt, kind=kind, at=at))

    def end_turn(self) -> None:
        """End the current turn; the work that follows was not started by a person and belongs to no turn."""
        self.current = Draft()
        self.drafts.append(self.current)

    def interrupt(self) -> None:
        """Note that the person stopped the agent."""
        self._interrupted = True
        self.current.stopped = True

    def forget_prompts(self) -> None:
        """Drop all prompts so far: they turned out not to be a person's."""
        for draft in self.drafts:
            draft.prompt = ""

    def start_command(self, call: str, line: str) -> None:
        """Note a shell command; ``call`` is the id that its result will name."""
        command = RunningCommand(line)
        self.current.commands.append(command)
        self._running[call] = (self.current, command)

    def is_running(self, call: str) -> bool:
        """Tell whether a call is a command of this session whose result may still come."""
        return call in self._running

    def finish_command(self, call: str, status: int | None) -> None:
        """Note the exit status of a command; None when it is not recorded."""
        if call in self._running:
            self._running[call][1].status = status

    def finish_command_by_line(self, line: str, status: int | None) -> None:
        """Note a finished command whose call id is unknown: it completes a known command or is added."""
        for command in self.current.commands:
            if command.line == line and command.status in {None, status}:
                command.status = status
                return
        self.current.commands.append(RunningCommand(line, status))

    def drop_command(self, call: str) -> None:
        """Remove a command that was refused before it started."""
        if call in self._running:
            draft, command = self._running.pop(call)
            draft.commands.remove(command)

    def has_prompts(self) -> bool:
        """Tell whether a person typed anything."""
        return any(draft.prompt for draft in self.drafts)

    def turns(self) -> tuple[Turn, ...]:
        """Return the turns of the session in order."""
        turns: list[Turn] = []
        before = Before()
        for draft in self.drafts:
            if draft.prompt:
                turns.append(draft.build(before))
            before = draft.show(before)
        return tuple(turns)
