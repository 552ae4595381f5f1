"""Sessions: the conversations of a person with a coding agent, as sources read and the archive keeps them.

Turns are read in every harvest; the steps within them, what the agent did, only when they are needed.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

OWN_RUN_MARKER = "skillopt-sleep-replay"
"""Part of the working folder or of the first prompt of every session that our own replays start."""


class Feedback(enum.StrEnum):
    """What a prompt says about the answer before it."""

    CORRECTION = "correction"
    APPROVAL = "approval"
    NEITHER = "neither"


class PromptKind(enum.StrEnum):
    """How a person's words came into a session."""

    TYPED = "typed"
    """An ordinary prompt."""
    QUEUED = "queued"
    """Typed while the agent worked on the previous prompt."""
    REJECTION = "rejection"
    """Typed while refusing a tool call: the strongest kind of correction."""
    ANSWER = "answer"
    """A choice in a question dialogue: weak evidence."""
    HEADLESS = "headless"
    """Given to an unattended run, by a person or by a program: weak evidence, as we cannot tell which."""

    @property
    def weak(self) -> bool:
        """Whether such words alone justify neither a task nor a rule."""
        return self in (PromptKind.ANSWER, PromptKind.HEADLESS)


class Place(enum.Enum):
    """Whether a session belongs to the project in question."""

    OWN = enum.auto()
    """It belongs to the project."""
    OTHER = enum.auto()
    """It belongs to another project."""
    UNKNOWN = enum.auto()
    """It belongs to a deleted worktree, which may be of this project or of another."""


class Command(Struct, frozen=True, kw_only=True):
    """A shell command the agent ran in a turn."""

    line: str
    exit_status: int | None = None
    """None where the session does not record it: killed, still running, or with a redacted id."""


class Turn(Struct, frozen=True, kw_only=True):
    """One prompt of a person, and what the agent did until the next one."""

    id: str
    """Stable when a session is read again, resumed or forked: the record's own uuid where there is one."""
    prompt: str
    kind: PromptKind = PromptKind.TYPED
    at: str = ""
    """ISO 8601 as recorded; "" when unknown."""
    feedback: Feedback = Feedback.NEITHER
    """What this prompt says about the answer to the turn before it."""
    cause: str = ""
    """What the words of a correction do, as in "asks to undo it"; "" for other prompts."""
    final: str = ""
    """The agent's last text of the turn; "" while it still works."""
    tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    """The skills that were invoked."""
    commands: tuple[Command, ...] = ()
    files: tuple[str, ...] = ()
    """Paths the agent wrote or edited."""


class FeedbackLabel(Struct, frozen=True, kw_only=True):
    """What a prompt says about an answer according to a model, asked where rules had found nothing."""

    source: str
    turn: str
    """The id of the prompt's turn."""
    feedback: Feedback
    cause: str = ""
    quote: str = ""
    """The person's own words that say so; "" for neither."""
    about: str = ""
    """The id of the turn whose answer it is about; "" for neither."""


class Session(Struct, frozen=True, kw_only=True):
    """One harvested conversation. A field that the session file does not record is ""."""

    source: str
    path: str
    session_id: str
    cwd: str = ""
    branch: str = ""
    commit: str = ""
    remote: str = ""
    """The remote of its repository, as ``repository.normalize_remote`` writes it."""
    model: str = ""
    started_at: str = ""
    ended_at: str = ""
    turns: tuple[Turn, ...] = ()


class SessionFile(Struct, frozen=True, kw_only=True):
    """A session file as the file system describes it, without opening it."""

    path: str
    size: int
    """Bytes."""
    mtime_ns: int
    """Time of the last change, in nanoseconds since 1970."""


class Skip(Struct, frozen=True, kw_only=True):
    """Something that could not be read; the report names and counts it."""

    path: str
    reason: str
    line: int = 0
    """Number of the line, from 1; 0 for the whole file."""
    count: int = 1


class SessionKey(Struct, frozen=True, kw_only=True):
    """A session in the inbox, and the range of its turns that no night has used yet."""

    source: str
    path: str
    first_turn: str
    """Id of the first waiting turn."""
    last_turn: str
    """Id of the last waiting turn."""
    cwd: str = ""
    ended_at: str = ""
    model: str = ""
    remote: str = ""


