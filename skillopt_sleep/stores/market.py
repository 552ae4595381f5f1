"""What `plugin install` lays down: a marketplace in the user's own data, and for Codex a skill in their home.

The agent CLIs run plugins from where they were added, so it must outlive the package it came with, and go only when no
agent needs it. A file that is not as we wrote it is never overwritten or removed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from skillopt_sleep.domain.digest import sha256
from skillopt_sleep.errors import DiskError, Refused
from skillopt_sleep.stores.files import make_folders, read_regular, remove, write_atomic

__all__ = ["MARKET", "lay_market", "lay_skill", "remove_market", "remove_skill"]

MARKET = "skillopt-sleep"
"""Name of the marketplace and of the plugin in it."""

PARTS = (".claude-plugin", ".agents", "plugins")
LAID = "laid.json"
"""Which files of the user's home are ours: path and digest, kept with the data."""


def _origin() -> Path:
    """Where the plugins came with this program: within the package when installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    return package / "market" if (package / "market").is_dir() else package.parent


def lay_market(data_dir: Path) -> Path:
    """Put the marketplace of this version into the data folder; where it lies. Raises ``DiskError``."""
    target = data_dir / "market"
    fresh = data_dir / ".market-new"
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
    target = data_dir / "market"
    if not target.exists():
        return False
    try:
        shutil.rmtree(target)
    except OSError as error:
        raise DiskError(f"cannot remove {target}: {error.strerror}") from error
    return True


def lay_skill(data_dir: Path, home: Path) -> Path:
    """Put the Codex skill into the user's own skills, for its bare name; where it lies.

    Raises ``Refused`` when a skill of that name is there and is not as we wrote it, and ``DiskError``.
    """
    folder = home / ".agents" / "skills" / MARKET
    origin = _origin() / "plugins" / "codex" / "skills" / MARKET
    known = _laid(data_dir)
    files = {folder / path.relative_to(origin): path for path in sorted(origin.rglob("*")) if path.is_file()}
    for target, source in files.items():
        there = read_regular(target)
        if there is not None and there != source.read_bytes() and known.get(str(target)) != sha256(there):
            raise Refused(f"{target} is there and is not ours; move it aside, then install again")
    for target, source in files.items():
        make_folders(target.parent, within=home)
        write_atomic(target, source.read_bytes(), 0o755 if target.suffix == ".sh" else 0o644)
        known[str(target)] = sha256(source.read_bytes())
    write_atomic(data_dir / LAID, msgspec.json.encode(known))
    return folder


def remove_skill(data_dir: Path, home: Path) -> Iterator[str]:
    """Take the skill out again; a sentence for each file that stays because it was changed. Raises ``DiskError``."""
    known = _laid(data_dir)
    for name, digest in sorted(known.items(), reverse=True):
        path = Path(name)
        there = read_regular(path)
        if there is not None and sha256(there) != digest:
            yield f"{path} was changed since it was installed, and stays"
            continue
        folders = len(path.relative_to(home).parts) - 1 if path.is_relative_to(home) else 0
        remove(path, folders=folders)
    remove(data_dir / LAID)


def _laid(data_dir: Path) -> dict[str, str]:
    content = read_regular(data_dir / LAID)
    return msgspec.json.decode(content, type=dict[str, str]) if content else {}
