"""What `plugin install` lays down: a marketplace in the user's own data, and for Codex a skill in their home.

The agent CLIs run plugins from where they were added, so it must outlive the package it came with, and go only when no
agent needs it. A file that is not as we wrote it is never overwritten or removed.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import DiskError, Refused
from skillopt_sleep.model.text import sha256
from skillopt_sleep.storage.files import count_missing_folders, make_folders, read_regular, remove, write_atomic

MARKET = "skillopt-sleep"
"""Name of the marketplace and of the plugin in it."""
MARKET_FOLDER = "market"
"""Where it lies in the user's data."""

PARTS = (".claude-plugin", ".agents", "plugins")
LAID = "laid.json"
"""Which files of the user's home are ours, kept with the data."""


class Laid(Struct, frozen=True, kw_only=True):
    """Each file with the digest of what we wrote, and the folders that were made for them, the innermost first."""

    files: dict[str, str] = {}
    folders: tuple[str, ...] = ()


def _origin() -> Path:
    """Where the plugins came with this program: within the package when installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    return package / "market" if (package / "market").is_dir() else package.parent


def is_market(folder: Path) -> bool:
    """Whether our marketplace lies there, and not something else of that name."""
    if folder.is_symlink():
        return False
    try:
        content = read_regular(folder / ".claude-plugin" / "marketplace.json")
        found = msgspec.json.decode(content, type=dict[str, msgspec.Raw]) if content else {}
        return "name" in found and msgspec.json.decode(found["name"]) == MARKET
    except (DiskError, Refused, msgspec.DecodeError):
        return False


def lay_market(data_dir: Path) -> Path:
    """Put the marketplace of this version into the data folder; where it lies.

    Raises ``Refused`` when something else is there, and ``DiskError``.
    """
    target = data_dir / MARKET_FOLDER
    fresh = data_dir / ".market-new"
    if target.is_symlink() or (target.exists() and not is_market(target)):
        raise Refused(f"{target} is there and is not ours; move it aside, or name another --data-dir")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        for part in PARTS:
            shutil.copytree(_origin() / part, fresh / part, ignore=shutil.ignore_patterns("__pycache__"))
        remove_market(data_dir)
        fresh.replace(target)
    except OSError as error:
        raise DiskError(f"cannot lay the plugins down at {target}: {error}") from error
    return target


def remove_market(data_dir: Path) -> bool:
    """Take it away; whether it was there. Raises ``DiskError``."""
    target = data_dir / MARKET_FOLDER
    if not is_market(target):
        return False
    try:
        shutil.rmtree(target)
    except OSError as error:
        raise DiskError(f"cannot remove {target}: {error.strerror}") from error
    return True


def _skill_folder(home: Path) -> Path:
    """Where the user's own Codex skill of our name lies; how the folders above it are linked is their business."""
    return (home / ".agents" / "skills").resolve() / MARKET


def check_skill(data_dir: Path, home: Path) -> None:
    """Raise ``Refused`` when a skill of that name is there and is not as we wrote it; ``DiskError``."""
    folder = _skill_folder(home)
    if folder.is_symlink() or (folder / "scripts").is_symlink():
        raise Refused(f"{folder} is a link and not ours; move it aside, then install again")
    known = _laid(data_dir).files
    for target, content in _shipped(folder).items():
        there = read_regular(target)
        if there is not None and there != content and known.get(str(target)) != sha256(there):
            raise Refused(f"{target} is there and is not ours; move it aside, then install again")


def lay_skill(data_dir: Path, home: Path) -> Path:
    """Put the Codex skill into the user's own skills, for its bare name; where it lies. Raises as ``check_skill``."""
    check_skill(data_dir, home)
    folder = _skill_folder(home)
    laid, shipped = _laid(data_dir), _shipped(folder)
    made: dict[str, None] = {}
    for target, content in shipped.items():
        made = {str(each): None for each in target.parents[: count_missing_folders(target)]} | made
        make_folders(target.parent, within=folder.parent)
        write_atomic(target, content, 0o755 if target.suffix == ".sh" else 0o644)
    files = laid.files | {str(target): sha256(content) for target, content in shipped.items()}
    folders = tuple(sorted({*laid.folders, *made}, key=len, reverse=True))
    write_atomic(data_dir / LAID, msgspec.json.encode(Laid(files=files, folders=folders)))
    return folder


def remove_skill(data_dir: Path, home: Path) -> Iterator[str]:
    """Take the skill out again; what was done, and a sentence for each file that stays, not being as we wrote it.

    One that another data folder has laid is known by its content. Raises ``DiskError``.
    """
    laid, folder = _laid(data_dir), _skill_folder(home)
    shipped = {str(target): sha256(content) for target, content in _shipped(folder).items()}
    taken = 0
    for name in sorted({*shipped, *laid.files}):
        there = _content(Path(name))
        if there is None:
            continue
        if sha256(there) not in {shipped.get(name), laid.files.get(name)}:
            yield f"{name} was changed since it was installed, or is not ours, and stays"
            continue
        remove(Path(name))
        taken += 1
    for each in sorted({*laid.folders, str(folder), str(folder / "scripts")}, key=len, reverse=True):
        with contextlib.suppress(OSError):  # one that somebody else has put something into stays
            Path(each).rmdir()
    remove(data_dir / LAID)
    if taken and not folder.exists():
        yield f"took the skill {folder} away"


def _shipped(folder: Path) -> dict[Path, bytes]:
    """Each file of the skill as this version has it, by where it goes."""
    origin = _origin() / "plugins" / "codex" / "skills" / MARKET
    files = sorted(path for path in origin.rglob("*") if path.is_file())
    return {folder / path.relative_to(origin): path.read_bytes() for path in files}


def _content(path: Path) -> bytes | None:
    """What a file holds; a link or folder in its place is nobody's of ours, and holds something else."""
    try:
        return read_regular(path)
    except Refused:
        return b""


def _laid(data_dir: Path) -> Laid:
    """What was laid; one that cannot be read tells nothing, and what is ours is known by its content then."""
    content = read_regular(data_dir / LAID)
    try:
        return msgspec.json.decode(content, type=Laid) if content else Laid()
    except msgspec.DecodeError:
        return Laid()
