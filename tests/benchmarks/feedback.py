"""Measures which corrections and approvals are recognized in invented prompts, without a model.

The prompts (``corpora/feedback.json``) were written before the rules they measure. Those marked ``held_out`` were not
looked at while the rules were developed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.model.session import Feedback, PromptKind
from skillopt_sleep.sources.feedback import Before, label_feedback

CORPUS = Path(__file__).parent / "corpora" / "feedback.json"


class Sample(Struct, frozen=True, kw_only=True):
    """A prompt, what it was typed after, and what it says."""

    label: Feedback
    kind: str
    language: str
    asked: str
    answer: str
    files: tuple[str, ...]
    prompt: str
    held_out: bool
    interrupted: bool = False

    def read_label(self) -> Feedback:
        """Return the label that the rules give it."""
        before = Before(asked=self.asked, answer=self.answer, files=self.files, used_tools=bool(self.files))
        return label_feedback(self.prompt, before, PromptKind.TYPED, interrupted=self.interrupted).feedback


class Tally(Struct, frozen=True, kw_only=True):
    """How the labels of some samples compare with the true ones."""

    corrections: int
    found: int
    false: int
    approvals: int
    """Approvals that were claimed."""
    approvals_right: int

    @property
    def recall(self) -> float:
        """The share of the corrections that were found."""
        return self.found / self.corrections if self.corrections else 1.0

    @property
    def precision(self) -> float:
        """The share of the claimed corrections that are some."""
        return self.found / (self.found + self.false) if self.found + self.false else 1.0


def load_samples() -> list[Sample]:
    """Return the invented prompts."""
    return msgspec.json.decode(CORPUS.read_bytes(), type=list[Sample])


def tally(samples: Sequence[Sample]) -> Tally:
    """Label the samples and count."""
    pairs = [(sample.label, sample.read_label()) for sample in samples]
    correction, approval = Feedback.CORRECTION, Feedback.APPROVAL
    return Tally(
        corrections=sum(true is correction for true, _ in pairs),
        found=pairs.count((correction, correction)),
        false=sum(said is correction and true is not correction for true, said in pairs),
        approvals=sum(said is approval for _, said in pairs),
        approvals_right=pairs.count((approval, approval)),
    )


def main(argv: Sequence[str]) -> int:
    """Print the tallies of both halves; with ``--wrong`` also the samples of the first half labelled wrongly."""
    parser = argparse.ArgumentParser(prog="bash scripts/bench feedback", description=__doc__)
    parser.add_argument("--wrong", action="store_true", help="list what was labelled wrongly, held-out prompts aside")
    options = parser.parse_args(argv)
    samples = load_samples()
    for name, held_out in (("developed on", False), ("held out", True)):
        half = [sample for sample in samples if sample.held_out is held_out]
        count = tally(half)
        print(
            f"{name:>12}: {len(half)} prompts, corrections {count.found} of {count.corrections}"
            f" (recall {count.recall:.2f}), {count.false} false (precision {count.precision:.2f}),"
            f" approvals {count.approvals_right} right of {count.approvals} claimed"
        )
    if options.wrong:
        for sample in samples:
            if not sample.held_out and (said := sample.read_label()) is not sample.label:
                print(f"{sample.label:>12} taken for {said}: {sample.prompt!r} ({sample.kind})")
    return 0
