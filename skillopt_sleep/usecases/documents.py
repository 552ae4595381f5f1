"""Which live files a night may change: those of the agent whose sessions it reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from skillopt_sleep.agents import CodingAgent, agent_of_backend, agent_of_source, all_agents, find_agent
from skillopt_sleep.errors import UsageError
from skillopt_sleep.model.call import Role
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.night.harvest import file_sessions
from skillopt_sleep.storage.live_files import read_baseline
from skillopt_sleep.usecases.adapters import build_sources, get_night_caps, get_role
from skillopt_sleep.usecases.sessions import redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillopt_sleep.model.document import Candidate
    from skillopt_sleep.model.ports import Source
    from skillopt_sleep.model.task import TaskRecord
    from skillopt_sleep.usecases.workspace import Workspace


CHARS_PER_TOKEN = 4
LEAST_REPLAYS = 12
"""Replays that must fit into a night's cap on tokens; a longer document would only ever reach the cap."""
MOST_BYTES = 1_000_000
"""The longest document under any cap: few models take a longer prompt."""


class LiveDocuments(NamedTuple):
    """What a night finds of the files it may change."""

    baseline: Candidate
    choice: tuple[str, ...]
    """Notes on the choice of the agent."""
    left_out: tuple[str, ...]
    """A note on each file that cannot be used."""


def read_live_documents(
    workspace: Workspace, tasks: Sequence[TaskRecord] | None = None
) -> tuple[Candidate, tuple[str, ...]]:
    """Return the live documents a night may change, and all notes on them."""
    live = inspect_live_documents(workspace, tasks)
    return live.baseline, (*live.choice, *live.left_out)


def inspect_live_documents(workspace: Workspace, tasks: Sequence[TaskRecord] | None = None) -> LiveDocuments:
    """Return the live documents a night may change; ``run`` and ``doctor`` find faults in them by this function alone.

    ``tasks`` are those of a task file, whose night reads no sessions. With the scope ``all`` they are the user's own
    files, never a project's.
    """
    require_own_skill(workspace)
    agent, note = choose_agent(workspace, tasks)
    home = _find_home(workspace, agent) if workspace.settings.scope == "all" else None
    paths = {
        DocumentKind.SKILL: agent.skill_file(workspace.project, home, workspace.settings.target_skill),
        DocumentKind.MEMORY: agent.memory_file(workspace.project, home),
    }
    most_bytes = min(MOST_BYTES, get_night_caps(workspace).tokens * CHARS_PER_TOKEN // LEAST_REPLAYS)
    baseline, left_out = read_baseline(paths, most_bytes=most_bytes)
    return LiveDocuments(baseline, note, left_out)


def choose_agent(
    workspace: Workspace, tasks: Sequence[TaskRecord] | None = None
) -> tuple[CodingAgent, tuple[str, ...]]:
    """Return the agent whose documents change, and a note where several have sessions in scope.

    It is the one the settings name, else the one with most sessions in scope, else the one of the target backend, else
    the first one that is used on this machine.
    """
    settings = workspace.settings
    if settings.agent != "auto":
        return find_agent(settings.agent), ()
    if settings.source not in {"auto", "all"} and (named := agent_of_source(settings.source)):
        return named, ()
    counts = count_sessions(workspace) if tasks is None else Counter(_find_sources(tasks))
    agents = all_agents()
    found = sorted((agent for agent in agents if counts[agent.source]), key=lambda agent: -counts[agent.source])
    if len(found) > 1:
        listed = ", ".join(f"{agent.label} {counts[agent.source]}" for agent in found)
        other = f"--agent {found[1].name} chooses {found[1].label}"
        return found[0], (
            f"sessions here are of several agents ({listed}); this night is for {found[0].label}; {other}",
        )
    if found:
        return found[0], ()
    own = agent_of_backend(get_role(workspace, Role.TARGET)[0])
    used = next((agent for agent in agents if agent.home(workspace.env).is_dir()), agents[0])
    return own or used, ()


def count_sessions(workspace: Workspace) -> Counter[str]:
    """Return the sessions in scope of each source that the settings ask for.

    A source that was never harvested is read in memory, unless it is the only one with session files; then it counts
    as one.
    """
    sources = build_sources(workspace)
    known, counts = _read_archived(workspace, sources)
    unread = [source for source in sources if source.name not in known and _has_files(source)]
    if len(unread) == 1 and not counts:
        return Counter([unread[0].name])
    if unread:
        copy = replace(workspace, dry_run=True)
        file_sessions(unread, copy.inbox, lambda session: redact(copy, session))
        _, counts = _read_archived(copy, sources)
    return counts


def require_own_skill(workspace: Workspace) -> None:
    """Raise ``UsageError`` when the scope ``all`` meets a skill file whose path depends on the project."""
    skill = workspace.settings.target_skill
    if workspace.settings.scope == "all" and skill.endswith(".md") and not Path(skill).expanduser().is_absolute():
        raise UsageError(
            f"--target-skill {skill}: --scope all changes your own files only, never a project's; expected the name of"
            f" a skill of yours or an absolute path, such as {Path(skill).parent.name or 'NAME'} or ~/{skill}"
        )


def get_target_skill_name(workspace: Workspace) -> str:
    """Return the name of the one skill to improve, "" when rules are learnt from all tasks."""
    named = Path(workspace.settings.target_skill)
    return named.absolute().parent.name if named.name == "SKILL.md" else workspace.settings.target_skill


def _read_archived(workspace: Workspace, sources: Sequence[Source]) -> tuple[set[str], Counter[str]]:
    """Return the sources with archived sessions, and the archived sessions in scope of each of ``sources``."""
    asked = {source.name for source in sources}
    counts: Counter[str] = Counter()
    archived = workspace.inbox.count()
    for (source, cwd, remote), sessions in archived.items():
        if source in asked and workspace.project_scope.holds(cwd, remote):
            counts[source] += sessions
    return {source for source, _, _ in archived}, counts


def _has_files(source: Source) -> bool:
    return next(iter(source.files(lambda _: None)), None) is not None


def _find_sources(tasks: Sequence[TaskRecord]) -> list[str]:
    """Return the source of each session that the tasks come from."""
    return [source for source, _ in {(origin.source, origin.path) for task in tasks for origin in task.origins}]


def _find_home(workspace: Workspace, agent: CodingAgent) -> Path:
    """Return the agent's own folder: where the settings put its sessions, else where its environment does."""
    options = workspace.settings.sources.get(agent.source, {})
    named = [*cast("list[str]", options.get("homes", [])), *([str(options["home"])] if "home" in options else [])]
    return Path(named[0]) if named else agent.home(workspace.env)
