"""Mutants: small faults put into the modules that decide and write, to see whether a test notices.

The tests are collected once. For each mutant a child process is forked that replaces the code of one function, or the
value of one constant, and runs the tests of that module until one fails. A mutant that no test notices survives; the
exit status is 1 when fewer than nine in ten are killed (`--least`). `mutants.json` names the modules, their tests, and
the survivors that change nothing a test could see, with the reason. Mutants exist in memory only: no file is changed.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import copy
import importlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

ROOT = Path(__file__).parents[2]
MODULES = Path(__file__).with_suffix(".json")
LEAST_KILLED = 0.9
SECONDS = 60
"""A mutant whose tests take longer runs in circles, which counts as noticed."""
SLOW = 1.0
"""Tests of so many seconds are left out: what they alone would notice deserves a quick test as well."""
PROGRESS = os.dup(2)
"""The terminal, whatever pytest does with the standard streams."""

FLIPS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


class Mutant(Struct, frozen=True, kw_only=True):
    """One fault: the statement or expression ``before`` of a function, or of the module, becomes ``after``."""

    module: str
    line: int
    place: str
    """Qualified name of the function, or name of the module's constant."""
    before: str
    after: str
    number: int
    """Which of the mutants of its place, in the order of `change_node`."""

    def __str__(self) -> str:
        return f"{self.module.replace('.', '/')}.py:{self.line} {self.place}: {self.before} -> {self.after}"


def change_node(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every faulty version of one node, without its children's."""
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[index] = FLIPS[type(operator)]()
            yield changed
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in FLIPS:
        changed = copy.deepcopy(node)
        changed.op = FLIPS[type(node.op)]()
        yield changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant):
        yield from _change_constant(node)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        changed = copy.deepcopy(node)
        changed.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
        yield changed
    elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield ast.Return(value=ast.Constant(value=None))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()


