"""What in a folder is ours by its name, so that nothing else is ever deleted with it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from skillopt_sleep.errors import DiskError
from skillopt_sleep.stores.files import remove
from skillopt_sleep.stores.market import MARKET_FOLDER, is_market

__all__ = ["clear", "own_data", "own_reports"]

OWN_FILE = re.compile(
    r"sleep\.db\S*|(schedule|daemon|laid)\.json|daemon\.log(\.\d+)?|(night|daemon|adopt)\.(lock|held)"
    r"|handoff\.key|waiting\.txt|\.\S+\.skillopt-\S+|\.skillopt-sleep-room-\S+"
)
"""Files of the data folder, temporary ones among them."""
UNMISTAKABLE = re.compile(r"sleep\.db|laid\.json|handoff\.key|(night|daemon|adopt)\.lock")
"""Without one of these, or our marketplace, a folder is somebody else's, whatever its files are called."""
OWN_WITHIN = {
    "children": re.compile(r"[0-9a-f]{12}\.jsonl\S*"),
    "evals": re.compile(r"[0-9a-f]{16,64}"),
}
"""Folders of the data folder, and what in them is ours."""


def own_data(folder: Path) -> tuple[Path, ...]:
    """What of a data folder is ours; a folder among it is ours with all that is in it. Raises ``DiskError``."""
    there = _entries(folder)
    if not is_market(folder / MARKET_FOLDER) and not any(UNMISTAKABLE.fullmatch(path.name) for path in there):
        return ()
    found = [path for path in there if path.is_file() and OWN_FILE.fullmatch(path.name)]
    for name, own in OWN_WITHIN.items():
        found += [path for path in _entries(folder / name) if own.fullmatch(path.name)]
    found += [path for path in (folder / MARKET_FOLDER, folder / ".market-new") if is_market(path)]
    return tuple(found)


def own_reports(folder: Path) -> tuple[Path, ...]:
    """The same of the ``.skillopt-sleep`` in a project. Raises ``DiskError``."""
    return tuple(path for path in _entries(folder) if path.name in {".gitignore", "nights", "handoff"})


def clear(folder: Path, own: Collection[Path]) -> bool:
    """Delete what is ours, and each folder that is empty then; whether all of it is gone. Raises ``DiskError``."""
    for path in own:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
        except OSError as error:
            raise DiskError(f"cannot delete {path}: {error.strerror}") from error
        else:
            if path.is_symlink() or path.is_file():
                remove(path)
    for each in (*(folder / name for name in OWN_WITHIN), folder):
        _drop_empty(each)
    return not folder.exists()


def _drop_empty(folder: Path) -> None:
    try:
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise DiskError(f"cannot delete {folder}: {error.strerror}") from error


def _entries(folder: Path) -> list[Path]:
    """What is in a folder; nothing behind a link."""
    try:
        return [] if folder.is_symlink() or not folder.is_dir() else sorted(folder.iterdir())
    except OSError as error:
        raise DiskError(f"cannot read {folder}: {error.strerror}") from error
