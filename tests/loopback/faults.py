"""Everything that can go wrong with a model service, by the name it has in a URL: ``/fault/<name>/v1/...``."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An answer that is an error. ``kind`` is Anthropic's word for it, ``code`` OpenAI's; ``detail`` replaces the body.

    ``in_stream``: the status is 200, and the error comes in the middle of the answer.
    """

    status: int = 400
    kind: str = "invalid_request_error"
    code: str = "invalid_request_error"
    says: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    detail: str = ""
    in_stream: bool = False

    def body(self, *, anthropic: bool) -> dict[str, object]:
        """The body of the error, in the words of either provider."""
        if self.detail:
            return {"detail": self.detail}
        if anthropic:
            return {"type": "error", "error": {"type": self.kind, "message": self.says}, "request_id": "req_loopback"}
        return {"error": {"message": self.says, "type": self.code, "param": None, "code": self.code}}


CREDIT = "Your credit balance is too low to access the API. Please go to Plans & Billing to purchase credits."
QUOTA = "You exceeded your current quota, please check your plan and billing details."
CHATGPT = "The 'gpt-0-loopback' model is not supported when using Codex with a ChatGPT account."
UPGRADE = "The 'gpt-0-loopback' model requires a newer version of Codex. Please upgrade to the latest version."
REUSED = "Your access token could not be refreshed because your refresh token was already used. (refresh_token_reused)"
EXPIRED = "Provided authentication token is expired. Please try signing in again."
LONG = "prompt is too long: 250000 tokens > 200000 maximum"
WINDOW = "Your input exceeds the context window of this model."


def slow_down(seconds: int) -> Fault:
    """Too many requests, and when to come again."""
    kind = {"kind": "rate_limit_error", "code": "rate_limit_exceeded"}
    return Fault(status=429, says="slow down", headers={"retry-after": str(seconds)}, **kind)


FAULTS: dict[str, Fault] = {
    "400": Fault(says="messages: unacceptable"),
    "401": Fault(status=401, kind="authentication_error", code="invalid_api_key", says="invalid x-api-key"),
    "402": Fault(status=402, kind="billing_error", code="billing_error", says="Payment required."),
    "403": Fault(status=403, kind="permission_error", code="forbidden", says="this key may not do that"),
    "404-model": Fault(status=404, kind="not_found_error", code="model_not_found", says="model: no-such-model"),
    "413": Fault(
        status=413, kind="request_too_large", code="request_too_large", says="Request exceeds the maximum size"
    ),
    "429": Fault(status=429, kind="rate_limit_error", code="rate_limit_exceeded", says="slow down"),
    **{f"429-after-{seconds}": slow_down(seconds) for seconds in (1, 60, 600)},
    "credit": Fault(code="insufficient_quota", says=CREDIT),
    "quota": Fault(status=429, kind="rate_limit_error", code="insufficient_quota", says=QUOTA),
    "usage-limit": Fault(status=429, kind="rate_limit_error", code="usage_limit_reached", says="Usage limit reached."),
    "500": Fault(status=500, kind="api_error", code="server_error", says="something broke"),
    "503": Fault(status=503, kind="api_error", code="server_error", says="away for a while"),
    "529": Fault(status=529, kind="overloaded_error", code="server_is_overloaded", says="Overloaded"),
    "too-long": Fault(code="context_length_exceeded", says=LONG),
    "window": Fault(
        status=200, code="context_length_exceeded", kind="invalid_request_error", says=WINDOW, in_stream=True
    ),
    "failed": Fault(
        status=200, kind="overloaded_error", code="server_error", says="It broke half way.", in_stream=True
    ),
    "failed-rate": Fault(
        status=200,
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        says="Rate limit reached. Please try again in 1.5s.",
        in_stream=True,
    ),
    "token-expired": Fault(status=401, kind="authentication_error", code="token_expired", says=EXPIRED),
    "token-reused": Fault(status=401, kind="authentication_error", code="refresh_token_reused", says=REUSED),
    "chatgpt-model": Fault(detail=CHATGPT),
    "upgrade": Fault(says=UPGRADE),
}
"""Answers that are errors. What is no answer, or an answer without words, is told apart in ``server``:

hang (nothing comes), stall (it stops half way), reset and drop (the connection goes), cut (it goes half way), empty,
refusal, max-tokens, ``flaky-N`` (529, N times over), ``slow-N`` (N tenths of a second), garbage (no JSON, no stream).
"""
