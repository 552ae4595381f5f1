"""Sources, backends and judges as the settings name them, built when they are asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, cast

from skillopt_sleep.errors import UsageError
from skillopt_sleep.model.call import Allowance, Caps, Role
from skillopt_sleep.night.harvest import Harvested
from skillopt_sleep.night.report import BackendHealth
from skillopt_sleep.registry import Kind, build, names, require
from skillopt_sleep.settings import agent_homes
from skillopt_sleep.storage.questions import QuestionBox
from skillopt_sleep.usecases.invocation import Invocation

if TYPE_CHECKING:
    from skillopt_sleep.model.ports import Backend, Judge, Ledger, Source
    from skillopt_sleep.night.connection import NightConnection

SIMULATED = "simulated"
"""The one backend that costs nothing: rules mine for it, and it may replay tasks nobody has reviewed."""
CHILDREN = "children"
"""The folder in the user's data where running children are noted."""


NOT_ISOLATED = frozenset({"handoff"})
"""Backends whose answers come from an agent that knows more than it is asked."""


class Adapters(Invocation):
    """The outside world of a night."""

    def sources(self) -> tuple[Source, ...]:
        """The sources asked for. Raises ``UsageError`` when one was named that is none, or whose home is not there."""
        homes = agent_homes(self.env)
        every = {*homes, *self.settings.sources}  # a source with neither home nor options has nothing to read
        wanted = sorted(every) if self.settings.source in {"auto", "all"} else [self.settings.source]
        for name in wanted:
            require(Kind.SOURCE, name)
        found = []
        for name in wanted:
            options = self.settings.sources.get(name, {})
            if not options and not homes.get(name):
                if self.settings.source == name:
                    raise UsageError(f"no {name} sessions found; name their home with --{name}-home DIR")
                continue
            here = homes.get(name, ())
            found.append(cast("Source", build(Kind.SOURCE, name, options, homes=here, home=next(iter(here), ""))))
        return tuple(found)

    @property
    def agent(self) -> str:
        """Whose files are written: Claude Code's or Codex's."""
        if self.settings.agent != "auto":
            return self.settings.agent
        return "codex" if "codex" in {self.settings.source, self.role(Role.TARGET)[0]} else "claude"

    def role(self, role: Role) -> tuple[str, str]:
        """Backend name and model asked for ("" = by default) of a role."""
        settings = self.settings
        if role is Role.TARGET:
            return settings.target_backend or settings.backend, settings.target_model
        return settings.optimizer_backend or settings.backend, settings.optimizer_model

    @cached_property
    def questions(self) -> QuestionBox:
        """Where the handoff backend lays its questions down."""
        return QuestionBox(self.project, self.data_dir)

    def unused_answers(self) -> tuple[str, ...]:
        """Say which answers lay there and were to none of the questions of a night that has come to its end."""
        if not NOT_ISOLATED & {self.role(role)[0] for role in Role}:
            return ()
        names = self.questions.strangers()
        files = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")  # noqa: PLR2004
        return (f"not used, for they answer nothing this night asked: {files} in {self.questions.place}",) * bool(names)

    def backend(self, role: Role, *, usual: Harvested | None = None) -> Backend:
        """The backend of a role; its model, where none was asked for, is the one the sessions used."""
        name, model = self.role(role)
        options = dict(self.settings.backends.get(name, {}))
        model = model or str(options.pop("model", "")) or (usual.usual_model(name) if usual else "")
        record = "" if self.rehearsing else str(self.data_dir / CHILDREN)  # who only looks writes nothing
        given: dict[str, object] = {"env": self.env, "record": record}
        given["questions"] = self.questions
        given |= {"max_usd": self.settings.max_usd} | ({"model": model} if model else {})
        return cast("Backend", build(Kind.BACKEND, name, options, **given))

    def reap(self) -> None:
        """End what a night that was killed has left running, and remove its folders; say so."""
        folder = self.data_dir / CHILDREN
        with contextlib.suppress(OSError):  # which `reap` tells of
            if not folder.is_dir() or not any(folder.iterdir()):
                return
        from skillopt_sleep.backends.child_registry import reap
        from skillopt_sleep.model.session import OWN_RUN_MARKER

        found = reap(folder, OWN_RUN_MARKER)
        if found.processes or found.folders:
            self.said.append(
                f"a night that was killed had left {found.processes} processes and {found.folders} folders;"
                " they are gone now"
            )
        self.said += [
            f"{path} cannot be read or dealt with: what a night that was killed has left, if anything, is still there;"
            " look at it, then delete it"
            for path in found.damaged
        ]

    def judges(self) -> Mapping[str, Judge]:
        """Every judge by its name."""
        options = self.settings.judges
        return {name: cast("Judge", build(Kind.JUDGE, name, options.get(name, {}))) for name in names(Kind.JUDGE)}

    def caps(self) -> Caps:
        """The caps of one night."""
        settings = self.settings
        return Caps(
            calls=settings.max_calls, tokens=settings.max_tokens, usd=settings.max_usd, minutes=settings.max_minutes
        )

    def allowance(self, ledger: Ledger) -> Allowance | None:
        """What this night shares with the others of the day, None when no cap of a day is set."""
        settings = self.settings
        if not (settings.max_calls_day or settings.max_tokens_day or settings.max_usd_day):
            return None
        from skillopt_sleep.calls.clock import system_zone
        from skillopt_sleep.scheduling.due import day_of

        most = float("inf")
        caps = Caps(
            calls=settings.max_calls_day or 2**63,
            tokens=settings.max_tokens_day or 2**63,
            usd=settings.max_usd_day or most,
            minutes=most,
        )
        return Allowance(caps=caps, spent=ledger.spent_on(day_of(self.clock.now(), system_zone())))

    def probe(self) -> tuple[BackendHealth, ...]:
        """Look at the backends of both roles, outside of a night."""
        backends = {role: self.backend(role) for role in Role}
        try:
            from skillopt_sleep.night.connection import health_of

            return health_of(backends)
        finally:
            for backend in backends.values():
                backend.close()

    def connect(self, ledger: Ledger, sessions: Harvested) -> NightConnection:
        """Both roles of a night, ready to be asked."""
        from skillopt_sleep.night.connection import NightConnection

        return NightConnection(
            {role: self.backend(role, usual=sessions) for role in Role},
            self.judges(),
            ledger,
            self.clock,
            caps=self.caps(),
            day=self.allowance(ledger),
            workers=self.settings.workers,
            first_wait=self.settings.retry_wait,
            progress=self.progress,
            redactor=self.redactor,
            **({"manner": self.manner} if self.manner else {}),
        )
