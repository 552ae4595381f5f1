"""Coding agents: everything that depends on which agent somebody works with is decided by one value per agent.

Each module of this package ends in ``PLUGIN = CodingAgent(...)``; other packages add agents by the entry-point group
``skillopt_sleep.agents``. Every command finds a new agent, its sessions and its files without another change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt_sleep.errors import PluginError
from skillopt_sleep.registry import Kind, find, find_class, names, option_names, refuse

DEFAULT = "claude"
"""The agent that is used when nothing points to another one."""
LEARNED_SKILL = "skillopt-sleep-learned"
"""The skill that receives what is learnt when no other skill is named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentPlugin:
    """How this program's plugin gets into an agent, by the agent's own ``plugin`` commands."""

    install: str
    """The subcommand of the agent's ``plugin`` command that installs a plugin."""
    uninstall: str
    records: tuple[str, ...]
    """Files in the agent's home that list its plugins and marketplaces; only read."""
    market_record: str
    """The text that one of ``records`` contains once our marketplace was added."""
    skill: str = ""
    """A skill to copy to the user's own skills as well, as a path below ``plugins/``; "" for none."""
    greeting: str = ""
    """How to call the plugin from within the agent, one sentence for the user."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CodingAgent:
    """One coding agent: where its files are, and which adapters serve it."""

    name: str
    label: str
    """The agent's name for people."""
    source: str
    """The source that reads the agent's sessions."""
    backend: str
    """The backend that runs the agent."""
    provider: str = ""
    """The provider that the agent's sessions have already gone to, "" when that cannot be told."""
    find_homes: Callable[[Mapping[str, str]], tuple[Path, ...]]
    """From the environment, returns folders that may hold the agent's sessions and settings, best first."""
    skills: str
    """The folder with a project's skills, below the project."""
    user_skills: str = "skills"
    """The folder with the user's own skills, below the agent's home."""
    memory: str
    """The memory file, in the project and in the agent's home."""
    retention: str = ""
    """When the agent deletes old sessions, in one sentence for the user."""
    variables: tuple[str, ...] = ()
    """Environment variables, none of them secret, with which a scheduled night starts the agent as the user does."""
    plugin: AgentPlugin | None = None

    def home(self, env: Mapping[str, str]) -> Path:
        """The agent's own folder, which may not exist yet."""
        homes = self.find_homes(env)
        return next((home for home in homes if home.is_dir()), homes[0])

    def skill_file(self, project: Path, home: Path | None, skill: str = "") -> Path:
        """Return the path of a skill's ``SKILL.md``: the user's below ``home``, the project's when ``home`` is None.

        ``skill`` is a name, or the path of a file, relative to the project; "" means the learnt skill.
        """
        if skill.endswith(".md"):
            return (project / Path(skill).expanduser()).absolute()
        folder = project / self.skills if home is None else home / self.user_skills
        return folder / (skill or LEARNED_SKILL) / "SKILL.md"

    def memory_file(self, project: Path, home: Path | None) -> Path:
        """Return the path of the memory file: the user's own in ``home``, the project's when ``home`` is None."""
        return (project if home is None else home) / self.memory


def find_agent(name: str) -> CodingAgent:
    """Return the agent of that name. Raises ``UsageError`` with the known names, ``PluginError`` if it is unusable."""
    agent = find(Kind.AGENT, name)
    if not isinstance(agent, CodingAgent):
        raise refuse(Kind.AGENT, name, f"cannot be used: expected a CodingAgent, found {agent!r:.60}")
    return agent


def all_agents() -> tuple[CodingAgent, ...]:
    """Return every agent that can be used, the default one first."""
    return tuple(agent for agent, _ in _agents_with_faults() if agent)


def list_unusable_agents() -> tuple[str, ...]:
    """Return a line on each installed agent that ``all_agents`` leaves out."""
    return tuple(fault for agent, fault in _agents_with_faults() if not agent)


def _agents_with_faults() -> Iterator[tuple[CodingAgent | None, str]]:
    for name in sorted(names(Kind.AGENT), key=lambda name: (name != DEFAULT, name)):
        try:
            yield find_agent(name), ""
        except PluginError as error:
            yield None, str(error)


def agent_of_source(source: str) -> CodingAgent | None:
    """Return the agent whose sessions a source reads."""
    return next((agent for agent in all_agents() if agent.source == source), None)


def agent_of_backend(backend: str) -> CodingAgent | None:
    """Return the agent that a backend runs."""
    return next((agent for agent in all_agents() if agent.backend == backend), None)


def source_of_backend(backend: str) -> str:
    """Return the source with the sessions of a backend's agent; the backend's own name when no agent is known."""
    agent = agent_of_backend(backend)
    return agent.source if agent else backend


def label_of_source(source: str) -> str:
    """Return what people call the agent behind a source; the source's own name when no agent is known."""
    agent = agent_of_source(source)
    return agent.label if agent else source


def find_session_homes(source: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the existing folders in which a source finds sessions by default.

    They are those of the source's agent; a source without an agent may name them by a static method
    ``find_homes(env)``.
    """
    agent = agent_of_source(source)
    find_homes = agent.find_homes if agent else getattr(find_class(Kind.SOURCE, source), "find_homes", None)
    return tuple(str(home) for home in find_homes(env) if Path(home).is_dir()) if find_homes else ()


def home_options(source: str, home: str) -> dict[str, object]:
    """Return the options with which a source reads one folder; empty when it reads no folder."""
    options = option_names(Kind.SOURCE, source)
    return {"homes": [home]} if "homes" in options else {"home": home} if "home" in options else {}
