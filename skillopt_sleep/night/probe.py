"""Probe: before anything is spent, find out whether the models could answer at all."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.call import Role
from skillopt_sleep.domain.report import BackendHealth, NightReport
from skillopt_sleep.errors import NotInstalled, NotLoggedIn
from skillopt_sleep.night.plan import Connection
from skillopt_sleep.ports import Backend

__all__ = ["Probed", "health_of", "probe"]


class Probed(Struct, frozen=True, kw_only=True):
    """The health of every role's backend."""

    backends: tuple[BackendHealth, ...]

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        return replace(report, backends=self.backends)

    def require_ready(self) -> None:
        """Raise ``NotLoggedIn`` or ``NotInstalled`` with the backend's own words when one cannot be used."""
        for health in self.backends:
            if not health.ready:
                raise (NotLoggedIn if health.logged_in is False else NotInstalled)(health.detail)


def probe(connection: Connection) -> Probed:
    """Look at the backends of both roles; no model is called."""
    return Probed(backends=connection.probe())


def health_of(backends: Mapping[Role, Backend]) -> tuple[BackendHealth, ...]:
    """What each role's backend says of itself, without a model call."""
    found = []
    for role, backend in backends.items():
        health = backend.probe()
        found.append(
            BackendHealth(
                role=role,
                backend=backend.name,
                model=backend.model,
                version=health.version,
                ready=health.ready,
                logged_in=health.logged_in,
                sees=backend.sees,
                detail=health.detail,
            )
        )
    return tuple(found)
