"""What training needs from outside: an environment, and the clients it is given.

An environment says what the items are and how an attempt at one is scored; the trainer knows nothing of the task.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from skillopt_sleep.model.ports import Progress
from skillopt_sleep.train.results import RawPatch, RolloutResult

Item = dict[str, Any]
"""One row of a split: a dict with an ``id`` of its own; the environment knows the rest."""


class ChatClient(Protocol):
    """What an environment is given to talk to the target."""

    @property
    def model(self) -> str:
        """The model asked for; "" means the backend's default."""

    def chat(
        self,
        *,
        system: str,
        user: str,
        max_completion_tokens: int = 4096,
        temperature: float | None = None,
        stage: str = "",
        retries: int = 3,
        **options: Any,  # noqa: ANN401  what the reference's clients take
    ) -> tuple[str, dict[str, int]]:
        """The answer, and its usage: ``prompt_tokens``, ``completion_tokens``, ``total_tokens``, ``calls``.

        The call passes the run's ledger, retries, caps and limits, whatever ``retries`` says. Raises what
        ``ports.Ask`` raises: a lost call is never an empty answer. Safe from several threads.
        """


class SkillEnv:
    """An environment: subclass it, or write a class with the same methods.

    ``rollout_one`` is called from several threads at once, so it keeps nothing between calls that is not locked.
    """

    name: str = "env"
    from_sessions: bool = False
    """Whether its items are made of somebody's sessions: then secrets are taken out of all that is sent, and said."""

    def get_initial_skill(self) -> str:
        """The skill training begins with when the trainer is given none."""
        return ""

    def get_items(self, split: str) -> list[Item]:
        """The items of ``train``, ``val``, ``test`` or another split the config names, always in the same order."""
        raise NotImplementedError

    def rollout_one(self, *, item: Item, skill: str, target_client: ChatClient) -> RolloutResult:
        """One attempt at one item under a skill, scored. Raises what ``target_client.chat`` raises, unchanged."""
        raise NotImplementedError

    def get_task_types(self) -> list[str]:
        """The kinds of items, for the report: those of an attribute ``task_types`` where there is one, else none."""
        return [str(each) for each in getattr(self, "task_types", None) or ()]

    def calls_of(self, item: Item) -> int:  # noqa: ARG002  most environments ask once, whatever the item
        """How many calls an attempt at this item takes at most, for the price of a run; those of a judge count too."""
        return 1


@runtime_checkable
class BatchEnv(Protocol):
    """An environment that rolls out whole batches, and may reflect by itself."""

    def setup(self, config: dict[str, Any], *, optimizer_client: ChatClient, target_client: ChatClient) -> None:
        """Called once, first thing, before any call; ``config`` is flat. May raise ``UsageError``."""

    def rollout_batch(
        self, *, items: list[Item], skill: str, split: str, seed: int, out_dir: str
    ) -> list[RolloutResult]:
        """One attempt at every item. ``out_dir`` is a folder of its own; the same batch has the same ``seed``.

        Ids of the results are unique, and need not be those of the items. Nothing but lost results, and not for every
        item, says that those ended the batch: the others are asked for again.
        """

    def reflect_batch(
        self,
        *,
        results: list[RolloutResult],
        skill: str,
        out_dir: str,
        prediction_dir: str,
        patches_dir: str,
        random_seed: int,
        step_buffer_context: str,
        meta_skill_context: str,
        edit_budget: int,
    ) -> list[RawPatch] | None:
        """What analysts of its own propose; None lets the trainer reflect."""


class TrainProgress(Progress, Protocol):
    """Whoever watches a run."""

    def at(self, done: int, total: int, words: str) -> None:
        """So many steps of the run are done; ``words`` say where it is and how the scores stand."""
