"""Claude Code answers as a bare model, and every failure has an error of its own."""

from __future__ import annotations

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from skillopt_sleep.backends.claude import ClaudeBackend, read_reply
from skillopt_sleep.backends.process import Ended
from skillopt_sleep.errors import (
    BadReply,
    BudgetSpent,
    EmptyReply,
    ModelRefused,
    NotInstalled,
    NotLoggedIn,
    Overloaded,
    QuotaExhausted,
    RateLimited,
    TimedOut,
    TooLong,
    TooOld,
)
from skillopt_sleep.model.call import Health, Prompt, Usage
from skillopt_sleep.model.session import is_own_run
from skillopt_sleep.registry import Kind, build

PROMPT = Prompt(system="You are terse.", user="hello")
SCHEMA = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}


def result(text: str | None = "hi there", **changes: object) -> str:
    """The line that ``--output-format json`` prints; ``subtype`` says success whatever happened."""
    line = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "api_error_status": None,
        "num_turns": 1,
        "result": text,
        "stop_reason": "end_turn",
        "total_cost_usd": 0.25,
        "usage": {
            "input_tokens": 100,
            "cache_creation_input_tokens": 30,
            "cache_read_input_tokens": 7,
            "output_tokens": 20,
            "server_tool_use": {"web_search_requests": 0},
        },
        "modelUsage": {"claude-sonnet-4-5": {"inputTokens": 100}},
        "permission_denials": [],
    }
    return json.dumps({key: value for key, value in (line | changes).items() if value is not ...})


def failure(text: str | None, status: int | None = None, **changes: object) -> Ended:
    """Return how the CLI ends when the API refused."""
    line = result(text, is_error=True, api_error_status=status, stop_reason="stop_sequence", **changes)
    return Ended(status=1, stdout=line)


@pytest.fixture
def claude(fake_cli):
    """The backend, on a fake CLI."""
    backend = ClaudeBackend(env=fake_cli.env, model="sonnet", timeout=10.0)
    yield backend
    backend.close()


FAILURES = {
    "key refused": (failure("Invalid API key · Fix external API key", 401), NotLoggedIn),
    "forbidden": (failure("Failed to authenticate. API Error: 403 forbidden", 403), NotLoggedIn),
    "logged out": (failure("Not logged in · Please run /login"), NotLoggedIn),
    "login expired": (failure("Login expired · Please run /login"), NotLoggedIn),
    "token revoked": (failure("OAuth token revoked · Please run /login", 403), NotLoggedIn),
    "organisation disabled": (failure("Your organization has been disabled", 400), NotLoggedIn),
    "model unknown": (failure("There's an issue with the selected model (x). It may not exist.", 404), ModelRefused),
    "bad request": (failure("API Error: 400 bad request", 400), BadReply),
    "credit spent": (failure("Credit balance is too low", 400), QuotaExhausted),
    "session limit": (failure("You've hit your session limit · resets 3pm", 429), QuotaExhausted),
    "weekly limit": (failure("You've hit your weekly limit · resets Mon 9am", 429), QuotaExhausted),
    "spend limit": (failure("You've hit your monthly spend limit · /usage-credits to raise it", 429), QuotaExhausted),
    "extra usage spent": (failure("You're out of extra usage · resets 3pm", 429), QuotaExhausted),
    "prompt too long": (failure("Prompt is too long · the request is ~250000 tokens", 400), TooLong),
    "answer too long": (failure("API Error: Claude's response exceeded the 32000 output token maximum."), TooLong),
    "rate limit": (failure("API Error: Request rejected (429) · slow down", 429), RateLimited),
    "server error": (failure("API Error: 500 internal. This is a server-side issue", 500), Overloaded),
    "status in the words": (failure("API Error: 503 unavailable"), Overloaded),
    "overload": (failure("API Error: 529 Overloaded. This is a server-side issue", 529), Overloaded),
    "no connection": (failure("API Error: Unable to connect to API (ECONNREFUSED)"), Overloaded),
    "connection dropped": (failure("API Error: Connection dropped (ECONNRESET)."), Overloaded),
    "API timeout": (failure("Request timed out"), TimedOut),
    "no result but errors": (failure(None, errors=["Reached maximum budget ($0.0001)"]), BadReply),
    "error without a word": (failure(None), BadReply),
    "status without an error": (Ended(status=1, stdout=result("odd")), BadReply),
    "unknown flag": (Ended(status=1, stderr="error: unknown option '--safe-mode'\n"), TooOld),
    "update demanded": (Ended(status=1, stderr="Claude Code 1.0.0 needs an update to continue.\n"), TooOld),
    "trouble on stderr": (Ended(status=1, stderr="Error: the disk is on fire\n"), BadReply),
    "status and nothing else": (Ended(status=1), BadReply),
    "no word at all": (Ended(), EmptyReply),
    "empty answer": (Ended(stdout=result("")), EmptyReply),
    "empty answer, null": (Ended(stdout=result(None)), EmptyReply),
    "no JSON": (Ended(stdout="Hello, I am not JSON"), BadReply),
    "JSON of something else": (Ended(stdout='{"type": "system"}\n[]\nnull\n'), BadReply),
    "half a line": (Ended(stdout=result()[:80]), BadReply),
    "command of the CLI": (Ended(stdout=result("Unknown command: /foo", num_turns=0)), BadReply),
    "deadline": (Ended(timed_out=True, status=-15), TimedOut),
    "killed": (Ended(status=-9), Overloaded),
    "flood": (Ended(flooded=True, status=-15, stdout="x"), BadReply),
}


