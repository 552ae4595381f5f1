"""Clients: by name, brought along, and as an environment sees them."""

from __future__ import annotations

import pytest

from skillopt_sleep.backends.openai import OpenAIBackend
from skillopt_sleep.errors import EmptyReply, NotLoggedIn, Overloaded, SettingsError, UsageError
from skillopt_sleep.model.call import Prompt
from skillopt_sleep.model.json_schema import describe_object
from skillopt_sleep.train import OpenAIChatClient, SkillOptConfig, SkillOptTrainer, client
from skillopt_sleep.train.clients import AskClient, as_backend
from tests.fakes.ask import ScriptedAsk
from tests.fakes.school import School, SchoolEnv
from tests.loopback import Loopback


def prompt(**given):
    return Prompt(**{"system": "s", "user": "u"} | given)


def test_client_by_name():
    """Every backend of the registry works, with its own options; an unknown name is reported."""
    made = client("openai", model="m", base_url="http://localhost:1/v1")
    assert isinstance(made, OpenAIBackend)
    assert (made.model, made.base_url) == ("m", "http://localhost:1/v1")
    assert client("simulated", seed=3).seed == 3
    with pytest.raises(UsageError, match="did you mean 'openai'"):
        client("opnai")
    with pytest.raises(SettingsError, match="no option 'modle'"):
        client("openai", modle="x")


@pytest.mark.slow
def test_openai_chat_client():
    """It has the reference's name and arguments, and never shows the key."""
    made = OpenAIChatClient("gpt", api_key="sk-secret", base_url="http://localhost:1/v1", timeout=5)
    assert as_backend(made, "target") is made
    assert (made.name, made.model, made.sees) == ("openai", "gpt", "whoever answers at http://localhost:1/v1")
    assert "sk-secret" not in f"{made!r}{made.sees}{made.probe()}"


@pytest.mark.parametrize(
    ("version", "path"),
    [(None, "openai/v1"), ("2024-12-01-preview", "openai/deployments/gpt")],
    ids=["v1", "versioned"],
)
def test_azure(version, path):
    """The address is the deployment's, with an API version or without."""
    made = OpenAIChatClient("gpt", azure_endpoint="https://x.openai.azure.com/", api_key="k", api_version=version)
    assert made.sees == f"whoever answers at https://x.openai.azure.com/{path}"


def test_temperature_and_limit_of_a_chat_are_sent():
    """The call's own values are sent, else the client's default temperature."""
    with Loopback() as loopback:
        made = OpenAIChatClient("gpt", api_key="k", base_url=f"{loopback.root}/v1", default_temperature=0.3)
        made.chat(system="s", user="u", max_completion_tokens=5, retries=1)
        made.chat(system="s", user="u", temperature=0.0)
        made.close()
        sent = [(each.body.get("max_completion_tokens"), each.body.get("temperature")) for each in loopback.requests]
    assert sent == [(5, 0.3), (None, 0.0)]


class Chat:
    """A client of the reference."""

    model = "theirs"

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def chat(self, *, system, user, max_completion_tokens=4096, temperature=None, stage="", retries=3, **kwargs):
        self.asked.append({"system": system, "user": user, "limit": max_completion_tokens, "retries": retries})
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer, {"prompt_tokens": 7, "completion_tokens": 2}


class Refusing(Exception):
    """What libraries raise for a key that is refused."""

    status_code = 401


def test_chat_object_is_a_backend():
    """Its answer and usage come back, a schema is put into words, and this program does the retries."""
    chat = Chat("hello")
    reply = as_backend(chat, "target").complete(prompt(schema=describe_object(notes={"type": "string"})))
    assert (reply.text, reply.model, reply.usage.input_tokens, reply.usage.output_tokens) == ("hello", "theirs", 7, 2)
    assert '"notes"' in chat.asked[0]["system"] + chat.asked[0]["user"]
    assert chat.asked[0]["retries"] == 1


def test_chat_object_that_takes_two_arguments():
    """It gets only the arguments it takes, and may return the bare text."""

    class Small:
        def chat(self, system, user):
            return f"{system}{user}"

    assert as_backend(Small(), "target").complete(prompt()).text == "su"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("", EmptyReply),
        (ConnectionError("down"), Overloaded),
        (RuntimeError("429"), Overloaded),
        (TypeError("x"), UsageError),
        (Refusing("key"), NotLoggedIn),
    ],
)
def test_chat_object_that_fails(answer, error):
    """An empty answer or a lost call is tried again; a mistake in the client is reported as one."""
    with pytest.raises(error):
        as_backend(Chat(answer), "target").complete(prompt())


async def later(**asked):
    return "x"


@pytest.mark.parametrize(
    ("chat", "says"),
    [
        (later, "is async; it must return the answer"),
        (lambda **asked: ("a", {}, 1), "returned 3 values"),
        (lambda **asked: ("a", {"prompt_tokens": "many"}), "reports the usage"),
        (lambda **asked: 1 + None, "the client .* raised TypeError"),
    ],
    ids=["async", "three values", "usage", "mistake"],
)
def test_mistake_of_a_client_is_reported_as_its_own(tmp_path, chat, says):
    """One line blames the client, not the environment, and nothing is scored."""
    mine = type("Mine", (), {"chat": staticmethod(chat)})()
    with pytest.raises(UsageError, match=says) as raised:
        SkillOptTrainer(
            config=SkillOptConfig(num_epochs=1, verbose=False, out_root=tmp_path),
            env=SchoolEnv(),
            optimizer_client=School(),
            target_client=mine,
        ).train()
    assert "environment" not in str(raised.value)


def test_limits_reach_a_backend():
    """They come with the prompt, and do not change the identity of the call."""
    ask = ScriptedAsk("x")
    AskClient(ask=ask, phase="rollout").chat(system="s", user="u", max_completion_tokens=99, temperature=0.5)
    AskClient(ask=ask, max_completion_tokens=512)(prompt(), phase="reflect")
    assert [(each.max_output_tokens, each.temperature) for each in ask.prompts] == [(99, 0.5), (512, None)]
    assert ask.prompts[0].digest == ask.prompts[1].digest


def test_limits_reach_the_client():
    """The client gets the limit of the rollout or of the config."""
    chat = Chat("x")
    backend = as_backend(chat, "target")

    class Through:
        model = "m"

        def __call__(self, prompt, *, phase):
            return backend.complete(prompt)

    AskClient(ask=Through(), phase="rollout").chat(system="s", user="u", max_completion_tokens=99)
    AskClient(ask=Through(), max_completion_tokens=512)(prompt(), phase="reflect")
    assert [each["limit"] for each in chat.asked] == [99, 512]


def test_same_question_twice_in_a_rollout():
    """It is two samples; the same rollout repeated asks for the same two."""
    ask = ScriptedAsk("x")
    for _ in range(2):
        rollout = AskClient(ask=ask).for_rollout(phase="rollout", sample=7)
        assert rollout.chat(system="s", user="u")[0] == "x"
        rollout.chat(system="s", user="u")
        rollout.chat(system="s", user="other")
    samples = [each.sample for each in ask.prompts]
    assert samples[:3] == samples[3:] == [7000, 7001, 7000]
