"""Runs whole nights against endpoints that are hostile or odd: exit code, requests, tokens booked, peak memory.

Every endpoint is a server on this machine. A night is a process of its own with small caps, over the same made-up
sessions; ``requests`` are those that arrived, also at a host that an endpoint points to.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.model.call import Prompt
from tests.fakes.home import make_person

CALLS, TOKENS = 12, 60_000
"""Caps of every night."""
MOST_MB = 250.0
MINUTES = 3
"""A night that takes longer counts as hanging."""
DEEP = 200_000
MB = 2**20


LAUNCH = """
import os, sys
_, status, usage = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
with open(sys.argv[1], "w") as file:
    file.write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"""
"""A small process that starts a night, because Linux counts the memory of whoever starts a process as its peak."""


class Behaviour(Struct, frozen=True, kw_only=True):
    """How an endpoint answers; ``body`` is repeated until ``size`` bytes are sent."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    size: int = 0
    pause: float = 0.0
    """Seconds between two bytes of the body."""
    hang_up: bool = False
    """Whether the connection closes before a status line."""
    usage: str = ""
    """Raw JSON of the usage with which the simulated agent answers well; "" for the body as it stands."""


class Row(Struct, frozen=True, kw_only=True):
    """One night."""

    endpoint: str
    exit: int
    requests: int
    elsewhere: int
    """Requests that another host got."""
    calls: int
    tokens: int
    usd: float
    peak_mb: float
    seconds: float
    traceback: bool


def answer(content: str = '"hi"', usage: str = '{"prompt_tokens": 9, "completion_tokens": 1}') -> bytes:
    """Return a chat completion of raw JSON values."""
    return f'{{"choices": [{{"message": {{"role": "assistant", "content": {content}}}}}], "usage": {usage}}}'.encode()


def used(tokens: str) -> Behaviour:
    """Answer well, and claim these token counts."""
    return Behaviour(usage=f'{{"prompt_tokens": {tokens}, "completion_tokens": {tokens}}}')


def moved(status: int, location: str = "ELSEWHERE/v1/chat/completions") -> Behaviour:
    """Point to another host."""
    return Behaviour(status=status, headers={"location": location})


ENDPOINTS: dict[str, Behaviour] = {
    "answers, but no JSON that was asked for": Behaviour(body=answer()),
    "redirects with 307": moved(307),
    "redirects with 301": moved(301),
    "redirects to itself without end": moved(308, "SELF/v1/chat/completions"),
    "redirects to a file": moved(302, "file:///etc/passwd"),
    "redirects to nowhere": moved(303, ""),
    "usage is negative": used("-100000"),
    "usage is 10**30": used("1" + "0" * 30),
    "usage is infinite": used("1e999"),
    "usage is a string": used('"seven"'),
    "usage is null": Behaviour(usage="null"),
    "usage is deeply nested": Behaviour(usage="[" * DEEP + "]" * DEEP),
    "usage has 5,000 digits": used("9" * 5000),
    "content in parts": Behaviour(
        body=answer(content='[{"type": "text", "text": "hi"}, {"type": "text", "text": "!"}]')
    ),
    "content is half a character": Behaviour(body=answer(content=r'"\ud83d"')),
    "content is null": Behaviour(body=answer(content="null")),
    "content is a number": Behaviour(body=answer(content="7")),
    "body 200,000 deep": Behaviour(body=b"[" * DEEP),
    "body of 1 GB": Behaviour(body=b"x" * 65_536, size=1024 * MB),
    "body of 1 GB of blanks": Behaviour(body=b" " * 65_536, size=1024 * MB),
    "body is empty": Behaviour(),
    "body is binary": Behaviour(body=bytes(range(256)) * 40),
    "body is HTML": Behaviour(body=b"<html><body>Sign in to the hotel network</body></html>"),
    "error body of 1 GB": Behaviour(status=500, body=b"x" * 65_536, size=1024 * MB),
    "headers of 1 MB": Behaviour(headers={"x-long": "y" * MB}, body=answer()),
    "claims gzip and sends none": Behaviour(headers={"content-encoding": "gzip"}, body=answer()),
    "content length is wrong": Behaviour(headers={"content-length": "100000"}, body=answer()),
    "hangs up": Behaviour(hang_up=True),
    "a byte a second": Behaviour(body=answer(), pause=1.0),
    "401": Behaviour(status=401, body=b'{"error": {"message": "invalid key", "code": "invalid_api_key"}}'),
    "402": Behaviour(status=402, body=b'{"error": {"message": "no credit", "code": "insufficient_quota"}}'),
    "404": Behaviour(status=404, body=b'{"error": {"message": "no such model", "code": "model_not_found"}}'),
    "429 that says never": Behaviour(status=429, headers={"retry-after": "9" * 400}, body=b"{}"),
    "500": Behaviour(status=500, body=b"oops"),
    "999": Behaviour(status=999, body=b"{}"),
    "200 with an error inside": Behaviour(body=b'{"error": {"message": "overloaded", "type": "overloaded_error"}}'),
}


