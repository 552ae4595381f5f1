"""A pseudo terminal: what a program shows a person who looks at a window of some size."""

from __future__ import annotations

import contextlib
import os
import pty
import sys


def show(*arguments: str, columns: int = 80, lines: int = 24, **env: str) -> tuple[int, str]:
    """Run this program in a window; its exit code, and everything it wrote there."""
    child, screen = pty.fork()
    if child == 0:
        words = [sys.executable, "-m", "skillopt_sleep", *arguments]
        window = {"COLUMNS": str(columns), "LINES": str(lines), "TERM": "xterm", "PAGER": "cat"}
        os.execve(sys.executable, words, {**os.environ, **window, **env})
    written = bytearray()
    with contextlib.suppress(OSError):  # the end of a pseudo terminal is an error
        while chunk := os.read(screen, 65536):
            written += chunk
    os.close(screen)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), written.decode().replace("\r\n", "\n")
