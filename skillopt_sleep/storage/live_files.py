"""What was made live in one file, night after night, and what the file is once some of that is taken out.

Nothing is subtracted. Every adoption keeps the bytes it found and the edits it made, so taking an edit out means to
apply the others again, in order, to what the file was before. That is exact, or it is refused.

The live files a night may change: where they lie, and their bytes as they are now.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import Refused
from skillopt_sleep.model.document import Candidate, Document, DocumentKind, region, with_region
from skillopt_sleep.model.edit import EditRecord, EditStatus, apply_edits
from skillopt_sleep.storage.files import read_regular


class Adoption(Struct, frozen=True, kw_only=True):
    """One night's edits of one live file, in the order they were applied; those reverted since are not among them.

    ``before`` and ``after`` are the bytes of the file around it, None when there is no file. ``mode`` holds the
    permission bits of the file that was there. ``folders`` counts the parents of the file that exist only for it.
    ``how`` says by whose word it went live, "" when a gate had accepted it; ``adopted_at`` is ISO 8601.
    """

    id: int
    night: str
    project: str
    path: str
    kind: DocumentKind
    whole: bool
    before: bytes | None
    after: bytes | None
    edits: tuple[EditRecord, ...]
    mode: int | None = None
    folders: int = 0
    how: str = ""
    adopted_at: str = ""

    def document(self, content: bytes | None) -> Document:
        """This file with other content."""
        return Document(kind=self.kind, path=self.path, content=content, whole=self.whole)

    def region(self, content: bytes | None) -> str:
        """The editable region of this file with other content."""
        return region(self.document(content))


def without(history: Sequence[Adoption], gone: Callable[[Adoption, EditRecord], bool]) -> tuple[Adoption, ...]:
    """The adoptions of one file, oldest first, as they would be if these edits had never been adopted.

    One whose edits are all gone stays in place, with ``after`` equal to ``before``. Raises ``Refused`` when later
    edits stand on those that go, naming them and how to revert them too, and when they stand on changes made by hand.
    """
    result: list[Adoption] = []
    stranded: list[EditRecord] = []
    for previous, old in itertools.pairwise((None, *history)):
        if old is None:
            continue
        base = old if previous is None else _moved_base(old, previous, result[-1])
        kept = tuple(edit for edit in old.edits if not gone(old, edit))
        if base == old and kept == old.edits:
            result.append(old)
            continue
        after, outcomes = apply_edits(base.document(base.before), kept, cap=None)
        stranded += [outcome.edit for outcome in outcomes if outcome.status is not EditStatus.APPLIED]
        result.append(msgspec.structs.replace(base, after=after.content, edits=kept))
    if stranded:
        first = "; ".join(f"skillopt-sleep revert --edit {edit.id}" for edit in reversed(stranded))
        raise Refused(
            f"{history[0].path}: later edits stand on what would be reverted"
            f" ({', '.join(f'{edit.id}: {edit.op} {edit.text!r}' for edit in stranded)}); revert these first: {first}"
        )
    return tuple(result)


def moved(live: bytes | None, history: Sequence[Adoption], result: Sequence[Adoption]) -> bytes | None:
    """What the live file becomes when its history becomes ``result``; bytes outside the region are its owner's.

    Raises ``Refused`` when the region was changed by hand since the last adoption.
    """
    last, new = history[-1], result[-1]
    if live == last.after:
        return new.after
    found, wanted = last.region(live), new.region(new.after)
    if found == wanted:
        return live
    if found != last.region(last.after):
        raise Refused(
            f"{last.path}: its rules were changed by hand since night {last.night}, so nothing was touched;"
            " put them back as they were adopted, or take out by hand what you do not want"
        )
    return with_region(last.document(live), wanted).content


def _moved_base(old: Adoption, previous: Adoption, new: Adoption) -> Adoption:
    """``old`` on the file that ``new`` left, where ``previous`` stood below it."""
    if old.before == previous.after:
        return msgspec.structs.replace(old, before=new.after)
    if new.after == previous.after:
        return old
    if old.region(old.before) != previous.region(previous.after):
        raise Refused(
            f"{old.path}: its rules were changed by hand between the nights {previous.night} and {old.night};"
            f" revert the later night first: skillopt-sleep revert {old.night}"
        )
    before = with_region(old.document(old.before), new.region(new.after)).content
    return msgspec.structs.replace(old, before=before)


def read_baseline(paths: Mapping[DocumentKind, Path]) -> tuple[Candidate, tuple[str, ...]]:
    """The live documents, an absent file being one without content, and a note on each that is left out.

    A document that is a link, a folder or anything but a plain file is not ours to change: the night goes on without
    it. Raises ``DiskError``.
    """
    documents, notes = [], []
    for kind, path in paths.items():
        try:
            content = read_regular(path)
        except Refused as refused:
            notes.append(f"the {kind} is left as it is: {refused}")
        else:
            documents.append(Document(kind=kind, path=str(path), content=content, whole=kind is DocumentKind.SKILL))
    return Candidate(documents=tuple(documents)), tuple(notes)
