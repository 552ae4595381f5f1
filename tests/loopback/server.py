"""The server: one port of this machine that answers as a model service, and is the proxy for everything else."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import re
import shutil
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from tests.loopback.asked import READERS, Asked
from tests.loopback.faults import FAULTS, Fault
from tests.loopback.minds import Mind, Said, follow
from tests.loopback.speech import FAILED, STREAMED, WHOLE

ENDS = {"/messages": "messages", "/responses": "responses", "/chat/completions": "chat"}
MODELS = ("claude-loopback", "gpt-loopback")
WITHOUT_WORDS = {"empty": Said(), "refusal": Said(text="I will not.", stop="refusal")}
FAULT = re.compile(r"\[\[fault ([\w-]+)\]\]")
"""A fault that the user's words ask for, instead of one that the URL names."""
KEY = "sk-loopback-0123456789"

PATH = os.pathsep.join(dict.fromkeys([*(str(Path(n).parent) for n in [shutil.which("node")] if n), "/usr/bin", "/bin"]))
"""Where Node.js is, which some CLIs need, and the system's own."""
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
}


def chatgpt_login(home: Path, lifetime: float = 86_400) -> Path:
    """Log a Codex home in to a ChatGPT account, with tokens that are good for so many seconds."""
    path = home / ".codex" / "auth.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    tokens = {"refresh_token": "renew-loopback", "account_id": "acc-loopback"}
    tokens |= {"id_token": jwt(lifetime), "access_token": jwt(lifetime)}
    renewed = time.gmtime(time.time() - max(0, 86_400 - lifetime))
    login = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens}
    path.write_text(json.dumps(login | {"last_refresh": time.strftime("%Y-%m-%dT%H:%M:%SZ", renewed)}))
    return path


def jwt(lifetime: float = 86_400) -> str:
    """An unsigned token of a ChatGPT account that is good for so many seconds."""

    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    account = {"chatgpt_plan_type": "plus", "chatgpt_user_id": "user-loopback", "chatgpt_account_id": "acc-loopback"}
    claims = {"exp": int(time.time() + lifetime), "email": "a@example.com", "https://api.openai.com/auth": account}
    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}.bm9uZQ"


