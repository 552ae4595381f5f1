"""Questions laid down for the agent the user is in, and the answers found beside them: files in the project."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from skillopt_sleep.errors import DiskError, Refused
from skillopt_sleep.storage.files import make_folders, make_own_folder, read_regular, refuse_links, remove, write_atomic

QUESTION, ANSWER = ".question.md", ".answer.md"
LONGEST = 1_000_000
"""Bytes of an answer; a longer one is none."""


class QuestionBox:
    """``handoff.Questions``: ``.skillopt-sleep/handoff`` in a project, and a key in the user's own data.

    Shared by both roles of a night, and safe between threads.
    """

    def __init__(self, project: Path, data_dir: Path) -> None:
        self._project = project
        self._data_dir = data_dir
        self._folder = project / ".skillopt-sleep" / "handoff"
        self._lock = threading.Lock()
        self._key: bytes | None = None
        self._asked: dict[str, str | None] = {}
        """Each question of this sitting: what is wrong with its answer, "" for one that is missing, None for none."""

    @property
    def place(self) -> str:
        """The folder."""
        return str(self._folder)

    @property
    def key(self) -> bytes:
        """A secret of this user, made once. Raises ``DiskError``."""
        with self._lock:
            if self._key is None:
                self._key = self._kept_key()
            return self._key

    def _kept_key(self) -> bytes:
        path = self._data_dir / "handoff.key"
        known = read_regular(path)
        if not known:
            import secrets  # noqa: PLC0415  it loads OpenSSL, and `status` asks nothing

            known = secrets.token_bytes(32)
            make_folders(self._data_dir, within=self._data_dir.parent, mode=0o700)
            write_atomic(path, known)
        return known

    def ask(self, name: str, text: str, fault: Callable[[str], str]) -> str | None:
        """The answer that lies there; without one that can be used the question is laid down, and None returned.

        ``fault`` says what is wrong with an answer, "" for nothing. A file that cannot be used stays as it is.
        Raises ``Refused`` when the folder is behind a link, and ``DiskError``.
        """
        refuse_links(self._folder, within=self._project)
        answer, wrong = _answer(self._folder / f"{name}{ANSWER}")
        if answer is not None and (problem := fault(answer)):
            answer, wrong = None, problem
        with self._lock:
            self._asked[name] = wrong
        if answer is None:
            write_atomic(
                make_own_folder(self._project, "handoff") / f"{name}{QUESTION}", text.encode("utf-8", "replace")
            )
        return answer

    def missing(self) -> tuple[str, ...]:
        """Each question of this sitting without an answer that can be used, with what is wrong where there is one."""
        with self._lock:
            left = [(name, wrong) for name, wrong in self._asked.items() if wrong is not None]
        return tuple(f"{name}{ANSWER} ({wrong})" if wrong else f"{name}{QUESTION}" for name, wrong in sorted(left))

    def strangers(self) -> tuple[str, ...]:
        """Names of answers to none of the questions of this sitting."""
        with self._lock:
            return tuple(
                name for name in self._there() if name.endswith(ANSWER) and name.removesuffix(ANSWER) not in self._asked
            )

    def kept(self, name: str) -> None:
        """Take a question and its answer away: the reply is in the ledger. Raises ``DiskError``."""
        remove(self._folder / f"{name}{QUESTION}")
        remove(self._folder / f"{name}{ANSWER}")

    def tidy(self) -> None:
        """Take away questions of an earlier sitting that nobody asks or has answered. Raises ``DiskError``.

        Only where this sitting has asked anything: whoever merely looks takes nothing away.
        """
        if not self._asked:
            return
        names = self._there()
        answered = {name.removesuffix(ANSWER) for name in names if name.endswith(ANSWER)}
        for name in names:
            asked = name.removesuffix(QUESTION)
            if name.endswith(QUESTION) and asked not in answered and asked not in self._asked:
                remove(self._folder / name)

    def _there(self) -> list[str]:
        try:
            return sorted(path.name for path in self._folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise DiskError(f"cannot read {self._folder}: {error.strerror}") from error


def _answer(path: Path) -> tuple[str | None, str | None]:
    """What an answer says, or what is wrong with it: "" when there is none. Never reads more than ``LONGEST``."""
    with contextlib.suppress(OSError):
        if os.lstat(path).st_size > LONGEST:
            return None, f"longer than {LONGEST:,} bytes"
    try:
        data = read_regular(path)
    except Refused:
        return None, "no regular file"
    if data is None:
        return None, ""
    text = data.decode("utf-8", "replace")
    return (text, None) if text.strip() else (None, "empty")
