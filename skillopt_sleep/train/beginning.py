"""The beginning of a run: the state to go on from, else a new one with the initial skill scored."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from skillopt_sleep.domain.call import Role
from skillopt_sleep.domain.skill_text import apply_to_skill
from skillopt_sleep.errors import BackendUnusable, ConfigError, UsageError
from skillopt_sleep.ports import Backend
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.datasets import notes_of
from skillopt_sleep.train.gating import enough, score_selection
from skillopt_sleep.train.run import Run
from skillopt_sleep.train.state import RunState, check_same_run, identity
from skillopt_sleep.train.traits import client_traits, env_traits

__all__ = ["begun", "check_skill"]

DEFAULT_LIMIT = SkillOptConfig().optimizer_max_completion_tokens


def check_skill(skill: object, most: int) -> None:
    """Raise ``UsageError``, or ``Refused`` for frontmatter that never ends, for what cannot be trained from."""
    if not isinstance(skill, str):
        raise UsageError(f"the initial skill is {skill!r:.60}, must be a text; read the file first")
    if len(skill) > most:
        raise ConfigError(f"the initial skill has {len(skill):,} characters, more than max_skill_chars, {most:,}")
    apply_to_skill(skill, ())


def begun(run: Run, skill: str, backends: Mapping[Role, Backend], wording: Mapping[str, str]) -> RunState:
    """The state of the run in the folder, else a new one under the initial ``skill``; ``wording``: own prompts.

    Raises ``Refused`` when the folder holds another run, and ``BackendUnusable`` when too little could be measured.
    """
    wanted = identity(
        run.config,
        env=run.env.name,
        items={split: items for split, items in run.items.items() if split != run.config.test_split},
        initial_skill=skill,
        traits=env_traits(run.env),
        clients={
            str(role): (f"{backend.name}:{backend.model}", client_traits(backend)) for role, backend in backends.items()
        },
        wording=wording,
    )
    kept = run.artefacts.state()
    if kept is not None:
        check_same_run(kept.identity, wanted, run.config.out_root)
        if kept.current_score is not None:
            run.tell(f"going on with {run.config.out_root} after step {kept.last_completed_step}")
            return kept
    for note in notes_of(run.env):
        run.tell(f"data: {note}")
    limit, optimizer = run.config.optimizer_max_completion_tokens, backends[Role.OPTIMIZER]
    if limit != DEFAULT_LIMIT and not getattr(optimizer, "takes_limits", False):
        run.tell(f"{optimizer.name} takes no limit: optimizer_max_completion_tokens = {limit} changes nothing there")
    state = RunState(identity=wanted, initial_skill=skill, current_skill=skill, best_skill=skill, epoch_skill=skill)
    run.artefacts.begin()
    run.artefacts.commit(state, [], snapshot=True)
    return _with_first_score(run, state)


def _with_first_score(run: Run, state: RunState) -> RunState:
    state, score = score_selection(run, state, state.initial_skill, "baseline_selection_eval")
    if not enough(score):
        raise BackendUnusable(
            f"only {score.measured} of {score.items} selection items could be measured under the initial skill"
            f" ({score.lost or 'no reason given'}); nothing is scored: run again when that is mended"
        )
    value = run.value(score)
    state = replace(state, current_score=value, best_score=value)
    run.artefacts.commit(state, [], snapshot=False)
    run.tell(f"initial skill: selection {value:.4f} over {score.measured} items")
    return state