def list_typed(turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns that count as prompts of a person, in every number that this program shows."""
    return [turn for turn in turns if not turn.kind.weak]


def apply_labels(session: Session, labels: Mapping[str, FeedbackLabel]) -> Session:
    """Return a session with the feedback that counts: what rules found, else the model's label of that turn."""
    if labels.keys().isdisjoint(turn.id for turn in session.turns):
        return session
    turns = tuple(
        replace(turn, feedback=label.feedback, cause=label.cause)
        if turn.feedback is Feedback.NEITHER and (label := labels.get(turn.id))
        else turn
        for turn in session.turns
    )
    return replace(session, turns=turns)


def is_own_run(cwd: str, first_words: str) -> bool:
    """Whether one of our own replays started the session; such a session is never harvested."""
    return OWN_RUN_MARKER in cwd or OWN_RUN_MARKER in first_words


class StepKind(enum.StrEnum):
    """What a step is."""

    TEXT = "text"
    """Words of the agent."""
    CALL = "call"
    """A tool call with its result."""
    INSTRUCTION = "instruction"
    """The body of a slash command or a skill that the agent was given; no one typed it here."""
    SHOWN = "shown"
    """A file, or a part of one, that the agent was shown without asking: the person named, marked or edited it."""


class StepOutcome(enum.StrEnum):
    """How a tool call ended."""

    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    """Refused by the person."""
    DENIED = "denied"
    """Denied by a permission rule or a sandbox, without the person."""
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"
    """No result is recorded; texts and instructions have none either."""


class Step(Struct, frozen=True, kw_only=True):
    """One text or tool call of the agent."""

    id: str
    """Where the session file can be cut before this step: the uuid of its record, or the number of its line."""
    kind: StepKind
    text: str = ""
    """The words; for a call its arguments as JSON, long values shortened; for what was shown the file's path."""
    tool: str = ""
    """The tool's name as recorded; for an instruction the name of the command or skill."""
    result: str = ""
    """Head and tail of what the tool returned, or of the file that was shown."""
    outcome: StepOutcome = StepOutcome.UNKNOWN
    words: str = ""
    """What the person typed while refusing this call."""
    at: str = ""
    """ISO 8601 as recorded; "" when unknown."""


class TurnSteps(Struct, frozen=True, kw_only=True):
    """What the agent did in one turn."""

    turn: str
    """The id of the ``Turn``."""
    prompt: str = ""
    """What the person typed; "" for work that no prompt started."""
    interrupted: bool = False
    """Whether the person stopped the agent in this turn."""
    steps: tuple[Step, ...] = ()


class Conversation(Struct, frozen=True, kw_only=True):
    """The steps of one session along its final branch; branches that the person abandoned are not part of it."""

    source: str
    path: str
    session_id: str
    cwd: str = ""
    branch: str = ""
    model: str = ""
    ended_at: str = ""
    turns: tuple[TurnSteps, ...] = ()


_URL = re.compile(
    r"(?P<scheme>[a-z][a-z+]*)://(?:[^/@]*@)?(?P<host>\[[^\]]*\]|[^/:]+)(?::(?P<port>\d+))?/(?P<path>.+)", re.IGNORECASE
)
_SCP = re.compile(r"(?:[^/@:]+@)?(?P<host>[^/@:]{2,}):(?!//)(?P<path>.+)")
_USUAL_PORTS = {"ssh": "22", "git+ssh": "22", "http": "80", "https": "443", "git": "9418"}
_CASELESS_HOSTS = frozenset({"bitbucket.org", "github.com", "gitlab.com"})
"""Hosts where two repositories never differ by letter case alone."""


def normalize_remote(url: str) -> str:
    """Return ``host/owner/name`` of a remote URL, without user, password and ``.git``; a local path stays a path.

    >>> normalize_remote("git@GitHub.com:Acme/shop.git") == normalize_remote("https://token@github.com/acme/shop/")
    True
    """
    url = url.strip()
    if url.lower().startswith("file://"):
        return url[len("file://") :].removeprefix("localhost")
    match = _URL.fullmatch(url)
    port = ""
    if match:
        scheme, port = match["scheme"].lower(), match["port"] or ""
        port = "" if port == _USUAL_PORTS.get(scheme) else port
    else:
        match = _SCP.fullmatch(url)
    if match is None:
        return url
    host = match["host"].lower()
    path = match["path"].strip("/").removesuffix(".git").rstrip("/")
    if host in _CASELESS_HOSTS:
        path = path.lower()
    return f"{host}{':' if port else ''}{port}/{path}"


def is_local_remote(remote: str) -> bool:
    """Whether a normalised remote is a folder of this machine."""
    return remote.startswith(("/", "./", "../", "~")) or remote in {".", ".."}
