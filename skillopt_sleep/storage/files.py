"""Files read and written so that no link is followed and no half of a file is ever seen."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from skillopt_sleep.errors import DiskError, Refused

_NO_SURPRISE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Open no link, do not wait for the writer of a FIFO, translate no line ends; what the platform has of it."""


def read_regular(path: Path) -> bytes | None:
    """The bytes of a file, None when there is none.

    Raises ``Refused`` for a link, a folder, a FIFO or a device, and ``DiskError`` for what cannot be read.
    """
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{path} is {_kind(status.st_mode)}, no regular file; name the file itself")
        with open(os.open(path, os.O_RDONLY | _NO_SURPRISE), "rb") as file:  # noqa: PTH123  flags that Path has not
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DiskError(f"cannot read {path}: {error.strerror}") from error


def write_atomic(path: Path, data: bytes, mode: int = 0o600, *, durable: bool = True) -> None:
    """Put a file in place whole, with exactly these permissions: after a crash it is the old one or the new one.

    Without ``durable`` that holds for the end of this process, however sudden, but not for a power cut: for files that
    can be made again. Its folder must be there. Raises ``DiskError`` and leaves what was there.
    """
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_temporary(path))
        with open(handle, "wb") as file:  # noqa: PTH123  a descriptor, no path
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        _keep_group(path, temporary)
        Path(temporary).replace(path)
        if durable:
            _sync_folder(path.parent)
    except OSError as error:
        raise DiskError(f"cannot write {path}: {error.strerror}") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):  # what went wrong has been said; a renamed file is not there any more
                Path(temporary).unlink()


def drop_temporaries(path: Path) -> None:
    """Remove what a writer of this file left beside it when it was killed. Raises ``DiskError``."""
    try:
        beside = [entry.path for entry in os.scandir(path.parent) if entry.name.startswith(_temporary(path))]
        for each in beside:
            Path(each).unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DiskError(f"cannot clean up beside {path}: {error.strerror}") from error


def _temporary(path: Path) -> str:
    """How the names of its temporary files begin."""
    return f".{path.name}.skillopt-"


def refuse_unwritable(path: Path, *, within: Path) -> None:
    """Raise ``Refused``, naming the reason, when putting a file in place here would fail or surprise its owner.

    A file is replaced whole, which the permissions of the file itself would not prevent: one that is read-only or
    belongs to somebody else is theirs to change.
    """
    try:
        _refuse_unwritable(path, within)
    except PermissionError as error:
        raise Refused(f"{error.filename} cannot be looked into; adopt as its owner") from error


def _refuse_unwritable(path: Path, within: Path) -> None:
    if not within.is_dir():
        raise Refused(f"the folder {within} is not there any more, so {path.name} has no place")
    refuse_links(path, within=within)
    parent = next(each for each in path.parents if each.exists())
    if not parent.is_dir():
        raise Refused(f"{parent} is no folder, so {path} cannot be made")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise Refused(f"the folder {parent} cannot be written to; make it writable, or adopt as its owner")
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if path.name not in os.listdir(path.parent):  # noqa: PTH208  the names as the file system keeps them
        raise Refused(
            f"{path} is spelled otherwise on disk (upper or lower case, or accents); rename it to {path.name}"
        )
    if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
        raise Refused(
            f"{path} has another name too (a hard link), which would keep the old text; make it a file of its own"
        )
    if not status.st_mode & 0o222:
        raise Refused(f"{path} is read-only; make it writable (chmod u+w) if it is meant to change")
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to another user (uid {status.st_uid}); adopt as that user")


def _keep_group(path: Path, temporary: str) -> None:
    """Give the new file the group of the one it replaces, where this user may."""
    with contextlib.suppress(FileNotFoundError, PermissionError, AttributeError):
        os.chown(temporary, -1, path.lstat().st_gid)


def own_folder(project: Path, *names: str) -> Path:
    """A folder of ours in a project, made if need be: private, and out of sight of git.

    Raises ``Refused`` where it would lead through a link, and ``DiskError``.
    """
    own = project / ".skillopt-sleep"
    folder = own.joinpath(*names)
    make_folders(folder, within=project, mode=0o700)
    if read_regular(own / ".gitignore") is None:
        write_atomic(own / ".gitignore", b"*\n")
    return folder


def remove(path: Path, *, folders: int = 0) -> None:
    """Remove a file, and up to that many of its parents as long as they are empty. Raises ``DiskError``."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DiskError(f"cannot remove {path}: {error.strerror}") from error
    for folder in path.parents[:folders]:
        with contextlib.suppress(OSError):  # one that somebody else has put something into stays, with those above it
            folder.rmdir()


def make_folders(folder: Path, *, within: Path, mode: int = 0o755) -> None:
    """Make a folder and its missing parents, each with ``mode`` as far as the umask lets it.

    Raises ``Refused`` for a link below ``within``, and ``DiskError``.
    """
    refuse_links(folder, within=within)
    try:
        for parent in reversed([folder, *folder.parents][: missing_folders(folder / "file")]):
            parent.mkdir(mode=mode, exist_ok=True)
    except OSError as error:
        raise DiskError(f"cannot make the folder {folder}: {error.strerror}") from error


def missing_folders(path: Path) -> int:
    """How many parents of a file would have to be made."""
    return next((count for count, parent in enumerate(path.parents) if parent.exists()), len(path.parents))


def mode_of(path: Path) -> int | None:
    """The permission bits of a file, None when there is none."""
    try:
        return stat.S_IMODE(path.lstat().st_mode)
    except FileNotFoundError:
        return None


def refuse_links(path: Path, *, within: Path) -> None:
    """Raise ``Refused`` when the path leads through a link anywhere below ``within``.

    A cloned project may hold links that lead anywhere; how the user's own folders are linked is their business.
    """
    inside = len(path.parts) - len(within.parts) if path.is_relative_to(within) else 0
    for part in [path, *path.parents][:inside]:
        try:
            linked = part.is_symlink()
        except PermissionError as error:
            raise Refused(f"{part} cannot be looked into; do this as its owner") from error
        if linked:
            raise Refused(f"{part} is a link to {os.readlink(part)}, and links are not followed; name the file itself")  # noqa: PTH115  shown as it stands


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}
    return kinds.get(stat.S_IFMT(mode), "a device or socket")


def _sync_folder(folder: Path) -> None:
    """Make a rename outlive a power cut, where folders can be opened at all."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
