"""A throwaway copy of a git project at one commit, made without touching the project.

A worktree of git's own would share branches, stash, configuration and hooks with the user's checkout, and an agent in
it could change all of them. This copy is a repository of its own that only reads the project's objects: no git command
writes in the project, no hook or filter of anybody's runs, and there is no remote to push to.

Take out of a copy of a project all that could configure an agent, or lead it out of the copy.

A cloned project is text that somebody else wrote. Its skills and rules are read as such; whatever could make an agent
run something, permit something or read elsewhere is removed, at every depth, because an agent also looks into the
folder it stands in, and whatever its name leads to.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePath

from skillopt_sleep.backends.process import Children, Ended
from skillopt_sleep.errors import DiskError

SECONDS = 120.0
"""For one command of git: a large project takes a few to be written out."""

GIT_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "core.hooksPath",
    "GIT_CONFIG_VALUE_1": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
}
"""Nothing of the user's configuration, no hook, no filter, no question, no lock, no network."""
SOMEBODY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Replay"), ("EMAIL", "replay@localhost"), ("DATE", "2000-01-01T00:00:00Z"))
}
CONFIG = "[user]\n\tname = Replay\n\temail = replay@localhost\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
OURS = "[core]\n\tbigFileThreshold = 200k\n\tprotectNTFS = false\n\tprotectHFS = false\n"
"""For our own looks alone: no diff of large files, and names that would only harm another system are names."""
SUBMODULE = "160000"
EARLIER = 60
"""Seconds by which the files of a copy are older than it: what git need not read again, it need not store again.

Storing what the project's objects hold already would set the time of the object there to now.
"""
SOME_LEFT_OUT = 1
"""How ``git add --ignore-errors`` ends when it could not read everything."""