@pytest.mark.parametrize(("ended", "error"), FAILURES.values(), ids=FAILURES.keys())
def test_failure_has_its_error(ended, error):
    """Output and exit status decide; an error text is never a reply."""
    with pytest.raises(error) as caught:
        read_reply(ended, PROMPT, model="m", deadline=5.0)
    assert type(caught.value) is error
    assert str(caught.value).startswith("claude ")
    assert "\n" not in str(caught.value)


def test_answer():
    """Text, model, tokens (cached ones among the input) and cost are the CLI's own."""
    reply = read_reply(Ended(stdout=result(), seconds=1.5), PROMPT, model="m", deadline=5.0)
    assert (reply.text, reply.model, reply.cost_usd, reply.latency) == ("hi there", "claude-sonnet-4-5", 0.25, 1.5)
    assert reply.usage == Usage(input_tokens=137, output_tokens=20, cached_tokens=7)


def test_answer_among_other_lines():
    """Lines that are no result are passed over, before and after it."""
    stdout = f"Warning: old model\n{result()}\nnot JSON\n"
    assert read_reply(Ended(stdout=stdout), PROMPT, model="m", deadline=5.0).text == "hi there"


def test_answer_with_a_line_separator_of_unicode():
    """A Unicode line separator inside a JSON line does not end it."""
    line = result("one two three").replace("one two", "one\u2028two\u0085")
    assert read_reply(Ended(stdout=line), PROMPT, model="m", deadline=5.0).text == "one\u2028two\u0085 three"


def test_answer_of_another_version():
    """Fields that are missing, unknown or null are no failure."""
    stdout = result(usage=None, modelUsage=..., total_cost_usd=..., num_turns=..., new_field={"a": 1})
    reply = read_reply(Ended(stdout=stdout), PROMPT, model="m", deadline=5.0)
    assert (reply.model, reply.cost_usd, reply.usage.estimated) == ("m", None, True)


def retry(status, seconds) -> str:
    """The line that says that the CLI will try again by itself."""
    why = "rate_limit" if status == 429 else "overloaded"
    told = {"attempt": 1, "retry_delay_ms": seconds * 1000, "error_status": status, "error": why}
    return json.dumps({"type": "system", "subtype": "api_retry"} | told) + "\n"


