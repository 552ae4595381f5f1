"""A stand-in for the model services on this machine: Anthropic Messages, OpenAI Responses and Chat, and every fault.

::

    with Loopback(mind=follow) as loopback:
        env = loopback.environment(home)            # what an agent CLI is to see: nothing but this server
        url = loopback.url("529")                   # a base URL whose every request has that fault; "" = none
        ...
        loopback.requests                           # what was asked of the model, in order: ``Asked``
        loopback.outside                            # every other host anybody tried to reach; must stay empty

``python -m tests.loopback PORT LOG`` runs one by itself and writes each request as a line of LOG.
"""

from tests.loopback.asked import Asked, Called
from tests.loopback.faults import FAULTS
from tests.loopback.minds import Said, follow, simulated
from tests.loopback.server import Loopback, chatgpt_login

__all__ = ["FAULTS", "Asked", "Called", "Loopback", "Said", "chatgpt_login", "follow", "simulated"]
