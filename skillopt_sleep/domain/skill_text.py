"""A skill as one text, as training holds it: a body that steps edit, and guidance that only an epoch's end writes.

The guidance lies between two markers at the end of the text, so the agent reads it with the rest; edits of a step are
given the body alone, and can neither anchor in the guidance nor write its markers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from skillopt_sleep.domain.digest import sha256
from skillopt_sleep.domain.document import Document, DocumentKind
from skillopt_sleep.domain.edit import AppliedEdit, EditRecord, apply_edits

__all__ = ["GUIDANCE_CAP", "apply_to_skill", "guidance_of", "skill_hash", "with_guidance"]

GUIDANCE_BEGIN = "<!-- skillopt-sleep:guidance -->"
GUIDANCE_END = "<!-- skillopt-sleep:end of guidance -->"
GUIDANCE_CAP = 2_000
"""Characters of guidance: it is read with every task."""

_GUIDANCE = re.compile(rf"\n*{re.escape(GUIDANCE_BEGIN)}\n(?P<guidance>.*?)\n?{re.escape(GUIDANCE_END)}\n?", re.DOTALL)


def skill_hash(skill: str) -> str:
    """Sixteen hex digits of a skill's text."""
    return sha256(skill.encode("utf-8", "surrogatepass"))[:16]


def guidance_of(skill: str) -> str:
    """The guidance in a skill, "" where there is none."""
    found = _GUIDANCE.search(skill)
    return found["guidance"].strip() if found else ""


def with_guidance(skill: str, guidance: str) -> str:
    """The skill with this guidance in place of any other; with "" there is none.

    Raises ``ValueError`` for guidance that holds a marker of ours, or is over ``GUIDANCE_CAP``.
    """
    if "skillopt-sleep:" in guidance:
        raise ValueError("guidance may not hold the markers of its own region")
    if len(guidance) > GUIDANCE_CAP:
        raise ValueError(f"guidance has {len(guidance)} characters, over the cap of {GUIDANCE_CAP}")
    body = _body(skill)
    if not guidance.strip():
        return body
    return f"{body.rstrip()}\n\n{GUIDANCE_BEGIN}\n{guidance.strip()}\n{GUIDANCE_END}\n".lstrip("\n")


def apply_to_skill(
    skill: str, edits: Iterable[EditRecord], *, cap: int | None = None
) -> tuple[str, tuple[AppliedEdit, ...]]:
    """Apply edits in order to the body of a skill; each comes back with what became of it.

    An anchor is a whole rule, or words that stand in the body exactly once. ``cap`` bounds the characters of the body.
    Raises ``Refused`` for a skill whose frontmatter never ends.
    """
    guidance, body = guidance_of(skill), _body(skill)
    document = Document(kind=DocumentKind.SKILL, path="skill/SKILL.md", content=body.encode(), whole=True)
    changed, applied = apply_edits(document, edits, cap=cap, prose=True)
    if changed == document:
        return skill, applied
    text = (changed.content or b"").decode()
    return (with_guidance(text, guidance) if guidance else text), applied


def _body(skill: str) -> str:
    found = _GUIDANCE.search(skill)
    if not found:
        return skill
    before, after = skill[: found.start()], skill[found.end() :]
    return f"{before}\n{after}" if before and not before.endswith("\n") else before + after
