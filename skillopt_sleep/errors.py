"""Every error this program raises on purpose, in one tree; each class knows its exit code.

::

    SleepError                  1   a bug, when nothing more exact is known
    ├── UsageError              2   wrong flags, files or names
    │   ├── SettingsError       2   a settings file, variable or key that cannot be used
    │   └── ConfigError         2   a value of a training config that cannot be used; a ValueError too
    ├── BackendError            4   a model or agent CLI could not be used
    │   ├── FatalBackend        4   stop the night at once, keep what is paid for
    │   │   ├── NotInstalled
    │   │   ├── NotLoggedIn
    │   │   ├── ModelRefused        the model does not exist or is not ours to use
    │   │   ├── TooOld              the CLI must be upgraded
    │   │   ├── EndpointMoved       the address redirects to another one, which is not followed
    │   │   ├── NotAllowed          the user has not agreed that the provider is sent these sessions
    │   │   ├── QuotaExhausted
    │   │   └── BackendUnusable     call after call was lost in transport
    │   ├── TransientBackend    4   worth another try; then the rollout is unmeasured
    │   │   ├── RateLimited         carries ``retry_after``
    │   │   ├── Overloaded
    │   │   ├── TimedOut
    │   │   ├── EmptyReply
    │   │   ├── BadReply            the reply cannot be read as what was asked for
    │   │   └── TooLong             the same prompt would be too long again: not tried again
    │   └── Awaiting            3   questions are laid down and wait for their answers
    ├── BudgetSpent             5   the next call would overspend a cap
    ├── NightRunning            6   another night holds the lock
    ├── DiskError               7   our own files cannot be read or written
    ├── Refused                 8   live file changed, guarded edit, nothing to adopt
    └── Interrupted       130/143   Ctrl-C or SIGTERM; resumable

A message names the value, what was expected and the fix, in one line.
"""

from __future__ import annotations

import signal


class SleepError(Exception):
    """Root of the tree; ``exit_code`` is what the command line ends with."""

    exit_code: int = 1


class UsageError(SleepError):
    """Flags, names or a file handed over by the user cannot be used as they are."""

    exit_code = 2


class SettingsError(UsageError):
    """A settings file, environment variable or key cannot be used."""


class ConfigError(UsageError, ValueError):
    """A field of a training config, by name. A ``ValueError`` too, which is what users of the library expect."""


class BackendError(SleepError):
    """A model, or the agent CLI in front of it, did not do what was asked.

    What was paid for all the same, as far as the agent says: ``input_tokens``, ``output_tokens``, and ``cost_usd``,
    which is None where no price is known.
    """

    exit_code = 4
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


class FatalBackend(BackendError):
    """No later call can succeed: the night stops at once and keeps what is paid for."""


class NotInstalled(FatalBackend):
    """The agent CLI is not on this machine."""


class NotLoggedIn(FatalBackend):
    """The account is logged out, the key is missing or refused."""


class ModelRefused(FatalBackend):
    """The model does not exist, or this account may not use it."""


class TooOld(FatalBackend):
    """The agent CLI is older than the model demands."""


class EndpointMoved(FatalBackend):
    """The address of a service redirects to another one; nothing was sent there."""


class NotAllowed(FatalBackend):
    """The user has not agreed that this provider is sent these sessions."""


class QuotaExhausted(FatalBackend):
    """The account's quota or credit is spent."""


class BackendUnusable(FatalBackend):
    """Call after call was lost in transport: the service is down, not the task hard."""


class TransientBackend(BackendError):
    """Transport lost this call; the next try may succeed, not before ``retry_after`` seconds where that is known."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Awaiting(BackendError):
    """Questions are laid down for somebody to answer; the next ``run`` goes on with what is there by then.

    ``missing`` counts those that had no answer when this was raised.
    """

    exit_code = 3

    def __init__(self, message: str, *, missing: int = 1) -> None:
        super().__init__(message)
        self.missing = missing


class RateLimited(TransientBackend):
    """Too many calls."""


class Overloaded(TransientBackend):
    """The provider is overloaded, or could not be reached."""


class TimedOut(TransientBackend):
    """No answer within our own deadline."""


class EmptyReply(TransientBackend):
    """The model's reply holds no text at all."""


class BadReply(TransientBackend):
    """The reply cannot be read as what was asked for."""


class TooLong(TransientBackend):
    """The prompt, or the answer to it, is longer than the model takes: the same one will be again."""


class BudgetSpent(SleepError):
    """The next call would overspend a cap; nothing was sent. ``cap`` names it.

    An agent CLI that has stopped at the cap it was given was sent something: ``cost_usd`` is then what that cost.
    """

    exit_code = 5
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None

    def __init__(self, message: str, *, cap: str) -> None:
        super().__init__(message)
        self.cap = cap


class NightRunning(SleepError):
    """Another night holds the lock."""

    exit_code = 6


class DiskError(SleepError):
    """Our own files cannot be read or written."""

    exit_code = 7


class Refused(SleepError):
    """Done on purpose: a live file changed, an edit is guarded, there is nothing to adopt."""

    exit_code = 8


class Interrupted(SleepError):
    """Stopped by a signal; the next ``run`` goes on with the same night."""

    def __init__(self, message: str, *, signum: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.exit_code = 128 + signum
