"""Renders the prompts: every text that a model is sent is a ``*.md`` file beside this one, one for each call.

A template is prose with ``{{name}}`` fields. The part before a line of ``---`` is the system prompt, the rest the
user's message. Values are inserted literally and only once, so that text from a session can never become a field.
"""

from __future__ import annotations

import functools
import re
from importlib import resources

FIELD = re.compile(r"\{\{(\w+)\}\}")


def render(name: str, **fields: str) -> tuple[str, str]:
    """Render template ``name`` to (system, user).

    Raises LookupError when a field of the template is missing in ``fields``, or the template lacks one of ``fields``:
    both are mistakes in the calling code.
    """
    system, user = load_template(name)
    wanted = set(FIELD.findall(system)) | set(FIELD.findall(user))
    if wanted != fields.keys():
        raise LookupError(f"prompt {name!r} has the fields {sorted(wanted)}, was given {sorted(fields)}")
    fill = functools.partial(FIELD.sub, lambda match: fields[match[1]])
    return fill(system), fill(user)


@functools.cache
def load_template(name: str) -> tuple[str, str]:
    """Return a template with its fields unfilled: (system, user). Raises OSError when there is none of that name."""
    text = resources.files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    system, separator, user = text.partition("\n---\n")
    if not separator:
        raise LookupError(f"prompt {name!r} has no line of --- between system and user text")
    return system.strip(), user.strip()
