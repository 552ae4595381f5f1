"""``bash scripts/bench NAME``: runs one benchmark; without a name it lists them."""

from __future__ import annotations

import importlib
import sys

BENCHMARKS = {
    "ablations": "what each mechanism of training is worth in a simulated world, over many seeds",
    "endpoints": "whole nights against hostile and odd model services: exit codes, requests, caps, memory",
    "faults": "nights over which faults of files, signals and terminals are drawn by lot: how they end, what they lose",
    "feedback": "which corrections and approvals are recognized in invented prompts, and which only seem to be some",
    "forecast": "whether the calls of a night lie in the range that was printed before it",
    "gate": "how often the gate proves a useless rule, and how often a useful one, in simulated lives",
    "growth": "what commands cost as the archive grows: seconds, memory and disk, over sessions and nights",
    "guard": "which hostile edits the guard holds back, and which ordinary house rules it lets pass",
    "harvest": "reading session files, compared with plain JSON decoding and plain reading of the same bytes",
    "mutants": "which small faults in the gate, adoption, staging, retries, budget and ledger the tests notice",
    "night": "calls of a night by phase, and its time compared with the ideal for N workers and a given latency",
    "secrets": "which made-up secrets redaction finds, and how long it takes",
    "startup": "how long the commands take to start, compared with a bare interpreter",
    "try": "which rules of made-up files `try` finds to carry weight or to do harm, and whether its price holds",
    "train": "calls of a training run by stage, and its time compared with the ideal for N workers and a latency",
}

MODULES = {"try": "tries"}
"""Modules whose name is not that of their benchmark."""


def main() -> int:
    """Run the benchmark named by the first argument, which gets the other arguments; list all without one."""
    name, *options = sys.argv[1:] or [""]
    if name in BENCHMARKS:
        code: int = importlib.import_module(f"tests.benchmarks.{MODULES.get(name, name)}").main(options)
        return code
    if name:
        print(f"there is no benchmark {name!r}; these are:\n", file=sys.stderr)
    else:
        print("usage: bash scripts/bench NAME [options]\n")
    print("\n".join(f"  {name:<10} {what}" for name, what in BENCHMARKS.items()))
    return 2 if name else 0


if __name__ == "__main__":
    raise SystemExit(main())
