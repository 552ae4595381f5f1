"""A systemd user timer: it catches up a night the machine slept through, and stops what it started as a whole."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt_sleep.errors import SleepError, UsageError
from skillopt_sleep.scheduling.installer import Waking, call, ours, place, take_away
from skillopt_sleep.storage.files import remove

ODD = frozenset("\"'\\$")
"""Characters that systemd does not take in the path of a program, however they are escaped."""
THROUGH_SHELL = ("/bin/sh", "-c", 'exec "$0" "$@"')


def quoted(word: str, *, argument: bool = True) -> str:
    r"""A word as systemd reads it back: in double quotes, ``\`` and ``"`` escaped, ``%`` and ``$`` doubled.

    Variables are put in for arguments only, so ``$`` stays single elsewhere.
    """
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped.replace("$", "$$") if argument else escaped}"'


@dataclass(frozen=True, slots=True)
class Systemd:
    """``Installer`` over ``systemctl --user``."""

    waking: Waking

    @property
    def service(self) -> Path:
        """What is run."""
        return self.waking.config / "systemd" / "user" / f"{self.waking.name}.service"

    @property
    def timer(self) -> Path:
        """When it is run."""
        return self.service.with_suffix(".timer")

    def shown(self) -> Mapping[str, str]:
        """Both units."""
        return {
            str(self.service): "\n".join(self._service()) + "\n",
            str(self.timer): "\n".join(self._timer()) + "\n",
        }

    def _service(self) -> Iterator[str]:
        yield f"# {self.waking.mark}"
        yield "[Unit]"
        yield "Description=SkillOpt-Sleep, the nightly run"
        yield ""
        yield "[Service]"
        yield "Type=oneshot"
        yield from (f"Environment={quoted(f'{k}={v}', argument=False)}" for k, v in self.waking.environment.items())
        words = self.waking.argv
        program, *arguments = THROUGH_SHELL + words if set(words[0]) & ODD else words
        yield f"ExecStart={' '.join([quoted(program, argument=False), *map(quoted, arguments)])}"
        yield "# ending it ends the night, which is gone on with the next time"
        yield "KillMode=mixed"
        yield "TimeoutStopSec=10"
        yield "SuccessExitStatus=143"
        yield "Nice=10"

    def _timer(self) -> Iterator[str]:
        yield f"# {self.waking.mark}"
        yield "[Unit]"
        yield "Description=SkillOpt-Sleep, every night"
        yield ""
        yield "[Timer]"
        yield from (f"OnCalendar=*-*-* {at:%H:%M}:00" for at in self.waking.times)
        yield f"RandomizedDelaySec={int(self.waking.jitter.total_seconds())}"
        yield "Persistent=true"
        yield "AccuracySec=1min"
        yield ""
        yield "[Install]"
        yield "WantedBy=timers.target"

    def works(self) -> str:
        """Whether this user has a systemd of his own that answers."""
        try:
            done = call(["systemctl", "--user", "show-environment"], self.waking.env)
        except UsageError as error:
            return str(error)
        return "" if done.returncode == 0 else f"systemctl --user does not answer: {_said(done.stderr)}"

    def install(self) -> Mapping[str, int]:
        """Write the units and start the timer."""
        files = {Path(path): text.encode() for path, text in self.shown().items()}
        try:
            return place(files, self.waking.name, self._start)
        except SleepError:
            self._reload()
            raise

    def _start(self) -> None:
        for command in (["daemon-reload"], ["enable", self.timer.name], ["restart", self.timer.name]):
            done = call(["systemctl", "--user", *command], self.waking.env)
            if done.returncode:
                raise UsageError(
                    f"systemctl --user {' '.join(command)} failed: {_said(done.stderr)}; nothing was scheduled"
                )

    def remove(self, folders: Mapping[str, int]) -> bool:
        """Stop the timer and take both units away."""
        if ours(self.timer, self.waking.name):
            done = call(["systemctl", "--user", "disable", "--now", self.timer.name], self.waking.env)
            if done.returncode and not self.works():
                raise UsageError(f"systemctl --user disable {self.timer.name} failed: {_said(done.stderr)}")
        wanted = self.timer.parent / "timers.target.wants" / self.timer.name
        if wanted.is_symlink():  # there was nobody to disable it
            remove(wanted)
        with contextlib.suppress(OSError):  # made when it was enabled, unless somebody else needs it
            wanted.parent.rmdir()
        found = take_away((self.timer, self.service), self.waking.name, folders)
        if found:
            self._reload()
        return found

    def _reload(self) -> None:
        """Tell systemd that units have gone; one that does not answer reads them when it next starts."""
        if not self.works():
            call(["systemctl", "--user", "daemon-reload"], self.waking.env)

    def check(self) -> str:
        """Whether the timer is there and waits."""
        if not self.timer.exists() or not self.service.exists():
            return f"{self.timer} is gone: `skillopt-sleep schedule` puts it back"
        if problem := self.works():
            return problem
        done = call(["systemctl", "--user", "is-active", self.timer.name], self.waking.env)
        if done.returncode:
            return f"{self.timer.name} is not active: systemctl --user enable --now {self.timer.name}"
        return ""

    def hint(self, user: str) -> str:
        """What keeps it running when the user is logged out, "" when nothing is to be done."""
        try:
            done = call(["loginctl", "show-user", user, "--property=Linger", "--value"], self.waking.env)
        except UsageError:
            return ""
        if done.returncode == 0 and done.stdout.strip() == b"yes":
            return ""
        return f"it runs while you are logged in; `loginctl enable-linger {user}` lets it run when you are not"


def _said(stderr: bytes) -> str:
    return " ".join(stderr.decode("utf-8", "replace").split()) or "it says nothing"
