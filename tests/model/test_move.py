"""Moves: what is read from replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.move import Act, ActKind, Move, parse_move

SAYS, RUNS, EDITS, CREATES = ActKind
Short = tuple[ActKind, str] | tuple[ActKind, str, str]


def shorten(move: Move) -> list[tuple[str, ...]]:
    """Kind, text and path of each act."""
    return [(str(act.kind), act.text, *([act.path] if act.path else [])) for act in move.acts]


REPLIES = {
    "words": ("I will ask first.", [("says", "I will ask first.")]),
    "a fence": (
        "First a branch.\n\n```bash\ngit switch -c labels\n# and then\ngit add -A && \\\n  git commit -m x\n```\nDone.",
        [
            ("says", "First a branch."),
            ("runs", "git switch -c labels"),
            ("runs", "git add -A &&    git commit -m x"),
            ("says", "Done."),
        ],
    ),
    "a prompt": ("$ make lint", [("runs", "make lint")]),
    "a transcript": ("```console\n$ make lint\nall good\n```", [("runs", "make lint")]),
    "a label": ("Run: `make lint`", [("runs", "make lint")]),
    "a diff": (
        "```diff\n--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -1 +1 @@\n-total = 0\n+total = Money(0)\n```",
        [("edits", "total = Money(0)", "shop/cart.py")],
    ),
    "a diff with a heading": (
        "Edit `shop/cart.py`:\n```diff\n-a\n+b\n```",
        [("says", "Edit `shop/cart.py`:"), ("edits", "b", "shop/cart.py")],
    ),
    "a new file": ("```diff\n--- /dev/null\n+++ b/notes.md\n+Hello\n```", [("creates", "Hello", "notes.md")]),
    "a block with its path": (
        "shop/cart.py\n```python\ntotal = 0\n```",
        [("says", "shop/cart.py"), ("creates", "total = 0", "shop/cart.py")],
    ),
    "a path in the info": ("```go:cmd/main.go\npackage main\n```", [("creates", "package main", "cmd/main.go")]),
    "a heredoc": (
        "```sh\ncat > notes.md <<'EOF'\nHello\nEOF\n```",
        [("runs", "cat > notes.md <<'EOF'\nHello\nEOF"), ("creates", "Hello", "notes.md")],
    ),
    "a patch": (
        "*** Begin Patch\n*** Update File: a.go\n@@\n-x\n+y\n*** Add File: b.go\n+z\n*** End Patch\nDone.",
        [("edits", "y", "a.go"), ("creates", "z", "b.go"), ("says", "Done.")],
    ),
    "two files in a diff": (
        "```diff\n--- a/x.py\n+++ b/x.py\n+1\n--- a/y.py\n+++ b/y.py\n-2\n```",
        [("edits", "1", "x.py"), ("edits", "", "y.py")],
    ),
    "code that is only shown": ("Like so:\n```python\nx = 1\n```", [("says", "Like so:\nx = 1")]),
    "output": ("It said:\n```text\n$ make\n```", [("says", "It said:\n$ make")]),
    "a fence that never ends": ("```sh\nmake", [("runs", "make")]),
}


@pytest.mark.parametrize(("text", "acts"), REPLIES.values(), ids=REPLIES)
def test_a_reply_in_the_forms_agents_use(text: str, acts: list[tuple[str, ...]]) -> None:
    """Words, commands and files are told apart, in order; of an edit only the added lines are kept."""
    assert shorten(parse_move(text)) == acts


@given(st.text(alphabet="ab`~$+-*/. \n<>'\"@", max_size=300))
def test_any_text_at_all(text: str) -> None:
    """It is read without an error."""
    parse_move(text)


line = st.text(alphabet="abc d", min_size=1, max_size=20).filter(str.strip).map(str.strip)
path = st.sampled_from(["a.go", "docs/b.md", "src/deep/c_test.py", "../d/e.txt"])
body = st.lists(line, min_size=1, max_size=4).map("\n".join)
act = st.one_of(
    line.map(lambda text: Act(kind=RUNS, text=text)),
    st.builds(
        lambda kind, where, text: Act(kind=kind, path=where, text=text), st.sampled_from([EDITS, CREATES]), path, body
    ),
)


@given(st.lists(act, max_size=6))
def test_a_rendered_move_reads_the_same(acts: list[Act]) -> None:
    """What steps did can be stored as text and read again."""
    move = Move(acts=tuple(acts))
    assert parse_move(move.render()) == move


def test_a_command_that_was_only_quoted() -> None:
    """Recorded words stay words, whatever they quote."""
    quoted = Move(acts=(Act(kind=SAYS, text="The real run is:\n```sh\nmake docker\n```"), Act(kind=RUNS, text="ls")))
    assert [act.kind for act in parse_move(quoted.render()).acts] == [SAYS, RUNS]
