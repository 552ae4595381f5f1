"""Redaction: remove secrets from a text before it is stored or sent anywhere.

Session files hold whatever was pasted into them. Every text passes here once, at harvest, so nothing after it needs to
care; prompts, replies and reports pass once more. A secret becomes ``[redacted:kind:1a2b3c]``: the same secret always
the same placeholder, so that texts about it stay readable, with six hex digits of a digest, which do not lead back.

A text is searched as it reads, without escapes, colours and marks of lines (``escapes``), in one walk (``kinds``,
``redactor``). Some kinds are recognised by their own form (``shapes``, ``key_blocks``), others only by their
surroundings (``names``, ``pairs``, ``arguments``, ``values``), where the look of the value decides (``values``).
"""
