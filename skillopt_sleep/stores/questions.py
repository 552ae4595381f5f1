"""Questions laid down for the agent the user is in, and the answers found beside them: files in the project."""

from __future__ import annotations

import threading
from functools import cached_property
from pathlib import Path

from skillopt_sleep.errors import DiskError, Refused
from skillopt_sleep.stores.files import make_folders, own_folder, read_regular, refuse_links, remove, write_atomic

__all__ = ["QuestionBox"]

QUESTION, ANSWER = ".question.md", ".answer.md"
LONGEST = 1_000_000
"""Bytes of an answer; a longer one is none."""


class QuestionBox:
    """``ports.Questions``: ``.skillopt-sleep/handoff`` in a project, and a key in the user's own data.

    Shared by both roles of a night, and safe between threads.
    """

    def __init__(self, project: Path, data_dir: Path) -> None:
        self._project = project
        self._data_dir = data_dir
        self._folder = project / ".skillopt-sleep" / "handoff"
        self._lock = threading.Lock()
        self._asked: dict[str, bool] = {}

    @property
    def place(self) -> str:
        """The folder."""
        return str(self._folder)

    @cached_property
    def key(self) -> bytes:
        """A secret of this user, made once. Raises ``DiskError``."""
        path = self._data_dir / "handoff.key"
        known = read_regular(path)
        if known is None:
            import secrets  # noqa: PLC0415  it loads OpenSSL, and `status` asks nothing

            known = secrets.token_bytes(32)
            make_folders(self._data_dir, within=self._data_dir.parent, mode=0o700)
            write_atomic(path, known)
        return known

    def ask(self, name: str, text: str) -> str | None:
        """The answer that lies there; without one the question is laid down, and None returned.

        Raises ``Refused`` for a link or anything but a file, and for one too long to be an answer; ``DiskError``.
        """
        path = self._folder / f"{name}{ANSWER}"
        refuse_links(path, within=self._project)
        data = read_regular(path)
        if data is not None and len(data) > LONGEST:
            raise Refused(f"{path} is longer than {LONGEST:,} bytes, which is no answer; write a shorter one")
        with self._lock:
            self._asked[name] = data is not None
        if data is None:
            write_atomic(own_folder(self._project, "handoff") / f"{name}{QUESTION}", text.encode("utf-8", "replace"))
            return None
        return data.decode("utf-8", "replace")

    def missing(self) -> int:
        """How many questions of this sitting have no answer."""
        with self._lock:
            return sum(not answered for answered in self._asked.values())

    def strangers(self) -> tuple[str, ...]:
        """Names of answers to none of the questions of this sitting."""
        try:
            names = sorted(path.name for path in self._folder.iterdir())
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise DiskError(f"cannot read {self._folder}: {error.strerror}") from error
        with self._lock:
            return tuple(
                name for name in names if name.endswith(ANSWER) and name.removesuffix(ANSWER) not in self._asked
            )

    def tidy(self) -> None:
        """Take away the questions that are answered: the answers are in the ledger by then. Raises ``DiskError``."""
        with self._lock:
            done = [name for name, answered in self._asked.items() if answered]
        for name in done:
            remove(self._folder / f"{name}{QUESTION}")
            remove(self._folder / f"{name}{ANSWER}")
