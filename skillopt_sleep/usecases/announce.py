"""Tells the plugins of the agents what to show the person when a session starts: what waits, and what failed.

A plugin's hook must start in milliseconds and may trust no file of a project, so it reads one small file that is
written here. Each message has a key; the hook shows a key once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from skillopt_sleep.errors import SleepError
from skillopt_sleep.model.text import sha256
from skillopt_sleep.scheduling.due import Attempt
from skillopt_sleep.scheduling.store import AttemptStore, load_schedule
from skillopt_sleep.storage.files import make_folders, remove, write_atomic
from skillopt_sleep.storage.staging import ProposalStatus
from skillopt_sleep.usecases.workspace import DATABASE

if TYPE_CHECKING:
    from skillopt_sleep.night.report import NightReport
    from skillopt_sleep.usecases.workspace import Workspace

WAITING = "waiting.txt"
"""Projects whose proposals wait, one a line: read by plugins of version 0.1.0, which know no messages."""

MORNING = "morning.tsv"
"""What to show where: project, key, file, message on each line, separated by tabs.

The project is ``*`` for a message that concerns all. The message is shown only while the file is missing; ``-`` is
never there. The message is the inside of a JSON string, so that the hook can print it without knowing JSON.
"""

EPOCH = datetime.fromtimestamp(0, UTC)

CANNOT_BEGIN = frozenset({1, 2, 7})
"""Exit codes of a scheduled start that may have left no report of its own."""

MOST_WORDS = 160
"""Characters of a message that says why nights failed."""


class Message(Struct, frozen=True, order=True):
    """One line to show to the person."""

    project: str
    key: str
    missing: str
    """A file whose absence makes the message true; "-" for one that is true in any case."""
    text: str


def announce(workspace: Workspace) -> None:
    """Write what the plugins show; without anything to show, or with ``announce = false``, delete it.

    Raises nothing: what fails is reported to the user.
    """
    try:
        wanted = workspace.settings.announce
        proposals = _find_proposals(workspace) if wanted else {}
        messages = sorted(_list_messages(workspace, proposals)) if wanted else []
        _write_lines(workspace, WAITING, sorted(proposals))
        _write_lines(workspace, MORNING, map(_format_line, messages))
    except SleepError as error:
        workspace.notify(f"agents are not told which proposals wait: {error}")


class AnnouncingAttempts(AttemptStore):
    """The attempts of the daemon; one that could not even begin a night is announced, as nobody else can do it."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace.data_dir / DATABASE)
        self._workspace = workspace

    def keep(self, attempt: Attempt) -> None:
        """Store an attempt, and announce one that failed before its night began."""
        super().keep(attempt)
        if attempt.code in CANNOT_BEGIN:
            announce(self._workspace)


def _list_messages(workspace: Workspace, proposals: dict[str, str]) -> Iterator[Message]:
    for project, night in proposals.items():
        yield Message(project, night, "-", "SkillOpt-Sleep: a change of your agent's instructions waits for you.")
    schedule = load_schedule(workspace.data_dir)
    projects = {row["project"] for row in workspace.database.rows("SELECT DISTINCT project FROM nights")}
    projects |= {entry.project for entry in schedule.projects} if schedule else set()
    for project in filter(_is_one_line, projects - proposals.keys()):
        yield from _describe_failure(workspace, project)
    if schedule and (program := _find_program(schedule.environment.get("PYTHONPATH", ""))):
        text = f"SkillOpt-Sleep: its nights cannot start, as {program} is gone; install it again, then run"
        yield Message("*", sha256(program.encode())[:12], program, f"{text} skillopt-sleep schedule.")


def _describe_failure(workspace: Workspace, project: str) -> Iterator[Message]:
    """Yield a message when the last night of a project failed, or its last scheduled start ended without a night."""
    from skillopt_sleep.reports.headline import Ending, summarize_night
    from skillopt_sleep.reports.status import EXIT_CODES

    reports = workspace.journal.reports(project)
    failed: list[NightReport] = []
    for report in reports:
        if summarize_night(report).ending is not Ending.STOPPED or report.exit_code in {0, 3}:
            break
        failed.append(report)
    attempt = next(iter(AttemptStore(workspace.database).of(project, limit=1)), None)
    began = datetime.fromisoformat(reports[0].started_at) if reports and reports[0].started_at else EPOCH
    if attempt and attempt.code in CANNOT_BEGIN and attempt.started_at > began:
        why = EXIT_CODES[attempt.code]
        yield Message(project, sha256(f"{project}{attempt.due}".encode())[:12], "-", _say_failed(1, f"it ended {why}"))
    elif failed:
        yield Message(
            project, failed[0].night, "-", _say_failed(len(failed), failed[0].why or summarize_night(failed[0]).title)
        )


def _say_failed(nights: int, why: str) -> str:
    """Say that nights failed; the reason may quote a model service, so what a terminal would obey is taken out."""
    from skillopt_sleep.reports.formatting import plain

    which = "the last night" if nights == 1 else f"the last {nights} nights"
    return f"SkillOpt-Sleep: {which} failed: {plain(why, MOST_WORDS)}."


def _find_program(python_path: str) -> str:
    """Return the file that must exist for a scheduled night to start, "" when it is not known."""
    from skillopt_sleep.scheduling.installing import start_command

    program = start_command()[0] if not python_path else str(Path(python_path) / "skillopt_sleep" / "__main__.py")
    return program if _is_one_line(program) else ""


def _find_proposals(workspace: Workspace) -> dict[str, str]:
    """Return the latest night with a waiting proposal, by project."""
    rows = workspace.database.rows(
        "SELECT project, night FROM proposals WHERE status = ? ORDER BY night", (ProposalStatus.STAGED,)
    )
    staged = {str(row["project"]): str(row["night"]) for row in rows}
    if not workspace.staging.waiting():
        staged.pop(str(workspace.project), None)
    return {project: night for project, night in staged.items() if _is_one_line(project)}


def _is_one_line(text: str) -> bool:
    return len(text.splitlines()) == 1 and not set(text) & {"\n", "\t"}


def _format_line(message: Message) -> str:
    text = json.dumps(message.text)[1:-1]
    return f"{message.project}\t{message.key}\t{message.missing}\t{text}"


def _write_lines(workspace: Workspace, name: str, lines: Iterable[str]) -> None:
    path = workspace.data_dir / name
    if text := "".join(f"{line}\n" for line in lines):
        make_folders(path.parent, within=workspace.data_dir.parent, mode=0o700)
        write_atomic(path, text.encode("utf-8", "surrogateescape"))
    else:
        remove(path)