def _change_constant(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(value=not node.value)
    elif isinstance(node.value, int | float):
        yield ast.Constant(value=node.value + 1)
        yield ast.Constant(value=node.value - 1)


def find_places(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield functions, methods and constants of a module by their qualified names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{sub.name}", sub) for sub in node.body if isinstance(sub, ast.FunctionDef))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node


def find_sites(place: ast.stmt) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield every node of a place that can be changed, as (parent, field, index in the field, node)."""
    pending: collections.deque[ast.AST] = collections.deque([place])
    while pending:
        parent = pending.popleft()
        for field, value in ast.iter_fields(parent):
            if field in {"annotation", "returns", "decorator_list", "format_spec"}:
                continue
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(node, ast.AST) and not _is_docstring(node):
                    yield parent, field, index, node
                    pending.append(node)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def find_mutants(module: str) -> list[Mutant]:
    """List every mutant of a module."""
    found = []
    for name, place in find_places(_parse(module)):
        changes = (
            (node, changed, field, parent)
            for parent, field, _, node in find_sites(place)
            for changed in change_node(node)
        )
        for number, (node, changed, _, _) in enumerate(changes):
            line = getattr(node, "lineno", place.lineno)
            texts = {"before": _shorten(node), "after": _shorten(changed)}
            found.append(Mutant(module=module, line=line, place=name, number=number, **texts))
    return found


def _parse(module: str) -> ast.Module:
    return ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))


def _shorten(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).partition("\n")[0]
    return text if len(text) <= 70 else f"{text[:67]}..."


def change_module(mutant: Mutant) -> ast.Module:
    """The module's syntax tree with the mutant in it."""
    tree = _parse(mutant.module)
    place = next(node for name, node in find_places(tree) if name == mutant.place)
    changes = (
        (parent, field, index, changed)
        for parent, field, index, node in find_sites(place)
        for changed in change_node(node)
    )
    parent, field, index, changed = next(itertools.islice(changes, mutant.number, None))
    if index is None:
        setattr(parent, field, changed)
    else:
        getattr(parent, field)[index] = changed
    return ast.fix_missing_locations(tree)


def apply(mutant: Mutant) -> None:
    """Put the fault into the loaded module of this process."""
    module = importlib.import_module(mutant.module)
    code = compile(change_module(mutant), module.__file__ or "", "exec")
    changed = next((found for found in _find_code(code) if found.co_qualname == mutant.place), None)
    if changed is None:
        _replace_constant(module, mutant.place, code)
        return
    target: object = module
    for name in mutant.place.split("."):
        target = vars(target)[name]
    while not isinstance(target, types.FunctionType):
        target = next(
            getattr(target, name) for name in ("__wrapped__", "__func__", "fget", "func") if hasattr(target, name)
        )
    while changed.co_firstlineno != target.__code__.co_firstlineno and hasattr(target, "__wrapped__"):
        target = target.__wrapped__
    target.__code__ = changed
    if _count_changed_defaults(mutant):
        _replace_defaults(target, mutant, code)


def _count_changed_defaults(mutant: Mutant) -> int:
    """How many default values of its function's parameters a mutant changes."""
    places = (dict(find_places(tree))[mutant.place] for tree in (_parse(mutant.module), change_module(mutant)))
    old, new = (
        [ast.unparse(node) for node in (*place.args.defaults, *place.args.kw_defaults) if node]
        for place in places
        if isinstance(place, ast.FunctionDef)
    )
    return sum(one != other for one, other in zip(old, new, strict=True))


def _replace_defaults(function: types.FunctionType, mutant: Mutant, code: types.CodeType) -> None:
    """Give a function the default values it has in the mutant."""
    namespace: dict[str, Any] = {"__name__": mutant.module, "__file__": code.co_filename}
    exec(code, namespace)
    first, *rest = mutant.place.split(".")
    changed = namespace[first]
    for name in rest:
        changed = vars(changed)[name]
    function.__defaults__ = changed.__defaults__
    function.__kwdefaults__ = changed.__kwdefaults__


def _find_code(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _find_code(constant)


def _replace_constant(module: types.ModuleType, name: str, code: types.CodeType) -> None:
    """Give a constant the value it has in the mutant, wherever it has been imported to."""
    old = getattr(module, name)
    namespace = {"__name__": module.__name__, "__file__": module.__file__}
    exec(code, namespace)
    for loaded in list(sys.modules.values()):
        with contextlib.suppress(Exception):
            if vars(loaded).get(name) is old:
                setattr(loaded, name, namespace[name])


class Test(Struct, frozen=True, kw_only=True):
    """A test that passes without a mutant: the seconds it takes, and the functions it calls, as "module:name"."""

    item: pytest.Item
    seconds: float
    places: frozenset[str]


class Runner:
    """A pytest plugin: once the tests are collected, it runs those of each mutant in a process of its own."""

    def __init__(self, mutants: Sequence[Mutant], tests: dict[str, list[str]], workers: int) -> None:
        self.mutants = mutants
        self.paths = {module: tuple(str(ROOT / path) for path in paths) for module, paths in tests.items()}
        self.workers = workers
        self.tests: list[Test] = []
        self.survivors: list[Mutant] = []
        self.broken: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Replace pytest's own loop."""
        seconds = self._run_by_file(session, session.items, self._time)
        quick = [item for item in session.items if seconds.get(item.nodeid, SLOW) < SLOW]
        places = self._run_by_file(session, quick, self._trace)
        self.tests = sorted(
            (Test(item=item, seconds=seconds[item.nodeid], places=frozenset(places[item.nodeid])) for item in quick),
            key=lambda test: test.seconds,
        )
        say(f"{len(quick)} of {len(session.items)} tests take less than {SLOW} s and are used")
        work = [(mutant, partial(self._try, session, mutant)) for mutant in self.mutants if not self.broken]
        for mutant, found in self._fork_all(work):
            say(f"{'SURVIVED' if found == 'passed' else 'killed  '}  {mutant}  {found}")
            if found == "passed":
                self.survivors.append(mutant)
        return True

    def _run_by_file(
        self, session: pytest.Session, items: Sequence[pytest.Item], run: Callable[..., object]
    ) -> dict[str, Any]:
        """Run tests without a mutant, each file in a process of its own; what ``run`` returned for each test."""
        files: dict[Path, list[pytest.Item]] = {}
        for item in items:
            files.setdefault(item.path, []).append(item)

        def run_file(chosen: Sequence[pytest.Item]) -> str:
            rows = {item.nodeid: run(session, item) for item in chosen}
            return "" if session.testsfailed else json.dumps(rows)

        found: dict[str, Any] = {}
        for path, rows in self._fork_all([(path, partial(run_file, chosen)) for path, chosen in files.items()]):
            found |= json.loads(rows or "{}")
            if not rows:
                self.broken.append(str(path))
        return found

    def _time(self, session: pytest.Session, item: pytest.Item) -> float:
        """Run a test; its seconds."""
        started = time.perf_counter()
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return time.perf_counter() - started

    def _trace(self, session: pytest.Session, item: pytest.Item) -> list[str]:
        """Run a test; the functions it calls in the modules that have mutants."""
        modules = {str(ROOT / f"{module.replace('.', '/')}.py"): module for module in self.paths}
        called: set[str] = set()

        def note(frame: types.FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename in modules:
                name = frame.f_code.co_qualname.partition(".<locals>")[0]
                called.add(f"{modules[frame.f_code.co_filename]}:{name}")

        threading.setprofile(note)
        sys.setprofile(note)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        sys.setprofile(None)
        threading.setprofile(None)
        return sorted(called)

    def _try(self, session: pytest.Session, mutant: Mutant) -> str:
        """Apply a mutant and run the tests that reach it, the quickest first; say which one failed."""
        tests = [test for test in self.tests if str(test.item.path).startswith(self.paths[mutant.module])]
        if isinstance(dict(find_places(_parse(mutant.module)))[mutant.place], ast.FunctionDef):
            tests = [test for test in tests if f"{mutant.module}:{mutant.place}" in test.places]
        apply(mutant)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        for test in tests:
            session.config.hook.pytest_runtest_protocol(item=test.item, nextitem=None)
            if session.testsfailed:
                return f"by {test.item.nodeid}"
        return "passed"

    def _fork_all(self, work: Sequence[tuple[Any, Callable[[], str]]]) -> Iterator[tuple[Any, str]]:
        """Do each piece of work in a process of its own; yields what it returned, empty when it died."""
        running: dict[int, tuple[Any, str]] = {}
        pending = collections.deque(work)
        while pending or running:
            while pending and len(running) < self.workers:
                name, do = pending.popleft()
                folder = tempfile.mkdtemp(prefix="mutant-")
                process = os.fork()
                if process == 0:
                    be_child(do, Path(folder))
                running[process] = (name, folder)
            process, _ = os.wait()
            if process in running:
                name, folder = running.pop(process)
                result = Path(folder) / "result"
                found = result.read_text(encoding="utf-8") if result.exists() else ""
                shutil.rmtree(folder, ignore_errors=True)
                yield name, found


def be_child(do: Callable[[], str], folder: Path) -> None:
    """Work in silence, leave the result in the folder, and leave this process."""
    try:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        found = do()
        (folder / "result").write_text(found, encoding="utf-8")
    finally:
        os._exit(0)


def say(line: str) -> None:
    """Print progress, past pytest's capture."""
    os.write(PROGRESS, f"{line}\n".encode())


def choose(mutants: Sequence[Mutant], sample: int, seed: int) -> list[Mutant]:
    """Draw a sample without replacement; all of them when there are no more, or for 0."""
    if not sample or sample >= len(mutants):
        return list(mutants)
    drawn = random.Random(seed).sample(list(mutants), sample)
    return sorted(drawn, key=lambda mutant: (mutant.module, mutant.line, mutant.number))


def main(argv: Sequence[str]) -> int:
    """Run the mutants; 1 when too few were killed."""
    parser = argparse.ArgumentParser(prog="bash scripts/bench mutants", description=__doc__)
    parser.add_argument("--module", action="append", metavar="M", help="only this module, such as gate.rule")
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="how many mutants; 0 runs all of them")
    parser.add_argument("--seed", type=int, default=1, help="which sample is drawn")
    parser.add_argument("--least", type=float, default=LEAST_KILLED, metavar="SHARE", help="fail below this share")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2, help="processes at once")
    given = parser.parse_args(argv)
    listed = json.loads(MODULES.read_text(encoding="utf-8"))
    tests = {f"skillopt_sleep.{name}": paths for name, paths in listed["tests"].items()}
    wanted = [f"skillopt_sleep.{name}" for name in given.module] if given.module else list(tests)
    if unknown := [name for name in wanted if name not in tests]:
        parser.error(f"{', '.join(unknown)}: not in {MODULES.name}; known: {', '.join(listed['tests'])}")
    known = {
        (f"skillopt_sleep.{row['module']}", row["place"], row["before"], row["after"]) for row in listed["equivalent"]
    }
    mutants = choose(
        [
            mutant
            for name in wanted
            for mutant in find_mutants(name)
            if (name, mutant.place, mutant.before, mutant.after) not in known
        ],
        given.sample,
        given.seed,
    )
    runner = Runner(mutants, tests, given.workers)
    paths = sorted({path for name in wanted for path in tests[name]})
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
    with contextlib.redirect_stdout(sys.stderr):
        pytest.main([*options, *paths], plugins=[runner])
    if runner.broken:
        print(f"these tests fail without a mutant already: {', '.join(runner.broken)}")
        return 2
    return print_table(mutants, runner.survivors, given.least)


def print_table(mutants: Sequence[Mutant], survivors: Sequence[Mutant], least: float) -> int:
    """Print the figures of each module and the survivors; 1 when fewer than ``least`` of all were killed."""
    print(f"{'module':<44}{'mutants':>9}{'killed':>9}")
    for name in sorted({mutant.module for mutant in mutants}):
        total = sum(mutant.module == name for mutant in mutants)
        print(f"{name:<44}{total:>9}{total - sum(mutant.module == name for mutant in survivors):>9}")
    killed = len(mutants) - len(survivors)
    print(f"{killed} of {len(mutants)} killed, {killed / max(1, len(mutants)):.0%}; wanted: {least:.0%}")
    print("\n".join(f"survived: {mutant}" for mutant in survivors))
    return int(killed < least * len(mutants))
