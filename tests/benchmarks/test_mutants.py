"""The mutation run finds faults to make, makes them, and puts nothing else out of order."""

from __future__ import annotations

import ast
import importlib
import json

import pytest

from tests.benchmarks import mutants

LISTED = json.loads(mutants.MODULES.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTED["tests"])
def test_every_mutant_changes_its_module(name):
    """Each listed module has mutants, each mutant compiles, and its tests exist."""
    module = f"skillopt_sleep.{name}"
    original = ast.dump(mutants._parse(module))
    found = mutants.choose(mutants.find_mutants(module), 12, 1)
    assert found
    for mutant in found:
        changed = mutants.change_module(mutant)
        compile(changed, mutant.module, "exec")
        assert ast.dump(changed) != original
    assert all((mutants.ROOT / path).exists() for path in LISTED["tests"][name])


@pytest.mark.slow
def test_listed_survivors_are_mutants():
    """A survivor with a reason names a mutant that can still be made."""
    for row in LISTED["equivalent"]:
        found = mutants.find_mutants(f"skillopt_sleep.{row['module']}")
        assert (row["place"], row["before"], row["after"]) in {
            (mutant.place, mutant.before, mutant.after) for mutant in found
        }, row
        assert row["reason"]


def test_applied_mutant_is_seen_by_whoever_imported_the_function():
    """The code of a function is replaced in place; every module that imported it runs the mutant."""
    from skillopt_sleep.gate.rule import exact_error

    (mutant,) = [
        mutant
        for mutant in mutants.find_mutants("skillopt_sleep.gate.rule")
        if mutant.place == "exact_error" and mutant.after == "return None"
    ]
    code = exact_error.__code__
    try:
        mutants.apply(mutant)
        assert importlib.import_module(mutant.module).exact_error is exact_error
        assert exact_error(6) is None
    finally:
        exact_error.__code__ = code


def test_applied_mutant_changes_a_default_value():
    """A mutant in the default value of a parameter changes what a call without that argument does."""
    from skillopt_sleep.calls.chain import Breaker

    (mutant,) = [
        mutant
        for mutant in mutants.find_mutants("skillopt_sleep.calls.chain")
        if (mutant.place, mutant.before, mutant.after) == ("Breaker.__init__", "4", "5")
    ]
    code, defaults = Breaker.__init__.__code__, Breaker.__init__.__defaults__
    try:
        mutants.apply(mutant)
        assert Breaker.__init__.__defaults__ == (5,)
    finally:
        Breaker.__init__.__code__, Breaker.__init__.__defaults__ = code, defaults


@pytest.mark.parametrize(("survivors", "status"), [(0, 0), (1, 0), (2, 1)])
def test_too_many_survivors_fail(survivors, status, capsys):
    """The run fails when fewer mutants are killed than wanted, and names those that survived."""
    found = mutants.find_mutants("skillopt_sleep.gate.rule")[:10]
    assert mutants.print_table(found, found[:survivors], 0.9) == status
    assert capsys.readouterr().out.count("survived: ") == survivors


def test_sample_is_seeded():
    """The same seed draws the same mutants; 0 draws all of them."""
    found = mutants.find_mutants("skillopt_sleep.gate.rule")
    assert mutants.choose(found, 5, 7) == mutants.choose(found, 5, 7)
    assert mutants.choose(found, 0, 7) == found
