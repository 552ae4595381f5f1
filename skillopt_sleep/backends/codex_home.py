"""A home for Codex that holds the user's login and nothing else of the user's.

No flag keeps Codex from reading ``AGENTS.md`` of its home, or from unfolding a skill there whose ``$name`` occurs in a
prompt, so it gets a home without them. The login is linked, never copied: Codex renews its tokens through the link,
and a renewed token makes every copy of the old one worthless, and may log the user out.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from skillopt_sleep.backends.process import folder_prefix
from skillopt_sleep.backends.register import Note, Register, give_back
from skillopt_sleep.errors import DiskError, TimedOut

__all__ = ["CodexHome", "users_codex_home"]

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
