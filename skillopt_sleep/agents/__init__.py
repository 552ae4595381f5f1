"""Coding agents: one value per agent decides everything that depends on which agent somebody works with.

Each module of this package ends in ``PLUGIN = CodingAgent(...)``; other packages add agents by entry points in the
group ``skillopt_sleep.agents``. Every command then finds a new agent, its sessions and its files without a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt_sleep.errors import PluginError
from skillopt_sleep.registry import Kind, find, find_class, names, option_names, refuse

DEFAULT = "claude"
"""Name of the agent that is used when neither settings nor sessions point to another one."""
LEARNED_SKILL = "skillopt-sleep-learned"
"""Name of the skill that receives the learnt rules when the user names no other skill."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentPlugin:
    """How to install this program's plugin in an agent and remove it, by the agent's own ``plugin`` commands."""

    install: str
    """The subcommand of the agent's ``plugin`` command that installs a plugin."""
    uninstall: str
    records: tuple[str, ...]
    """Files in the agent's home that list its plugins and marketplaces; this program only reads these files."""
    market_record: str
    """The text that one of the files in ``records`` contains when our marketplace has been added."""
    skill: str = ""
    """A skill that is also copied to the user's own skills, as a path below ``plugins/``; "" for none."""
    greeting: str = ""
    """One sentence that tells the user how to call the plugin from within the agent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CodingAgent:
    """One coding agent: where its files are, and which source and backend belong to it."""

    name: str
    label: str
    """The agent's name as shown to the user."""
    source: str
    """Name of the source that reads the agent's sessions."""
    backend: str
    """Name of the backend that runs the agent."""
    provider: str = ""
    """Name of the provider that has already received the agent's sessions; "" when the agent does not determine it."""
    find_homes: Callable[[Mapping[str, str]], tuple[Path, ...]]
    """Returns, for a process environment, the folders that may hold the agent's sessions and settings, best first."""
    skills: str
    """The folder with a project's skills, as a path below the project."""
    user_skills: str = "skills"
    """The folder with the user's own skills, as a path below the agent's home."""
    memory: str
    """Name of the memory file, both in a project and in the agent's home."""
    retention: str = ""
    """One sentence that tells the user when the agent deletes old sessions; "" when unknown."""
    variables: tuple[str, ...] = ()
    """Names of environment variables, none of them secret, that a scheduled night passes on to the agent."""
    plugin: AgentPlugin | None = None

    def home(self, env: Mapping[str, str]) -> Path:
        """Return the agent's home folder: the first existing one of ``find_homes``, else the first one."""
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
    """Return the agent with this name.

    Raises ``UsageError``, listing the known names, for an unknown agent, and ``PluginError`` for an unusable one.
    """
    agent = find(Kind.AGENT, name)
    if not isinstance(agent, CodingAgent):
        raise refuse(Kind.AGENT, name, f"cannot be used: expected a CodingAgent, found {agent!r:.60}")
    return agent


def all_agents() -> tuple[CodingAgent, ...]:
    """Return every usable agent, the default one first."""
    return tuple(agent for agent, _ in _agents_with_faults() if agent)


def list_unusable_agents() -> tuple[str, ...]:
    """Return one line for each installed agent that is unusable, saying why."""
    return tuple(fault for agent, fault in _agents_with_faults() if not agent)


def _agents_with_faults() -> Iterator[tuple[CodingAgent | None, str]]:
    for name in sorted(names(Kind.AGENT), key=lambda name: (name != DEFAULT, name)):
        try:
            yield find_agent(name), ""
        except PluginError as error:
            yield None, str(error)


def agent_of_source(source: str) -> CodingAgent | None:
    """Return the agent whose sessions the named source reads, or None when there is no such agent."""
    return next((agent for agent in all_agents() if agent.source == source), None)


def agent_of_backend(backend: str) -> CodingAgent | None:
    """Return the agent that the named backend runs, or None when there is no such agent."""
    return next((agent for agent in all_agents() if agent.backend == backend), None)


def source_of_backend(backend: str) -> str:
    """Return the name of the source that reads the sessions of a backend's agent; ``backend`` when it has no agent."""
    agent = agent_of_backend(backend)
    return agent.source if agent else backend


def label_of_source(source: str) -> str:
    """Return the displayed name of the agent whose sessions a source reads; ``source`` when it has no agent."""
    agent = agent_of_source(source)
    return agent.label if agent else source


def find_session_homes(source: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return those folders that exist among the ones where a source looks for sessions by default.

    A source of an agent looks in the agent's homes; any other source may define a static method ``find_homes(env)``.
    """
    agent = agent_of_source(source)
    find_homes = agent.find_homes if agent else getattr(find_class(Kind.SOURCE, source), "find_homes", None)
    return tuple(str(home) for home in find_homes(env) if Path(home).is_dir()) if find_homes else ()


def home_options(source: str, home: str) -> dict[str, object]:
    """Return the options that make a source read only the folder ``home``; {} when it has no such option."""
    options = option_names(Kind.SOURCE, source)
    return {"homes": [home]} if "homes" in options else {"home": home} if "home" in options else {}
