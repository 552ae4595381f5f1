"""Asks git about a project and its files, letting it write nothing and run nothing that belongs to the project."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

TIMEOUT = 10.0
"""Seconds after which git counts as having no answer."""
_ISOLATION = {
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


def is_git_project(project: Path, env: Mapping[str, str]) -> bool:
    """Tell whether the folder is the top of a git repository that has a commit."""
    top = _ask(project, env, "rev-parse", "--show-toplevel")
    return bool(top) and Path(top).resolve() == project.resolve() and bool(find_commit(project, env))


def find_commit(project: Path, env: Mapping[str, str], *, commit: str = "", at: str = "", branch: str = "") -> str:
    """Return ``commit`` if the project has it, else the last commit before the moment ``at``, else the current one.

    With a ``branch`` the session went on after ``commit``: then it is the last commit of either before that moment.
    Returns "" when git knows none.
    """
    before = (f"--before={at}",) if _MOMENT.fullmatch(at) else ()
    names = [f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"] if branch and before else []
    known = [name for name in names if _ask(project, env, "rev-parse", "--verify", "--quiet", f"{name}^{{tree}}")]
    if _COMMIT.fullmatch(commit) and _ask(project, env, "rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}"):
        if not known:
            return commit
        known.append(commit)
    if known and (found := _ask(project, env, "rev-list", "-1", *before, *known, "--")):
        return found
    return _ask(project, env, "rev-list", "-1", *before, "HEAD") or _ask(project, env, "rev-list", "-1", "HEAD")


def is_tracked(path: Path) -> bool:
    """Tell whether git tracks the file, so that others will see a change.

    False where git or a repository is missing.
    """
    arguments = ("--literal-pathspecs", "ls-files", "--error-unmatch", "--", path.name)
    return bool(_ask(path.parent, {}, *arguments))


def list_tracked(folder: Path) -> list[str]:
    """List the files in a folder that git tracks; none where git, a repository or the folder is missing."""
    return _ask(folder, {}, "ls-files").splitlines() if folder.is_dir() and not folder.is_symlink() else []


def _ask(folder: Path, env: Mapping[str, str], *arguments: str) -> str:
    """Run git in a folder and return what it prints, "" when it fails.

    git is looked for on the PATH of ``env``, or on that of this process when ``env`` has none.
    """
    import shutil  # noqa: PLC0415  `status` asks nothing
    import subprocess  # noqa: PLC0415  as above

    git = shutil.which("git", path=env.get("PATH"))
    if git is None:
        return ""
    try:
        done = subprocess.run(
            [git, "-C", str(folder), "-c", "core.fsmonitor=false", *arguments],
            env={"PATH": str(Path(git).parent), "HOME": os.devnull, **_ISOLATION},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
