"""The pure rule for what a file becomes when some adopted edits are taken out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skillopt_sleep.errors import Refused
from skillopt_sleep.model.document import BEGIN, END, Document, DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord, apply_edits
from skillopt_sleep.storage.live_files import Adoption, compute_content, take_out_edits

EMPTY_BLOCK = f"{BEGIN}\n{END}\n".encode()


def append(text: str) -> EditRecord:
    """Return an edit whose text is its id."""
    return EditRecord(id=text, op=EditOp.APPEND, document=DocumentKind.MEMORY, text=text)


def nights(before: bytes | None, *texts: str) -> tuple[Adoption, ...]:
    """Return the history of a file to which every night appended one rule."""
    found = []
    for number, text in enumerate(texts, start=1):
        document = Document(kind=DocumentKind.MEMORY, path="/p/CLAUDE.md", content=before)
        after, _ = apply_edits(document, [append(text)])
        made = Adoption(
            id=number,
            night=f"n{number}",
            project="/p",
            path=document.path,
            kind=document.kind,
            whole=False,
            before=before,
            after=after.content,
            edits=(append(text),),
        )
        found.append(made)
        before = after.content
    return tuple(found)


def taken_out(history, *texts):
    """Return the history without some edits, and the new content of the file."""
    result = take_out_edits(history, lambda _, edit: edit.id in texts)
    return result, compute_content(history[-1].after, history, result)


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c")], ids="".join)
def test_nights_taken_out_one_by_one(order):
    """Taken out in any order, the last one leaves the exact first bytes, here an empty block."""
    history = nights(EMPTY_BLOCK, "a", "b", "c")
    for text in order:
        history, content = taken_out(history, text)
    assert content == EMPTY_BLOCK
    assert all(not adoption.edits and adoption.before == adoption.after for adoption in history)


def test_night_before_the_one_taken_out():
    """An earlier night stays as recorded, even if its edits would give something else today."""
    first, second = nights(b"# Mine\n", "a", "b")
    first = replace(first, edits=(append("of old"),))
    (kept, _), content = taken_out((first, second), "b")
    assert kept == first
    assert content == second.before


def test_edit_whose_work_a_later_one_undid():
    """An edit is refused when a later one could not have been made without it."""
    (first,) = nights(b"", "a")
    delete = EditRecord(id="delete", op=EditOp.DELETE, document=DocumentKind.MEMORY, anchor="a")
    without_a, _ = apply_edits(first.document(first.after), [delete])
    second = replace(first, id=2, before=first.after, after=without_a.content, edits=(delete,))
    with_a, _ = apply_edits(without_a, [append("a")])
    third = replace(first, id=3, before=without_a.content, after=with_a.content)
    with pytest.raises(Refused, match="later edits build on"):
        taken_out((first, second, third), "delete")
