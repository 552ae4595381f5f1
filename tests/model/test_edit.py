"""Edits: how a reply is read, how an anchor is found, and what is never written into a document."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.document import BEGIN, Document, DocumentKind, list_rules, read_region, replace_region
from skillopt_sleep.model.edit import EditOp, EditRecord, EditStatus, apply_edits, compute_edit_id, parse_edits

LIVE = "- Use tabs.\n- Sort the\n  imports.\n- Use tabs. In tables too.\n"


def document(text: str = LIVE) -> Document:
    """A memory file with our block in it."""
    return replace_region(Document(kind=DocumentKind.MEMORY, path="CLAUDE.md", content=b"# Mine\n"), text)


def edit(op: str, text: str = "", anchor: str = "", kind: DocumentKind = DocumentKind.MEMORY) -> EditRecord:
    """An edit as a reflection proposes it."""
    number = compute_edit_id(EditOp(op), kind, text, anchor)
    return EditRecord(id=number, op=EditOp(op), document=kind, text=text, anchor=anchor)


def read(*items, known=("t1", "t2")):
    """Read a reply that was asked for edits of the skill."""
    return parse_edits({"edits": list(items)}, known_tasks=known, document=DocumentKind.SKILL)


@pytest.mark.parametrize(
    ("made", "result"),
    [
        pytest.param(edit("append", "New."), LIVE + "- New.\n", id="append"),
        pytest.param(
            edit("append", "- New,\nin two lines."), LIVE + "- New,\n  in two lines.\n", id="append-two-lines"
        ),
        pytest.param(
            edit("delete", anchor="- Use tabs."), "- Sort the\n  imports.\n- Use tabs. In tables too.\n", id="delete"
        ),
        pytest.param(
            edit("replace", "Sort imports.", "Sort   the imports."),
            "- Use tabs.\n- Sort imports.\n- Use tabs. In tables too.\n",
            id="replace-white-space-folded",
        ),
        pytest.param(
            edit("insert_after", "New.", "imports"),
            "- Use tabs.\n- Sort the\n  imports.\n- New.\n- Use tabs. In tables too.\n",
            id="insert-after-part-of-one-rule",
        ),
        pytest.param(
            edit("delete", anchor="Use tabs."),
            "- Sort the\n  imports.\n- Use tabs. In tables too.\n",
            id="whole-rule-before-part-of-another",
        ),
    ],
)
def test_edit_that_fits(made, result):
    """It is applied to its rule and nothing else moves; its anchor then is that whole rule."""
    changed, (outcome,) = apply_edits(document(), [made])
    assert (outcome.status, outcome.why) == (EditStatus.APPLIED, "")
    assert read_region(changed) == result
    assert changed.content.startswith(b"# Mine\n")
    if made.anchor:
        assert f"- {outcome.edit.anchor}" in [" ".join(rule.split()) for rule in list_rules(LIVE)]


@pytest.mark.parametrize(
    ("made", "status", "why"),
    [
        pytest.param(edit("delete", anchor="Use spaces."), "unmatched", "in no rule", id="anchor-missing"),
        pytest.param(edit("replace", "New.", "tabs"), "unmatched", "in 2 rules", id="anchor-twice"),
        pytest.param(edit("insert_after", "New."), "unmatched", "in no rule", id="anchor-empty"),
        pytest.param(edit("append", "*  Sort\n the imports."), "skipped", "has this rule already", id="same-rule"),
        pytest.param(edit("append", "x" * 9000), "skipped", "over the cap of 8000", id="over-the-cap"),
        pytest.param(edit("append", f"a {BEGIN}"), "guarded", "marker", id="our-own-marker"),
        pytest.param(edit("append", "a\n---\nb"), "guarded", "frontmatter", id="frontmatter-fence"),
        pytest.param(edit("append", "- - -"), "guarded", "is empty", id="no-words"),
        pytest.param(edit("append", "--"), "guarded", "list item", id="no-list-item"),
        pytest.param(edit("append", "a", kind=DocumentKind.SKILL), "unmatched", "for the skill", id="other-document"),
    ],
)
def test_edit_that_does_not_fit(made, status, why):
    """It comes back with the reason, and the document stays as it was."""
    changed, (outcome,) = apply_edits(document(), [made])
    assert changed == document()
    assert (outcome.status, outcome.edit) == (status, made)
    assert why in outcome.why


def test_edits_that_build_on_each_other():
    """Each is applied to what the ones before it made."""
    edits = [edit("append", "One."), edit("replace", "Two.", "One."), edit("delete", anchor="One.")]
    changed, outcomes = apply_edits(document(""), edits)
    assert read_region(changed) == "- Two.\n"
    assert [outcome.status for outcome in outcomes] == ["applied", "applied", "unmatched"]


def test_last_rule_deleted_from_a_block():
    """The block goes, and the file is what it was before the block came."""
    changed, _ = apply_edits(document("- One.\n"), [edit("delete", anchor="One.")])
    assert changed.content == b"# Mine\n"


def test_append_below_prose_of_a_whole_document():
    """A blank line parts the new rule from what is no list."""
    body = Document(kind=DocumentKind.SKILL, path="SKILL.md", content=b"---\nname: x\n---\nProse.\n\n", whole=True)
    changed, _ = apply_edits(body, [edit("append", "New.", kind=DocumentKind.SKILL)])
    assert changed.content == b"---\nname: x\n---\nProse.\n\n- New.\n\n"


def test_append_into_a_code_block_that_never_ends():
    """Skipped: there it would be code, and no rule."""
    _, (outcome,) = apply_edits(document("```\n- code\n"), [edit("append", "New.")])
    assert outcome.status is EditStatus.SKIPPED


def test_shrinking_a_region_over_its_cap():
    """Allowed: the cap only bounds growth."""
    _, (outcome,) = apply_edits(document(), [edit("delete", anchor="Use tabs.")], cap=5)
    assert outcome.status is EditStatus.APPLIED


PIECES = st.sampled_from(
    ["- a", "- b", "  c", "", "> q", "# h", "```", "* d", "1. e", "<!-- x", "\tf", "- a\r", "    g"]
)
ANYTHING = st.lists(PIECES | st.text(max_size=5), max_size=6).map("\n".join)
SOUND = st.characters(exclude_categories=["Cs"])


@given(
    ANYTHING,
    st.sampled_from(EditOp),
    st.text(SOUND, max_size=20) | ANYTHING,
    st.sampled_from(["a", "b", "d", "e", "z"]),
)
def test_any_text_in_any_region(text, op, new, anchor):
    """An applied edit adds, replaces or removes exactly one rule; every other edit leaves every byte."""
    body = Document(kind=DocumentKind.SKILL, path="x/SKILL.md", content=text.encode(errors="replace"), whole=True)
    if body.content.startswith(b"---"):
        return
    old = list_rules(read_region(body))
    changed, (outcome,) = apply_edits(body, [edit(op, new, anchor, DocumentKind.SKILL)])
    if outcome.status is not EditStatus.APPLIED:
        assert changed == body
        return
    now = list_rules(read_region(changed))
    gained = {EditOp.APPEND: 1, EditOp.INSERT_AFTER: 1, EditOp.REPLACE: 0, EditOp.DELETE: -1}[op]
    assert len(now) - len(old) == gained
    assert len([rule for rule in now if rule not in old]) == (0 if op is EditOp.DELETE else 1)


@given(st.text(SOUND, max_size=60))
def test_text_read_twice(text):
    """A rule as it was read reads as itself, so its id and its twin in the document are found again."""
    (made,), _ = read({"op": "append", "text": f"x{text}"})
    assert read({"op": "append", "text": made.text})[0] == (made,)


def test_reply_of_edits():
    """Every field is read, under the names models use, and "add" means append."""
    edits, refused = read(
        {"op": "add", "document": "memory", "content": "* Use  tabs.", "reason": " r ", "tasks": ["t2", "t1", "t2"]},
        {"op": "replace", "document": None, "text": "a\r\nb", "target": "-  Old\nrule", "tasks": None},
    )
    assert refused == ()
    assert [(made.op, made.document, made.text, made.anchor, made.reason, made.task_ids) for made in edits] == [
        (EditOp.APPEND, DocumentKind.MEMORY, "Use  tabs.", "", "r", ("t2", "t1")),
        (EditOp.REPLACE, DocumentKind.SKILL, "a\n  b", "Old rule", "", ()),
    ]


@pytest.mark.parametrize(
    ("item", "why"),
    [
        pytest.param(
            {"op": "prepend", "text": "a"}, 'op of the edit is "prepend"; expected one of append, insert_after', id="op"
        ),
        pytest.param({"text": "a"}, "expected one of append", id="no-op"),
        pytest.param(
            {"op": "append", "document": "wiki", "text": "a"},
            'document of the edit is "wiki"; expected one of',
            id="document",
        ),
        pytest.param({"op": "replace", "text": "a"}, "replace needs an anchor", id="anchor"),
        pytest.param({"op": "append", "text": " - \n"}, "text of the edit is empty", id="empty"),
        pytest.param({"op": "append", "text": "a" * 601}, "601 characters; at most 600 are allowed", id="long"),
        pytest.param({"op": "append", "text": 7}, "Expected `str | null`, got `int`", id="number"),
        pytest.param({"op": "append", "text": "a", "reason": "\ud800"}, "not valid Unicode", id="surrogate"),
        pytest.param(["append", "a"], "Expected `object`", id="list"),
    ],
)
def test_item_that_is_no_edit(item, why):
    """Refused by name with the reason; the others are kept."""
    edits, (refused,) = read(item, {"op": "append", "text": "kept"})
    assert [made.text for made in edits] == ["kept"]
    assert refused.subject == "edit 1"
    assert why in refused.why


def test_item_with_an_invented_task_and_field():
    """The edit is kept without them, and both are named."""
    (made,), refused = read({"op": "append", "text": "a", "tasks": ["t9", "t1"], "mood": 1})
    assert made.task_ids == ("t1",)
    assert {(each.subject, each.words) for each in refused} == {
        (f"edit {made.id}", '"t9"'),
        (f"edit {made.id}", '"mood"'),
    }


@pytest.mark.parametrize("raw", [None, [], {"edit": []}, {"edits": {}}, "edits"], ids=repr)
def test_reply_that_is_no_list_of_edits(raw):
    """A ValueError that shows what was found."""
    with pytest.raises(ValueError, match="expected"):
        parse_edits(raw, known_tasks=(), document=DocumentKind.SKILL)


def test_ids_of_edits():
    """White space and list marks do not tell two edits apart; what they do and where does."""
    same = {
        compute_edit_id(EditOp.APPEND, DocumentKind.SKILL, text, "")
        for text in ("Use tabs.", "- Use\n  tabs.", "* Use tabs. ")
    }
    assert len(same) == 1
    assert compute_edit_id(EditOp.APPEND, DocumentKind.MEMORY, "Use tabs.", "") not in same
    assert compute_edit_id(EditOp.REPLACE, DocumentKind.SKILL, "Use tabs.", "a") not in same
