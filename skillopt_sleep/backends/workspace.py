"""The folder an agent is let to work in: empty or a copy of a project, with the candidate's documents in their places.

It is thrown away afterwards with all that belongs to it. What was changed in it is told as a diff, by means that the
agent cannot reach: its own ``.git`` is never asked.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from skillopt_sleep.backends.checkout import Checkout, disarm
from skillopt_sleep.backends.process import Children
from skillopt_sleep.errors import DiskError
from skillopt_sleep.model.document import Document, DocumentKind
from skillopt_sleep.model.rollout import Assignment, ReplayMode, skill_name

MOST_CHANGES = 40_000
"""Characters of a diff that are kept: half as much again as a judge is shown."""
MOST_FILES = 200
"""Files of an empty workspace that are looked at."""
BIGGEST = 200_000
"""Bytes of a file whose content is told."""


class Layout(Struct, frozen=True, kw_only=True):
    """Where in a project an agent looks: the folder of its skills, its memory file, and what is its own configuration.

    A project's own ``settings``, names in lower case, could bring hooks, permissions and environment with them: they
    are taken away wherever they lie, but for the ``texts`` in them; see ``disarm``.
    """

    skills: str
    memory: str
    settings: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def place(self, document: Document) -> Path:
        """Where a document belongs, from the top of the workspace."""
        if document.kind is DocumentKind.SKILL:
            return Path(self.skills) / skill_name(document) / "SKILL.md"
        return Path(self.memory)


class Workspace:
    """A workspace ready to be worked in.

    ``folder`` is all that is thrown away; ``root`` the top of the workspace in it, ``cwd`` where the agent stands,
    ``scratch`` where it may put what is temporary. ``broken`` says what is wrong with it, once that is known.
    """

    def __init__(self, folder: Path, root: Path, cwd: Path, checkout: Checkout | None) -> None:
        self.folder = folder
        self.root = root
        self.cwd = cwd
        self.scratch = folder / "tmp"
        self.broken = ""
        self._checkout = checkout
        self._before = {} if checkout else _texts(root)

    def changes(self) -> str | None:
        """What is different since the agent began, as a diff; None when it broke the workspace: ``broken`` says how.

        Whatever is in the way was put there by the agent, so it is never an error of this night. Raises ``TimedOut``
        when the children are closed.
        """
        if self.root.is_symlink() or not self.root.is_dir():
            self.broken = "its folder is gone"
            return None
        _unlock(self.root)
        try:
            if self._checkout is not None:
                return _cut(self._checkout.changes())
            after = _texts(self.root)
        except (DiskError, OSError) as error:
            self.broken = str(error)
            return None
        names = sorted({*self._before, *after})
        return _cut("".join(_diff(name, self._before.get(name), after.get(name)) for name in names))


@contextlib.contextmanager
def workspace(
    children: Children, assignment: Assignment, layout: Layout, env: Mapping[str, str]
) -> Iterator[Workspace]:
    """A workspace for this assignment, of which nothing is left afterwards. Raises ``DiskError``, and ``TimedOut``."""
    with children.folder() as folder:
        root = folder / "workspace"
        try:
            (folder / "tmp").mkdir()
            checkout = None
            if assignment.mode is ReplayMode.WORKTREE:
                checkout = Checkout(children, folder, root, env)
                checkout.fill(Path(assignment.project), assignment.commit)
            else:
                root.mkdir()
            disarm(root, layout.settings, layout.texts)
            for document in assignment.documents:
                _put(root, layout.place(document), document.content)
            if checkout is not None:
                checkout.begin()
            yield Workspace(folder, root, _inside(root, assignment.folder), checkout)
        except OSError as error:
            raise DiskError(f"a workspace cannot be made or looked at: {error}") from error
        finally:
            _unlock(folder)


def _put(root: Path, place: Path, content: bytes | None) -> None:
    """Put a file in its place, or take away what is there; no link of the project is followed."""
    if content is None:
        _take_away(root, place)
        return
    for depth in range(1, len(place.parts)):
        parent = root.joinpath(*place.parts[:depth])
        if parent.is_symlink() or (parent.exists() and not parent.is_dir()):
            parent.unlink()
        parent.mkdir(exist_ok=True)
    target = root / place
    if target.is_symlink() or target.exists():
        target.unlink()
    target.write_bytes(content)


def _take_away(root: Path, place: Path) -> None:
    if any(root.joinpath(*place.parts[:depth]).is_symlink() for depth in range(1, len(place.parts))):
        return  # what lies behind a link is not the project's
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        (root / place).unlink()


def _inside(root: Path, folder: str) -> Path:
    """A folder of the workspace, its top when there is none of that name or when it leads out of it."""
    named = root / folder
    return named if named.is_dir() and named.resolve().is_relative_to(root.resolve()) else root


def _unlock(folder: Path) -> None:
    """Let what the agent locked be read and removed: its folders, and files it may not read itself any more."""
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            inner = os.path.join(path, name)  # noqa: PTH118  thousands of them
            with contextlib.suppress(OSError):
                mode = os.lstat(inner).st_mode
                wanted = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR if stat.S_ISREG(mode) else 0
                if mode & wanted != wanted:
                    os.chmod(inner, stat.S_IMODE(mode) | wanted)  # noqa: PTH101


def _texts(root: Path) -> dict[str, str]:
    """Every file of a small workspace by its name; what is no text is told by its size."""
    found: dict[str, str] = {}
    for path, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if each not in {".git", "node_modules"})
        for name in sorted(files):
            if len(found) >= MOST_FILES:
                return found
            file = Path(path, name)
            found[_told(file.relative_to(root).as_posix())] = _text(file)
    return found


def _text(file: Path) -> str:
    if file.is_symlink():
        return f"(a link to {_told(str(file.readlink()))})\n"
    status = file.lstat()
    if not stat.S_ISREG(status.st_mode):
        return "(no regular file)\n"
    if status.st_size > BIGGEST:
        return f"({status.st_size:,} bytes)\n"
    content = file.read_bytes()
    return f"({len(content):,} bytes)\n" if b"\0" in content else content.decode("utf-8", "replace")


def _told(name: str) -> str:
    """A name as text; bytes of it that are not UTF-8 are spelt out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _diff(name: str, before: str | None, after: str | None) -> str:
    if before == after:
        return ""
    lines = difflib.unified_diff(
        (before or "").splitlines(keepends=True),
        (after or "").splitlines(keepends=True),
        "/dev/null" if before is None else f"a/{name}",
        "/dev/null" if after is None else f"b/{name}",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines) or f"+++ b/{name} (empty)\n"


def _cut(diff: str) -> str:
    if len(diff) <= MOST_CHANGES:
        return diff
    return f"{diff[:MOST_CHANGES]}\n[{len(diff) - MOST_CHANGES} characters of the diff left out here]\n"
