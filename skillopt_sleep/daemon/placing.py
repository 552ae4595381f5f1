"""Files of ours among the system's: put in place together or not at all, and taken away without a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from skillopt_sleep.errors import Refused
from skillopt_sleep.stores.files import make_folders, missing_folders, mode_of, read_regular, remove, write_atomic

__all__ = ["ours", "place", "take_away"]


def ours(path: Path, name: str) -> bool:
    """Whether there is a file and we wrote it. Raises ``Refused`` for one that somebody else did, and ``DiskError``."""
    found = read_regular(path)
    if found is None:
        return False
    if name.encode() not in found:
        raise Refused(f"{path} is there already and was not written by this schedule; move it away first")
    return True


def place(files: Mapping[Path, bytes], name: str, activate: Callable[[], None]) -> Mapping[str, int]:
    """Write files, then ``activate`` them; when any of it fails everything is as it was, and the error is raised.

    How many folders were made for each file is returned, for ``take_away``.
    """
    before = {path: read_regular(path) if ours(path, name) else None for path in files}
    made = {str(path): missing_folders(path) for path in files}
    try:
        for path, data in files.items():
            make_folders(path.parent, within=path.parent)
            write_atomic(path, data, mode_of(path) or 0o644)
        activate()
    except BaseException:  # also when Ctrl-C comes in between
        for path, data_before in before.items():
            if data_before is None:
                remove(path, folders=made[str(path)])
            else:
                write_atomic(path, data_before, 0o644)
        raise
    return made


def take_away(paths: tuple[Path, ...], name: str, folders: Mapping[str, int]) -> bool:
    """Remove those files that are ours, with the folders that were made for them; whether there were any."""
    found = [path for path in paths if ours(path, name)]
    for path in found:
        remove(path, folders=folders.get(str(path), 0))
    return bool(found)
