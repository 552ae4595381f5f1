"""What ``codex exec --json`` prints, one event a line; a turn is completed or has failed.

An ``error`` event is no failure, it may be a warning or a retry. There is no price, and tokens are those of the thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.outcome import Agent, error_for, raise_if_ended_early, telling_line, unwrapped
from skillopt_sleep.backends.process import Ended
from skillopt_sleep.domain.call import Usage
from skillopt_sleep.errors import ModelRefused, NotLoggedIn, QuotaExhausted, TooOld

__all__ = ["CODEX", "LOGS", "CodexEvent", "CodexItem", "CodexTurn", "announced_wait", "events_in", "turn_of"]

CODEX = Agent(
    name="codex",
    cannot={
        NotLoggedIn: "run `codex login`; for a provider, key or keyring that config.toml names, set"
        " `use_user_config = true` in [backends.codex]",
        ModelRefused: "name another one, with --target-model or --optimizer-model",
        TooOld: "run `npm install -g @openai/codex@latest`, or upgrade it the way it was installed",
        QuotaExhausted: "wait for the reset that /status shows, or add credit",
    },
)
LOGS = {"RUST_LOG": "codex_core=warn"}
"""The environment in which it says on stderr how long it is about to wait; no event does."""
_WAIT = re.compile(
    r"^(?!\{).*\bWARN\b.*\bcodex_core\b.*retrying sampling request \(\d+/\d+ in (\d+(?:\.\d+)?)(ms|s)\)", re.MULTILINE
)
"""A line of its log. An event, which begins with a brace, may hold these words too: the agent has read them somewhere.
"""


class CodexItem(Struct, frozen=True, kw_only=True):
    """Something done in a turn. ``command``, ``exit_code`` and ``aggregated_output`` are those of a command run."""

    type: str = ""
    text: str = ""
    command: str = ""
    exit_code: int | None = None
    aggregated_output: str = ""


class _Said(Struct, frozen=True, kw_only=True):
    message: str = ""


class _Tokens(Struct, frozen=True, kw_only=True):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0

    def total(self) -> Usage:
        return Usage(
            input_tokens=self.input_tokens, output_tokens=self.output_tokens, cached_tokens=self.cached_input_tokens
        )


class CodexEvent(Struct, frozen=True, kw_only=True):
    """One line of ``--json``; ``message`` belongs to ``error``, ``error`` to ``turn.failed``."""

    type: str = ""
    message: str = ""
    error: _Said | None = None
    item: CodexItem | None = None
    usage: _Tokens | None = None

    @property
    def complaint(self) -> str:
        """What it says went wrong."""
        return self.error.message if self.error else self.message


class CodexTurn(Struct, frozen=True, kw_only=True):
    """A turn that was completed: all that was done, the last the model said, and what it took."""

    items: tuple[CodexItem, ...]
    text: str
    usage: Usage | None


def events_in(stdout: str) -> Iterator[CodexEvent]:
    """Every line that is an event as we know it; other lines do not matter here."""
    for line in stdout.split("\n"):
        try:
            yield msgspec.json.decode(line, type=CodexEvent)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue


def announced_wait(printed: str) -> float:
    """The seconds that its log last said it would wait before it tries again, 0 when it never did."""
    found = list(_WAIT.finditer(printed))
    return float(found[-1][1]) / (1000 if found[-1][2] == "ms" else 1) if found else 0.0


def turn_of(ended: Ended, *, deadline: float) -> CodexTurn:
    """The turn that was completed. Raises the ``BackendError`` that anything else means."""
    events = tuple(events_in(ended.stdout))
    complaints = [event.complaint for event in events if event.type in {"error", "turn.failed"}]
    complaint = unwrapped(complaints[-1]) if complaints else ""
    raise_if_ended_early(CODEX, ended, deadline=deadline, words=complaint)
    completed = next((event for event in reversed(events) if event.type == "turn.completed"), None)
    if completed is None or ended.status:
        said = complaint or telling_line(ended.stderr) or f"it ended with status {ended.status}"
        raise error_for(CODEX, said, retry_after=announced_wait(ended.stderr) or None)
    items = tuple(event.item for event in events if event.type == "item.completed" and event.item)
    answers = [item.text for item in items if item.type == "agent_message" and item.text]
    return CodexTurn(
        items=items,
        text=answers[-1] if answers else "",
        usage=completed.usage.total() if completed.usage else None,
    )
