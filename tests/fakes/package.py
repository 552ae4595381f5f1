"""Makes a third-party package: a module and its metadata in a folder, found like an installed one."""

from __future__ import annotations


def install(folder, name, *, entry_points, source=""):
    """Write a distribution into ``folder``, which the test puts on ``sys.path``.

    ``entry_points`` maps a group to its entries, each a name and what it points to; ``source`` is the module ``name``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if source:
        (folder / f"{name}.py").write_text(source)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = (
        f"[{group}]\n" + "".join(f"{entry} = {target}\n" for entry, target in entries.items())
        for group, entries in entry_points.items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    return folder
