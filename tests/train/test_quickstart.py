"""The first program of somebody who comes from the TRL-style reference, as it stands in the documentation."""

from __future__ import annotations

import ast
import re

import skillopt_sleep.train
from tests.fakes.school import School


def program():
    """The quick-start of the package's own docstring."""
    _, _, code = skillopt_sleep.train.__doc__.partition("::\n\n")
    return "\n".join(line.removeprefix("    ") for line in code.splitlines())


def test_quickstart_trains_in_under_fifteen_lines(tmp_path, monkeypatch, capsys):
    """Config, environment with three item lists, two clients, train, the test score: and it runs."""
    monkeypatch.chdir(tmp_path)
    code = program()
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) < 15
    assert len(ast.parse(code).body) >= 5

    class Pupil(School):
        def _answer(self, prompt):
            return "Paris" if prompt.schema is None else super()._answer(prompt)

    rows = [{"id": f"{n}", "question": f"Capital of country number {n}?", "answers": ["Paris"]} for n in range(6)]
    given = {"train": rows[:2], "val": rows[2:4], "test": rows[4:]}
    monkeypatch.setattr(skillopt_sleep.train, "client", lambda name, model: Pupil(f"{name}:{model}"))
    exec(compile(code, "quickstart", "exec"), given)
    assert capsys.readouterr().out.strip() == "1.0"
    assert (tmp_path / "outputs" / "demo" / "best_skill.md").read_text() == "Answer in one short phrase."


def test_every_public_name_is_there():
    """Whatever the package says it offers can be imported from that one place."""
    for name in skillopt_sleep.train.__all__:
        assert getattr(skillopt_sleep.train, name) is not None
    assert not re.search(r"(?m)^from skillopt_sleep\.train\.", program())
