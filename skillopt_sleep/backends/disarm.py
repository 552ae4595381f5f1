"""Take out of a copy of a project all that could configure an agent, or lead it out of the copy.

A cloned project is text that somebody else wrote. Its skills and rules are read as such; whatever could make an agent
run something, permit something or read elsewhere is removed, at every depth, because an agent also looks into the
folder it stands in, and whatever its name leads to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path, PurePath

__all__ = ["disarm"]

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
