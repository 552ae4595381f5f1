"""One HTTP endpoint, asked through the ``openai`` library; a request can be given up in the middle.

Requests are coroutines on a loop in a thread of its own, because only so one can be cancelled: at the deadline, which
covers the whole answer and not each read of it, and when the night is stopped.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from skillopt_sleep.errors import Overloaded, TimedOut
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from openai import AsyncOpenAI

SECONDS_TO_CLOSE = 0.8


class Answer(Struct, frozen=True, kw_only=True):
    """What came back, good or bad. ``retry_after`` and ``date`` are headers as sent, "" where there is none."""

    status: int
    content: bytes
    retry_after: str = ""
    date: str = ""


class Address(Struct, frozen=True, kw_only=True):
    """Where an endpoint is, and what is asked of it besides: ``query``.

    One with a ``version``, as Azure has them, reads the key from a header of its own too. ``shown`` is the address
    for people, without what may be a secret in it.
    """

    url: str
    key: str
    version: str = ""
    query: tuple[tuple[str, str], ...] = ()
    shown: str = ""


Send = Callable[["AsyncOpenAI"], Coroutine[None, None, bytes]]
"""One request, not yet begun."""


class Endpoint:
    """A connection that is made when it is first used and shared by all calls. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: AsyncOpenAI | None = None

    def post(self, path: str, body: Mapping[str, Json], *, at: Address, seconds: float) -> Answer:
        """Send one request; the answer, whatever its status.

        Raises ``TimedOut`` at the deadline and once closed, ``Overloaded`` when there is no connection.
        """
        return self._ask(lambda client: client.post(path, cast_to=bytes, body=body), at, seconds)

    def get(self, path: str, *, at: Address, seconds: float) -> Answer:
        """Look something up; see ``post``."""
        return self._ask(lambda client: client.get(path, cast_to=bytes), at, seconds)

    def _ask(self, send: Send, at: Address, seconds: float) -> Answer:
        with self._lock:
            if self._closed:
                raise TimedOut("nothing was sent: this backend has been closed")
            if self._loop is None or self._client is None:
                from openai import AsyncOpenAI  # noqa: PLC0415  half a second that only who calls it should wait

                self._client = AsyncOpenAI(
                    base_url=at.url,
                    api_key=at.key,
                    timeout=None,  # the deadline is ours
                    max_retries=0,
                    default_query=dict(at.query) | ({"api-version": at.version} if at.version else {}),
                    default_headers={"api-key": at.key} if at.version else None,
                )
                # it has taken these from this program's environment, which is not the one it was given
                self._client.organization = self._client.project = None
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
                self._thread.start()
            request = asyncio.wait_for(_answer(self._client, send, at.shown or at.url), seconds)
            future = asyncio.run_coroutine_threadsafe(request, self._loop)
        try:
            return future.result()
        except TimeoutError:
            raise TimedOut(f"{at.shown or at.url} gave no answer within {seconds:g} s") from None
        except concurrent.futures.CancelledError:
            raise TimedOut(f"a request to {at.shown or at.url} was given up: this backend has been closed") from None

    def close(self) -> None:
        """Give up every request within a second; later ones raise ``TimedOut``. Idempotent."""
        with self._lock:
            was_closed, self._closed = self._closed, True
        if was_closed or self._loop is None or self._thread is None:
            return
        ending = asyncio.run_coroutine_threadsafe(self._give_up(), self._loop)
        with contextlib.suppress(TimeoutError):
            ending.result(SECONDS_TO_CLOSE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS_TO_CLOSE)
        self._loop.close()

    async def _give_up(self) -> None:
        requests = asyncio.all_tasks() - {asyncio.current_task()}
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        if self._client is not None:
            await self._client.close()


async def _answer(client: AsyncOpenAI, send: Send, shown: str) -> Answer:
    import openai  # noqa: PLC0415  imported by now

    try:
        return Answer(status=200, content=await send(client))
    except openai.APIStatusError as error:
        answer = error.response
        return Answer(
            status=answer.status_code,
            content=answer.content,
            retry_after=answer.headers.get("retry-after", ""),
            date=answer.headers.get("date", ""),
        )
    except openai.APITimeoutError as error:
        raise TimedOut(f"{shown} gave no answer in time") from error
    except openai.APIConnectionError as error:
        raise Overloaded(f"{shown} cannot be reached: {error.__cause__ or error}") from error
