"""Commands that a person's sessions ran again and again, and that could tell good work from bad by how they end.

They are found, counted and offered; which of them is ever run is for the person to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from msgspec import Struct

from skillopt_sleep.model.session import Command, Session
from skillopt_sleep.model.text import sha256

LONGEST = 300
"""Characters of a command that a person can still judge by looking at it."""
RUNS, SESSIONS = 3, 2
"""So many runs, or runs in so many sessions, make a command a habit."""

_CD = re.compile(r"cd (?P<quote>['\"]?)(?P<path>[^'\"&;|]+?)(?P=quote)\s*(?:&&|;)\s*(?P<rest>.+)", re.DOTALL)
_OUTPUT = re.compile(r"\s*(?:2>&1|\|\s*(?:tail|head|cat|tee)\b[^|&;]*|>\s*/dev/null)\s*\Z")
"""What only trims the output; behind a pipe the recorded status is that of the trimming."""
_ASSIGNMENT = re.compile(r"\A(?:\w+=\S*\s+)+")
_WORD = re.compile(r"[\w./+-]+")
_KEPT_OR_SPACES = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\]+|(?P<spaces>[ \t]+)""")
"""What a shell takes as it is, quoted, escaped or a word, and the spaces between, however many."""
_NESTED = re.compile(r"\$[('{]|`")
"""Behind these, quotes within quotes are possible: where one ends, only a shell can tell."""