def test_wait_that_the_service_asked_for():
    """The service's wait is passed on, whether the CLI waited itself or was ended before."""
    ended = failure("API Error: Request rejected (429) · slow down", 429)
    ended = Ended(status=1, stdout=retry(429, 7) + ended.stdout)
    with pytest.raises(RateLimited) as caught:
        read_reply(ended, PROMPT, model="m", deadline=5.0)
    assert caught.value.retry_after == 7
    with pytest.raises(RateLimited) as caught:
        read_reply(Ended(status=-15, stdout=retry(429, 60), waiting=60), PROMPT, model="m", deadline=5.0)
    assert caught.value.retry_after == 60
    with pytest.raises(Overloaded) as caught:
        read_reply(Ended(status=-15, stdout=retry(529, 30), waiting=30), PROMPT, model="m", deadline=5.0)
    assert caught.value.retry_after == 30


def test_wait_of_hours_is_a_spent_quota():
    """A wait of hours is a spent quota; the message says when to run again."""
    with pytest.raises(QuotaExhausted, match="run again in 120 minutes"):
        read_reply(Ended(status=-15, stdout=retry(429, 7200), waiting=7200), PROMPT, model="m", deadline=5.0)
    with pytest.raises(QuotaExhausted, match="run again after 3pm"):
        read_reply(failure("You've hit your session limit · resets 3pm", 429), PROMPT, model="m", deadline=5.0)


def test_cli_that_is_told_to_wait_is_not_kept(claude, fake_cli):
    """A CLI that announces a long wait is ended, and the error carries the wait; a short one is left to it."""
    fake_cli.behave(stdout=retry(429, 60), hang=True)
    started = time.monotonic()
    with pytest.raises(RateLimited) as caught:
        claude.complete(PROMPT)
    assert caught.value.retry_after == 60
    assert time.monotonic() - started < 5
    fake_cli.behave(stdout=retry(429, 1) + result())
    assert claude.complete(PROMPT).text == "hi there"


def test_what_a_failure_cost():
    """Tokens and price of an answer that was none are on the error."""
    asked = Prompt(system="", user="judge", schema=SCHEMA)
    for ended, prompt in ((Ended(stdout=result("")), PROMPT), (Ended(stdout=result("half")), asked)):
        with pytest.raises((EmptyReply, BadReply)) as caught:
            read_reply(ended, prompt, model="m", deadline=5.0)
        assert (caught.value.input_tokens, caught.value.output_tokens, caught.value.cost_usd) == (137, 20, 0.25)
    assert NotLoggedIn("no").cost_usd is None


def test_cap_on_money_that_the_cli_keeps(fake_cli):
    """The CLI gets the cap as an option, and stopping there raises BudgetSpent."""
    over = result(None, subtype="error_max_budget_usd", is_error=True, errors=["Reached maximum budget ($2)"])
    fake_cli.behave(stdout=over, status=1)
    with pytest.raises(BudgetSpent, match="raise --max-usd") as caught:
        ClaudeBackend(env=fake_cli.env, max_usd=2.0).complete(PROMPT)
    assert (caught.value.cap, caught.value.cost_usd) == ("usd", 0.25)
    argv = fake_cli.calls[0]["argv"]
    assert argv[argv.index("--max-budget-usd") + 1] == "2.0000"


OVER = {
    "subtype": "error_max_budget_usd",
    "is_error": True,
    "errors": ["Reached maximum budget ($2)"],
    "usage": {"input_tokens": 50, "output_tokens": 10},
    "modelUsage": {
        "claude-sonnet-4-5": {"inputTokens": 90, "cacheReadInputTokens": 10, "outputTokens": 20, "costUSD": 2.5},
        "claude-haiku-4-5": {"inputTokens": 7, "outputTokens": 1},
    },
}
"""How the last line looks once the cap on money is reached: only the account by models tells what was read."""


def said(*blocks, name="m1"):
    """A line of what the model said."""
    return json.dumps({"type": "assistant", "message": {"id": name, "content": list(blocks)}})


def over(*lines, **changes):
    """A call that ended at the cap, having printed these lines before."""
    return Ended(status=1, stdout="\n".join((*lines, result(None, **OVER | changes))))


