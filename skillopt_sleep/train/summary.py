"""What a run came to: the summary, the training curve, and the page for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skillopt_sleep.domain.budget import Spend
from skillopt_sleep.domain.report import PhaseTally
from skillopt_sleep.train.gate import compute_score
from skillopt_sleep.train.results import RolloutResult

__all__ = ["buckets", "calls_by_stage", "curve", "spend_of", "summary_page", "terminal_page"]

BARS = "▁▂▃▄▅▆▇█"


def buckets(results: Sequence[RolloutResult], task_types: Sequence[str]) -> dict[str, dict[str, float]]:
    """Scores by task type and ``overall``: how many were measured, and their mean ``hard`` and ``soft``."""
    groups: dict[str, list[RolloutResult]] = {name: [] for name in task_types}
    for result in results:
        if result.task_type or task_types:
            groups.setdefault(result.task_type or "other", []).append(result)
    groups["overall"] = list(results)
    table = {}
    for name, group in groups.items():
        hard, soft = compute_score(group)
        table[name] = {"total": sum(not each.call_error for each in group), "hard": hard, "soft": soft}
    return table


def calls_by_stage(tallies: Sequence[PhaseTally]) -> dict[str, int]:
    """Model calls of the whole run, by stage, retries counted."""
    return {tally.phase: tally.calls for tally in tallies}


def spend_of(tallies: Sequence[PhaseTally]) -> Spend:
    """What the whole run has cost."""
    return Spend(
        calls=sum(each.calls for each in tallies),
        tokens=sum(each.input_tokens + each.output_tokens for each in tallies),
        usd=sum(each.cost_usd or 0.0 for each in tallies),
    )


def curve(history: Sequence[Mapping[str, Any]], start: float | None) -> str:
    """The training curve in characters: a line of bars for the current selection score, then one line a step."""
    scores = [start, *(record["current_score"] for record in history)]
    lines = ["selection score  " + "".join(_bar(score) for score in scores)]
    lines += [
        f"  step {record['step']:>3}  epoch {record['epoch']}  train {record['rollout_hard']:.3f}"
        f"  candidate {_number(record.get('candidate_gate_score'))}  current {_number(record['current_score'])}"
        f"  best {_number(record['best_score'])}  {record['action']}"
        for record in history
    ]
    return "\n".join(lines)


def summary_page(summary: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> str:
    """``summary.md``."""
    lines = [f"# Training of {summary['env']}", ""]
    lines += [f"Of the data: {note}." for note in summary["data_notes"]] + [""] * bool(summary["data_notes"])
    tested = summary["test_hard"] is not None
    if tested:
        lines += [
            "| test | initial | best |",
            "|---|---|---|",
            *(
                f"| {name} ({int(best['total'])}) | {summary['test_by_type']['initial'][name]['hard']:.3f}"
                f" | {best['hard']:.3f} |"
                for name, best in summary["test_by_type"]["best"].items()
            ),
            "",
        ]
    accepted, rejected, skipped = (summary[f"total_{what}"] for what in ("accepts", "rejects", "skips"))
    done = f"{summary['total_steps']} steps: {accepted} accepted, {rejected} not, {skipped} without a change."
    scores = [_number(summary[f"{which}_selection_score"]) for which in ("best", "baseline")]
    best = f"The best skill is of step {summary['best_step']}: selection {scores[0]}, initial {scores[1]}."
    spend = summary["spend"]
    lines += [
        done,
        best,
        "",
        "```",
        curve(history, summary["baseline_selection_score"]),
        "```",
        "",
        "| stage | calls |",
        "|---|---|",
        *(f"| {stage} | {calls} |" for stage, calls in summary["calls"].items()),
        "",
        f"{spend['calls']} calls, {spend['tokens']:,} tokens, {spend['usd']:.2f} USD where a price is known.",
        "",
    ]
    for each in summary["slow_updates"]:
        counts = ", ".join(f"{len(ids)} {course}" for course, ids in each["courses"].items())
        lines.append(f"- slow update after epoch {each['epoch']}: {each['action']} ({each['why']}); {counts}")
    return "\n".join(lines).rstrip() + "\n"


def terminal_page(summary: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> str:
    """What the command line prints at the end of a run."""
    lines = [curve(history, summary["baseline_selection_score"]), ""]
    if summary["test_hard"] is not None:
        before, after = summary["baseline_test_hard"], summary["test_hard"]
        lines.append(f"test    initial {_number(before)}  best {_number(after)}")
        table = summary["test_by_type"]
        lines += [
            f"  {name:<20} {table['initial'][name]['hard']:.3f} -> {best['hard']:.3f} of {int(best['total'])}"
            for name, best in table["best"].items()
            if name != "overall"
        ]
    stages = ", ".join(f"{stage} {calls}" for stage, calls in summary["calls"].items())
    spend = summary["spend"]
    price = f", {spend['usd']:.2f} USD" if spend["usd"] else ""
    lines += [
        f"calls   {spend['calls']}{price}: {stages}",
        f"skill   {summary['best_skill_path']} (step {summary['best_step']})",
    ]
    return "\n".join(lines)


def _bar(score: float | None) -> str:
    return "?" if score is None else BARS[round(max(0.0, min(1.0, score)) * (len(BARS) - 1))]


def _number(value: float | None) -> str:
    return "  -  " if value is None else f"{value:.3f}"