def _names(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


CHECKERS = _names(
    "pytest tox nox unittest mypy pyright ruff flake8 pylint black isort npm pnpm yarn bun deno jest vitest mocha ava",
    "tsc eslint prettier biome cargo go make just task mvn gradle gradlew dotnet ctest cmake ninja bazel meson rspec",
    "rake rubocop minitest phpunit phpstan pest composer mix swift xcodebuild sbt lein stack cabal dune zig clippy",
    "golangci-lint shellcheck hadolint terraform prove playwright cypress pre-commit",
)
"""Programs whose exit status says whether something is right, or that run such programs."""
NO_CHECKS = _names(
    "install add remove uninstall update upgrade publish deploy push login init new create start serve dev run-server",
    "watch clean fmt format apply destroy get tidy download",
)
"""What such a program may also be asked, which checks nothing."""
RUNNERS = _names("uv uvx poetry pipenv hatch pdm npx bunx bundle python python3 php node sh bash time env")
"""Programs that run another one, whose name follows."""
LOOKING = _names(
    "ls cat cd pwd echo grep rg find head tail sed awk wc sort uniq diff tree stat file which whereis type ps kill",
    "sleep date env printenv git gh hg svn curl wget ssh scp rsync docker podman kubectl helm rm mv cp mkdir rmdir",
    "touch chmod chown ln tar unzip zip sudo apt apt-get brew pip pip3 true false test export source history clear jq",
    "psql mysql sqlite3 redis-cli aws gcloud az open code vim nano less more tee xargs",
)
"""Programs that look around, or change what a copy of a project does not hold."""


class Recurring(Struct, frozen=True, kw_only=True):
    """A command with its record. ``unknown`` are runs whose exit status no session tells; ``last`` is a date."""

    line: str
    passed: int = 0
    failed: int = 0
    unknown: int = 0
    sessions: int = 0
    last: str = ""

    @property
    def id(self) -> str:
        """Six hex digits to name it by."""
        return command_id(self.line)

    @property
    def runs(self) -> int:
        """How often it was run."""
        return self.passed + self.failed + self.unknown


def command_id(line: str) -> str:
    """Six hex digits for a command."""
    return sha256(line.encode("utf-8", "replace"))[:6]


def single_spaced(line: str) -> str:
    """A command with one space wherever a shell sees any number of them; as it is, where that is not plain."""
    text = line.strip()
    if _NESTED.search(text):
        return text
    parts, end = [], 0
    while end < len(text):
        part = _KEPT_OR_SPACES.match(text, end)
        if part is None:  # a quote that is never closed, or a space of another alphabet
            return text
        parts.append(" " if part["spaces"] else part[0])
        end = part.end()
    return "".join(parts)


def plain_command(line: str, project: str) -> tuple[str, bool]:
    """A command as it would be run at the top of the project, and whether its recorded exit status is its own.

    A change into the project, what only trims the output, and spaces that say nothing are left out. "" for what is no
    single short line.
    """
    text = single_spaced(line)
    trimmed = False
    while found := _OUTPUT.search(text):
        trimmed |= "|" in found[0]
        text = text[: found.start()].rstrip()
    if (change := _CD.match(text)) is not None:
        folder = PurePath(change["path"].strip())
        if folder.is_absolute() and project and folder.is_relative_to(project):
            inside = folder.relative_to(project).as_posix()
            text = change["rest"].strip() if inside == "." else f"cd {inside} && {change['rest'].strip()}"
    if not text or "\n" in text or len(text) > LONGEST or "<<" in text or not text.isprintable():
        return "", False
    return text, not trimmed


def why_not_plain(line: str) -> str:
    """Why a command that somebody wrote out cannot be run as it is, and what to write; "" when it can."""
    text = single_spaced(line)
    if "\n" in text:
        return "write the command on one line"
    if not text.isprintable():
        return "it holds a character that cannot be seen; leave it out"
    if len(text) > LONGEST:
        return f"{len(text)} characters, and more than {LONGEST} cannot be judged by a look; put them in a script"
    if "<<" in text:
        return "a document of its own in a command (<<) cannot be judged by a look; put it in a script"
    plain, _ = plain_command(text, "")
    if plain != text:
        return f"leave out what trims its output, which hides how it ends: {plain!r}" if plain else "it is no command"
    return ""


def telling(line: str) -> bool:
    """Whether a command, as ``plain_command`` has it, looks like one that checks something."""
    last = re.split(r"&&|;", line)[-1]
    words = _WORD.findall(_ASSIGNMENT.sub("", last.strip()))
    names = [word.rpartition("/")[2] for word in words]
    while names and (names[0] in RUNNERS or names[0] in {"run", "exec", "-m"}):
        names = names[1:]
    if not names or names[0] in LOOKING or "|" in last or ">" in last:
        return False
    return names[0] in CHECKERS and NO_CHECKS.isdisjoint(names[1:3])


def recurring(sessions: Iterable[Session], project: str) -> tuple[Recurring, ...]:
    """The commands worth offering, those first that were seen both to fail and to pass, then the most frequent."""
    found: dict[str, _Record] = {}
    for session in sessions:
        for turn in session.turns:
            for command in turn.commands:
                line, own = plain_command(command.line, project)
                if line and _worth_counting(line):
                    record = found.setdefault(line, _Record())
                    record.add(command, session, turn.at or session.started_at, own=own)
    told = [record.told(line) for line, record in found.items()]
    kept = [
        each
        for each in told
        if (each.runs >= RUNS or each.sessions >= SESSIONS) and (telling(each.line) or (each.passed and each.failed))
    ]
    return tuple(sorted(kept, key=lambda each: (not (each.passed and each.failed), -each.runs, each.line)))


def checks_of(commands: Sequence[Command], project: str) -> tuple[str, ...]:
    """Of the commands of some work those that check something, each once, the last ones first."""
    lines = [plain_command(command.line, project)[0] for command in reversed(commands)]
    return tuple(dict.fromkeys(line for line in lines if line and _worth_counting(line)))


def _worth_counting(line: str) -> bool:
    first = next(iter(_WORD.findall(_ASSIGNMENT.sub("", re.split(r"&&|;", line)[-1].strip()))), "")
    return first.rpartition("/")[2] not in LOOKING


class _Record:
    """What is known of a command so far."""

    def __init__(self) -> None:
        self.passed = self.failed = self.unknown = 0
        self.last = ""
        self.seen: set[tuple[str, str]] = set()

    def add(self, command: Command, session: Session, at: str, *, own: bool) -> None:
        """Count one run; a status that may be another program's is not told."""
        status = command.exit_status if own else None
        self.passed += status == 0
        self.failed += status is not None and status != 0
        self.unknown += status is None
        self.last = max(self.last, at[:10])
        self.seen.add((session.source, session.session_id))

    def told(self, line: str) -> Recurring:
        return Recurring(
            line=line,
            passed=self.passed,
            failed=self.failed,
            unknown=self.unknown,
            sessions=len(self.seen),
            last=self.last,
        )
