"""Which commit a project was at: asked of git, which is let to write nothing and to run nothing of the project's.

Whether git tracks a file, so that the user can be told who else will see a change of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

SECONDS = 10.0
"""Seconds after which git counts as having no answer."""
QUIET = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?")


def is_project_of_git(project: Path, env: Mapping[str, str]) -> bool:
    """Whether the folder is the top of a git project that has a commit."""
    top = _asked(project, env, "rev-parse", "--show-toplevel")
    return bool(top) and Path(top).resolve() == project.resolve() and bool(commit_of(project, env))


def commit_of(project: Path, env: Mapping[str, str], *, commit: str = "", at: str = "") -> str:
    """The commit of that name where the project has it, else the last one before the moment ``at``, else where it is.

    "" when git knows none.
    """
    if _COMMIT.fullmatch(commit) and _asked(project, env, "rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}"):
        return commit
    before = (f"--before={at}",) if _MOMENT.fullmatch(at) else ()
    return _asked(project, env, "rev-list", "-1", *before, "HEAD") or _asked(project, env, "rev-list", "-1", "HEAD")


def _asked(project: Path, env: Mapping[str, str], *arguments: str) -> str:
    import subprocess  # noqa: PLC0415  only a replay in a copy of a project needs it

    try:
        done = subprocess.run(
            ["git", "-C", str(project), "-c", "core.fsmonitor=false", *arguments],
            env={"PATH": env.get("PATH", ""), "HOME": os.devnull, **QUIET},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


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
