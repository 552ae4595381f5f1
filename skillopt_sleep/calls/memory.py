"""How many agent CLIs this machine has room for: each is a process of a few hundred megabytes."""

from __future__ import annotations

from pathlib import Path

__all__ = ["RESERVE", "free_memory"]

RESERVE = 256 * 2**20
"""Bytes that are left to everything else."""
LIMIT, USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
"""Where a container's own limit stands."""


def free_memory() -> int:
    """Bytes that new processes could take without anything being swapped out, the limit of a container included."""
    import psutil  # noqa: PLC0415  only for those who start children

    free = int(psutil.virtual_memory().available)
    try:
        return min(free, int(LIMIT.read_text()) - int(USED.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit, which says "max"
        return free
