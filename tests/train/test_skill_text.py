"""A skill as one text: rules, prose, and a part that steps cannot touch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord, EditStatus
from skillopt_sleep.train.skill_text import PART_CAP, apply_to_skill, get_part, replace_part, skill_hash

LINES = st.lists(st.text(alphabet="abc -#*.", max_size=12), max_size=6)


def edit(op, text="", anchor=""):
    return EditRecord(id=f"{op}{text}{anchor}", op=EditOp(op), document=DocumentKind.SKILL, text=text, anchor=anchor)


@pytest.mark.parametrize(
    ("skill", "change", "expected"),
    [
        pytest.param("# Units\n", edit("append", "Use metres."), "# Units\n\n- Use metres.\n", id="append-rule"),
        pytest.param("- a\n- b\n", edit("insert_after", "c", "a"), "- a\n- c\n- b\n", id="insert-after-rule"),
        pytest.param("- a\n- b\n", edit("delete", "", "a"), "- b\n", id="delete-rule"),
        pytest.param(
            "Be brief.\nBe kind.\n", edit("replace", "Be terse.", "Be brief."), "Be terse.\nBe kind.\n", id="prose"
        ),
        pytest.param("one\ntwo\nthree\n", edit("delete", "", "two"), "one\nthree\n", id="delete-line"),
        pytest.param("# H\nfirst\n", edit("insert_after", "new", "# H"), "# H\nnew\nfirst\n", id="below-heading"),
        pytest.param("a  word\nhere\n", edit("replace", "x", "word here"), "a  x\n", id="folded-white-space"),
        pytest.param("# A\n", edit("append", "## B\n- c\n- d"), "# A\n\n## B\n- c\n- d\n", id="append-section"),
        pytest.param("", edit("append", "a"), "- a\n", id="empty"),
    ],
)
def test_edit_of_a_skill(skill, change, expected):
    """Rules are edited as list items, and what is no rule as words that stand there once."""
    changed, (applied,) = apply_to_skill(skill, [change])
    assert (changed, applied.status) == (expected, EditStatus.APPLIED)


@pytest.mark.parametrize(
    ("skill", "change", "status"),
    [
        pytest.param("a\n", edit("replace", "x", "missing"), EditStatus.UNMATCHED, id="not-there"),
        pytest.param("a b a\n", edit("replace", "x", "a"), EditStatus.UNMATCHED, id="there-twice"),
        pytest.param("a\n", edit("insert_after", "x", "missing"), EditStatus.UNMATCHED, id="insert-appends-nothing"),
        pytest.param("- a\n", edit("append", "a"), EditStatus.SKIPPED, id="said-already"),
        pytest.param("a\n", edit("append", "x skillopt-sleep: guidance"), EditStatus.GUARDED, id="our-marker"),
        pytest.param("a\n", edit("append", "## s skillopt-sleep:end\n- x"), EditStatus.GUARDED, id="marker-in-block"),
    ],
)
def test_edit_that_cannot_be(skill, change, status):
    """It is reported with why, and changes nothing."""
    changed, (applied,) = apply_to_skill(skill, [change])
    assert (changed, applied.status) == (skill, status)
    assert applied.why


def test_cap_skips_what_would_outgrow_it():
    """Edits are applied up to the cap, and the one over it is skipped."""
    changed, applied = apply_to_skill("", [edit("append", "a" * 30), edit("append", "b" * 30)], cap=50)
    assert [each.status for each in applied] == [EditStatus.APPLIED, EditStatus.SKIPPED]
    assert "b" not in changed


def test_steps_cannot_touch_guidance():
    """An edit can neither anchor in the guidance nor move it: whatever a step does, it stands last, unchanged."""
    skill = replace_part("# Units\n- a\n", "- Keep units.")
    changed, applied = apply_to_skill(
        skill, [edit("delete", "", "Keep units."), edit("replace", "x", "- Keep units."), edit("append", "b")]
    )
    assert [each.status for each in applied] == [EditStatus.UNMATCHED, EditStatus.UNMATCHED, EditStatus.APPLIED]
    assert get_part(changed) == "- Keep units."
    assert changed.index("- b") < changed.index("- Keep units.")


@given(LINES, LINES)
def test_guidance_comes_out_as_it_went_in(body, guidance):
    """Guidance is read back stripped, takes the place of the one before, and leaves the body as it was."""
    text, said = "\n".join(body), "\n".join(guidance).strip()
    skill = replace_part(replace_part(text, "before"), said)
    assert get_part(skill) == said
    assert replace_part(skill, "").strip() == text.strip()


def test_guidance_is_bounded():
    """It is read with every task, so its length has a cap, and it may not hold its own markers."""
    with pytest.raises(ValueError, match="at most 2000 are allowed"):
        replace_part("", "x" * (PART_CAP + 1))
    with pytest.raises(ValueError, match="must not contain"):
        replace_part("", "<!-- skillopt-sleep:end of guidance -->")


def test_hash_names_a_text():
    """Sixteen hex digits, the same for the same text."""
    assert skill_hash("a") == skill_hash("a") != skill_hash("b")
    assert len(skill_hash("a")) == 16