def git_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a git of ours is given of an environment."""
    return {name: env[name] for name in ("PATH", "SYSTEMROOT") if name in env} | GIT_ENVIRONMENT


class Checkout:
    """One copy: ``root`` is its work tree; its objects and our own index of it lie beside, out of the agent's reach."""

    def __init__(self, children: Children, folder: Path, root: Path, env: Mapping[str, str]) -> None:
        self._children = children
        self._base = folder / "base.git"
        self._root = root
        self._env = git_environment(env) | SOMEBODY | {"HOME": str(folder)}
        self._begun = ""

    def fill(self, project: Path, commit: str) -> None:
        """Write out the project as it was at ``commit``, submodules too as far as the project has them.

        Raises ``DiskError`` with git's own words.
        """
        self._root.mkdir()
        self._borrow(self._base, project)
        self._git(self._base, self._root, "read-tree", commit)
        self._git(self._base, self._root, "checkout-index", "--all", "--force")
        self._git(self._base, None, "update-ref", "--no-deref", "HEAD", commit)
        for number, (path, pinned) in enumerate(self._submodules(commit)):
            inside = project / path
            if (inside / ".git").exists() and (self._root / path).is_dir() and not (self._root / path).is_symlink():
                borrowed = self._base.with_name(f"module-{number}.git")
                self._borrow(borrowed, inside)
                self._git(borrowed, self._root / path, "read-tree", pinned)
                self._git(borrowed, self._root / path, "checkout-index", "--all", "--force")
                self._git(self._base, self._root, "update-index", "--force-remove", "--", path)
        _make_older(self._root)
        self._run(self._base, self._root, "update-index", "-q", "--refresh")

    def begin(self) -> None:
        """From now on every difference is the agent's doing; it gets a repository of its own to work with."""
        self._git(self._base, self._root, "add", "--all")
        tree = self._git(self._base, None, "write-tree").strip()
        commit = self._git(self._base, None, "commit-tree", tree, "-p", "HEAD", "-m", "As the work begins").strip()
        self._git(self._base, None, "update-ref", "--no-deref", "HEAD", commit)
        self._begun = tree
        own = self._root / ".git"
        shutil.copytree(self._base, own)
        (own / "config").write_text(self._config(own).replace("bare = true", "bare = false"), encoding="utf-8")
        (self._base / "config").write_text(self._config(self._base) + OURS, encoding="utf-8")

    def changes(self) -> str:
        """What is different since ``begin``, as a unified diff, new files included; the beginning of a very long one.

        A repository that the agent made in there hides nothing. Raises ``DiskError`` where git cannot tell.
        """
        options = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=all")
        with self._no_repositories():
            added = self._run(self._base, self._root, "add", "--all", "--ignore-errors")
            if added.timed_out or added.status not in {0, SOME_LEFT_OUT}:
                raise _failed("add", added)
            diff = self._run(self._base, self._root, "diff", "--cached", *options, self._begun)
        if not diff.flooded and (diff.timed_out or diff.status):
            raise _failed("diff", diff)
        return diff.stdout

    @contextlib.contextmanager
    def _no_repositories(self) -> Iterator[None]:
        """Keep what makes a folder of the workspace a repository of its own out of sight meanwhile."""
        found = [
            Path(path, name)
            for path, folders, files in os.walk(self._root)
            for name in (*folders, *files)
            if name.casefold() == ".git" and Path(path) != self._root
        ]
        aside = self._base.with_name("aside")
        aside.mkdir(exist_ok=True)
        moved = []
        try:
            for number, each in enumerate(reversed(found)):  # those inside others first
                each.rename(aside / str(number))
                moved.append((aside / str(number), each))
            yield
        finally:
            for hidden, place in reversed(moved):
                hidden.rename(place)

    def _borrow(self, repository: Path, project: Path) -> None:
        """An empty repository that reads the objects of a project."""
        objects = Path(self._git(None, project, "rev-parse", "--git-path", "objects").rstrip("\n"))
        form = self._git(None, project, "rev-parse", "--show-object-format").strip()
        made = ("init", "--quiet", "--bare", f"--object-format={form}", "--template=", str(repository))
        self._git(None, None, *made)
        (repository / "config").write_text(self._config(repository) + CONFIG, encoding="utf-8")
        info = repository / "objects" / "info"
        info.mkdir(exist_ok=True)
        borrowed = _quoted((project / objects).resolve())
        (info / "alternates").write_text(borrowed, encoding="utf-8", errors="surrogateescape")

    @staticmethod
    def _config(repository: Path) -> str:
        return (repository / "config").read_text(encoding="utf-8")

    def _submodules(self, commit: str) -> list[tuple[str, str]]:
        """Path and commit of every submodule."""
        listed = self._git(self._base, None, "ls-tree", "-r", "-z", "--full-tree", commit)
        entries = (entry.partition("\t") for entry in listed.split("\0") if entry.startswith(SUBMODULE))
        return [(path, head.split()[2]) for head, _, path in entries]

    def _git(self, repository: Path | None, tree: Path | None, *arguments: str) -> str:
        """What a command of git says, of a repository of ours on a work tree of ours, or in a folder of the user's."""
        ended = self._run(repository, tree, *arguments)
        if ended.timed_out or ended.flooded or ended.status:
            raise _failed(arguments[0], ended)
        return ended.stdout

    def _run(self, repository: Path | None, tree: Path | None, *arguments: str) -> Ended:
        env = dict(self._env)
        if repository is not None:
            env["GIT_DIR"] = str(repository)
            if tree is not None:
                env["GIT_WORK_TREE"] = str(tree)
        cwd = tree if tree is not None else (repository or self._base).parent
        return self._children.run(["git", *arguments], env=env, cwd=cwd, seconds=SECONDS)


def _failed(command: str, ended: Ended) -> DiskError:
    said = ended.stderr.strip().replace("\n", "; ") or f"it ended with status {ended.status}"
    said = f"it took longer than {SECONDS:g} seconds" if ended.timed_out else said
    return DiskError(f"git {command} failed in a copy of the project: {said[:300]}")


