"""Sessions: the conversations of a person with a coding agent, as sources read and the archive keeps them.

Every harvest reads turns; the steps within a turn, which say what the agent did, are read only when needed.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

OWN_RUN_MARKER = "skillopt-sleep-replay"
"""Text in the working folder or the first prompt of every session that our own replays start."""


class Feedback(enum.StrEnum):
    """What a prompt says about the agent's answer before it."""

    CORRECTION = "correction"
    APPROVAL = "approval"
    NEITHER = "neither"


class PromptKind(enum.StrEnum):
    """How a person's words were entered into a session."""

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
        """Whether a prompt of this kind is too weak to justify a task or a rule alone."""
        return self in (PromptKind.ANSWER, PromptKind.HEADLESS)


class Place(enum.Enum):
    """Whether a session belongs to the project in question."""

    OWN = enum.auto()
    """The session belongs to the project."""
    OTHER = enum.auto()
    """The session belongs to another project."""
    UNKNOWN = enum.auto()
    """The session belongs to a deleted worktree, which may be of this project or of another."""


class Command(Struct, frozen=True, kw_only=True):
    """A shell command that the agent ran in a turn."""

    line: str
    exit_status: int | None = None
    """The exit status; None when the session does not record it: killed, still running, or with a redacted id."""


class Turn(Struct, frozen=True, kw_only=True):
    """One prompt of a person, and what the agent did until the next prompt."""

    id: str
    """Id that stays the same when a session is read again, resumed or forked: the record's own uuid if there is one."""
    prompt: str
    kind: PromptKind = PromptKind.TYPED
    at: str = ""
    """Time of the prompt as recorded, ISO 8601; "" when unknown."""
    feedback: Feedback = Feedback.NEITHER
    """What this prompt says about the answer to the turn before it."""
    cause: str = ""
    """What a correction does, such as "asks to undo it"; "" for other prompts."""
    final: str = ""
    """The agent's last text in the turn; "" while the agent still works."""
    tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    """Names of the skills that were invoked."""
    commands: tuple[Command, ...] = ()
    files: tuple[str, ...] = ()
    """Paths of the files that the agent wrote or edited."""


class FeedbackLabel(Struct, frozen=True, kw_only=True):
    """What a model says that a prompt expresses about an answer; asked only where rules found nothing."""

    source: str
    turn: str
    """The id of the prompt's turn."""
    feedback: Feedback
    cause: str = ""
    quote: str = ""
    """The words of the person that show the feedback; "" when there is no feedback."""
    about: str = ""
    """The id of the turn whose answer the feedback is about; "" when there is no feedback."""


class Session(Struct, frozen=True, kw_only=True):
    """One harvested conversation. A field that the session file does not record is ""."""

    source: str
    path: str
    session_id: str
    cwd: str = ""
    branch: str = ""
    commit: str = ""
    remote: str = ""
    """URL of the repository's remote, in the form that ``normalize_remote`` returns."""
    model: str = ""
    started_at: str = ""
    ended_at: str = ""
    turns: tuple[Turn, ...] = ()


class SessionFile(Struct, frozen=True, kw_only=True):
    """A session file as the file system describes it, without opening it."""

    path: str
    size: int
    """Size in bytes."""
    mtime_ns: int
    """Time of the last change, in nanoseconds since 1970."""


class Skip(Struct, frozen=True, kw_only=True):
    """Something in a session file that could not be read; the report names and counts it."""

    path: str
    reason: str
    line: int = 0
    """Line number, from 1; 0 when the whole file is meant."""
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
    """Return the turns that this program counts as prompts of a person: all except weak ones."""
    return [turn for turn in turns if not turn.kind.weak]


def apply_labels(session: Session, labels: Mapping[str, FeedbackLabel]) -> Session:
    """Return a session with its final feedback: what rules found for a turn, else the model's label of the turn."""
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
    """Return whether one of our own replays started the session; such a session is never harvested."""
    return OWN_RUN_MARKER in cwd or OWN_RUN_MARKER in first_words


class StepKind(enum.StrEnum):
    """The kinds of steps."""

    TEXT = "text"
    """A text that the agent wrote."""
    CALL = "call"
    """A tool call with its result."""
    INSTRUCTION = "instruction"
    """The body of a slash command or a skill, given to the agent; the person did not type it here."""
    SHOWN = "shown"
    """A file, or part of a file, shown to the agent unasked, because the person named, marked or edited it."""


class StepOutcome(enum.StrEnum):
    """How a tool call ended."""

    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    """The person refused the call."""
    DENIED = "denied"
    """A permission rule or a sandbox denied the call, without the person."""
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"
    """No result is recorded; texts and instructions never have one."""


class Step(Struct, frozen=True, kw_only=True):
    """One text or tool call of the agent, or one thing that the agent was shown."""

    id: str
    """The place before this step where the session file can be cut: the uuid of its record, or its line number."""
    kind: StepKind
    text: str = ""
    """The text; for a call its arguments as JSON, long values shortened; for a shown file its path."""
    tool: str = ""
    """The tool's name as recorded; for an instruction the name of the command or skill."""
    result: str = ""
    """Head and tail of the tool's result, or of the file that was shown."""
    outcome: StepOutcome = StepOutcome.UNKNOWN
    words: str = ""
    """What the person typed while refusing this call; "" when the person typed nothing."""
    at: str = ""
    """Time of the step as recorded, ISO 8601; "" when unknown."""


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
"""Hosts that ignore letter case in the names of repositories."""


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
    """Return whether a normalised remote is a folder of this machine."""
    return remote.startswith(("/", "./", "../", "~")) or remote in {".", ".."}
