"""report.md, as a reader meets it and as an attacker would like to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from skillopt_sleep.diagnostics import TaskLabel
from skillopt_sleep.model.replies import Refusal
from skillopt_sleep.model.session import Skip
from skillopt_sleep.reports.formatting import escape, plain
from skillopt_sleep.reports.page import render_report
from tests.reports.samples import ACCEPTED, SAMPLES

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

HOSTILE = (
    "</td><script>alert(1)</script>",
    "![x](https://evil.example/leak.png)",
    "[adopt now](https://evil.example)",
    "a | b | c",
    "``` \n# Approved\n```",
    "# ACCEPTED",
    "1. first",
    "- [x] done",
    "> said",
    "**bold** _soft_ ~~gone~~ &lt;b&gt; \\",
    "=====",
    "<https://evil.example>",
    "| --- | --- |",
)


@pytest.mark.parametrize(
    "name", ["accepted", "rejected", "undecided", "unmeasured", "logged-out", "budget", "paired", "pending"]
)
def test_page_reads_as_the_snapshot(name, snapshot):
    """The pages are read by people; a change of one is looked at."""
    snapshot(f"{name}.md", render_report(SAMPLES[name]).encode())


@pytest.mark.parametrize("report", SAMPLES.values(), ids=SAMPLES)
def test_page_begins_with_the_verdict_and_ends_cleanly(report):
    """Title, verdict, sentence, what to do: in this order, whatever the night; no empty section."""
    page = render_report(report)
    lines = [line for line in page.splitlines() if line]
    assert lines[0].startswith("# ")
    assert lines[1].startswith("**")
    assert lines[3 + bool(report.proposal)].startswith("**What to do now.** ")
    assert page.endswith("\n")
    assert not page.endswith("\n\n")
    assert "\n\n\n" not in page


def shown(page: str) -> str:
    """The text of all inline content of a page, without its markup."""
    inline = [token for token in READER.parse(page) if token.type == "inline"]
    return "\n".join("".join(child.content for child in token.children or ()) for token in inline)


def structure(page: str) -> list[str]:
    """The blocks and inline marks of a page, without its words."""
    tokens = READER.parse(page)
    inline = [
        child.type for token in tokens for child in token.children or () if child.type not in {"text", "softbreak"}
    ]
    return [token.type for token in tokens] + [mark for mark in inline if mark != "text_special"]


@pytest.mark.parametrize("frame", ["Said: {}", "- {}", "1. **{}**", "{}", "| a | b |\n| --- | --- |\n| {} | x |"])
@given(
    text=st.one_of(st.text(min_size=1), st.text("\\`*_[]()<>|~&#-+=:!;.1a \n", min_size=1), st.sampled_from(HOSTILE))
)
def test_escaped_text_reads_as_it_was_written(frame, text):
    """In a sentence, a list, bold or a table cell, any text is shown character by character and marks nothing up."""
    words = escape(text)
    if not words:
        return
    cell = words.replace("|", "\\|") if frame.startswith("|") else words
    page = frame.replace("{}", cell)
    assert shown(page) == shown(frame.replace("{}", "WORDS")).replace("WORDS", plain(text))
    assert structure(page) == structure(frame.replace("{}", "WORDS"))


def poisoned(text: str):
    """A night that quotes ``text`` wherever a page quotes anything."""
    edit = replace(ACCEPTED.applied_edits[1].edit, text=text, reason=text, anchor=text, task_ids=("t-01",))
    return replace(
        ACCEPTED,
        why=text,
        applied_edits=(replace(ACCEPTED.applied_edits[1], edit=edit),),
        held_edits=(replace(ACCEPTED.held_edits[0], edit=edit, why=text),),
        holdout_detail=replace(
            ACCEPTED.holdout_detail,
            candidate=tuple(replace(row, why=text) for row in ACCEPTED.holdout_detail.candidate),
        ),
        tasks=tuple(TaskLabel(id=task.id, intent=text, words=(text,)) for task in ACCEPTED.tasks),
        skipped=(Skip(path=text, reason=text, line=1),),
        refused=(Refusal(subject=text, words=text, why=text), Refusal(subject=text, words="", why=f"{text}.")),
        backends=tuple(replace(each, model=text, version=text, detail=text) for each in ACCEPTED.backends),
        documents=tuple(replace(each, path=text, diff=f"+{text}") for each in ACCEPTED.documents),
        call_error=text,
        notes=(text,),
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_page_keeps_its_shape_whatever_it_quotes(text):
    """Hostile words change the words of a page, never its headings, tables, links or code blocks."""
    assert structure(render_report(poisoned(text))) == structure(render_report(poisoned("harmless words")))


def test_diff_with_code_blocks_stays_in_its_own():
    """A fence in the proposed text does not end the fence around it."""
    report = replace(ACCEPTED, documents=(replace(ACCEPTED.documents[0], diff="+````\n+code\n+````\n"),))
    fences = [token for token in READER.parse(render_report(report)) if token.type == "fence"]
    assert [fence.content for fence in fences] == ["+````\n+code\n+````\n"]


def test_long_diff_is_cut_and_says_where_the_rest_is():
    """A page stays a page."""
    diff = "".join(f"+line {n}\n" for n in range(300))
    page = render_report(replace(ACCEPTED, documents=(replace(ACCEPTED.documents[0], diff=diff),)))
    assert "+line 119\n" in page
    assert "+line 120\n" not in page
    assert "180 more lines, in `diagnostics.json`" in page
