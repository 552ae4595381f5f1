"""What the daemon says: into a log that rotates in the user's data folder, and to whoever watches it."""

from __future__ import annotations

import io
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

from skillopt_sleep.errors import DiskError

__all__ = ["logged"]

MOST_BYTES = 2**20
BACKUPS = 3
"""So the log never holds more than four megabytes, which is years of nights."""


class _Private(RotatingFileHandler):
    """A log nobody else may read."""

    def _open(self) -> io.TextIOWrapper:
        handle = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return open(handle, "a", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123  a descriptor, no path


@contextmanager
def logged(folder: Path, stream: TextIO | None, *, most: int = MOST_BYTES) -> Iterator[Callable[[str], None]]:
    """A function that logs one line to ``daemon.log`` in a folder, and to ``stream``. Raises ``DiskError``."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handlers: list[logging.Handler] = [
            _Private(folder / "daemon.log", maxBytes=most, backupCount=BACKUPS, encoding="utf-8")
        ]
    except OSError as error:
        raise DiskError(f"cannot write the log {folder / 'daemon.log'}: {error.strerror}") from error
    if stream is not None:
        handlers.append(logging.StreamHandler(stream))
    form = logging.Formatter("%(asctime)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z")
    form.converter = time.localtime
    logger = logging.getLogger("skillopt_sleep.daemon")
    logger.setLevel(logging.INFO)
    logger.propagate = False  # whoever else logs in this process has no part in it
    for handler in handlers:
        handler.setFormatter(form)
        logger.addHandler(handler)
    try:
        yield logger.info
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