def test_answer_that_took_the_call_over_the_cap_on_money():
    """An answer complete before the cap was checked is returned: text, or the requested JSON."""
    words = ({"type": "text", "text": "hi"}, {"type": "text", "text": "there"})
    ended = over(said(words[0], name="m0"), said({"type": "thinking"}), *map(said, words))
    reply = read_reply(ended, PROMPT, model="m", deadline=5.0)
    assert (reply.text, reply.cost_usd) == ("hi\nthere", 0.25)
    assert reply.usage == Usage(input_tokens=107, output_tokens=21, cached_tokens=10)
    shaped = said({"type": "tool_use", "name": "StructuredOutput", "input": {"score": 0.5}})
    asked = Prompt(system="", user="judge", schema=SCHEMA)
    assert json.loads(read_reply(over(shaped, stop_reason=None), asked, model="m", deadline=5.0).text) == {"score": 0.5}


@pytest.mark.parametrize("stop", ["tool_use", "max_tokens", None])
def test_work_cut_short_at_the_cap_on_money_is_no_answer(stop):
    """An incomplete answer at the cap is lost, and its cost is recorded."""
    with pytest.raises(BudgetSpent) as caught:
        read_reply(over(said({"type": "text", "text": "I begin"}), stop_reason=stop), PROMPT, model="m", deadline=5.0)
    assert (caught.value.input_tokens, caught.value.output_tokens, caught.value.cost_usd) == (107, 21, 0.25)


def test_refusal_is_an_answer():
    """The model spoke: a refusal is scored, not lost."""
    ended = Ended(status=1, stdout=result("Unable to respond: Usage Policy", is_error=True, stop_reason="refusal"))
    assert read_reply(ended, PROMPT, model="m", deadline=5.0).text == "Unable to respond: Usage Policy"


def test_structured_output():
    """The object the CLI checked is the reply; without one, the JSON in the text."""
    asked = Prompt(system="", user="judge", schema=SCHEMA)
    checked = Ended(stdout=result("ignored", structured_output={"score": 0.5}))
    assert json.loads(read_reply(checked, asked, model="m", deadline=5.0).text) == {"score": 0.5}
    in_text = Ended(stdout=result('```json\n{"score": 0.5}\n```'))
    assert "0.5" in read_reply(in_text, asked, model="m", deadline=5.0).text
    with pytest.raises(BadReply):
        read_reply(Ended(stdout=result("about a half")), asked, model="m", deadline=5.0)


def test_call(claude, fake_cli):
    """The prompt goes in by stdin, the system prompt by file, and the CLI is alone in an empty folder of ours."""
    fake_cli.behave(stdout=result())
    assert claude.complete(PROMPT).text == "hi there"
    call = fake_cli.calls[0]
    assert (call["stdin"], call["system"], call["files"]) == ("hello", "You are terse.", [])
    assert is_own_run(call["cwd"], "")
    argv = call["argv"]
    assert {"-p", "--safe-mode", "--strict-mcp-config", "--tools=", "--no-session-persistence"} <= set(argv)
    assert argv[argv.index("--model") + 1] == "sonnet"
    assert argv[argv.index("--output-format") + 1] == "stream-json"
    assert argv[argv.index("--max-turns") + 1] == "3"
    assert "--max-budget-usd" not in argv


def test_call_without_a_model(fake_cli):
    """Without a model the CLI's own default is used."""
    fake_cli.behave(stdout=result())
    ClaudeBackend(env=fake_cli.env).complete(PROMPT)
    assert "--model" not in fake_cli.calls[0]["argv"]


def test_call_with_a_schema(claude, fake_cli):
    """A schema is passed to the CLI as JSON."""
    fake_cli.behave(stdout=result(structured_output={"score": 1}))
    claude.complete(Prompt(system="", user="judge", schema=SCHEMA))
    argv = fake_cli.calls[0]["argv"]
    assert json.loads(argv[argv.index("--json-schema") + 1]) == SCHEMA


@pytest.mark.parametrize("user", ["/help", "/clear all of it", "/"])
def test_prompt_that_looks_like_a_command(claude, fake_cli, user):
    """A prompt that begins with a slash is not run as a command."""
    fake_cli.behave(stdout=result())
    claude.complete(Prompt(system="", user=user))
    assert fake_cli.calls[0]["stdin"] == f"\n{user}"


