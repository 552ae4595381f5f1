"""A home that somebody lives in: hooks, an MCP server, a plugin, memory, a skill of the candidate's name, a past.

Whatever runs of it leaves a file, and whatever is read of it says so in words that no prompt of ours has.
"""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

from tests.agents.working import LEARNED
from tests.loopback import chatgpt_login

FOREIGN = ("OWN-MEMORY", "OWN-SKILL", "OWN-PLUGIN", "own_mcp")
"""Words of the user's own instructions; none of them is ever to reach a replay."""

SERVER = """
import json, pathlib, sys
pathlib.Path({mark!r}).touch()
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        result = dict(protocolVersion="2025-06-18", capabilities=dict(tools=dict()))
        result["serverInfo"] = dict(name="own", version="1")
    elif asked.get("method") == "tools/list":
        result = dict(tools=[dict(name="own_mcp_tool", description="OWN-MCP", inputSchema=dict(type="object"))])
    else:
        continue
    print(json.dumps(dict(jsonrpc="2.0", id=asked["id"], result=result)), flush=True)
"""


def live_in(home: Path, marks: Path, clis, env, *, key="") -> None:
    """Furnish a home for both CLIs; ``key``: Claude's login is a helper of the settings that says it."""
    marks.mkdir()
    server = home / "server.py"
    server.write_text(SERVER.format(mark=str(marks / "mcp")))
    _claude(home, marks, clis["claude"], env, server=server, key=key)
    _codex(home, marks, clis["codex"], env, server=server)
    for mark in marks.iterdir():  # installing a plugin ends a session too
        mark.unlink()


def _skill(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {text}\n---\n\n- {text}\n")


def _hook(mark: Path) -> dict:
    return {"hooks": [{"type": "command", "command": f"touch {mark}"}]}


def _plugin(folder: Path, marks: Path, cli: str) -> Path:
    """A marketplace with one plugin: a skill and a hook."""
    plugin = folder / "plugins" / "own"
    _skill(plugin / "skills", "own-plugin", "OWN-PLUGIN")
    (plugin / "hooks").mkdir()
    hooks = {"hooks": {"SessionStart": [_hook(marks / f"plugin-{cli}")]}}
    (plugin / "hooks" / "hooks.json").write_text(json.dumps(hooks))
    about = {"name": "own", "version": "1.0.0", "description": "own", "author": {"name": "me"}}
    for place in (".claude-plugin", ".codex-plugin"):
        (plugin / place).mkdir()
        extra = {"skills": "./skills/", "hooks": "./hooks/hooks.json"} if "codex" in place else {}
        (plugin / place / "plugin.json").write_text(json.dumps(about | extra))
    market = {"name": "market", "owner": {"name": "me"}, "plugins": [{"name": "own", "source": "./plugins/own"}]}
    (folder / ".claude-plugin").mkdir()
    (folder / ".claude-plugin" / "marketplace.json").write_text(json.dumps(market))
    source = {"source": "local", "path": "./plugins/own"}
    policy = {"installation": "AVAILABLE", "authentication": "ON_INSTALL"}
    entry = {"name": "own", "source": source, "policy": policy, "category": "Productivity"}
    (folder / ".agents" / "plugins").mkdir(parents=True)
    listed = {"name": "market", "interface": {"displayName": "Market"}, "plugins": [entry]}
    (folder / ".agents" / "plugins" / "marketplace.json").write_text(json.dumps(listed))
    return folder


def _claude(home: Path, marks: Path, cli, env, *, server: Path, key: str) -> None:
    own = home / ".claude"
    _skill(own / "skills", LEARNED, "OWN-SKILL")
    (own / "CLAUDE.md").write_text("OWN-MEMORY of claude\n")
    (own / "sessions").mkdir(mode=0o700)
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "SessionEnd")
    settings = {"hooks": {event: [_hook(marks / f"claude-{event}")] for event in events}}
    if key:
        helper = home / "key.sh"
        helper.write_text(f"#!/bin/sh\necho {key}\n")
        helper.chmod(helper.stat().st_mode | stat.S_IXUSR)
        settings["apiKeyHelper"] = str(helper)
    (own / "settings.json").write_text(json.dumps(settings))
    servers = {"own": {"type": "stdio", "command": "/usr/bin/python3", "args": [str(server)]}}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers, "hasCompletedOnboarding": True}))
    market = _plugin(home / "market-claude", marks, "claude")
    _run(cli, env, "plugin", "marketplace", "add", str(market))
    _run(cli, env, "plugin", "install", "own@market")


def _codex(home: Path, marks: Path, cli, env, *, server: Path) -> None:
    own = home / ".codex"
    own.mkdir(exist_ok=True)
    chatgpt_login(home)
    _skill(own / "skills", LEARNED, "OWN-SKILL")
    _skill(home / ".agents" / "skills", LEARNED, "OWN-SKILL")
    (own / "AGENTS.md").write_text("OWN-MEMORY of codex\n")
    (own / "config.toml").write_text(
        f'notify = ["touch", "{marks}/codex-notify"]\n'
        f'[mcp_servers.own]\ncommand = "/usr/bin/python3"\nargs = ["{server}"]\n'
    )
    market = _plugin(home / "market-codex", marks, "codex")
    _run(cli, env, "plugin", "marketplace", "add", str(market))
    _run(cli, env, "plugin", "add", "own@market")


def _run(cli, env, *arguments) -> str:
    done = subprocess.run(
        [cli.command, *arguments],
        env=env,
        cwd=env["HOME"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def ask(cli, env, cwd, *arguments) -> str:
    """One plain headless run in that home, as the user would have it: whatever would run, runs."""
    done = subprocess.run(
        [cli.command, *arguments],
        env=env,
        cwd=cwd,
        input="hello",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout
