"""Which proposed rules are held back: those that could harm their user, whoever talked the optimizer into them.

Sessions are hostile input and a rule lives for months, so every edit passes here before it is tried. A held edit is
shown with its reason and never applied by itself; a person can still decide for it.

Three questions, each in a room of its own: does the text hide anything (``hiding``), do its words show a danger
(``dangers``), and does it rest on words that a person typed (``grounds``).
"""

from skillopt_sleep.domain.guard.dangers import RULES, GuardRule
from skillopt_sleep.domain.guard.grounds import Grounds, unfounded
from skillopt_sleep.domain.guard.guard import LONGEST, guard

__all__ = ["LONGEST", "RULES", "Grounds", "GuardRule", "guard", "unfounded"]
