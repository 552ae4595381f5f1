"""Whether this machine runs on its battery, where that can be told."""

from __future__ import annotations

__all__ = ["on_battery"]


def on_battery() -> bool:
    """Whether the machine is known to run on battery; one that has none, or does not tell, does not."""
    import psutil  # noqa: PLC0415  only when a night is due

    ask = getattr(psutil, "sensors_battery", None)  # not every system has it
    battery = ask() if ask else None
    return battery is not None and battery.power_plugged is False
