"""Session files of both agents, invented: a request, a second one that goes wrong, a correction, and much after it.

Every record after the fault holds ``AFTER``, the side branches hold ``ASIDE``, what describes the user's setup of that
day holds ``SETUP``, and the correction itself says ``CORRECTION``.
"""

from __future__ import annotations

import json
from pathlib import Path

AFTER, ASIDE, SETUP, CORRECTION = "AFTER-THE-CUT", "LEFT-ASIDE", "SETUP-OF-THAT-DAY", "cut a branch first"
CWD = "/home/ada/src/rockets"
REQUEST = "Commit the cache."
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def uuid(number) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def write_lines(path, records) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


class Claude:
    """A session of Claude Code, written record by record; each one follows the last unless ``after`` says otherwise."""

    def __init__(self) -> None:
        self.records: list[dict] = []
        self.last: str | None = None

    def add(self, kind, *, after="", side=False, **fields) -> str:
        name = uuid(len(self.records) + 1)
        common = {
            "parentUuid": after or self.last,
            "isSidechain": side,
            "uuid": name,
            "timestamp": f"2026-03-02T10:{len(self.records):02}:00.000Z",
            "cwd": CWD,
            "sessionId": "11111111-2222-4333-8444-555555555555",
            "version": "2.1.150",
            "gitBranch": "cache",
            "userType": "external",
        }
        self.records.append({"type": kind, **common, **fields})
        if not side:
            self.last = name
        return name

    def typed(self, words, **more) -> str:
        return self.add("user", message={"role": "user", "content": words}, **more)

    def says(self, message, *blocks, **more) -> str:
        body = {"id": message, "type": "message", "role": "assistant", "model": "claude-x", "content": list(blocks)}
        return self.add("assistant", message=body, **more)

    def result(self, call, words, **more) -> str:
        block = {"type": "tool_result", "tool_use_id": call, "content": words}
        return self.add("user", message={"role": "user", "content": [block]}, toolUseResult={"stdout": AFTER}, **more)

    def note(self, kind, **fields) -> None:
        """A line that is no record of the conversation."""
        self.records.append({"type": kind, **fields})


def text(words) -> dict:
    return {"type": "text", "text": words}


def call(name, tool, **given) -> dict:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def record_claude(path: Path) -> dict[str, str]:
    """Write the session; where it is: ``path``, and the records of ``request`` and ``fault``."""
    made = Claude()
    made.note("mode", mode="normal")
    first = made.typed("Add a cache to the loader.")
    made.add("attachment", attachment={"type": "skill_listing", "content": f"- old: {SETUP}"})
    made.says("m1", {"type": "thinking", "thinking": "I look around.", "signature": "c2ln"})
    one = made.says("m1", call("t1", "Read", file_path=f"{CWD}/loader.py"))
    two = made.says("m1", call("t2", "Bash", command=f"ls {CWD} {CWD}-old"))
    made.result("t1", "def load(): ...", after=one)
    made.result("t2", "loader.py", after=two)  # the chain goes on from here, so the first result is beside it
    made.says("m2", call("t3", "Edit", file_path=f"{CWD}/loader.py", old_string="...", new_string="cached()"))
    made.result("t3", "The file was updated.")
    done = made.says("m3", text("The loader has a cache."))
    made.typed(f"Explain caches, {ASIDE}", after=done)
    made.says("m4", text(ASIDE))
    made.says("s1", text(ASIDE), side=True, after=first)
    request = made.typed(REQUEST, after=done)
    made.note("file-history-snapshot", snapshot={"later": AFTER})
    made.says("m5", call("t4", "Bash", command="git status --short"))
    made.result("t4", " M loader.py")
    made.says("m6", {"type": "thinking", "thinking": f"I commit at once. {AFTER}", "signature": "c2ln"})
    fault = made.says("m6", call("t5", "Bash", command=f"git commit -am cache # {AFTER}"))
    made.result("t5", f"[main 1] {AFTER}")
    made.typed(f"No, {CORRECTION}. {AFTER}")
    made.says("m7", call("t6", "Bash", command=f"git switch -c cache # {AFTER}"))
    made.result("t6", AFTER)
    made.note("last-prompt", lastPrompt=CORRECTION, leafUuid=made.last)
    return {"path": write_lines(path, made.records), "request": request, "fault": fault}


