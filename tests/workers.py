"""`pytest --workers N`: the tests are collected once, then run in N processes that are forked from this one.

Interpreters of their own, as pytest-xdist starts them, would each import and collect everything anew, which takes as
long as a seventh of all tests. Forked processes share what was imported. They take the tests in small runs of
neighbours, so that those of a module find its fixtures made, and send pytest's reports back.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import itertools
import os
import pickle
import selectors
import signal
import struct
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

NEIGHBOURS = 12
"""Most tests of one module that a process takes at once: fewer are shared out more evenly, more share fixtures."""
NUMBER = struct.Struct("!I")
"""A run of neighbours in the queue; the length of a message, in front of it."""


class Worker:
    """A forked process, seen from the one that started it."""

    def __init__(self, process: int, descriptor: int) -> None:
        self.process = process
        self.descriptor = descriptor
        self.unread = b""
        self.place: int | None = None
        """The test it is at."""

    def receive(self) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield the messages that have come: the place of a test, and its reports, none of them when it begins.

        Raises `EOFError` once the process says that it is done, or has died.
        """
        read = os.read(self.descriptor, 1 << 20)
        if not read:
            raise EOFError
        self.unread += read
        while len(self.unread) >= NUMBER.size:
            (length,) = NUMBER.unpack_from(self.unread)
            end = NUMBER.size + length
            if len(self.unread) < end:
                return
            message, self.unread = self.unread[NUMBER.size : end], self.unread[end:]
            if not message:  # a process that a test has left behind may hold the other end open
                raise EOFError
            yield pickle.loads(message)


class Workers:
    """The processes of one session."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self.session = session
        self.count = count
        self.places = {item.nodeid: place for place, item in enumerate(session.items)}
        self.unfinished = set(self.places.values())
        self.workers: list[Worker] = []

    def run(self) -> None:
        """Run the collected tests; one whose process dies has failed, and so have those the process had taken."""
        modules = (list(tests) for _, tests in itertools.groupby(self.session.items, lambda item: item.path))
        runs = [tests[start : start + NEIGHBOURS] for tests in modules for start in range(0, len(tests), NEIGHBOURS)]
        queue, feed = os.pipe()
        os.write(feed, b"".join(NUMBER.pack(number) for number in range(len(runs))))
        os.close(feed)
        self.session.config._tmp_path_factory.getbasetemp()  # made before they are, so that they share it
        gc.collect()
        gc.freeze()  # what is here by now is never freed: no process needs to look through it, and copy it by that
        try:
            for number in range(self.count):
                self._fork(runs, queue, number)
            self._follow()
        finally:
            for worker in self.workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.process, signal.SIGTERM)
                os.waitpid(worker.process, 0)
                os.close(worker.descriptor)
            os.close(queue)
        for place in sorted(self.unfinished):
            self._fail(place, "not run: the process that was to run it died")

    def _fork(self, runs: Sequence[Sequence[pytest.Item]], queue: int, number: int) -> None:
        """Start a process that runs tests until the queue is empty."""
        reader, writer = os.pipe()
        process = os.fork()
        self.workers.append(Worker(process, reader))
        if process:
            os.close(writer)
            return
        try:
            for worker in self.workers:
                os.close(worker.descriptor)
            _start_over(self.session.config, number)
            sender = _Sender(writer, self.places)
            self.session.config.pluginmanager.register(sender)
            tests = (item for taken in _take(queue) for item in runs[taken])
            item = next(tests, None)
            while item:
                following = next(tests, None)
                self.session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                item = following
            atexit._run_exitfuncs()
            sender.end()
        except BaseException:  # noqa: BLE001  the parent reports that this process died
            os.write(2, traceback.format_exc().encode())
        os._exit(0)

    def _follow(self) -> None:
        """Hand on what the processes report until all of them have ended."""
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                selector.register(worker.descriptor, selectors.EVENT_READ, worker)
            while selector.get_map():
                for key, _ in selector.select():
                    try:
                        for place, reports in key.data.receive():
                            self._hand_on(key.data, place, reports)
                    except EOFError:
                        selector.unregister(key.fd)
                        if key.data.place is not None:
                            self._fail(key.data.place, "the process died that ran this test")

    def _hand_on(self, worker: Worker, place: int, reports: Sequence[dict[str, Any]]) -> None:
        item, hook = self.session.items[place], self.session.config.hook
        if not reports:
            worker.place = place
            hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            return
        worker.place = None
        self.unfinished.discard(place)
        for data in reports:
            report = hook.pytest_report_from_serializable(config=self.session.config, data=data)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        if self.session.shouldstop:
            raise self.session.Interrupted(self.session.shouldstop)

    def _fail(self, place: int, reason: str) -> None:
        self.unfinished.discard(place)
        item = self.session.items[place]
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", reason, "call")
        self.session.config.hook.pytest_runtest_logreport(report=report)


class _Sender:
    """In a forked process: sends a message when a test begins, and its reports when it has ended."""

    def __init__(self, descriptor: int, places: dict[str, int]) -> None:
        self.descriptor = descriptor
        self.places = places
        self.reports: list[dict[str, Any]] = []

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._send(pickle.dumps((self.places[nodeid], [])))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report._to_json() | {"$report_type": "TestReport"})

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._send(pickle.dumps((self.places[nodeid], self.reports)))
        self.reports = []

    def end(self) -> None:
        """Say that no test is left."""
        self._send(b"")

    def _send(self, message: bytes) -> None:
        message = NUMBER.pack(len(message)) + message
        while message:
            message = message[os.write(self.descriptor, message) :]


def _take(queue: int) -> Iterator[int]:
    """Take the next run of neighbours until none is left; a read from a pipe is not divided between processes."""
    while number := os.read(queue, NUMBER.size):
        yield NUMBER.unpack(number)[0]


def _start_over(config: pytest.Config, number: int) -> None:
    """Give a forked process temporary folders and captured output of its own, a silent terminal, nothing at exit."""
    atexit._clear()
    factory = config._tmp_path_factory
    factory._basetemp = factory.getbasetemp() / f"worker{number}"
    factory._basetemp.mkdir(mode=0o700)
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    config.pluginmanager.getplugin("terminalreporter")._tw._file = io.StringIO()
