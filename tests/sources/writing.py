"""Session files made by hand, record by record, for the tests of the sources."""

from __future__ import annotations

import itertools
import json

from skillopt_sleep.model.session import SessionFile


class ClaudeFile:
    """The lines of a Claude Code session file."""

    def __init__(self, **frame):
        self.lines: list[bytes] = []
        self.frame = {"sessionId": "session-1", "cwd": "/srv/app", "gitBranch": "main", "entrypoint": "cli", **frame}
        self.count = itertools.count(1)

    def record(self, kind, /, **fields):
        """Any record, framed as those of a conversation are; a field given as None is left out."""
        number = next(self.count)
        stamp = f"2026-05-04T08:{number // 60:02d}:{number % 60:02d}.000Z"
        whole = {"type": kind, "uuid": f"uuid-{number}", "timestamp": stamp, **self.frame, **fields}
        self.lines.append(json.dumps({name: value for name, value in whole.items() if value is not None}).encode())
        return self

    def user(self, content, **fields):
        """What is sent in the user's name."""
        return self.record("user", message={"role": "user", "content": content}, **fields)

    def assistant(self, *blocks, model="claude-opus-4-8", **fields):
        """What the model says; a string is a text block."""
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        return self.record("assistant", message={"role": "assistant", "model": model, "content": content}, **fields)

    def call(self, name, call="call-1", **given):
        """A tool call."""
        return self.assistant({"type": "tool_use", "id": call, "name": name, "input": given})

    def result(self, content="", call="call-1", *, is_error=False, beside=(), **fields):
        """A tool's result, with text blocks beside it."""
        block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error}
        return self.user([block, *({"type": "text", "text": text} for text in beside)], **fields)

    def queue(self, operation, content=None, **fields):
        """A movement of the queue; such records have no frame."""
        whole = {
            "type": "queue-operation",
            "operation": operation,
            "content": content,
            "sessionId": "session-1",
            **fields,
        }
        self.lines.append(json.dumps({name: value for name, value in whole.items() if value is not None}).encode())
        return self

    def queued(self, prompt, mode="prompt", **attachment):
        """The attachment that a queued command leaves."""
        return self.record(
            "attachment", attachment={"type": "queued_command", "prompt": prompt, "commandMode": mode, **attachment}
        )


class LinkedFile(ClaudeFile):
    """A Claude Code session file in which each record names the one before it, unless ``parentUuid`` is given."""

    last = None

    def record(self, kind, /, **fields):
        """Any record; ``alone`` leaves the end of the conversation where it is."""
        alone = fields.pop("alone", False)
        number = len(self.lines) + 1
        uuid = fields.setdefault("uuid", f"uuid-{number}")
        whole = {"parentUuid": self.last, **fields}
        super().record(kind, **whole)
        if "parentUuid" in whole and whole["parentUuid"] is None:  # the frame leaves out what is None
            line = json.loads(self.lines[-1]) | {"parentUuid": None}
            self.lines[-1] = json.dumps(line).encode()
        self.last = self.last if alone else uuid
        return self


class CodexFile:
    """The lines of a Codex rollout."""

    def __init__(self, *, source="cli", **meta):
        self.lines: list[bytes] = []
        self.count = itertools.count(1)
        git = {"branch": "main", "commit_hash": "abc1234"}
        self.record("session_meta", id="thread-1", cwd="/srv/app", source=source, git=git, **meta)

    def record(self, kind, /, **payload):
        """Any record."""
        number = next(self.count)
        stamp = f"2026-05-04T08:{number // 60:02d}:{number % 60:02d}.000Z"
        self.lines.append(json.dumps({"timestamp": stamp, "type": kind, "payload": payload}).encode())
        return self

    def item(self, kind, /, **fields):
        """A response item."""
        return self.record("response_item", type=kind, **fields)

    def event(self, kind, /, **fields):
        """An event."""
        return self.record("event_msg", type=kind, **fields)

    def message(self, *texts, role="user", **fields):
        """A message to or of the model."""
        return self.item(
            "message", role=role, content=[{"type": "input_text", "text": text} for text in texts], **fields
        )

    def prompt(self, text):
        """A prompt as versions up to 0.168 write it: twice."""
        return self.message(text).event("user_message", message=text, images=[])

    def assistant(self, text):
        """An answer."""
        return self.event("agent_message", message=text).message(text, role="assistant")

    def shell(self, call, output, **given):
        """A shell call and its result."""
        self.item("function_call", name="exec_command", call_id=call, arguments=json.dumps(given))
        return self.item("function_call_output", call_id=call, output=output)


def stored(path, lines):
    """Write the lines; the file as a source lists it."""
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    status = path.stat()
    return SessionFile(path=str(path), size=status.st_size, mtime_ns=status.st_mtime_ns)
