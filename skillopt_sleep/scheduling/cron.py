"""Lines of our own in the user's crontab, between two marks; every other byte of it stays as it is.

Cron catches nothing up by itself, so a second line asks once an hour whether a night was slept through; as long as none
was it leaves at once.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, count

from skillopt_sleep.errors import Refused, SleepError, UsageError
from skillopt_sleep.scheduling.installer import Waking, call
from skillopt_sleep.storage.files import make_folders, write_atomic

LONGEST = 900
"""Characters of a line: cron itself gives up at about a thousand."""
NEW_TABLE = " (there was no crontab before)"
KEPT = "crontab.before"
"""File of the data folder in which a table is kept that could not be put back."""
TRIES = 3
"""How often it is begun anew when somebody else changes the table meanwhile."""
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
        self._change(lambda table: with_block(table, block, self.waking.name))
        return {}

    def remove(self, folders: Mapping[str, int]) -> bool:  # noqa: ARG002
        """Take our block out of the table."""
        return self._change(lambda table: None if table is None else without_block(table, self.waking.name))

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

    def _change(self, changed: Callable[[bytes | None], bytes | None]) -> bool:
        """Put a changed table in place of the present one; whether it is another one.

        Raises ``Refused`` when somebody else changes it all the time, so that nothing of theirs is lost.
        """
        before = self._read()
        for _ in range(TRIES):
            after = changed(before)
            if after == before:
                return False
            now = self._read()
            if now == before:
                self._write(before, after)
                return True
            before = now
        raise Refused(
            "somebody else is changing the crontab, so nothing was changed; try again when they have finished"
        )

    def _write(self, before: bytes | None, after: bytes | None) -> None:
        """Put a table in place of ``before`` and see that it is there; else put back what was, and see that too.

        Raises ``UsageError`` for a table that was not taken, which says what there is now.
        """
        wrong = self._set(after)
        if not wrong and self._holds(after):
            return
        wrong = f"crontab did not take the new table ({wrong or 'what was there then is not what was written'})"
        if self._holds(before):
            raise UsageError(f"{wrong}; yours is as it was")
        failed = self._set(before)
        if self._holds(before):
            raise UsageError(f"{wrong}; yours was damaged by that and is put back, as it was")
        failed = f"{wrong} and left another one, and yours could not be put back ({failed or 'it is not there now'})"
        raise UsageError(f"{failed}; {self._kept(before)}")

    def _holds(self, table: bytes | None) -> bool:
        """Whether this is the present table, as far as can be known."""
        try:
            return self._read() == table
        except SleepError:
            return False

    def _kept(self, table: bytes | None) -> str:
        """Keep a table that is not in place any more; where it is, and how it gets back."""
        if table is None:
            return "there was none before: `crontab -r` takes away what is there, once that works"
        folder = self.waking.data_dir
        names = chain((KEPT,), (f"{KEPT}-{number}" for number in count(2)))  # never over one that was kept before
        path = next(folder / name for name in names if not (folder / name).exists())
        try:
            make_folders(folder, within=folder, mode=0o700)
            write_atomic(path, table)
        except (SleepError, OSError) as error:
            return f"nor could it be kept in a file ({error}). It was, in Python's spelling: {table!r}"
        return f"it is kept in {path}: `crontab {shlex.quote(str(path))}` puts it back"

    def _set(self, table: bytes | None) -> str:
        """Put a table in place; what went wrong."""
        try:
            done = call(["crontab", "-r"] if table is None else ["crontab", "-"], self.waking.env, given=table or b"")
        except UsageError as error:  # it took too long, say, and may have written all the same
            return str(error)
        if done.returncode == 0:
            return ""
        return " ".join(done.stderr.decode("utf-8", "replace").split()) or f"status {done.returncode}"
