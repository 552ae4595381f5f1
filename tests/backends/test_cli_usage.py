"""Tokens and prices that an agent CLI prints are believed within bounds; a good answer is kept whatever they are."""

from __future__ import annotations

import json

import pytest

from skillopt_sleep.backends import claude, codex
from skillopt_sleep.backends.codex_output import read_record
from skillopt_sleep.backends.process import Ended
from skillopt_sleep.model.call import Prompt
from tests.backends.test_claude import result
from tests.backends.test_codex import events, said

PROMPT = Prompt(system="You are terse.", user="hello " * 20)
ODD = ["-5", "1" + 30 * "0", "1e999", "true", "{}", '"many"', '"-5"', "9" * 5000]
ODD_IDS = ["negative", "absurd", "endless", "true", "table", "words", "negative text", "digits"]


def of_claude(line: str):
    return claude.read_reply(Ended(stdout=line), PROMPT, model="m", deadline=1.0)


def of_codex(lines: str):
    return codex.read_reply(Ended(stdout=lines), PROMPT, model="m", deadline=1.0)


@pytest.mark.parametrize("odd", ODD, ids=ODD_IDS)
def test_tokens_of_claude(odd):
    """The answer is kept, and its tokens are estimated."""
    line = result(usage={"input_tokens": "ODD", "output_tokens": 1}, modelUsage={"m": {"inputTokens": "ODD"}})
    reply = of_claude(line.replace('"ODD"', odd))
    assert (reply.text, reply.usage.estimated) == ("hi there", True)
    assert reply.usage.input_tokens > 20


@pytest.mark.parametrize("odd", ODD, ids=ODD_IDS)
def test_price_of_claude(odd):
    """A price that cannot be is unknown."""
    reply = of_claude(result(total_cost_usd="ODD").replace('"ODD"', odd))
    assert (reply.text, reply.cost_usd) == ("hi there", None)


def test_tokens_of_claude_in_an_odd_form():
    """Numbers sent as text are read; an account by models that is no table is left out."""
    reply = of_claude(result(usage={"input_tokens": "7", "output_tokens": None}, modelUsage=[1], total_cost_usd="0.5"))
    assert (reply.usage.input_tokens, reply.usage.estimated, reply.cost_usd, reply.model) == (7, False, 0.5, "m")


@pytest.mark.parametrize("odd", ODD, ids=ODD_IDS)
def test_tokens_of_codex(odd):
    """The answer is kept, and its tokens are estimated; a record counts the requests that can be counted."""
    usage = {"input_tokens": "ODD", "output_tokens": 1}
    reply = of_codex(events(said("hi"), {"type": "turn.completed", "usage": usage}).replace('"ODD"', odd))
    assert (reply.text, reply.usage.estimated) == ("hi", True)
    good = {"input_tokens": 5, "output_tokens": 2}
    lines = [{"type": "token_usage_record", "payload": {"usage": table}} for table in (usage, good)]
    record = "\n".join(json.dumps(line) for line in lines).replace('"ODD"', odd)
    assert (read_record(record.encode()).usage.input_tokens, read_record(record.encode()).usage.output_tokens) == (5, 2)


def test_half_a_character():
    """A lone surrogate in an answer becomes a replacement character."""
    assert of_claude(result("half \ud83d end")).text == "half \ufffd end"
    done = {"type": "turn.completed", "usage": {}}
    assert of_codex(events(said("half \ud83d end"), done)).text == "half \ufffd end"


def test_line_that_is_nested_too_deeply():
    """It is skipped, and the answer on another line is read."""
    deep = '{"type": ' + "[" * 200_000 + "]" * 200_000 + "}\n"
    assert of_claude(deep + result()).text == "hi there"
    assert of_codex(deep + events(said("hi"), {"type": "turn.completed"})).text == "hi"
