"""The program as a user starts it: a process of its own, forked from one that has done the imports."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

from skillopt_sleep.cli import main

ROOT = Path(__file__).parents[2]
LENGTH = struct.Struct("!I")


@functools.cache
def _server(_process_id):
    """Start the forking server of this process (`tests.fakes.warm`); it ends with this process."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "tests.fakes.warm", str(theirs.fileno())]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}
        server = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], **quiet)
    atexit.register(lambda: (ours.close(), server.wait()))
    return ours


class Run:
    """A run of the program, with the part of `subprocess.Popen`'s interface that tests use."""

    def __init__(self, arguments, env, path, cwd):
        self.args = ["skillopt-sleep", *arguments]
        self.returncode = None
        (self.stdout, out), (self.stderr, err) = _make_pipe(), _make_pipe()
        self._report, report = socket.socketpair()
        request = json.dumps({"arguments": arguments, "env": env, "path": path, "cwd": cwd}).encode()
        with report, Path(os.devnull).open() as nothing:
            server = _server(os.getpid())
            descriptors = [nothing.fileno(), out, err, report.fileno()]
            socket.send_fds(server, [LENGTH.pack(len(request))], descriptors)
            server.sendall(request)
        os.close(out)
        os.close(err)
        self.pid = self._read(timeout=60)

    def _read(self, timeout):
        """Read the next number the server reports; raise `TimeoutError` when it does not come in time."""
        self._report.settimeout(timeout)
        return LENGTH.unpack(self._report.recv(LENGTH.size))[0]

    def poll(self):
        """Return the exit code, negative for a signal, or None while the run lasts."""
        with contextlib.suppress(BlockingIOError):
            self.wait(timeout=0)
        return self.returncode

    def wait(self, timeout=None):
        """Wait for the end; raise `subprocess.TimeoutExpired` when it does not come in time."""
        if self.returncode is None:
            try:
                self.returncode = os.waitstatus_to_exitcode(self._read(timeout))
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout) from None
        return self.returncode

    def communicate(self, timeout=None):
        """Read both streams to their end and wait; raise `subprocess.TimeoutExpired` when that takes too long."""
        deadline = time.monotonic() + timeout if timeout else None
        with selectors.DefaultSelector() as selector:
            for stream in (self.stdout, self.stderr):
                selector.register(stream, selectors.EVENT_READ)
            read = {self.stdout: bytearray(), self.stderr: bytearray()}
            while selector.get_map():
                ready = selector.select(deadline and max(0, deadline - time.monotonic()))
                if not ready:
                    raise subprocess.TimeoutExpired(self.args, timeout)
                for key, _ in ready:
                    block = os.read(key.fd, 65536)
                    read[key.fileobj] += block
                    if not block:
                        selector.unregister(key.fileobj)
        self.wait(deadline and max(0.01, deadline - time.monotonic()))
        return read[self.stdout].decode(), read[self.stderr].decode()

    def send_signal(self, number):
        """Send a signal, unless the run has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self):
        """Kill the run, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def close(self):
        """Kill the run if it still lasts, and close its streams."""
        self.kill()
        self.wait()
        for stream in (self._report, self.stdout, self.stderr):
            stream.close()


def _make_pipe():
    """A text file to read from, and the descriptor to write to."""
    reader, writer = os.pipe()
    return os.fdopen(reader, encoding="utf-8"), writer


@contextlib.contextmanager
def started(*arguments, path=(), cwd=None, **environment):
    """Start the program; at the end of the block it is killed if it still runs.

    The folders of ``path`` are put on its ``sys.path``; ``environment`` is added to that of this process.
    """
    path = [*map(str, path), str(ROOT)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path), "COLUMNS": "100"} | environment
    run = Run([*map(str, arguments)], env, path, str(cwd or os.environ["HOME"]))
    try:
        yield run
    finally:
        run.close()


def run(*arguments, path=(), cwd=None, **environment):
    """Run the program to its end."""
    with started(*arguments, path=path, cwd=cwd, **environment) as process:
        stdout, stderr = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def run_here(*arguments, cwd=None, **environment):
    """Run the program to its end in this process, which is quicker, for tests that need no other process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(cwd or os.environ["HOME"]),
        mock.patch.dict(os.environ, {"COLUMNS": "100"} | environment),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main([*map(str, arguments)])
        except SystemExit as end:
            code = end.code
    return subprocess.CompletedProcess(["skillopt-sleep", *arguments], code, out.getvalue(), err.getvalue())
