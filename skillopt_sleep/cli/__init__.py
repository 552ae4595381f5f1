"""The command line: one module per command; the only place that prints and exits."""

from __future__ import annotations


def main() -> None:
    """Run the console script."""
    raise SystemExit(0)