def test_environment(fake_cli):
    """The user's own goes through, without the session we run in; files named in a prompt and other traffic are off."""
    fake_cli.behave(stdout=result())
    env = fake_cli.env | {"ANTHROPIC_API_KEY": "k", "CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"}
    ClaudeBackend(env=env, timeout=7.0).complete(PROMPT)
    seen = fake_cli.calls[0]["env"]
    assert seen["ANTHROPIC_API_KEY"] == "k"
    assert not {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"} & seen.keys()
    assert seen["CLAUDE_CODE_DISABLE_ATTACHMENTS"] == "1"
    assert seen["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"
    assert seen["CLAUDE_CODE_MAX_RETRIES"] == "1"
    assert seen["API_TIMEOUT_MS"] == "7000"


def test_hang(fake_cli):
    """The deadline holds, though the CLI ignores the polite signal."""
    fake_cli.behave(hang=True)
    started = time.monotonic()
    with pytest.raises(TimedOut, match="no answer within"):
        ClaudeBackend(env=fake_cli.env, timeout=0.5).complete(PROMPT)
    assert time.monotonic() - started < 2.5


def test_kill(claude, fake_cli):
    """A child that the system killed is worth another try."""
    fake_cli.behave(kill=signal.SIGKILL)
    with pytest.raises(Overloaded, match="killed by signal 9"):
        claude.complete(PROMPT)


def test_close(claude, fake_cli):
    """Calls under way end at once; later ones are not begun."""
    fake_cli.behave(hang=True)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(claude.complete, PROMPT) for _ in range(2)]
        while len(fake_cli.calls) < 2:
            time.sleep(0.01)
        claude.close()
        assert all(isinstance(call.exception(timeout=1), TimedOut) for call in calls)
    with pytest.raises(TimedOut):
        claude.complete(PROMPT)


def test_call_of_what_is_not_installed():
    """A missing CLI raises an error that says how to install it."""
    with pytest.raises(NotInstalled, match="npm install -g @anthropic-ai/claude-code"):
        ClaudeBackend(env={"PATH": "/nowhere"}).complete(PROMPT)


PROBES = {
    "ready": ("2.1.197 (Claude Code)", '{"loggedIn": true}', (True, True, "")),
    "logged out": ("2.1.197 (Claude Code)", '{"loggedIn": false}', (False, False, "claude auth login")),
    "status unreadable": ("2.1.197 (Claude Code)", "error: unknown command", (True, None, "")),
    "too old": ("2.1.168 (Claude Code)", '{"loggedIn": true}', (False, None, "2.1.169 is needed: run `claude update`")),
    "version unreadable": ("beta", '{"loggedIn": true}', (True, True, "")),
}


@pytest.mark.parametrize(("version", "status", "expected"), PROBES.values(), ids=PROBES.keys())
def test_probe(claude, fake_cli, version, status, expected):
    """Version and login are the CLI's own words; no model is called."""
    fake_cli.behave(on="--version", stdout=version)
    fake_cli.behave(on="auth status", stdout=status)
    health = claude.probe()
    ready, logged_in, detail = expected
    assert (health.ready, health.logged_in) == (ready, logged_in)
    assert detail in health.detail
    assert all("-p" not in call["argv"] for call in fake_cli.calls)


def test_probe_of_what_is_not_installed():
    """A CLI that cannot be probed is not ready, and nothing is raised."""
    health = ClaudeBackend(env={}).probe()
    assert (health.ready, health.version) == (False, "")
    assert "npm install" in health.detail


def test_options_of_the_settings_file(fake_cli):
    """The app builds it from a raw table, and its environment is never shown."""
    env = fake_cli.env | {"ANTHROPIC_API_KEY": "secret"}
    backend = build(Kind.BACKEND, "claude", {"timeout": 60, "command": "claude"}, env=env, model="opus")
    assert isinstance(backend, ClaudeBackend)
    assert (backend.name, backend.model, backend.timeout) == ("claude", "opus", 60.0)
    assert isinstance(backend.probe(), Health)
    assert "secret" not in repr(backend)
