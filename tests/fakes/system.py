"""Stand-ins for the system's schedulers: programs on PATH that store a crontab, units and a list of their calls."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CRONTAB = """#!/bin/sh
echo "crontab $*" >> {here}/calls
case "$1" in
-l) if [ -e {here}/unreadable ]; then echo "crontabs/mira: Permission denied" >&2; exit 1; fi
    if [ ! -e {here}/table ]; then echo "no crontab for mira" >&2; exit 1; fi
    cat {here}/table
    if [ -e {here}/changes ]; then cat {here}/changes >> {here}/table; [ -s {here}/always ] || rm {here}/changes; fi
    exit 0;;
-r) exec rm {here}/table;;
-)  if [ -e {here}/refuses ]; then cat > /dev/null; echo "errors in crontab file, can't install." >&2; exit 1; fi
    if [ -e {here}/breaks ]; then
        head -c 20 > {here}/table; [ -s {here}/always ] || rm {here}/breaks; echo "no space left" >&2; exit 1
    fi
    exec cat > {here}/table;;
esac
"""
SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >> {here}/calls
if [ -e {here}/no-bus ]; then echo "Failed to connect to bus" >&2; exit 1; fi
case "$2 $(cat {here}/refuses 2>/dev/null)" in
"enable enable") echo "Failed to enable unit: it is masked" >&2; exit 1;;
enable*) mkdir -p {units}/timers.target.wants; ln -sf ../"$3" {units}/timers.target.wants/"$3";;
disable*) rm -f {units}/timers.target.wants/"$4";;
is-active*) [ -e {units}/timers.target.wants/"$3" ];;
esac
"""
LAUNCHCTL = """#!/bin/sh
echo "launchctl $*" >> {here}/calls
[ "$1" != bootstrap ] || [ ! -e {here}/refuses ] || {{ echo "Bootstrap failed: 5" >&2; exit 5; }}
"""
LOGINCTL = """#!/bin/sh
cat {here}/linger 2>/dev/null || echo no
"""


@dataclass
class FakeSystem:
    """The folder ``here`` with the programs, and the ``home`` where systemd units are written."""

    here: Path
    home: Path

    @property
    def path(self) -> str:
        """PATH with these programs first."""
        return f"{self.here}:{os.environ['PATH']}"

    @property
    def table(self) -> bytes | None:
        """The crontab, None when there is none."""
        path = self.here / "table"
        return path.read_bytes() if path.exists() else None

    @table.setter
    def table(self, table: bytes) -> None:
        (self.here / "table").write_bytes(table)

    @property
    def calls(self) -> list[str]:
        """What was called, with its arguments."""
        path = self.here / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def says(self, name: str, text: str = "") -> None:
        """Set a condition: ``unreadable``, ``refuses``, ``no-bus`` or ``linger``.

        ``breaks`` damages the next table that is written, ``changes`` edits it after the next read; with the text
        ``always``, every time.
        """
        (self.here / name).write_text(text)

    def says_no_more(self, name: str) -> None:
        """Remove a condition."""
        (self.here / name).unlink()


def make_system(here: Path, home: Path, *programs: str) -> FakeSystem:
    """Write the named ones of crontab, systemctl, launchctl and loginctl into a new folder."""
    here.mkdir()
    scripts = {"crontab": CRONTAB, "systemctl": SYSTEMCTL, "launchctl": LAUNCHCTL, "loginctl": LOGINCTL}
    for name in programs:
        script = here / name
        script.write_text(scripts[name].format(here=here, units=home / ".config" / "systemd" / "user"))
        script.chmod(0o755)
    return FakeSystem(here=here, home=home)
