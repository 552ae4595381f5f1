"""The protocols of training: the environment a skill is trained on, and the client it talks to the target with.

An environment says what the items are and how an attempt at one is scored; the trainer knows nothing about the task.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from skillopt_sleep.model.ports import Backend, Progress
from skillopt_sleep.train.patches import RawPatch
from skillopt_sleep.train.results import RolloutResult

if TYPE_CHECKING:
    from skillopt_sleep.train.clients import AskClient

Item = dict[str, Any]
"""One row of a split: a dict with a unique ``id``; only the environment knows the other fields."""
MADE_WITH = "made_with"
"""The attribute of an environment that holds the options it was made with."""


class ChatClient(Protocol):
    """The way an environment talks to a model."""

    @property
    def model(self) -> str:
        """The model asked for; "" means the backend's default."""

    @abstractmethod
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
        """Return the answer and its usage: ``prompt_tokens``, ``completion_tokens``, ``total_tokens``, ``calls``.

        The run's own ledger, retries, caps and limits apply; ``retries`` is ignored. Raises what ``ports.Ask`` raises:
        a lost call is never an empty answer. Safe to call from several threads.
        """


class BaseLLMClient(ChatClient):
    """A base class for clients of one's own: implement ``chat``, set ``model``, and pass it for either role."""

    model: str = ""


class SkillEnv:
    """An environment: subclass it, or write a class with the same methods.

    ``rollout_one`` is called from several threads at once, so state kept between calls needs a lock.
    """

    name: str = "env"
    from_sessions: bool = False
    """Whether the items stem from somebody's sessions; if so, secrets are redacted from all prompts and replies."""

    def get_initial_skill(self) -> str:
        """Return the skill training begins with when the trainer is given none."""
        return ""

    def get_items(self, split: str) -> list[Item]:
        """Return the items of ``train``, ``val``, ``test`` or another split of the config, always in the same order."""
        raise NotImplementedError

    def rollout_one(self, *, item: Item, skill: str, target_client: ChatClient) -> RolloutResult:
        """Attempt one item under a skill and score it; pass on the exceptions of ``target_client.chat``."""
        raise NotImplementedError

    def get_task_types(self) -> list[str]:
        """Return the kinds of items the report lists: by default the attribute ``task_types``, if there is one."""
        return [str(kind) for kind in getattr(self, "task_types", None) or ()]

    def calls_of(self, item: Item) -> int:  # noqa: ARG002  most environments ask once, whatever the item
        """Return the most calls that one attempt at this item takes, those of a judge included.

        The estimated price of a run is their sum.
        """
        return 1


@runtime_checkable
class BatchEnv(Protocol):
    """An environment that rolls out whole batches, and may reflect by itself."""

    def setup(self, config: dict[str, Any], *, optimizer_client: ChatClient, target_client: ChatClient) -> None:
        """Receive the flat dict ``config``, once, before any other method and any call. May raise ``UsageError``."""

    def rollout_batch(
        self, *, items: list[Item], skill: str, split: str, seed: int, out_dir: str
    ) -> list[RolloutResult]:
        """Attempt every item once. ``out_dir`` is empty and used by no other batch; the same batch has the same seed.

        Results need unique ids, which need not be those of the items. A batch that returns only lost results, for some
        of its items, was cut short by them: the other items are attempted again.
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
        """Return what the environment's own analysts propose; None lets the trainer's analysts reflect."""


Begin: TypeAlias = "Callable[[], Mapping[str, AskClient]]"
"""Returns the clients of a new attempt, by role."""


class Engine(Protocol):
    """Where attempts at items are made. Safe to call from several threads at once."""

    def place(self, backend: Backend) -> Backend:
        """Return the backend that makes the calls of ``backend`` where this engine wants them made."""

    def roll_out(self, item: Item, skill: str, begin: Begin) -> RolloutResult:
        """Attempt an item under a skill, as ``environments.roll_out`` does, and raise what it raises.

        Each call of ``begin`` returns clients for an attempt from its beginning, so that one made again asks for
        the same samples. Raises ``BackendUnusable`` if nothing can attempt it.
        """


class TrainProgress(Progress, Protocol):
    """Receives the progress of a run."""

    def at(self, done: int, total: int, words: str) -> None:
        """Report that ``done`` of ``total`` steps are finished; ``words`` give the epoch and the scores."""
