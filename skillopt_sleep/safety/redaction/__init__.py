"""Secrets are taken out of a text before it is stored or sent anywhere.

Session files hold whatever was pasted into them. Every text passes here once, at harvest, so nothing after it needs
to care; prompts, replies and reports pass once more. A secret becomes ``[redacted:kind:1a2b3c]``: the same secret the
same placeholder, so that what is said about it stays readable, and six hex digits of a digest, which do not lead back
to it.

A text is looked at as it reads, without the escapes of JSON and HTML, colours and marks of lines (``escapes``). Two
sorts of kinds: those that a secret's own form tells (``shapes``, ``keyblocks``), and those that only their surroundings
give away (``naming``, ``apart``, ``commands``, ``pipes``, ``said``, ``urls``), where what the value looks like decides
(``values``). All are found in one walk from sign to sign (``signs``, ``redactor``).
"""
