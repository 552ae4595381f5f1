"""The house rules of docs/ARCHITECTURE.md, held by machine."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "skillopt_sleep").rglob("*.py"))
MOST_LINES = 400
MOST_FUNCTION_LINES = 60


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["ruff", "check", "."], id="ruff"),
        pytest.param(["ruff", "format", "--check", "."], id="format"),
        pytest.param(["mypy"], id="mypy-strict"),
        pytest.param(["lint-imports"], id="import-rule"),
    ],
)
def test_static_check_is_clean(command):
    """Style, types and the import rule hold for the whole tree."""
    tool = Path(sys.executable).parent / command[0]
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_room_keeps_its_ceilings(path):
    """No file over 400 lines, no function over 60: past that it is two ideas."""
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES
    long_ones = [
        f"{node.name} {node.end_lineno - node.lineno + 1}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > MOST_FUNCTION_LINES
    ]
    assert not long_ones


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_says_what_it_is_for(path):
    """Every module begins with a docstring."""
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_environment_is_read_in_settings_only():
    """``os.environ`` and ``os.getenv`` are used in settings.py and nowhere else."""
    readers = [
        path.relative_to(ROOT)
        for path in SOURCES
        if path.name != "settings.py"
        and any(
            isinstance(node, ast.Attribute)
            and node.attr in {"environ", "environb", "getenv"}
            and ast.unparse(node.value) == "os"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    ]
    assert not readers
