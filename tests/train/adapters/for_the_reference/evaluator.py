"""Scores an answer."""

from __future__ import annotations


def score(prediction: str, wanted: str) -> int:
    return int(prediction.strip().lower() == wanted.strip().lower())
