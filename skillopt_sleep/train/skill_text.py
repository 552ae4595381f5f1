"""Holds a trained skill as one text: a body that steps edit, and two parts below it that steps cannot touch.

The *appendix* reminds the agent of rules it did not keep to (skill-aware reflection); the *guidance* is written at the
end of an epoch. Both lie between markers at the end of the text, so the agent reads them with the rest. A step's edits
see the body alone: they can neither anchor in those parts nor write their markers.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable

from skillopt_sleep.model.document import Document, DocumentKind, read_region, replace_region
from skillopt_sleep.model.edit import AppliedEdit, EditRecord, apply_edits
from skillopt_sleep.model.text import sha256
from skillopt_sleep.safety.guard import guard

PART_CAP = 2_000
"""Characters of each part: it is read with every task."""


class Part(enum.StrEnum):
    """A part of a skill that steps cannot touch, in the order in which the parts stand."""

    APPENDIX = "appendix"
    GUIDANCE = "guidance"

    @property
    def begin(self) -> str:
        """The line before the part."""
        return f"<!-- skillopt-sleep:{self} -->"

    @property
    def end(self) -> str:
        """The line after the part."""
        return f"<!-- skillopt-sleep:end of {self} -->"

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches the part with its markers, and the blank lines before it."""
        return re.compile(rf"\n*{re.escape(self.begin)}\n(?P<text>.*?)\n?{re.escape(self.end)}\n?", re.DOTALL)


def skill_hash(skill: str) -> str:
    """Return sixteen hex digits that identify a skill's text."""
    return sha256(skill.encode("utf-8", "surrogatepass"))[:16]


def get_part(skill: str, part: Part = Part.GUIDANCE) -> str:
    """Return the text of a part, "" where there is none."""
    found = part.pattern.search(skill)
    return found["text"].strip() if found else ""


def replace_part(skill: str, text: str, part: Part = Part.GUIDANCE) -> str:
    """Replace a part of a skill; "" removes it.

    Raises ``ValueError`` for a text that holds one of our markers or is longer than ``PART_CAP``.
    """
    if "skillopt-sleep:" in text:
        raise ValueError(f"{part} may not contain the markers of its own region")
    if len(text) > PART_CAP:
        raise ValueError(f"{part} has {len(text)} characters, over the cap of {PART_CAP}")
    return _join(_get_body(skill), {name: get_part(skill, name) for name in Part} | {part: text})


def apply_to_skill(
    skill: str, edits: Iterable[EditRecord], *, cap: int | None = None
) -> tuple[str, tuple[AppliedEdit, ...]]:
    """Apply edits in order to the body of a skill and report what became of each.

    An anchor is a whole rule, or words found exactly once in the body. ``cap`` bounds the body in characters. Raises
    ``Refused`` for a skill whose frontmatter never ends.
    """
    document = _as_document(skill)
    changed, applied = apply_edits(document, edits, cap=cap, prose=True)
    return (skill if changed == document else _with_body(skill, changed)), applied


def read_body(skill: str) -> str:
    """Return the body of a skill without frontmatter: what a rewrite may change."""
    return read_region(_as_document(skill)).strip()


def rewrite_body(skill: str, text: str, *, cap: int) -> tuple[str, str]:
    """Return the skill with another body, and the reason if it is unchanged ("" otherwise).

    Frontmatter and the parts that steps cannot touch stay. Every new line has to pass the guard.
    """
    text, before = text.strip(), read_body(skill)
    why = ""
    if not text:
        why = "the rewritten skill is empty"
    elif "skillopt-sleep:" in text:
        why = "the rewritten skill contains our own markers"
    elif len(text) > cap:
        why = f"the rewritten skill has {len(text)} characters, over the cap of {cap}"
    elif text == before:
        why = "the rewritten skill is the same as before"
    known = set(map(str.strip, before.splitlines()))
    held = (guard(line) for line in map(str.strip, text.splitlines()) if line and line not in known)
    why = why or next((f"a line of the rewritten skill is held back: {found}" for found in held if found), "")
    if why:
        return skill, why
    return _with_body(skill, replace_region(_as_document(skill), f"{text}\n")), ""


def _as_document(skill: str) -> Document:
    return Document(kind=DocumentKind.SKILL, path="skill/SKILL.md", content=_get_body(skill).encode(), whole=True)


def _with_body(skill: str, document: Document) -> str:
    return _join((document.content or b"").decode(), {part: get_part(skill, part) for part in Part})


def _join(body: str, parts: dict[Part, str]) -> str:
    """Return a skill of a body and the texts of its parts; a part without text leaves no trace."""
    blocks = [f"{part.begin}\n{text.strip()}\n{part.end}\n" for part, text in parts.items() if text.strip()]
    return "\n".join([f"{body.rstrip()}\n", *blocks]).lstrip("\n") if blocks else body


def _get_body(skill: str) -> str:
    for part in Part:
        found = part.pattern.search(skill)
        if found:
            before, after = skill[: found.start()], skill[found.end() :]
            skill = f"{before}\n{after}" if before and not before.endswith("\n") else before + after
    return skill
