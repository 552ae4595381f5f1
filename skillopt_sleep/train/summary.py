"""What a run came to: the summary, the training curve, and the page for people.

The end of a run: the test split under the skills that matter, and the summary of it all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from skillopt_sleep import __version__
from skillopt_sleep.errors import BackendUnusable
from skillopt_sleep.model.call import PhaseTally, Spend
from skillopt_sleep.train.datasets import notes_of
from skillopt_sleep.train.editing import compute_score
from skillopt_sleep.train.results import RolloutResult
from skillopt_sleep.train.run import Draw, Run, scored
from skillopt_sleep.train.skill_text import skill_hash
from skillopt_sleep.train.state import RunState, Scored

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


FOLDERS = {"initial": "test_eval_baseline", "best": "test_eval_best", "current": "test_eval_current"}
Tested = dict[str, tuple[Scored, dict[str, dict[str, float]]]]
"""By skill: its score on the test split, and the same by task type."""


def ended(run: Run, state: RunState, history: Sequence[Mapping[str, Any]], *, started: float) -> dict[str, Any]:
    """Score the test split if that is asked for, and write the summary, which is also returned.

    ``started`` is when this process began with the run, by ``time.monotonic``. Raises ``BackendUnusable`` when no
    attempt at the test split came back, ``FatalBackend`` and ``BudgetSpent``.
    """
    tested = _tested(run, state) if run.config.eval_test else {}
    summary = _figures(run, state, history) | _test_figures(tested) | _spent(run)
    summary |= {
        "best_skill_path": str(run.store.folder / "best_skill.md"),
        "wall_time_s": round(time.monotonic() - started, 2),
    }
    if dropped := sum(record.get("n_edits_dropped", 0) for record in history):
        run.tell(
            f"{dropped} proposed {'edit' if dropped == 1 else 'edits'} could not be used and were left out;"
            " edit_apply_report.json of each step says why"
        )
    run.artefacts.json("summary.json", summary)
    run.artefacts.text("summary.md", summary_page(summary, history))
    run.store.write("best_skill.md", state.best_skill.encode("utf-8", "surrogatepass"), durable=True)
    return summary


def _tested(run: Run, state: RunState) -> Tested:
    """The test split under the initial skill, the best one and, if asked for, the current one."""
    skills = {"initial": state.initial_skill, "best": state.best_skill}
    if run.config.eval_current_on_test:
        skills["current"] = state.current_skill
    types = list(run.env.get_task_types())
    split, seed = run.config.test_split, run.config.seed
    arms = [
        (skill, Draw(phase="test", split=split, number=0, folder=FOLDERS[name], seed=seed))
        for name, skill in skills.items()
    ]
    found: Tested = {}
    for name, results in zip(skills, run.roll_all(run.items[split], arms), strict=True):
        score = scored(results)
        if not score.measured:
            raise BackendUnusable(
                f"none of {score.items} test items came back under the {name} skill ({score.lost}); the training is"
                " kept: run again when the target answers"
            )
        run.artefacts.results(FOLDERS[name], results, {"hard": score.hard, "soft": score.soft, "n": score.measured})
        table = buckets(results, types)
        run.artefacts.json(f"{FOLDERS[name]}/buckets.json", table)
        found[name] = (score, table)
    return found


def _figures(run: Run, state: RunState, history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the run is, and what its steps came to."""
    actions = [str(record["action"]) for record in history]
    accepted = sum(action.startswith("accept") or action == "greedy_applied" for action in actions)
    skipped = sum(action.startswith("skip") for action in actions)
    first = state.scored.get(skill_hash(state.initial_skill))
    return {
        "version": f"skillopt-sleep {__version__}",
        "config": run.config.to_dict(),
        "env": run.env.name,
        "data_notes": list(notes_of(run.env)),
        "total_steps": len(history),
        "total_accepts": accepted,
        "total_rejects": len(actions) - accepted - skipped,
        "total_skips": skipped,
        "best_step": state.best_step,
        "baseline_selection_score": run.value(first) if first else None,
        "best_selection_score": state.best_score,
        "current_selection_score": state.current_score,
        "slow_updates": [
            {"epoch": each["epoch"], **each["slow_update"]} for each in state.boundaries if "slow_update" in each
        ],
    }


def _test_figures(tested: Tested) -> dict[str, Any]:
    base, best, current = (tested[name][0] if name in tested else None for name in FOLDERS)
    return {
        "baseline_test_hard": base.hard if base else None,
        "baseline_test_soft": base.soft if base else None,
        "test_hard": best.hard if best else None,
        "test_soft": best.soft if best else None,
        "test_delta_hard": best.hard - base.hard if base and best else None,
        "current_test_hard": current.hard if current else None,
        "test_by_type": {name: table for name, (_, table) in tested.items()},
    }


def _spent(run: Run) -> dict[str, Any]:
    """Of the whole run, whatever process it was."""
    tallies = run.store.tallies()
    spend = msgspec.to_builtins(spend_of(tallies))
    del spend["seconds"]  # ``wall_time_s`` is the time; that of calls which overlap is none
    return {"calls": calls_by_stage(tallies), "spend": spend}
