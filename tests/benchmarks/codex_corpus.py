"""A made-up Codex rollout: the records of a thread in their true shapes, sizes and proportions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from skillopt_sleep.model import Json
from skillopt_sleep.model.session import Command
from tests.benchmarks.material import CORRECTED, Material

FIRST_DAY = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)


class CodexScript:
    """Writes one rollout; ``prompts`` and ``commands`` hold what a reader must find in it."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._random = material.random
        self._thread = material.identifier()
        self._began = self._now = FIRST_DAY + timedelta(minutes=self._random.randrange(10**5))
        self.prompts: list[str] = []
        self.commands: list[Command] = []

    @property
    def name(self) -> str:
        """The path below the home."""
        return f"sessions/{self._began:%Y/%m/%d}/rollout-{self._began:%Y-%m-%dT%H-%M-%S}-{self._thread}.jsonl"

    def lines(self) -> Iterator[bytes]:
        """The whole file, line by line."""
        git: Json = {"branch": "main", "commit_hash": "8d3c1f0"}
        about: dict[str, Json] = {
            "id": self._thread,
            "cwd": "/srv/app",
            "originator": "codex-tui",
            "source": "cli",
            "git": git,
        }
        yield self._record("session_meta", **about, base_instructions={"text": self._material.prose(12_000)})
        yield self._item("message", role="developer", content=_input(self._material.prose(4000)))
        yield self._item("message", role="user", content=_input("<environment_context>\n  <cwd>/srv/app</cwd>\n"))
        for _ in range(self._random.randint(1, 20)):
            yield from self._turn()

    def _turn(self) -> Iterator[bytes]:
        prompt = self._material.correction() if self.prompts and self._random.random() < CORRECTED else None
        prompt = prompt or self._material.request()
        self.prompts.append(prompt)
        wrapped = f"# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\n{prompt}\n"
        sent = wrapped if self._random.random() < 0.2 else prompt
        yield self._event("task_started", model_context_window=258_400)
        yield self._record("turn_context", cwd="/srv/app", model="gpt-5.5", summary="auto", effort="high")
        yield self._item("message", role="user", content=_input(sent))
        yield self._event("user_message", message=sent, images=[], local_images=[], text_elements=[])
        for _ in range(self._random.randint(1, 14)):
            yield from self._step()
        answer = self._material.prose(self._material.size(900, 0.8, 9000))
        yield self._event("agent_message", message=answer, phase="find_final_answer")
        yield self._item("message", role="assistant", content=[{"type": "output_text", "text": answer}])
        yield self._event("task_complete", last_agent_message=answer)

    def _step(self) -> Iterator[bytes]:
        yield self._item("reasoning", summary=[], content=None, encrypted_content=self._material.opaque(800))
        call = f"call_{self._random.getrandbits(96):024x}"
        if self._random.random() < 0.15:
            file = f"*** Update File: {self._material.path()}"
            patch = f"*** Begin Patch\n{file}\n@@\n+{self._material.code(900)}\n*** End Patch"
            yield self._item("custom_tool_call", name="apply_patch", call_id=call, input=patch, status="completed")
            yield self._item(
                "custom_tool_call_output", call_id=call, output='{"output":"Done","metadata":{"exit_code":0}}'
            )
        else:
            line = f"make {self._material.path()}"
            status = 0 if self._random.random() < 0.9 else 2
            self.commands.append(Command(line=line, exit_status=status))
            given = msgspec.json.encode({"cmd": line, "workdir": "/srv/app", "max_output_tokens": 4000}).decode()
            output = self._material.log(self._material.size(1200, 1.3, 60_000))
            yield self._item("function_call", name="exec_command", arguments=given, call_id=call)
            head = f"Chunk ID: 24fda8\nWall time: 0.1000 seconds\nProcess exited with code {status}\nOutput:\n"
            yield self._item("function_call_output", call_id=call, output=head + output)
        usage: Json = {
            "input_tokens": 12_091,
            "cached_input_tokens": 10_880,
            "output_tokens": 182,
            "total_tokens": 12_273,
        }
        yield self._event("token_count", info={"total_token_usage": usage, "last_token_usage": usage})

    def _item(self, kind: str, **fields: Json) -> bytes:
        return self._record("response_item", type=kind, **fields)

    def _event(self, kind: str, **fields: Json) -> bytes:
        return self._record("event_msg", type=kind, **fields)

    def _record(self, record: str, /, **payload: Json) -> bytes:
        self._now += timedelta(seconds=self._random.randrange(1, 40))
        stamp = f"{self._now:%Y-%m-%dT%H:%M:%S}.000Z"
        return msgspec.json.encode({"timestamp": stamp, "type": record, "payload": payload})


def _input(text: str) -> Json:
    return [{"type": "input_text", "text": text}]
