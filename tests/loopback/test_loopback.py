"""The stand-in for the model services answers by the request alone, and blocks every other host."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPConnection

import pytest

from tests.loopback import FAULTS, Called, Loopback, Said, simulated

TOOL = {"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}
SCHEMA = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}


@pytest.fixture
def loopback():
    """A server."""
    with Loopback() as server:
        yield server


def ask(loopback, path, body, fault="", **headers):
    """Send one request and return status and body."""
    request = urllib.request.Request(
        f"{loopback.url(fault)}{path}", data=json.dumps(body).encode(), headers={"x-api-key": "k", **headers}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def messages(*said, **more):
    """A request of the Messages API."""
    turns = [{"role": ("user", "assistant")[number % 2], "content": each} for number, each in enumerate(said)]
    return {"model": "m", "system": "be good", "messages": turns, **more}


def test_rule_is_followed_only_where_it_is_in_what_was_sent(loopback):
    """Nothing is remembered from one request to the next."""
    for words, answer in (("hello", "ECHO: hello"), ("x RULE: say bananas", "FOLLOWED: say bananas"), ("y", "ECHO: y")):
        _, body = ask(loopback, "/v1/messages", messages(words))
        assert json.loads(body)["content"] == [{"type": "text", "text": answer}]


def test_calls_that_the_words_spell_out_are_made_one_by_one(loopback):
    """The number of results in a request decides the next call, then the answer."""
    words = 'do [[call Bash {"command": "ls {a,b}"}]] and [[call Bash {"command": "pwd"}]]'
    turns = [words]
    for number, command in enumerate(("ls {a,b}", "pwd")):
        _, body = ask(loopback, "/v1/messages", messages(*turns, tools=[TOOL]))
        call = json.loads(body)["content"][-1]
        assert (call["type"], call["name"], call["input"]) == ("tool_use", "Bash", {"command": command})
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": f"result {number}"}
        turns += [[call], [result]]
    _, body = ask(loopback, "/v1/messages", messages(*turns, tools=[TOOL]))
    assert json.loads(body)["stop_reason"] == "end_turn"
    assert loopback.requests[-1].results == ("result 0", "result 1")
    assert loopback.requests[-1].calls[0] == Called(name="Bash", given={"command": "ls {a,b}"})


def test_stream_says_the_same_as_the_whole(loopback):
    """Every API can stream, and the streamed words add up to the answer."""
    bodies = {
        "/v1/messages": messages("hello"),
        "/v1/responses": {"model": "m", "input": "hello"},
        "/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "hello"}]},
    }
    for path, body in bodies.items():
        assert "ECHO: hello" in ask(loopback, path, body)[1]
        streamed = ask(loopback, path, {**body, "stream": True})[1]
        assert streamed.startswith(("event: ", "data: "))
        assert "ECHO: hello" in streamed


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if not fault.in_stream])
def test_fault_of_a_url(loopback, fault):
    """A fault has its status, and the words of either provider."""
    for path in ("/v1/messages", "/v1/responses"):
        status, body = ask(loopback, path, messages("hello"), fault)
        assert status == FAULTS[fault].status
        assert (FAULTS[fault].says or FAULTS[fault].detail) in json.loads(body).get("detail", body)


def test_fault_that_passes_and_fault_of_the_words(loopback):
    """The first N requests of a URL fail; a prompt may ask for its own."""
    assert [ask(loopback, "/v1/messages", messages("a"), "flaky-2")[0] for _ in range(3)] == [529, 529, 200]
    assert [ask(loopback, "/v1/messages", messages(f"a {each}"))[0] for each in ("[[fault 503]]", "")] == [503, 200]


def test_nobody_without_a_key(loopback):
    """An unknown path is refused as by any service."""
    assert ask(loopback, "/v1/messages", messages("hello"), **{"x-api-key": ""})[0] == 401


def test_whoever_wants_out_is_refused_and_remembered(loopback):
    """Requests to other hosts through the proxy are refused."""
    connection = HTTPConnection("127.0.0.1", loopback.port, timeout=10)
    connection.set_tunnel("example.com", 443)
    with pytest.raises(OSError, match="403"):
        connection.request("GET", "/")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": loopback.root}))
    with pytest.raises(urllib.error.HTTPError) as caught:
        opener.open("http://example.com/x", timeout=10)
    caught.value.close()
    assert loopback.outside == ["example.com:443", "http://example.com/x"]


def test_simulated_agent_behind_it(loopback):
    """The product's own simulated agent answers through any API, by the shape that is asked for."""
    loopback.mind = simulated()
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA}}
    body = {"model": "m", "messages": [{"role": "user", "content": "judge"}], "response_format": form}
    answer = json.loads(ask(loopback, "/v1/chat/completions", body)[1])["choices"][0]["message"]["content"]
    assert set(json.loads(answer)) == {"score"}
    loopback.mind = lambda asked: Said(text=f"{asked.system}|{asked.user}")
    assert "be good|hello" in ask(loopback, "/v1/messages", messages("hello"))[1]
