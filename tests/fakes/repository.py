"""Git projects as their owners make them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def git(project, *arguments, at="2020-01-01T00:00:00Z"):
    """Run git in a project as its owner would; its output."""
    who = {
        f"GIT_{each}_{what}": value
        for each in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Mira"), ("EMAIL", "m@localhost"), ("DATE", at))
    }
    env = {"PATH": os.environ["PATH"], "HOME": str(project), "GIT_CONFIG_NOSYSTEM": "1", **who}
    done = subprocess.run(["git", "-C", project, *arguments], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(project, message="More", *, at="2020-01-01T00:00:00Z", **files):
    """Write files (``a__b`` is ``a/b``) and commit them; the commit's id."""
    for name, text in files.items():
        path = Path(project, *name.replace("_dot_", ".").split("__"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(project, "add", "-A")
    git(project, "commit", "-q", "--allow-empty", "-m", message, at=at)
    return git(project, "rev-parse", "HEAD")


def make_project(folder, **files):
    """Make a git project with these files in one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    commit(folder, "Begin", **files)
    return folder


def tree(*folders):
    """List every file and folder below a folder, with mode and bytes."""
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() and not path.is_symlink() else None)
        for folder in folders
        for path in sorted(Path(folder).rglob("*"))
    }
