"""``python -m tests.loopback PORT LOG [simulated]``: a server for trying a CLI by hand."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path

from tests.loopback import Asked, Loopback, follow, simulated


def main() -> None:
    """Serve until interrupted."""
    log = Path(sys.argv[2])

    def note(asked: Asked) -> None:
        with log.open("a") as file:
            file.write(json.dumps(dataclasses.asdict(asked)) + "\n")

    mind = simulated() if sys.argv[3:] == ["simulated"] else follow
    with Loopback(mind, port=int(sys.argv[1]), on_request=note) as loopback:
        print(loopback.root, flush=True)
        while True:
            time.sleep(1)
            for each in loopback.outside:
                print("outside:", each, flush=True)
            loopback.outside.clear()


main()
