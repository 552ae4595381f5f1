"""A process that has imported the program and forks for every run a test starts.

A fresh interpreter spends half a second on imports before a night begins. Here the imports are paid for once; each
run is still a process of its own, with its own environment, folder, standard streams, signals and exit status.
`tests.fakes.program` talks to it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sqlite3
import struct
import sys
import threading
import time

import skillopt_sleep
from skillopt_sleep import registry

LENGTH = struct.Struct("!I")
"""In front of every request: how many bytes of JSON follow."""


def preload() -> None:
    """Import every module of the program, and the backend that many tests run it with."""
    for module in pkgutil.walk_packages(skillopt_sleep.__path__, "skillopt_sleep."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    importlib.import_module("tests.fakes.witness")


def serve(requests: socket.socket) -> None:
    """Fork for each request until the test process closes its end; only the child of a run returns."""
    while True:
        header, descriptors, _, _ = socket.recv_fds(requests, LENGTH.size, 4)
        if not header:
            os._exit(0)
        (length,) = LENGTH.unpack(header)
        request = json.loads(requests.recv(length, socket.MSG_WAITALL))
        keeper = os.fork()
        if keeper == 0:
            requests.close()
            start_run(request, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        os.waitpid(keeper, 0)


def start_run(request: dict, descriptors: list[int]) -> None:
    """Fork the run; its parent stays behind to report its process id and wait status, and only the run returns."""
    *streams, report = descriptors
    if os.fork():
        os._exit(0)  # the parent of the run is nobody's child: the server need not wait for it
    run = os.fork()
    if run:
        for descriptor in streams:
            os.close(descriptor)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.write(report, LENGTH.pack(run))
        os.write(report, LENGTH.pack(os.waitpid(run, 0)[1]))
        os._exit(0)
    os.close(report)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.path[:] = [request["cwd"], *request["path"], *sys.path]
    sys.argv[1:] = request["arguments"]
    if len(request["path"]) > 1:  # a test's own package may bring adapters, which options and messages name
        registry.forget_installed()
        for name in [name for name in sys.modules if name.startswith("skillopt_sleep.cli")]:
            del sys.modules[name]


def end_process(code: object) -> None:
    """End this process as the interpreter would, but without freeing its memory, all of which would be copied first."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for connection in gc.get_objects():  # what was there before the fork is frozen, and not among them
        if isinstance(connection, sqlite3.Connection):
            connection.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else code is not None)


if __name__ == "__main__":
    preload()
    os.fsync = lambda _descriptor: None  # as in tests/conftest.py
    gc.freeze()  # no run has to look through what the server has loaded
    given = int(sys.argv[1])
    serve(socket.socket(fileno=given))
    try:
        runpy.run_module("skillopt_sleep", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        end_process(end.code)
