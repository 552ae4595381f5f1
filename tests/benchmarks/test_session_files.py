"""Session files made from sessions are read back as these sessions by the sources."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skillopt_sleep.model.session import Command, PromptKind, Turn
from skillopt_sleep.sources.claude import ClaudeSource
from skillopt_sleep.sources.codex import CodexSource
from tests.benchmarks.session_files import claude_lines, claude_path, codex_lines, codex_path
from tests.benchmarks.worlds import FIRST_DAY, make_session, make_sessions, make_world

FORMATS = {
    "claude": (claude_path, claude_lines, lambda home: ClaudeSource(homes=(home,))),
    "codex": (codex_path, codex_lines, lambda home: CodexSource(home=home)),
}
WORKING = make_session(
    "working",
    FIRST_DAY,
    [
        Turn(
            id="",
            prompt="Run the tests.",
            commands=(Command(line="pytest -q", exit_status=0), Command(line="ruff check", exit_status=1)),
            files=("/home/nobody/project/a.py",),
            final="One check fails.",
        )
    ],
)
SESSIONS = (WORKING, *make_sessions(make_world(4), 4))


def read_back(source, session, folder):
    """Write one session as that agent would, and read it with the source."""
    path_of, lines_of, source_of = FORMATS[source]
    path = folder / path_of(session)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines_of(session)))
    skipped = []
    found = source_of(str(folder))
    (file,) = found.files(skipped.append)
    return found.read(file, skipped.append), skipped


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.session_id[:8])
def test_session_file_is_read_back(source, session, tmp_path):
    """Prompts, final answers, commands with their status and files come back, and nothing is skipped."""
    found, skipped = read_back(source, session, tmp_path)
    assert skipped == []
    assert (found.session_id, found.cwd, found.branch) == (session.session_id, session.cwd, session.branch)
    assert [(turn.prompt, turn.final, turn.commands, turn.files) for turn in found.turns] == [
        (turn.prompt, turn.final, turn.commands, turn.files) for turn in session.turns
    ]


@pytest.mark.parametrize("lines", [claude_lines, codex_lines])
def test_words_that_were_not_typed_are_refused(lines):
    """Rejections and queued words lie in records this does not write, so it says so."""
    turn = replace(WORKING.turns[0], kind=PromptKind.QUEUED)
    with pytest.raises(ValueError, match="queued"):
        list(lines(replace(WORKING, turns=(turn,))))
