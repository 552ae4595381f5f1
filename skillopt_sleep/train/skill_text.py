"""Holds a trained skill as one text: a body that steps edit, and guidance that only the end of an epoch writes.

The guidance lies between two markers at the end of the text, so the agent reads it with the rest. A step's edits see
the body alone: they can neither anchor in the guidance nor write its markers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from skillopt_sleep.model.document import Document, DocumentKind
from skillopt_sleep.model.edit import AppliedEdit, EditRecord, apply_edits
from skillopt_sleep.model.text import sha256

GUIDANCE_BEGIN = "<!-- skillopt-sleep:guidance -->"
GUIDANCE_END = "<!-- skillopt-sleep:end of guidance -->"
GUIDANCE_CAP = 2_000
"""Characters of guidance: it is read with every task."""

_GUIDANCE = re.compile(rf"\n*{re.escape(GUIDANCE_BEGIN)}\n(?P<guidance>.*?)\n?{re.escape(GUIDANCE_END)}\n?", re.DOTALL)


def skill_hash(skill: str) -> str:
    """Return sixteen hex digits that identify a skill's text."""
    return sha256(skill.encode("utf-8", "surrogatepass"))[:16]


def get_guidance(skill: str) -> str:
    """Return the guidance in a skill, "" where there is none."""
    found = _GUIDANCE.search(skill)
    return found["guidance"].strip() if found else ""


def replace_guidance(skill: str, guidance: str) -> str:
    """Replace the guidance of a skill; "" removes it.

    Raises ``ValueError`` for guidance that holds one of our markers or is longer than ``GUIDANCE_CAP``.
    """
    if "skillopt-sleep:" in guidance:
        raise ValueError("guidance may not contain the markers of its own region")
    if len(guidance) > GUIDANCE_CAP:
        raise ValueError(f"guidance has {len(guidance)} characters, over the cap of {GUIDANCE_CAP}")
    body = _get_body(skill)
    if not guidance.strip():
        return body
    return f"{body.rstrip()}\n\n{GUIDANCE_BEGIN}\n{guidance.strip()}\n{GUIDANCE_END}\n".lstrip("\n")


def apply_to_skill(
    skill: str, edits: Iterable[EditRecord], *, cap: int | None = None
) -> tuple[str, tuple[AppliedEdit, ...]]:
    """Apply edits in order to the body of a skill and report what became of each.

    An anchor is a whole rule, or words found exactly once in the body. ``cap`` bounds the body in characters. Raises
    ``Refused`` for a skill whose frontmatter never ends.
    """
    guidance, body = get_guidance(skill), _get_body(skill)
    document = Document(kind=DocumentKind.SKILL, path="skill/SKILL.md", content=body.encode(), whole=True)
    changed, applied = apply_edits(document, edits, cap=cap, prose=True)
    if changed == document:
        return skill, applied
    text = (changed.content or b"").decode()
    return (replace_guidance(text, guidance) if guidance else text), applied


def _get_body(skill: str) -> str:
    found = _GUIDANCE.search(skill)
    if not found:
        return skill
    before, after = skill[: found.start()], skill[found.end() :]
    return f"{before}\n{after}" if before and not before.endswith("\n") else before + after