class Endpoint(ThreadingHTTPServer):
    """A server that answers every request in one way and counts them."""

    daemon_threads = True

    def __init__(self, behaviour: Behaviour, world: str = "", elsewhere: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.agent = SimulatedBackend(world=world)
        self.behaviour = behaviour
        self.elsewhere = elsewhere
        self.requests = 0
        self.ended = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients hang up on purpose."""


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        server, behaviour = self.server, self.server.behaviour
        server.requests += 1
        request = self.rfile.read(int(self.headers.get("content-length", 0)))
        if behaviour.hang_up:
            self.connection.close()
            return
        if behaviour.usage:
            text = self._ask_agent(json.loads(request))
            behaviour = Behaviour(body=answer(json.dumps(text), behaviour.usage))
        self.send_response(behaviour.status)
        for name, value in behaviour.headers.items():
            self.send_header(name, value.replace("ELSEWHERE", server.elsewhere).replace("SELF", server.url))
        self.send_header("connection", "close")
        self.end_headers()
        for part in (
            [behaviour.body[n : n + 1] for n in range(len(behaviour.body))] if behaviour.pause else [behaviour.body]
        ):
            if server.ended:
                return
            self.wfile.write(part)
            self.wfile.flush()
            time.sleep(behaviour.pause)
        for _ in range(behaviour.size // max(1, len(behaviour.body))):
            if server.ended:
                return
            self.wfile.write(behaviour.body)

    def _ask_agent(self, request: dict[str, Any]) -> str:
        texts = {message["role"]: message["content"] for message in request["messages"]}
        schema = request.get("response_format", {}).get("json_schema", {}).get("schema")
        prompt = Prompt(system=texts.get("system", ""), user=texts["user"], schema=schema)
        return self.server.agent.complete(prompt).text

    def do_GET(self) -> None:
        """Answer the probe of an endpoint as a good one would: only a night's calls meet the behaviour."""
        self.send_response(404)
        self.send_header("connection", "close")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def run_night(name: str, folder: Path) -> Row:
    """Run one night against the endpoint of this name."""
    person = make_person(folder, rules=2, tasks_per_rule=4)
    other = _serve(Endpoint(Behaviour(body=answer())))
    endpoint = _serve(Endpoint(ENDPOINTS[name], str(folder / "world.json"), other.url))
    options = (
        "--backend=openai", "--share-with=127.0.0.1", "--target-model=m", "--optimizer-model=m",
        f"--max-calls={CALLS}", f"--max-tokens={TOKENS}", "--max-minutes=2",
        f"--set=backends.openai.base_url={endpoint.url}/v1", "--set=backends.openai.timeout=10",
    )  # fmt: skip
    night = [sys.executable, "-P", "-m", "skillopt_sleep", "run", *person.places, *options]
    peak = folder / "peak"
    command = [sys.executable, "-S", "-c", LAUNCH, str(peak), *night]
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])}
    started = time.monotonic()
    with (folder / "stderr").open("wb") as stderr:
        child = subprocess.Popen(command, env=env, cwd=folder, stdout=stderr, stderr=stderr, start_new_session=True)
        timer = threading.Timer(MINUTES * 60, os.killpg, (child.pid, signal.SIGKILL))
        timer.start()
        child.wait()
        timer.cancel()
    for server in (endpoint, other):
        server.ended = True
        server.shutdown()
        server.server_close()
    report = _read_report(person.project)
    return Row(
        endpoint=name,
        exit=child.returncode,
        requests=endpoint.requests,
        elsewhere=other.requests,
        calls=int(report.get("calls", 0)),
        tokens=int(report.get("tokens", 0)),
        usd=report.get("usd", 0.0),
        peak_mb=int(peak.read_text()) / 1e3 if peak.exists() else 0.0,
        seconds=round(time.monotonic() - started, 1),
        traceback="Traceback" in (folder / "stderr").read_text(errors="replace"),
    )


def is_good(row: Row) -> bool:
    """Tell whether a night kept its promises: a known exit code, caps, memory, nothing sent elsewhere."""
    return (
        row.exit in {0, 4, 5}
        and not row.traceback
        and row.elsewhere == 0
        and row.peak_mb <= MOST_MB
        and row.requests <= CALLS
        and row.calls <= CALLS
        and 0 <= row.tokens <= TOKENS
    )


def _serve(server: Endpoint) -> Endpoint:
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


def _read_report(project: Path) -> dict[str, float]:
    found = sorted(project.glob(".skillopt-sleep/nights/*/diagnostics.json"))
    spend: dict[str, float] = json.loads(found[-1].read_text())["spend"] if found else {}
    return spend


def main(argv: Sequence[str], show: Callable[[str], None] = print) -> int:
    """Run the benchmark and print its table, or JSON; 1 when a night broke a promise."""
    parser = argparse.ArgumentParser(prog="endpoints", description=__doc__)
    parser.add_argument("--only", default="", help="endpoints whose name holds this text")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    rows = []
    if not given.json:
        show(f"{'endpoint':42} exit requests elsewhere calls tokens peak MB seconds")
    for name in (name for name in ENDPOINTS if given.only in name):
        with tempfile.TemporaryDirectory() as folder:
            row = run_night(name, Path(folder) / "person")
        rows.append(row)
        if not given.json:
            verdict = "" if is_good(row) else "  BROKEN"
            show(
                f"{row.endpoint:42} {row.exit:4} {row.requests:8} {row.elsewhere:9} {row.calls:5} {row.tokens:6}"
                f" {row.peak_mb:7.0f} {row.seconds:7.1f}{verdict}"
            )
    if given.json:
        show(msgspec.json.encode(rows).decode())
    return 0 if all(map(is_good, rows)) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
