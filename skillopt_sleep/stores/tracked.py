"""Whether git tracks a file, so that the user can be told who else will see a change of it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["is_tracked"]

DEADLINE = 5.0
"""Seconds after which git counts as not there."""


def is_tracked(path: Path) -> bool:
    """Whether git tracks the file; False where git, a repository or an answer is missing. Runs no hook of it."""
    import subprocess  # noqa: PLC0415  only a change needs it

    ask = ["git", "-C", str(path.parent), "--literal-pathspecs", "-c", "core.fsmonitor=false"]
    try:
        done = subprocess.run(
            [*ask, "ls-files", "--error-unmatch", "--", path.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=DEADLINE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
