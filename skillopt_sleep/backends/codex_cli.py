"""What ``codex exec --json`` prints, one event a line; a turn is completed or has failed.

An ``error`` event is no failure, it may be a warning or a retry. There is no price, and tokens are those of the thread.

A home for Codex that holds the user's login and nothing else of the user's.

No flag keeps Codex from reading ``AGENTS.md`` of its home, or from unfolding a skill there whose ``$name`` occurs in a
prompt, so it gets a home without them. The login is linked, never copied: Codex renews its tokens through the link,
and a renewed token makes every copy of the old one worthless, and may log the user out.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.child_registry import Note, Register, give_back
from skillopt_sleep.backends.outcomes import Agent, error_for, raise_if_ended_early, telling_line, unwrapped
from skillopt_sleep.backends.process import Ended, folder_prefix
from skillopt_sleep.errors import DiskError, ModelRefused, NotLoggedIn, QuotaExhausted, TimedOut, TooOld
from skillopt_sleep.model.call import Usage

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


LOGIN = "auth.json"


def users_codex_home(env: Mapping[str, str]) -> Path:
    """Where the user's Codex lives."""
    return Path(env.get("CODEX_HOME") or Path(env.get("HOME") or env.get("USERPROFILE", "")) / ".codex")


class CodexHome:
    """One throwaway home, made when it is first asked for and shared by all calls. Safe for several threads."""

    def __init__(self, register: Register | None = None) -> None:
        self._register = register or Register()
        self._lock = threading.Lock()
        self._folder: TemporaryDirectory[str] | None = None
        self._open = contextlib.ExitStack()
        self._home = self._login = Path()
        self._gate = threading.Lock()
        self._first_done = False
        self._closed = False

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """``env`` with this home in the place of the user's. Raises ``DiskError``, and ``TimedOut`` once closed."""
        try:
            with self._lock:
                if self._closed:
                    raise TimedOut("codex was not started: this backend has been closed")
                if self._folder is None:
                    self._make(env)
                home = self._home
                self._link_login(home / ".codex" / LOGIN)
        except OSError as error:
            raise DiskError(
                f"no home for codex can be made: {error}; `use_user_config = true` in [backends.codex] does without"
            ) from error
        return dict(env) | {"HOME": str(home), "CODEX_HOME": str(home / ".codex")}

    @contextlib.contextmanager
    def first_alone(self) -> Iterator[float]:
        """Hold back every other call until the first has ended; the seconds that this one has waited.

        An expired login is renewed by the call that finds it. Eight calls that find it at once all spend the same
        one-time token, which only one of them may.
        """
        began = time.monotonic()
        with self._gate:
            waited = time.monotonic() - began
            if not self._first_done:
                try:
                    yield waited
                finally:
                    self._first_done = True
                return
        yield waited

    def close(self) -> None:
        """Remove the home. Idempotent."""
        with self._lock:
            self._closed = True
            if self._folder is not None:
                give_back(self._home / ".codex" / LOGIN, self._login)
                self._folder.cleanup()
                self._folder = None
                self._open.close()

    def _make(self, env: Mapping[str, str]) -> None:
        """Make the folder, and note what is to be done about it should this program be killed."""
        self._open.enter_context(self._register.open())
        self._folder = TemporaryDirectory(prefix=folder_prefix(self._register.mark), ignore_cleanup_errors=True)
        self._home = Path(self._folder.name)
        self._login = (users_codex_home(env) / LOGIN).resolve()
        self._register.note(Note(kind="login", paths=(str(self._home / ".codex" / LOGIN), str(self._login))))

    def _link_login(self, link: Path) -> None:
        link.parent.mkdir(exist_ok=True)
        give_back(link, self._login)
        if self._login.exists() and not link.is_symlink():
            link.symlink_to(self._login)
