"""``python -m tests.agents.night``: two hundred rollouts by both CLIs, some of which hang, break or are killed.

A program of its own, so that it can be killed. Reads what it needs from the environment variable NIGHT, as JSON.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

from skillopt_sleep.backends.claude import ClaudeBackend
from skillopt_sleep.backends.codex import CodexBackend
from skillopt_sleep.domain.call import Prompt
from skillopt_sleep.errors import BackendError

EVERY = {29: "[[fault hang]]", 11: "[[fault reset]]", 13: "[[kill me]]", 17: "[[fault 529]]"}
WORKERS = 6


def main() -> None:
    """Make the rollouts, and then as many as there are workers that hang for long."""
    told = json.loads(os.environ["NIGHT"])

    def build(timeout: float) -> list:
        shared = {"env": told["env"], "record": told["record"], "timeout": timeout}
        codex = CodexBackend(**shared, config=tuple(told["config"]), model="gpt-5.5")
        return [ClaudeBackend(**shared, model="claude-sonnet-4-5"), codex]

    def rollout(number: int) -> str:
        fault = next((fault for each, fault in EVERY.items() if number % each == 0), "")
        try:
            backends[number % 2].complete(Prompt(system="", user=f"task {number} {fault}"))
        except BackendError as error:
            return type(error).__name__
        return "answered"

    backends = build(told["timeout"])
    with ThreadPoolExecutor(WORKERS) as pool:
        became = list(pool.map(rollout, range(1, told["rollouts"] + 1)))
    print(json.dumps({each: became.count(each) for each in sorted(set(became))}), flush=True)
    lasting = build(600.0)
    with ThreadPoolExecutor(WORKERS) as pool:
        for number in range(WORKERS):
            pool.submit(lasting[number % 2].complete, Prompt(system="", user="[[fault hang]] for good"))


if __name__ == "__main__":
    main()