def _make_older(root: Path) -> None:
    """Set the times of all files back, all by the same."""
    then = time.time() - EARLIER
    for path, folders, files in os.walk(root):
        for name in (*folders, *files):
            os.utime(Path(path, name), (then, then), follow_symlinks=False)


def _quoted(path: Path) -> str:
    """A line of an alternates file; one that begins with a quote is read as a C string."""
    text = str(path)
    if text.startswith('"') or "\n" in text:
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return f"{text}\n"


TEXTS = frozenset({".md", ".txt"})
MATERIAL = frozenset({"scripts", "references", "assets", "templates", "examples", "resources"})
"""Folders of a skill that it may name to the agent, and that no agent looks into by itself."""
HARMLESS = (
    *("name", "description", "license", "version", "metadata", "when_to_use", "when-to-use", "argument-hint"),
    *("paths", "globs", "disable-model-invocation", "user-invocable"),
)
"""Keys of a frontmatter that say what a text is about; others can bring hooks, permissions, servers or a model."""
_HEAD = re.compile(rb"\A---[ \t]*\n(?P<head>.*?\n)??---[ \t]*(?:\n|\Z)", re.DOTALL)
_BREAKS = re.compile(rb"\r|\xc2\x85|\xe2\x80[\xa8\xa9]")
"""What begins a new line to some readers of YAML, and none here."""
_KEPT = re.compile(rf"(?:{'|'.join(HARMLESS)})[ \t]*:".encode())


def disarm(root: Path, settings: Collection[str], texts: Collection[str]) -> None:
    """Remove every file or folder of a name in ``settings``, and every link that leads out of ``root``.

    ``settings`` are names in lower case. Of a folder of that name, what lies under a name of ``texts`` stays where it
    is text alone, without links. Raises ``OSError``.
    """
    top = os.path.realpath(root)
    for path, folders, files in os.walk(root):
        for name in (*folders, *files):
            each = Path(path, name)
            if each.is_symlink():
                if name.casefold() in settings or not _within(top, each):
                    each.unlink()
            elif name.casefold() in settings:
                _strip(each, texts)
        folders[:] = [name for name in folders if name.casefold() not in settings]


def _within(top: str, link: Path) -> bool:
    target = os.path.realpath(link)
    return target == top or target.startswith(top + os.sep)


def _strip(place: Path, texts: Collection[str]) -> None:
    """Leave of a folder of settings what is plain text; a single file goes."""
    if not place.is_dir():
        place.unlink()
        return
    for path, folders, files in os.walk(place, topdown=False):
        for name in files:
            each = Path(path, name)
            if each.is_symlink() or not _stays(each.relative_to(place), texts):
                each.unlink()
            elif each.suffix.casefold() == ".md":
                _plain_head(each)
        for name in folders:
            each = Path(path, name)
            if each.is_symlink():
                each.unlink()
            elif not any(each.iterdir()):
                each.rmdir()
    if not any(place.iterdir()):
        place.rmdir()


def _stays(place: PurePath, texts: Collection[str]) -> bool:
    if place.parts[0] not in texts or any(part.startswith(".") for part in place.parts):
        return False
    return place.suffix.casefold() in TEXTS or not MATERIAL.isdisjoint(place.parts[2:-1])


def _plain_head(file: Path) -> None:
    """Keep of a frontmatter the keys that are harmless; a file whose frontmatter cannot be read so goes."""
    content = file.read_bytes().replace(b"\r\n", b"\n").removeprefix(b"\xef\xbb\xbf")
    if not content.lstrip().startswith(b"---"):
        return
    found = _HEAD.match(content)
    if found is None or _BREAKS.search(found[0]):
        file.unlink()
        return
    kept, keeps = [], False
    for line in (found["head"] or b"").split(b"\n"):
        if line[:1] not in {b" ", b"\t", b"-", b""}:
            keeps = _KEPT.match(line) is not None
        if keeps and line:
            kept.append(line + b"\n")
    head = b"---\n" + b"".join(kept) + b"---\n"
    if head + content[found.end() :] != content:
        file.write_bytes(head + content[found.end() :])
