"""Convert the rules of gitleaks into the data file that redaction reads.

Usage: ``python -m tests.benchmarks.convert_rules gitleaks.toml COMMIT > vendors.json``.
A rule describes a value *beside* the name of its issuer (the name, a sign of assignment, the value), or the *form* of a
key. Go's syntax is rewritten for Python, and a key may be followed by any character that cannot belong to it.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

OPERATOR = r"""(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}"""
"""What stands between the name of an issuer and a value in the rules of gitleaks."""
ENDS = (
    r"""(?:[\x60'"\s;]|\\[nr]|$|\b)""",
    r"""(?:[\x60'"\s;]|\\[nr]|$)""",
    r"""(?:$|[\\'"\x60\s<),])""",
    r"(?:[^\w-]|\z)",
    r"(?:[^a-zA-Z0-9+/]|\z)",
    r"\b",
)
BEGINNINGS = (r"""(?:^|[\\'"\x60\s>=:(,)])""", r"\b")
SHORTEST = 2
"""Words of fewer characters are in every text."""
OURS = frozenset(
    {
        "curl-auth-header",
        "curl-auth-user",
        "freemius-secret-key",
        "generic-api-key",
        "hashicorp-tf-password",
        "jwt",
        "kubernetes-secret-yaml",
        "nuget-config-password",
        "pkcs12-file",
        "private-key",
        "sidekiq-sensitive-url",
        "slack-webhook-url",
        "twilio-api-key",
    }
)
"""Rules for contexts (assignments, headers, URLs, key files), which the engine reads in more notations."""
RENAMED = {"gcp": "google", "huggingface": "hugging-face", "new": "new-relic", "age": "age"}
REPLACED = {
    # ``s.`` and 24 letters is a call in many programs; the search for unknown issuers asks for random ones.
    "vault-service-token": r"\b(hvs\.[\w-]{90,120})",
    # The rules accept any 40 hex digits in a file that mentions the issuer, which every commit has.
    "sourcegraph-access-token": r"\b(sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40})",
}


def main() -> None:
    """Print the converted rules, one a line."""
    rules = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["rules"]
    lines = [json.dumps(rule) for given in rules if given["id"] not in OURS for rule in convert(given)]
    head = {
        "source": "https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml",
        "commit": sys.argv[2],
        "licence": "MIT, Copyright (c) 2019 Zachary Rice",
        "converted_by": "tests/benchmarks/convert_rules.py",
    }
    print("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()), end=",\n")
    print('"rules": [\n' + ",\n".join(lines) + "\n]}")


def convert(rule: dict[str, object]) -> Iterator[dict[str, object]]:
    """Yield one converted rule for each alternative of a rule."""
    identity = str(rule["id"])
    issuer = identity.split("-", maxsplit=1)[0]
    for pattern in split_alternatives(REPLACED.get(identity, str(rule["regex"]))):
        head, operator, body = pattern.partition(OPERATOR)
        words = [
            word
            for word in rule["keywords"]
            if (len(word) > SHORTEST or word == "q~") and (word != "atatt3" or not operator)
        ]  # type: ignore[attr-defined]
        converted = {"id": identity, "kind": RENAMED.get(issuer, issuer), "words": words}
        if operator:
            value = take_group(body)
            prefix = re.match(r"[A-Za-z][A-Za-z0-9]{1,11}(?:-|_|\\\.)", value)
            value = f"(?i:{value})" if head.startswith("(?i)") else value
            converted["form" if prefix else "beside"] = rewrite(value)
            if prefix:
                converted["words"] = [prefix[0].replace("\\", "").lower()]
        else:
            form = rewrite(mark_secret(pattern))
            if "ATATT3" in pattern:
                words = converted["words"] = ["atatt3"]
            converted["form"] = form
            if not begins_with(form, words):
                converted["inside"] = True
        if "entropy" in rule:
            converted["entropy"] = rule["entropy"]
        yield converted


def split_alternatives(pattern: str) -> list[str]:
    """Split a pattern at the bars that are in no group."""
    parts, depth, in_set, start = [], 0, False, 0
    for at, char in enumerate(pattern):
        if at and pattern[at - 1] == "\\" and pattern[at - 2 : at] != "\\\\":
            continue
        if in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and not depth:
            parts.append(pattern[start:at])
            start = at + 1
    return [*parts, pattern[start:]]


def take_group(pattern: str) -> str:
    """Return the content of the first capturing group, with the groups inside it not capturing."""
    start = re.search(r"\((?!\?)", pattern)
    assert start, pattern
    end = find_end(pattern, start.end())
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern[start.end() : end])


def mark_secret(pattern: str) -> str:
    """Drop what may stand around a key, and name the group that is the secret."""
    for beginning in BEGINNINGS:
        pattern = re.sub(rf"^((?:\(\?i\))?){re.escape(beginning)}", lambda found: found[1], pattern)
    for end in ENDS:
        pattern = pattern.removesuffix(end)
    start = re.search(r"(?<!\\)\((?!\?)", pattern)
    if start is None or pattern[find_end(pattern, start.end()) + 1 :][:1] == "{":
        return re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern)
    inner = re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern[start.end() :])
    return f"{pattern[: start.start()]}(?P<secret>{inner}".replace(r"\b", "")


def begins_with(form: str, words: list[str]) -> bool:
    """Tell whether a key begins with one of the words that announce it."""
    plain = re.sub(r"^(?:\((?:\?P<secret>|\?i?:))*", "", form).replace("\\", "").lower()
    return any(plain.startswith(word) or f"|{word}" in plain[:60] for word in words)


def find_end(pattern: str, start: int) -> int:
    """Return where the group ends that contains the place ``start``."""
    depth, in_set, at = 1, False, start
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
        elif char in "()":
            depth += 1 if char == "(" else -1
            if not depth:
                return at
        at += 1
    return len(pattern)


def rewrite(pattern: str) -> str:
    """Rewrite Go's syntax: flags inside a group, POSIX classes, the end of the text, limits for what may repeat."""
    pattern = pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(r"\z", r"\Z")
    while (at := pattern.find("(?i)")) >= 0:
        end = find_end(pattern, at + 4)
        pattern = f"{pattern[:at]}(?i:{pattern[at + 4 : end]}){pattern[end:]}"
    pattern = pattern.replace(r"\/\\_+\-\r\n]", r"/_+-]")  # escapes are read before, and lines are joined elsewhere
    pattern = re.sub(r"\{(\d+),\}", lambda found: f"{{{found[1]},4000}}", pattern)
    pattern = re.sub(r"(?<=[\])w])\+", "{1,400}", pattern)
    pattern = re.sub(r"(?<=[\])w])\*", "{0,400}", pattern)
    re.compile(pattern)
    return pattern


if __name__ == "__main__":
    main()
