"""Compare everything a user can rely on in two checkouts, and fail when something was lost without an explanation.

    python tests/compare_interface.py OLD_CHECKOUT NEW_CHECKOUT [--old-python PATH] [--new-python PATH] [--all]

It compares commands, flags, settings, environment variables, exit codes, keys of diagnostics.json and database columns.
Each checkout is read by an interpreter of its own: CHECKOUT/.venv/bin/python, unless another one is named. Exits with 1
when the new checkout lacks something of the old one that ``EXPLAINED`` does not mention.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

EXPLAINED: dict[tuple[str, str], str] = {}
"""What may be missing, as (kind, name), and why."""

PROBE = r"""
import ast, json, pathlib, re, sys
import click
import skillopt_sleep
from skillopt_sleep import errors
from skillopt_sleep.cli import program
from skillopt_sleep.settings import Settings

root = pathlib.Path(skillopt_sleep.__file__).parent
found = []

def walk(command, path):
    found.append(("command", path))
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            found.extend(("flag", f"{path} {name}") for name in (*parameter.opts, *parameter.secondary_opts))
        else:
            found.append(("argument", f"{path} {parameter.name.upper()}"))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            walk(command.get_command(context, name), f"{path} {name}")

walk(program, "skillopt-sleep")

for name in Settings.__struct_fields__:
    found.append(("setting", name))
    found.append(("environment variable", f"SKILLOPT_SLEEP_{name.upper()}"))

def exits(kind):
    found.append(("exit code", f"{kind.exit_code} {kind.__name__}"))
    for below in kind.__subclasses__():
        exits(below)

exits(errors.SleepError)

name = re.compile(r"[A-Z][A-Z0-9]+(_[A-Z0-9]+)+")
columns = re.compile(r"CREATE TABLE(?: IF NOT EXISTS)? (\w+) \((.*?)\)[A-Z, ]*;", re.S)
trees = [ast.parse(path.read_text(encoding="utf-8")) for path in root.rglob("*.py") if "bench" not in path.parts]
nodes = [node for tree in trees for node in ast.walk(tree)]
own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
for text in (*texts, *(path.read_text(encoding="utf-8") for path in root.rglob("*.sql"))):
    if name.fullmatch(text) and text not in own:
        found.append(("environment variable", text))
    for table, body in columns.findall(text):
        for line in body.splitlines():
            word = line.strip().split(" ")[0].strip(",")
            if word.isidentifier() and word.islower():
                found.append(("database column", f"{table}.{word}"))

schema = json.loads((root.parent / "docs" / "diagnostics.schema.json").read_text(encoding="utf-8"))

def keys(shape, path, seen):
    if "$ref" in shape:
        target = shape["$ref"].rsplit("/", 1)[1]
        if target not in seen:
            keys(schema["$defs"][target], path, (*seen, target))
    for key, below in shape.get("properties", {}).items():
        found.append(("diagnostics key", f"{path}{key}"))
        keys(below, f"{path}{key}.", seen)
    for value in shape.get("enum", ()):
        found.append(("diagnostics value", f"{path.rstrip('.')} = {value}"))
    for word in ("anyOf", "oneOf", "prefixItems"):
        for below in shape.get(word, ()):
            keys(below, path, seen)
    for word in ("items", "additionalProperties"):
        if isinstance(shape.get(word), dict):
            keys(shape[word], f"{path.rstrip('.')}[]." if word == "items" else f"{path}*.", seen)

keys(schema, "", ())
print(json.dumps(sorted(set(found))))
"""
"""Runs in each checkout; prints every (kind, name) it offers."""


def read_interface(checkout: Path, python: str | None) -> set[tuple[str, str]]:
    """Everything one checkout offers, as (kind, name)."""
    own = checkout / ".venv" / "bin" / "python"
    interpreter = python or (str(own) if own.exists() else sys.executable)
    done = subprocess.run(
        [interpreter, "-c", PROBE],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return {(kind, name) for kind, name in json.loads(done.stdout)}


def main() -> int:
    """Print the table; 1 when something was lost without an explanation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--old-python")
    parser.add_argument("--new-python")
    parser.add_argument("--all", action="store_true", help="also print what is the same in both")
    given = parser.parse_args()
    old = read_interface(given.old.absolute(), given.old_python)
    new = read_interface(given.new.absolute(), given.new_python)
    lost = 0
    for kind, name in sorted(old | new):
        state = "same" if (kind, name) in old & new else "new" if (kind, name) in new else "LOST"
        why = EXPLAINED.get((kind, name), "")
        if state == "LOST":
            state, lost = ("explained", lost) if why else ("LOST", lost + 1)
        if given.all or state != "same":
            print(f"{state:<10} {kind:<22} {name}{f'  ({why})' if why and state == 'explained' else ''}")
    print(f"\n{'kind':<22} {'old':>6} {'new':>6} {'same':>6}")
    for kind in sorted({kind for kind, _ in old | new}):
        before, after = ({row for row in side if row[0] == kind} for side in (old, new))
        print(f"{kind:<22} {len(before):>6} {len(after):>6} {len(before & after):>6}")
    print(f"\n{lost} lost without an explanation")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