class Loopback:
    """One server, from ``with`` to its end. ``mind`` says what the model answers; see ``minds``."""

    def __init__(
        self, mind: Mind = follow, *, port: int = 0, on_request: Callable[[Asked], None] | None = None
    ) -> None:
        self.mind = mind
        self.requests: list[Asked] = []
        self.outside: list[str] = []
        self.other: list[str] = []
        self.closing = threading.Event()
        self.seen: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.on_request = on_request
        self._port = port
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.loopback = self
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None
        return self._server.server_address[1]

    @property
    def root(self) -> str:
        """The address of the server itself."""
        return f"http://127.0.0.1:{self.port}"

    def url(self, fault: str = "") -> str:
        """The base URL for Claude Code; for the OpenAI APIs, ``/v1`` comes behind it."""
        return f"{self.root}/fault/{fault}" if fault else self.root

    def environment(self, home: Path, fault: str = "", **more: str) -> dict[str, str]:
        """A whole environment for an agent CLI: a key, a home of its own, and no way out but through this server."""
        return {
            "PATH": PATH,
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.url(fault),
            "CODEX_API_KEY": KEY,
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{self.url(fault)}/v1",
            "HTTP_PROXY": self.root,
            "HTTPS_PROXY": self.root,
            "http_proxy": self.root,
            "https_proxy": self.root,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            **QUIET,
            **more,
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    loopback: Loopback

    def handle_error(self, *_: object) -> None:
        """A client that goes away in the middle is part of many tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_CONNECT(self) -> None:
        """Somebody wants to leave this machine: noted and refused."""
        self.server.loopback.outside.append(self.path)
        self.send_error(403)
        self.close_connection = True

    def do_HEAD(self) -> None:
        """Is there anybody?"""
        self._note()
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """The list of models, and nothing else."""
        if self._note():
            return
        if self.path.partition("?")[0].endswith("/models"):
            models = [{"id": each, "object": "model", "type": "model", "display_name": each} for each in MODELS]
            self._json(200, {"object": "list", "data": models, "models": [], "has_more": False})
        else:
            self._json(426 if self.headers.get("upgrade") else 404, {"error": {"message": "there is no such thing"}})

    def do_POST(self) -> None:
        """A request to the model, or something beside it."""
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("transfer-encoding") == "chunked":
            content = b"".join(self._chunks())
        if self.headers.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        path = self.path.partition("?")[0]
        fault, _, rest = path.removeprefix("/fault/").partition("/") if path.startswith("/fault/") else ("", "", path)
        api = next((api for end, api in ENDS.items() if f"/{rest}".endswith(end)), "")
        if not api:
            self._beside(path, content, fault)
            return
        body = json.loads(content)
        asked = Asked(
            api=api,
            fault=fault,
            path=self.path,
            at=time.time(),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
            **READERS[api](body),
        )
        loopback = self.server.loopback
        with loopback.lock:
            loopback.requests.append(asked)
            loopback.seen[fault] += 1
            number = loopback.seen[fault]
        if loopback.on_request:
            loopback.on_request(asked)
        self._answer(asked, number)

    def _beside(self, path: str, content: bytes, fault: str) -> None:
        """Counting tokens, and the renewal of a login, which a fault of that name refuses."""
        if self._note():
            return
        if path.endswith("/count_tokens"):
            self._json(200, {"input_tokens": max(1, len(content) // 4)})
        elif path.endswith("/oauth/token") and fault in FAULTS:
            self._json(FAULTS[fault].status, FAULTS[fault].body(anthropic=False))
        elif path.endswith("/oauth/token"):
            self._json(200, {"id_token": jwt(), "access_token": jwt(), "refresh_token": "renewed-loopback"})
        else:
            self._json(200, {})

    def _note(self) -> bool:
        """Note a request that is none to the model; whether it was meant for another host, and has been refused."""
        loopback = self.server.loopback
        if self.path.startswith("http") and not self.path.startswith(loopback.root):
            loopback.outside.append(self.path)
            self.send_error(403)
            return True
        loopback.other.append(f"{self.command} {self.path}")
        return False

    def _answer(self, asked: Asked, number: int) -> None:
        fault, loopback = asked.fault, self.server.loopback
        if found := FAULT.search(asked.user):
            fault = found[1]
        fault = fault if asked.key else "401"
        if found := re.fullmatch(r"flaky-(\d+)", fault):
            fault = "529" if number <= int(found[1]) else ""
        if found := re.fullmatch(r"slow-(\d+)", fault):
            loopback.closing.wait(int(found[1]) / 10)
        if fault == "hang":
            loopback.closing.wait()
        if fault in {"hang", "reset", "drop"}:
            self._vanish(reset=fault == "reset")
        elif fault == "garbage":
            self._send(200, b"<html>a hotel wants you to log in</html>", {"content-type": "text/html"})
        elif fault in FAULTS and not FAULTS[fault].in_stream:
            error = FAULTS[fault]
            self._json(error.status, error.body(anthropic=asked.api == "messages"), error.headers)
        else:
            said = WITHOUT_WORDS.get(fault) or loopback.mind(asked)
            if fault == "max-tokens":
                said = Said(text=said.text[:5], stop="length")
            self._speak(asked, said, fault)

    def _speak(self, asked: Asked, said: Said, fault: str) -> None:
        broken: Fault | None = FAULTS.get(fault)
        if broken is not None and not asked.body.get("stream"):
            self._json(500, broken.body(anthropic=asked.api == "messages"))
            return
        if broken is None and fault not in {"stall", "cut"} and not asked.body.get("stream"):
            self._json(200, WHOLE[asked.api](asked, said))
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if asked.body.get("stream") else "application/json")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        events = STREAMED[asked.api](asked, said)
        self._event(next(events))
        if fault == "stall":
            self.server.loopback.closing.wait()
        if fault in {"stall", "cut"}:
            self._vanish(reset=fault == "cut")
            return
        if broken is not None:
            events = FAILED[asked.api](broken.body(anthropic=asked.api == "messages"))
        for event in events:
            self._event(event)
        if asked.api == "chat":
            self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, event: tuple[str, dict[str, object]]) -> None:
        name, data = event
        self.wfile.write(
            (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"
        )
        self.wfile.flush()

    def _json(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "request-id": "req_loopback", "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _chunks(self):
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _vanish(self, *, reset: bool) -> None:
        """End the connection without a word; with ``reset`` as a service does that falls over."""
        self.close_connection = True
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.rfile.close()
            self.connection.shutdown(socket.SHUT_RDWR) if not reset else self.connection.close()
