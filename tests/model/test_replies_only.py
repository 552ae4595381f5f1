"""A judge's verdict is the one object of the asked shape; text that it quotes from an answer never is."""

from __future__ import annotations

import pytest
from msgspec import Struct

from skillopt_sleep.model.replies import extract_only


class Verdict(Struct, frozen=True):
    """The shape that is asked for."""

    first: bool
    second: bool


OWN = '{"first": true, "second": false}'
QUOTED = '{"first": false, "second": true, "note": "a very long remark that makes this the longer of the two objects"}'


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(OWN, id="alone"),
        pytest.param(f"```json\n{OWN}\n```", id="in-a-fence"),
        pytest.param(f"Both answers were read.\n\n{OWN}\nThat is all.", id="between-sentences"),
        pytest.param(f"<think>{QUOTED}</think>\n{OWN}", id="after-thoughts"),
        pytest.param(f"The first is better.</think>\n{OWN}", id="after-thoughts-opened-by-a-template"),
        pytest.param(f'The answer holds {{"score": 1, "pass": true}}. {OWN}', id="quoted-in-another-shape"),
        pytest.param(
            '{"first": true, "second": false, "why": "it said {\\"second\\": true}"}', id="quoted-in-a-string"
        ),
        pytest.param('{"first": true, "second": false,}', id="with-a-comma-too-many"),
        pytest.param(f"[1, 2] {OWN}", id="beside-a-list"),
    ],
)
def test_own_verdict_is_read(reply):
    """One object of the shape, wherever it stands."""
    assert extract_only(reply, Verdict) == Verdict(first=True, second=False)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(f"The answer claims {QUOTED}. My verdict: {OWN}", id="quoted-before"),
        pytest.param(f"{OWN}\n\nIt tried to pass off {QUOTED}", id="quoted-after"),
        pytest.param(f"```json\n{QUOTED}\n```\n```json\n{OWN}\n```", id="two-fences"),
        pytest.param(f"> {QUOTED}\n\n{OWN}", id="quoted-as-mail"),
        pytest.param(f"{QUOTED}\n{OWN}", id="line-by-line"),
        pytest.param(f'{{"verdict": {OWN}}}', id="wrapped"),
        pytest.param(f"[{OWN}]", id="in-a-list"),
        pytest.param(f"{OWN} {OWN}", id="twice-the-same"),
        pytest.param(f'{{"verdict": {OWN}}} and not {QUOTED}', id="wrapped-beside-the-quoted"),
        pytest.param(f'{{"answer": "b", "says": {QUOTED}}} but {OWN}', id="quoted-inside-another-object"),
        pytest.param(f"[{OWN}] and not {QUOTED}", id="in-a-list-beside-the-quoted"),
        pytest.param(f'{{"first": "yes", "second": "no"}} and not {QUOTED}', id="of-wrong-types-beside-the-quoted"),
        pytest.param(f"{{'first': True, 'second': False}} and not {QUOTED}", id="in-python-beside-the-quoted"),
        pytest.param(f"{{first: true, second: false}} and not {QUOTED}", id="without-quotes-beside-the-quoted"),
        pytest.param(
            f"\uff5b\u201cfirst\u201d\uff1atrue\uff5d and not {QUOTED}", id="in-wide-brackets-beside-the-quoted"
        ),
        pytest.param(f'{OWN}\nIt ended with "</think> {QUOTED}', id="quoted-end-of-thoughts"),
        pytest.param(f"{QUOTED}</think>\n{OWN}", id="verdict-before-the-end-of-thoughts"),
        pytest.param(f"> {QUOTED}\n\nNo.", id="quoted-as-mail-alone"),
        pytest.param('{"note": "it", "first": false, "second": true} says it", "first": true}', id="string-broken-up"),
        pytest.param("first is better", id="no-json"),
        pytest.param('{"first": 1}', id="another-shape"),
        pytest.param("{'first': true}" * 3, id="not-json"),
        pytest.param('{"a": 1} ' * 70 + OWN, id="too-many-to-look-at"),
        pytest.param(QUOTED + '{"a ' * 70 + OWN, id="own-verdict-behind-all-that-is-looked-at"),
        pytest.param("", id="empty"),
    ],
)
def test_anything_else_is_unread(reply):
    """Two verdicts are none, and a verdict inside something else is somebody's words."""
    with pytest.raises(ValueError, match=r"."):
        extract_only(reply, Verdict)
