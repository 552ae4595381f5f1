"""A session under construction: what a person asked, and what the agent did until the next time.

Every agent writes its own records, but a conversation has the same shape in all of them. The formats tell this log
what happened, in order; it groups that into turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from skillopt_sleep.model.session import Command, PromptKind, Turn
from skillopt_sleep.sources.feedback import label_feedback


@dataclass(slots=True)
class Run:
    """A command under way."""

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
    final: str = ""
    tools: dict[str, None] = field(default_factory=dict)
    skills: dict[str, None] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)


class TurnLog:
    """What happened, in order, grouped by what the person said."""

    def __init__(self) -> None:
        self.current = Draft()
        """The turn that what the agent does now belongs to."""
        self._drafts = [self.current]
        self._runs: dict[str, tuple[Draft, Run]] = {}
        self._interrupted = False

    def begin(self, prompt: str, *, id: str, kind: PromptKind, at: str) -> Draft:  # noqa: A002 - Turn's own word
        """A person speaks: what follows is the agent's answer to it."""
        self.current = Draft(id=id, prompt=prompt, kind=kind, at=at, interrupted=self._interrupted)
        self._interrupted = False
        self._drafts.append(self.current)
        return self.current

    def aside(self, prompt: str, *, id: str, kind: PromptKind, at: str) -> None:  # noqa: A002 - see begin
        """A person speaks within a turn; the work goes on and still belongs to the turn before."""
        self._drafts.append(Draft(id=id, prompt=prompt, kind=kind, at=at))

    def cut(self) -> None:
        """Work begins that no words of a person started: it belongs to no turn."""
        self.current = Draft()
        self._drafts.append(self.current)

    def interrupt(self) -> None:
        """The person stopped the agent."""
        self._interrupted = True

    def forget_prompts(self) -> None:
        """What was taken for prompts so far were none."""
        for draft in self._drafts:
            draft.prompt = ""

    def run(self, call: str, line: str) -> None:
        """The agent runs a shell command; ``call`` is the id its result will name."""
        run = Run(line)
        self.current.runs.append(run)
        self._runs[call] = (self.current, run)

    def ran(self, line: str, status: int | None) -> None:
        """A command that ended, told without the id of its call: the one that is known to run, or one more."""
        for run in self.current.runs:
            if run.line == line and run.status in {None, status}:
                run.status = status
                return
        self.current.runs.append(Run(line, status))

    def is_running(self, call: str) -> bool:
        """Whether a call is a command of this session whose result may still come."""
        return call in self._runs

    def ended(self, call: str, status: int | None) -> None:
        """A command ended with an exit status, None when it is not recorded."""
        if call in self._runs:
            self._runs[call][1].status = status

    def never_ran(self, call: str) -> None:
        """A command was refused before it started."""
        if call in self._runs:
            draft, run = self._runs.pop(call)
            draft.runs.remove(run)

    def turns(self) -> tuple[Turn, ...]:
        """The turns of the session in order, each with what its prompt says about the last answer before it."""
        turns: list[Turn] = []
        answer = ""
        for draft in self._drafts:
            if draft.prompt:
                turns.append(_turn(draft, answer))
            answer = draft.final or answer
        return tuple(turns)


def _turn(draft: Draft, answer: str) -> Turn:
    return Turn(
        id=draft.id,
        prompt=draft.prompt,
        kind=draft.kind,
        at=draft.at,
        feedback=label_feedback(draft.prompt, answer, draft.kind, draft.interrupted),
        final=draft.final,
        tools=tuple(draft.tools),
        skills=tuple(draft.skills),
        commands=tuple(Command(line=run.line, exit_status=run.status) for run in draft.runs),
        files=tuple(draft.files),
    )
