"""How people correct and approve, in several languages, and what only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.session import Feedback, PromptKind
from skillopt_sleep.sources.feedback import label_feedback

CORRECTION, APPROVAL, NEITHER = Feedback.CORRECTION, Feedback.APPROVAL, Feedback.NEITHER

ANSWER = "I renamed the invoice parser and added a table of contents to the guide. All tests pass."
PROPOSAL = "There are two ways to do this. I recommend the second. Want me to go on with it?"


def label(prompt, answer=ANSWER, kind=PromptKind.TYPED, *, interrupted=False):
    """The verdict on a prompt after an ordinary answer."""
    return label_feedback(prompt, answer, kind, interrupted)


@pytest.mark.parametrize(
    "prompt",
    [
        "no, use the old name",
        "No. Keep it as it was.",
        "nope that's not what I asked for",
        "ok, but not the second one",
        "that's wrong, the total includes tax",
        "thats not right",
        "wait, actually leave the file alone",
        "you forgot the header",
        "You missed two of them",
        "why did you delete the comment?",
        "I said tabs, not spaces",
        "undo that",
        "please revert the last change",
        "put it back the way it was",
        "can you look at it again. it still fails on empty input",
        "it doesn't compile",
        "It doesn\u2019t work on my machine",
        "this isn't working",
        "the invoice parser is still broken",
        "the guide does not build any more",
        "the summary should be at the top",
        "should have been three columns",
        "use a list instead",
        "it's too verbose",
        "change of plan: only the tests",
        "I meant the other branch",
        "ignore the last message",
        "can we keep only the first part..not the second one",
        "nein, das war anders gemeint",
        "das stimmt nicht",
        "non, ce n'est pas ça",
        "no es eso, usa la otra",
        "não, está errado",
        "нет, не так",
        "不对, 应该用另一个",
        "違います、元に戻して",
        "아니, 그게 아니야",
    ],
)
def test_correction_is_heard(prompt):
    """Refusing, undoing, restating or reporting a failure is a correction."""
    assert label(prompt) is CORRECTION


@pytest.mark.parametrize(
    "prompt",
    [
        "yes",
        "Yes, apply that",
        "yep do it",
        "go ahead",
        "go ahead and commit",
        "ok",
        "okay",
        "ok do it",
        "ok push a new branch",
        "okay, open a PR",
        "oki doki",
        "ship it",
        "sounds good",
        "looks good to me, now the docs",
        "LGTM",
        "perfect!",
        "Great! Can you also show me the other one?",
        "Thanks, now update the changelog",
        "thank you",
        "no problem, go on",
        "that works",
        "nice, next one",
        "ja, mach das",
        "danke, passt",
        "parfait, merci",
        "sí, hazlo",
        "perfeito, obrigado",
        "отлично, спасибо",
        "好的, 继续",
        "ありがとう、次をお願いします",
        "네 좋아요",
    ],
)
def test_approval_is_heard(prompt):
    """Accepting what was done or proposed is an approval, whatever is asked next."""
    assert label(prompt) is APPROVAL


@pytest.mark.parametrize(
    "prompt",
    [
        "add a test for the parser",
        "fix the bug where login doesn't work",
        "can you check why the build is failing",
        "why is the sky blue?",
        "how do I undo a commit?",
        "does this undo the rename",
        "is it correct that we ignore the tax?",
        "ok, we also need a new endpoint",
        "ok so next the docs",
        "okay, can you explain the second part",
        "ok, one more thing",
        "continue",
        "try again",
        "let's see how the parser handles dates",
        "commit the changes",
        "notes about the release go into NEWS.md",
        "nobody uses the old format, drop it from the reader",
        "a customer got a wrong total in March, find out why",
        "What about this log:\n\nerror: it does not work",
        "```\nno such file\n```",
        "$ make\nno rule to make target",
        "<div>no</div>",
        "",
        "   ",
        "…",
    ],
)
def test_next_request_says_nothing_about_the_answer(prompt):
    """A new request, a question, "go on" and pasted text are no feedback."""
    assert label(prompt) is NEITHER


def test_first_prompt_says_nothing():
    """Without an answer there is nothing to correct or approve."""
    assert label("no, not like that", answer="") is NEITHER
    assert label("thanks", answer="") is NEITHER


@pytest.mark.parametrize(
    ("prompt", "verdict"),
    [
        pytest.param("only the tests, please", CORRECTION, id="what was meant"),
        pytest.param("I removed it already", CORRECTION, id="what was not known"),
        pytest.param("continue", NEITHER, id="go on"),
        pytest.param("sorry, wrong key, continue", NEITHER, id="stopped by mistake"),
        pytest.param("what does the second test do?", NEITHER, id="question"),
        pytest.param("got a question: is it atomic", NEITHER, id="question announced"),
    ],
)
def test_words_after_an_interruption(prompt, verdict):
    """Who stops the agent and says something says what was wrong, unless it is a question or a go-on."""
    assert label(prompt, interrupted=True) is verdict
    assert label(prompt, answer="", interrupted=True) is verdict


def test_joining_in_approves_only_a_proposal():
    """ "Let's" approves only where something was proposed."""
    assert label("let's do the second", PROPOSAL) is APPROVAL
    assert label("let's add a cache", ANSWER) is NEITHER


def test_failure_counts_only_when_it_is_about_the_answer():
    """A complaint is a correction only if it is about the answer."""
    assert label("the parser does not show the date") is CORRECTION
    assert label("printers in Lyon do not work") is NEITHER


def test_correction_outweighs_approval():
    """A complaint after praise is a correction."""
    assert label("great, but you forgot the header. it doesn't build") is CORRECTION


def test_refusal_is_a_correction_whatever_the_words():
    """Words said while refusing a tool call."""
    assert label("thanks", answer="", kind=PromptKind.REJECTION) is CORRECTION


@pytest.mark.parametrize("kind", [PromptKind.ANSWER, PromptKind.HEADLESS])
def test_weak_words_are_no_verdict(kind):
    """A choice among answers, and a prompt that may be a program's."""
    assert label("no, wrong", kind=kind) is NEITHER


def test_only_the_opening_is_looked_at():
    """Words deep in a long prompt are no feedback."""
    assert label("add a page about taxes. " + "It has three parts. " * 30 + "No, that's wrong.") is NEITHER


@given(prompt=st.text(max_size=500), answer=st.text(max_size=200), interrupted=st.booleans())
def test_any_text_gets_a_verdict(prompt, answer, interrupted):
    """Labelling never raises and always gives the same label."""
    kinds = [label_feedback(prompt, answer, PromptKind.TYPED, interrupted) for _ in range(2)]
    assert kinds[0] is kinds[1]
