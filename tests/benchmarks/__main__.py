"""``bash scripts/bench NAME``: find a benchmark by its module's name and run it."""

from __future__ import annotations

import importlib
import sys

BENCHMARKS = {
    "ablations": "what each mechanism of training is worth in a simulated world, over seeds",
    "gate": "how often the gate accepts what does not help, and how soon what does, beside rules on means",
    "harvest": "reading session files, beside plain JSON decoding and plain reading of the same bytes",
    "guard": "which hostile edits are held back, and which ordinary house rules are not",
    "mutants": "small faults put into the gate, adoption, staging, retries, budget and ledger: which ones tests notice",
    "night": "calls by phase, and wall time beside the ideal for N workers and a given latency",
    "train": "training: calls by stage, and wall time beside the ideal for N workers and a given latency",
    "secrets": "what redaction finds of made-up secrets, and how long it takes",
    "startup": "how long the commands take to start, beside a bare interpreter",
}


def main() -> int:
    """Run the benchmark named by the first argument; the rest are its own."""
    if len(sys.argv) < 2 or sys.argv[1] not in BENCHMARKS:
        print("usage: bash scripts/bench NAME [options]\n")
        print("\n".join(f"  {name:<10} {what}" for name, what in BENCHMARKS.items()))
        return 2
    code: int = importlib.import_module(f"tests.benchmarks.{sys.argv[1]}").main(sys.argv[2:])
    return code


if __name__ == "__main__":
    raise SystemExit(main())
