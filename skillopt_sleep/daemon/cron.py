"""Lines of our own in the user's crontab, between two marks; every other byte of it stays as it is.

Cron catches nothing up by itself, so a second line asks once an hour whether a night was slept through; as long as none
was it leaves at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from skillopt_sleep.daemon.waking import Waking, call
from skillopt_sleep.errors import Refused, UsageError

__all__ = ["Cron", "cron_word", "with_block", "without_block"]

LONGEST = 900
"""Characters of a line: cron itself gives up at about a thousand."""
NEW_TABLE = " (there was no crontab before)"
CUT_LINE = " (the line above had no end before)"


def cron_word(word: str) -> str:
    r"""A word as cron and then the shell read it back.

    Cron turns ``%`` into the end of the command unless ``\`` stands before it, and takes that one away, but not where
    it stands itself behind another ``\``; so each ``%`` gets a quoted piece of its own.
    """
    quoted = "'" + word.replace("'", "'\\''") + "'"
    return quoted.replace("%", "''\\%")


def with_block(table: bytes | None, block: str, name: str) -> bytes:
    """The table with our block at its end, in place of an earlier one; None is no table at all."""
    rest = None if table is None else without_block(table, name)
    note = NEW_TABLE if rest is None else ""
    glue = b""
    if rest and not rest.endswith(b"\n"):
        note, glue = CUT_LINE, b"\n"
    return (rest or b"") + glue + f"{_first(name)}{note}\n{block}{_last(name)}\n".encode()


def without_block(table: bytes, name: str) -> bytes | None:
    """The table as it was before our block came; None when there was none. Unchanged where there is no block of ours.

    Raises ``Refused`` for a block whose end is gone: nobody knows then which lines are ours.
    """
    pattern = (
        rb"^"
        + re.escape(_first(name).encode())
        + rb"( \([^\n]*\))?\n(?:[^\n]*\n)*?"
        + re.escape(_last(name).encode())
        + rb"(?:\n|\Z)"
    )
    found = re.search(pattern, table, re.MULTILINE)
    if found is None:
        if _first(name).encode() in table:
            raise Refused(f"the crontab holds the line {_first(name)!r} and not the one that ends it; mend that first")
        return table
    before, after = table[: found.start()], table[found.end() :]
    note = (found.group(1) or b"").decode()
    if note == NEW_TABLE and not before and not after:
        return None
    if note == CUT_LINE and not after:
        before = before.removesuffix(b"\n")
    return before + after


def _first(name: str) -> str:
    return f"# >>> {name}: the nightly run; taken away by `skillopt-sleep unschedule` >>>"


def _last(name: str) -> str:
    return f"# <<< {name} <<<"


@dataclass(frozen=True, slots=True)
class Cron:
    """``Installer`` over ``crontab``."""

    waking: Waking

    def block(self) -> str:
        """The lines between the marks. Raises ``UsageError`` for a command too long for cron."""
        environment = [
            f"{name}={cron_word(value)}" for name, value in self.waking.environment.items() if name != "PATH"
        ]
        command = " ".join([*environment, *map(cron_word, self.waking.argv), ">/dev/null 2>&1"])
        if len(command) > LONGEST:
            raise UsageError(
                f"the command is too long for cron ({len(command)} characters, {LONGEST} at most);"
                " name a data folder with a shorter path (--data-dir)"
            )
        at = self.waking.at
        return (
            f"{at.minute} {at.hour} * * * {command}\n"
            "# once an hour: catch up a night the machine slept through; else this does nothing\n"
            f"{(at.minute + 20) % 60} * * * * {command}\n"
        )

    def shown(self) -> Mapping[str, str]:
        """What is added to the table."""
        return {"crontab": with_block(b"", self.block(), self.waking.name).decode()}

    def works(self) -> str:
        """Whether the table can be read."""
        try:
            self._read()
        except (UsageError, Refused) as error:
            return str(error)
        return ""

    def install(self) -> Mapping[str, int]:
        """Put our block into the table."""
        block = self.block()
        before = self._read()
        self._write(before, with_block(before, block, self.waking.name))
        return {}

    def remove(self, folders: Mapping[str, int]) -> bool:  # noqa: ARG002
        """Take our block out of the table."""
        before = self._read()
        after = None if before is None else without_block(before, self.waking.name)
        if after == before:
            return False
        self._write(before, after)
        return True

    def check(self) -> str:
        """Whether our block is in the table."""
        try:
            table = self._read()
        except (UsageError, Refused) as error:
            return str(error)
        if self.waking.name.encode() not in (table or b""):
            return "the crontab has no line of this schedule any more: `skillopt-sleep schedule` puts it back"
        return ""

    def _read(self) -> bytes | None:
        """The present table, None when the user has none. Raises ``Refused`` when it cannot be known."""
        done = call(["crontab", "-l"], self.waking.env)
        if done.returncode == 0:
            return done.stdout
        if b"no crontab for" in done.stderr.lower():
            return None
        said = " ".join(done.stderr.decode("utf-8", "replace").split()) or f"status {done.returncode}"
        raise Refused(f"the present crontab cannot be read (crontab -l: {said}), so nothing was changed")

    def _write(self, before: bytes | None, after: bytes | None) -> None:
        """Put a table in place of ``before``, and see that it is there."""
        wrong = self._set(after)
        if not wrong and self._read() != after:
            wrong = "what is there now is not what was written"
            self._set(before)
        if wrong:
            raise UsageError(f"crontab did not take the new table ({wrong}); yours is as it was")

    def _set(self, table: bytes | None) -> str:
        """Put a table in place; what went wrong."""
        done = call(["crontab", "-r"] if table is None else ["crontab", "-"], self.waking.env, given=table or b"")
        return "" if done.returncode == 0 else " ".join(done.stderr.decode("utf-8", "replace").split()) or "no reason"
