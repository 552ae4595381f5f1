"""``python -m skillopt_sleep``: the same program as the console script."""

from __future__ import annotations

from skillopt_sleep.cli import main

if __name__ == "__main__":
    main()
