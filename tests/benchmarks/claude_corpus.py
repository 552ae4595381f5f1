"""A made-up Claude Code session file: the records of a working day in their true shapes, sizes and proportions.

Shares of bytes in real files: tool results 45 %, thinking 20 %, tool calls 16 %, answers 7 %, attachments 6 %, the rest
bookkeeping. Everything that is not a person's words, but looks like it, is there as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from skillopt_sleep.model import Json
from skillopt_sleep.model.session import Command
from tests.benchmarks.material import CORRECTED, Material

FIRST_DAY = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)


class ClaudeScript:
    """Writes one session; ``prompts`` and ``commands`` hold what a reader must find in it."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._random = material.random
        self._session = material.identifier()
        self._now = FIRST_DAY + timedelta(minutes=self._random.randrange(10**5))
        self._message = 0
        self._last: str | None = None
        self.prompts: list[str] = []
        self.commands: list[Command] = []

    @property
    def name(self) -> str:
        """The path below the home."""
        return f"projects/-srv-app/{self._session}.jsonl"

    def lines(self) -> Iterator[bytes]:
        """The whole file, line by line."""
        yield self._bare("permission-mode", permissionMode="default")
        yield self._framed("attachment", attachment={"type": "skill_listing", "content": self._material.prose(2500)})
        for _ in range(self._random.randint(2, 16)):
            yield from self._turn()
        yield self._bare("summary", summary=self._material.prose(60), leafUuid=self._material.identifier())

    def _turn(self) -> Iterator[bytes]:
        yield self._bare("file-history-snapshot", messageId=self._material.identifier(), snapshot=self._snapshot())
        yield from self._said()
        for _ in range(self._random.randint(1, 14)):
            yield from self._step()
        yield from self._answer([{"type": "text", "text": self._material.prose(self._material.size(900, 0.8, 9000))}])
        yield self._framed("system", subtype="turn_duration", durationMs=self._random.randrange(10**6), isMeta=False)
        yield self._bare("last-prompt", lastPrompt=self.prompts[-1], leafUuid=self._material.identifier())

    def _said(self) -> Iterator[bytes]:
        """A prompt in one of the ways in which prompts are stored, among records that only look like one."""
        prompt = self._material.correction() if self.prompts and self._random.random() < CORRECTED else None
        prompt = prompt or self._material.request()
        self.prompts.append(prompt)
        match self._random.randrange(12):
            case 0:
                yield self._user(f"<ide_opened_file>The user opened x.py</ide_opened_file>\n{prompt}")
            case 1:
                queued: Json = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt"}
                yield self._bare("queue-operation", operation="enqueue", content=prompt)
                yield self._bare("queue-operation", operation="remove")
                yield self._framed("attachment", attachment=queued)
            case 2:
                yield self._user("<command-name>/effort</command-name>\n<command-args></command-args>")
                yield self._user("<local-command-stdout>Set effort level</local-command-stdout>")
                yield self._user(prompt)
            case 3:
                yield self._user([{"type": "text", "text": "[Request interrupted by user]"}])
                yield self._user([{"type": "image", "source": {"data": self._material.opaque(40_000)}}, _text(prompt)])
            case 4:
                yield self._user(prompt)
                yield self._framed("user", isMeta=True, message=_message(self._material.prose(6000)))
            case 5:
                yield self._framed("user", isCompactSummary=True, message=_message(self._material.prose(8000)))
                yield self._user(prompt)
            case _:
                yield self._user(prompt)

    def _step(self) -> Iterator[bytes]:
        if self._random.random() < 0.3:
            thought = self._material.prose(self._material.size(500, 1.0, 20_000))
            yield from self._answer(
                [{"type": "thinking", "thinking": thought, "signature": self._material.opaque(2500)}]
            )
        if self._random.random() < 0.25:
            yield from self._answer([_text(self._material.prose(120))])
        call = f"toolu_{self._random.getrandbits(96):024x}"
        make = self._random.choices([self._bash, self._edit, self._read, self._agent], [50, 20, 28, 2])[0]
        yield from make(call)

    def _bash(self, call: str) -> Iterator[bytes]:
        line = f"make {self._material.path()}"
        failed = self._random.random() < 0.1
        status = self._random.randint(1, 3) if failed else 0
        self.commands.append(Command(line=line, exit_status=status))
        output = self._material.log(self._material.size(900, 1.4, 30_000))
        yield from self._call(call, "Bash", {"command": line, "description": "Build it"})
        if failed:
            text = f"Exit code {status}\n{output}"
            yield self._result(call, text, f"Error: {text}", is_error=True)
        else:
            yield self._result(call, output, {"stdout": output, "stderr": "", "interrupted": False, "isImage": False})

    def _edit(self, call: str) -> Iterator[bytes]:
        path = self._material.path()
        before, after = self._material.code(300), self._material.code(self._material.size(500, 1.0, 9000))
        original = self._material.code(self._material.size(4000, 0.9, 60_000))
        patch: Json = [{"oldStart": 1, "newStart": 1, "lines": [*after.splitlines()]}]
        done: dict[str, Json] = {"filePath": path, "oldString": before, "newString": after, "originalFile": original}
        yield from self._call(call, "Edit", {"file_path": path, "old_string": before, "new_string": after})
        yield self._result(
            call, "The file has been updated.", {**done, "structuredPatch": patch, "userModified": False}
        )

    def _read(self, call: str) -> Iterator[bytes]:
        path = self._material.path()
        content = self._material.code(self._material.size(3500, 1.0, 90_000))
        yield from self._call(call, "Read", {"file_path": path})
        yield self._result(
            call, content, {"type": "text", "file": {"filePath": path, "content": content, "numLines": 80}}
        )

    def _agent(self, call: str) -> Iterator[bytes]:
        """A sub-agent whose words are in the same file, as early versions had it."""
        yield from self._call(call, "Task", {"prompt": self._material.prose(400), "subagent_type": "general-purpose"})
        yield self._framed("user", isSidechain=True, message=_message(self._material.prose(400)))
        progress: Json = {"type": "agent_progress", "message": {"type": "user", "message": _message("Look at it")}}
        yield self._framed("progress", data=progress, toolUseID=call)
        yield self._result(call, [_text(self._material.prose(2000))], {"status": "completed", "totalTokens": 9000})

    def _call(self, call: str, name: str, given: dict[str, Json]) -> Iterator[bytes]:
        yield from self._answer([{"type": "tool_use", "id": call, "name": name, "input": given}])

    def _answer(self, blocks: list[Json]) -> Iterator[bytes]:
        """One block of the model's, in its own record, with the usage repeated."""
        self._message += self._random.random() < 0.6
        usage: Json = {
            "input_tokens": 9,
            "cache_read_input_tokens": 81234,
            "output_tokens": 402,
            "service_tier": "standard",
        }
        message: dict[str, Json] = {
            "id": f"msg_{self._message}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-8",
        }
        yield self._framed("assistant", message={**message, "content": blocks, "usage": usage}, requestId="req_1")

    def _result(self, call: str, content: Json, detail: Json, *, is_error: bool = False) -> bytes:
        block: Json = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error}
        return self._framed("user", message=_message([block]), toolUseResult=detail)

    def _user(self, content: Json) -> bytes:
        return self._framed("user", message=_message(content), permissionMode="default")

    def _snapshot(self) -> Json:
        return {"trackedFileBackups": {self._material.path(): {"version": 2} for _ in range(6)}}

    def _framed(self, kind: str, *, isSidechain: bool = False, **fields: Json) -> bytes:  # noqa: N803 - as in the file
        """A record of the conversation, linked to the one before it."""
        self._now += timedelta(seconds=self._random.randrange(1, 40))
        parent, uuid = self._last, self._material.identifier()
        self._last = parent if isSidechain else uuid
        record = {
            "parentUuid": parent,
            "isSidechain": isSidechain,
            "type": kind,
            **fields,
            "uuid": uuid,
            "timestamp": f"{self._now:%Y-%m-%dT%H:%M:%S}.000Z",
            "userType": "external",
            "entrypoint": "cli",
            "cwd": "/srv/app",
            "sessionId": self._session,
            "version": "2.1.197",
            "gitBranch": "main",
        }
        return msgspec.json.encode(record)

    def _bare(self, kind: str, **fields: Json) -> bytes:
        """A record of bookkeeping."""
        return msgspec.json.encode({"type": kind, **fields, "sessionId": self._session})


def _message(content: Json) -> dict[str, Json]:
    return {"role": "user", "content": content}


def _text(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}