def item(kind, **fields) -> dict:
    return {"timestamp": "2026-03-02T10:00:00.000Z", "type": "response_item", "payload": {"type": kind, **fields}}


def event(kind, **fields) -> dict:
    return {"timestamp": "2026-03-02T10:00:00.000Z", "type": "event_msg", "payload": {"type": kind, **fields}}


def said(role, words) -> dict:
    part = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": part, "text": words}])


def ran(name, command) -> dict:
    return item("function_call", name="exec_command", call_id=name, arguments=json.dumps({"cmd": command}))


def came(name, words) -> dict:
    return item("function_call_output", call_id=name, output=f"Process exited with code 0\nOutput:\n{words}")


def asked(words) -> list[dict]:
    """The start of a turn as Codex writes it; the prompt is its last line but one."""
    return [
        event("task_started", turn_id="t"),
        said("developer", f"<permissions instructions>danger-full-access {SETUP}</permissions instructions>"),
        said("user", f"<environment_context><cwd>{CWD}</cwd>{SETUP}</environment_context>"),
        {"type": "turn_context", "payload": {"cwd": CWD, "sandbox_policy": {"type": SETUP}}},
        said("user", words),
        event("user_message", message=words),
    ]


def record_codex(path: Path) -> dict[str, str]:
    """Write the rollout; where it is: ``path``, and the lines of ``request`` and ``fault``."""
    patch = f"*** Begin Patch\n*** Update File: {CWD}/loader.py\n@@\n-...\n+cached()\n*** End Patch"
    meta = {
        "id": "019d7739-95cb-79e3-9de4-3cbe15400b87",
        "timestamp": "2026-03-02T10:00:00.000Z",
        "cwd": CWD,
        "originator": "codex-tui",
        "cli_version": "0.130.0",
        "source": "cli",
        "model_provider": "azure",
        "dynamic_tools": [{"name": SETUP}],
        "git": {"commit_hash": "0" * 40, "branch": SETUP},
    }
    records = [
        {"timestamp": "2026-03-02T10:00:00.000Z", "type": "session_meta", "payload": meta},
        said("user", f"# AGENTS.md instructions for {CWD}\n\n<INSTRUCTIONS>\n{SETUP}\n</INSTRUCTIONS>"),
        *asked("Add a cache to the loader."),
        item("reasoning", summary=[], content=None),
        said("assistant", "I look around."),
        ran("t1", f"cat {CWD}/loader.py"),
        ran("t2", f"ls {CWD} {CWD}-old"),
        came("t2", "loader.py"),
        came("t1", "def load(): ..."),
        item("custom_tool_call", name="apply_patch", call_id="t3", input=patch),
        item("custom_tool_call_output", call_id="t3", output="Done"),
        said("assistant", "The loader has a cache."),
        event("task_complete", last_agent_message="The loader has a cache."),
        *asked(REQUEST),
        said("assistant", "I look at the state first."),
        ran("t4", "git status --short"),
        came("t4", " M loader.py"),
        item("reasoning", summary=[{"type": "summary_text", "text": AFTER}], encrypted_content="c2Vj"),
        said("assistant", f"I commit at once. {AFTER}"),
        ran("t5", f"git commit -am cache # {AFTER}"),
        came("t5", f"[main 1] {AFTER}"),
        *asked(f"No, {CORRECTION}. {AFTER}"),
        ran("t6", f"git switch -c cache # {AFTER}"),
        came("t6", AFTER),
    ]
    lines = {json.dumps(record): str(number) for number, record in enumerate(records, start=1)}
    request = lines[json.dumps(event("user_message", message=REQUEST))]
    fault = lines[json.dumps(ran("t5", f"git commit -am cache # {AFTER}"))]
    return {"path": write_lines(path, records), "request": request, "fault": fault}


RECORD = {"claude": record_claude, "codex": record_codex}
