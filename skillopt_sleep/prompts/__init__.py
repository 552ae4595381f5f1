"""Every text a model is sent lies beside this file, one ``*.md`` a call; this renders them, strictly.

A template is prose with ``{{name}}`` fields. Its first part, up to a line of ``---``, is the system prompt; the rest
is the user's turn. Values are put in literally and only once, so text that comes from a session can never become a
field itself.
"""

from __future__ import annotations

import functools
import re
from importlib import resources

FIELD = re.compile(r"\{\{(\w+)\}\}")


def render(name: str, **fields: str) -> tuple[str, str]:
    """Render template ``name`` to (system, user).

    Raises LookupError when a field of the template is not given, or one is given that it does not have: both are
    mistakes in the calling code.
    """
    system, user = template(name)
    wanted = set(FIELD.findall(system)) | set(FIELD.findall(user))
    if wanted != fields.keys():
        raise LookupError(f"prompt {name!r} has the fields {sorted(wanted)}, was given {sorted(fields)}")
    fill = functools.partial(FIELD.sub, lambda match: fields[match[1]])
    return fill(system), fill(user)


@functools.cache
def template(name: str) -> tuple[str, str]:
    """A template as it stands, its fields open: (system, user). Raises OSError when there is none of that name."""
    text = resources.files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    system, separator, user = text.partition("\n---\n")
    if not separator:
        raise LookupError(f"prompt {name!r} has no line of --- between system and user text")
    return system.strip(), user.strip()
