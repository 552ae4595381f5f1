"""The library's way to the composition root: what has to be built (backends, judges, stores) is built there.

Training itself knows adapters only through ports. Whoever writes ``from skillopt_sleep.train import …`` hands over no
stores, though, so this one module asks the composition root for them, when they are first needed. It is the one
import upwards that the import rule allows, and it is named there.
"""

from __future__ import annotations

from skillopt_sleep.train.ports import Workshop


def workshop() -> Workshop:
    """The workshop of this program, in the environment of this process."""
    from skillopt_sleep.usecases.training import TrainWorkshop  # noqa: PLC0415  upwards, and only when something is to be built

    return TrainWorkshop()
