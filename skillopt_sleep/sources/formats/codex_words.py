"""Which of the text that Codex sends in the user's name a person typed.

Codex puts context between a person's messages as further messages of the user, and its desktop and editor front-ends
wrap what was typed. Told apart by the forms it writes, never by their content.
"""

from __future__ import annotations

import re

__all__ = ["skill_named", "typed_words"]

CONTEXT_TAGS = (
    "additional_context",
    "app-context",
    "apps_instructions",
    "codex_internal_context",
    "collaboration_mode",
    "environment_context",
    "environments_instructions",
    "external_",
    "goal_context",
    "heartbeat",
    "hook_prompt",
    "image",
    "/image",
    "internal_model_context",
    "multi_agent_mode",
    "permissions",
    "personality_spec",
    "plugins_instructions",
    "recommended_plugins",
    "skill",
    "skills_instructions",
    "subagent_notification",
    "turn_aborted",
    "user_action",
    "user_instructions",
    "user_shell_command",
)
"""A message that begins with one of these tags is context (``user_shell_command``: a command for the shell)."""

_CONTEXT = re.compile(
    rf"<(?:{'|'.join(map(re.escape, CONTEXT_TAGS))})[^<>]*>"
    r"|# AGENTS\.md instructions"
    r"|Warning: (?:apply_patch was requested via|The maximum number of unified exec processes)"
)
_REQUEST = re.compile(r"^## My request for Codex:[ \t]*", re.MULTILINE)
_SKILL = re.compile(r"<skill>\s*<name>(?P<name>[^<]+)</name>")


def typed_words(text: str) -> str:
    """What a person typed of one message; "" when it is context, or only an image."""
    text = text.strip()
    if _CONTEXT.match(text):
        return ""
    wrapped = _REQUEST.search(text)
    return text[wrapped.end() :].strip() if wrapped else text


def skill_named(text: str) -> str:
    """The name of the skill whose text a message hands to the agent, "" when it hands over none."""
    match = _SKILL.match(text.lstrip())
    return match["name"].strip() if match else ""
