"""Boundaries of the pool and of the limiter that a mutation run found untested."""

from __future__ import annotations

import threading
import time

import pytest

from skillopt_sleep.calls import parallel
from skillopt_sleep.calls.parallel import CALM, GROWING, RESERVE, Limited, Limiter, Pool, read_free_memory
from skillopt_sleep.errors import Awaiting, BudgetSpent, EmptyReply, NotLoggedIn, Overloaded, RateLimited
from skillopt_sleep.model.call import Prompt
from tests.fakes.clock import FakeClock

PROMPT = Prompt(system="", user="x")


class Steps:
    """A progress that notes what it is told."""

    def __init__(self):
        self.told = []

    def begin(self, total):
        """Note the number of items."""
        self.told.append(total)

    def step(self):
        """Note an item."""
        self.told.append("step")


class Full(Exception):
    """The next call would have to wait for a slot."""


def test_calls_that_take_no_memory_here_do_not_ask_for_any():
    """A backend behind an endpoint runs on another machine."""
    limiter = Limiter(2, FakeClock(), free=lambda: pytest.fail("asked for the free memory"))
    limiter.enter()
    limiter.enter()


def fill(limiter, monkeypatch, most=30):
    """Enter until the next call would have to wait; how many entered."""

    def refuse(timeout):
        raise Full

    with monkeypatch.context() as patch:
        patch.setattr(limiter._changed, "wait", refuse)
        for entered in range(most):
            try:
                limiter.enter()
            except Full:
                return entered
    return most


def empty(limiter, count):
    """Free slots without learning anything."""
    for _ in range(count):
        limiter.leave(EmptyReply("nothing"))


# --- the pool -----------------------------------------------------------------------------------------------------


def test_pool_tells_its_progress():
    """The number of items comes first, then a step for each; without items there is nothing to tell."""
    steps = Steps()
    assert Pool(2, progress=steps)(lambda item: item * 2, [1, 2, 3]) == [2, 4, 6]
    assert steps.told == [3, "step", "step", "step"]
    assert Pool(2, progress=steps)(lambda item: item, []) == []
    assert len(steps.told) == 4


@pytest.mark.parametrize(("workers", "items", "threads"), [(3, 8, 3), (8, 3, 3)])
def test_pool_runs_as_many_at_once_as_it_has_workers(workers, items, threads):
    """No more threads than workers, and all of them at once."""
    together = threading.Barrier(threads)
    names = set()

    def work(number):
        names.add(threading.current_thread().name)
        if number < threads:
            together.wait(timeout=5)

    Pool(workers)(work, list(range(items)))
    assert len(names) == threads


def test_pool_starts_nothing_behind_an_error():
    """One worker leaves the items behind the one that fails; a failed item is no step."""
    steps, begun = Steps(), []

    def work(number):
        begun.append(number)
        if number == 1:
            raise EmptyReply("nothing")

    with pytest.raises(EmptyReply):
        Pool(1, progress=steps)(work, list(range(5)))
    assert begun == [0, 1]
    assert steps.told == [5, "step"]


def run_errors(*errors):
    """Run items that each raise their error at the same time, None for one that ends well."""
    together = threading.Barrier(len(errors))

    def work(error):
        together.wait(timeout=5)
        if error is not None:
            raise error

    Pool(len(errors))(work, list(errors))


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ((EmptyReply("first"), NotLoggedIn("fatal")), "fatal"),
        ((EmptyReply("first"), EmptyReply("second")), "first"),
        ((None, EmptyReply("second")), "second"),
        ((Awaiting("two", missing=2), Awaiting("three", missing=3), Awaiting("one", missing=1)), "three"),
        ((Awaiting("two", missing=2), BudgetSpent("cap", cap="usd")), "two"),
        ((Awaiting("two", missing=2), EmptyReply("lost"), BudgetSpent("cap", cap="usd")), "lost"),
        ((BudgetSpent("cap", cap="usd"), None), "cap"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_error_that_a_pool_raises(errors, raised):
    """A fatal error first, then the earliest; missing answers are asked for before a cap is reported."""
    with pytest.raises(Exception, match=raised):
        run_errors(*errors)


def test_missing_answer_stops_nothing():
    """All items are asked although one has no answer yet."""
    begun = []

    def work(number):
        begun.append(number)
        if number == 0:
            raise Awaiting("one", missing=1)

    with pytest.raises(Awaiting):
        Pool(1)(work, [0, 1, 2])
    assert begun == [0, 1, 2]


def test_interrupt_ends_the_running_items(monkeypatch):
    """An interrupt of the waiting thread calls ``on_interrupt``, starts nothing more and is passed on."""
    running, ended, begun, finished = threading.Event(), threading.Event(), [], []

    def interrupt(_futures):
        running.wait(timeout=5)
        raise KeyboardInterrupt

    def work(number):
        begun.append(number)
        running.set()
        ended.wait(timeout=1)
        time.sleep(0.05)
        finished.append(number)

    monkeypatch.setattr(parallel, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Pool(1, on_interrupt=ended.set)(work, [0, 1, 2])
    assert ended.is_set()
    assert begun == finished == [0]


# --- the limiter --------------------------------------------------------------------------------------------------


def test_limiter_allows_so_many_and_no_more(monkeypatch):
    """A freed slot can be taken again."""
    limiter = Limiter(3, FakeClock())
    assert fill(limiter, monkeypatch) == 3
    empty(limiter, 2)
    assert fill(limiter, monkeypatch) == 2


def test_overload_halves_the_calls_in_flight(monkeypatch):
    """Eight, four, two, one, and never none; other errors change nothing."""
    limiter = Limiter(8, FakeClock())
    allowed = []
    for error in [Overloaded("529"), RateLimited("429"), EmptyReply("x"), Overloaded("529"), Overloaded("529")]:
        limiter.enter()
        limiter.leave(error)
        allowed.append(fill(limiter, monkeypatch))
        empty(limiter, allowed[-1])
    assert allowed == [4, 2, 2, 1, 1]


def test_calm_time_allows_one_more(monkeypatch):
    """One more call after so many answers in a row, up to as many as there may be; an overload begins the row anew."""
    limiter = Limiter(4, FakeClock())

    def answer(count):
        for _ in range(count):
            limiter.enter()
            limiter.leave(None)
        entered = fill(limiter, monkeypatch)
        empty(limiter, entered)
        return entered

    assert answer(CALM) == 4
    limiter.enter()
    limiter.leave(Overloaded("529"))
    assert (answer(CALM - 1), answer(1), answer(CALM - 1)) == (2, 3, 3)
    limiter.enter()
    limiter.leave(Overloaded("529"))
    assert (answer(CALM - 1), answer(1), answer(CALM), answer(CALM), answer(CALM)) == (1, 2, 3, 4, 4)


def test_retry_after_holds_back_every_call():
    """The longest wait that was asked for counts, it is announced first, and it is over at the very second."""
    clock, announced = FakeClock(), []
    limiter = Limiter(8, clock, before_wait=announced.append)
    for seconds in (5.0, 20.0, 7.0, None):
        limiter._in_flight += 1
        limiter.leave(Overloaded("529", retry_after=seconds))
    clock.seconds = 8.0
    limiter.enter()
    assert (clock.slept, announced) == ([12.0], [12.0])
    limiter.leave(None)
    limiter.enter()
    assert clock.slept == [12.0]


def test_half_a_second_that_was_asked_for_is_waited():
    """A wait shorter than a second is a wait too."""
    clock = FakeClock()
    limiter = Limiter(8, clock)
    limiter.enter()
    limiter.leave(RateLimited("429", retry_after=0.5))
    limiter.enter()
    assert clock.slept == [0.5]


def test_memory_limits_the_calls_in_flight(monkeypatch):
    """One call always runs; another needs room for itself and for those that still grow, beside the reserve."""
    clock, free = FakeClock(), RESERVE + 300
    limiter = Limiter(9, clock, footprint=100, free=lambda: free)
    assert fill(limiter, monkeypatch) == 3
    clock.seconds = GROWING - 0.5
    assert fill(limiter, monkeypatch) == 0
    clock.seconds = GROWING
    assert fill(limiter, monkeypatch) == 3
    empty(limiter, 6)
    clock.seconds = 60.0
    free = 0
    assert fill(limiter, monkeypatch) == 1
    empty(limiter, 1)
    free = RESERVE + 200  # the call that has ended grows no more: only two are left that do
    assert fill(limiter, monkeypatch) == 2


def test_calls_without_a_footprint_need_no_memory(monkeypatch):
    """Calls over the network are not held back by it."""
    assert fill(Limiter(5, FakeClock(), free=lambda: 0), monkeypatch) == 5


@pytest.mark.parametrize("error", [None, Overloaded("529"), KeyboardInterrupt()], ids=repr)
def test_slot_is_freed_however_the_call_ends(error):
    """The limiter learns how the call ended, and the slot is free."""
    limiter, ended = Limiter(2, FakeClock()), []
    free = limiter.leave
    limiter.leave = lambda error: (ended.append(error), free(error))

    def send(prompt, *, phase, number):
        if error is not None:
            raise error
        return prompt.user, phase, number

    limited = Limited(limiter=limiter, send=send, admit=lambda _: Prompt(system="", user="admitted"))
    if error is None:
        assert limited(PROMPT, phase="p", number=3) == ("admitted", "p", 3)
    else:
        with pytest.raises(type(error)):
            limited(PROMPT, phase="p", number=3)
    assert ended == [error]
    assert limiter._in_flight == 0


@pytest.mark.parametrize(
    ("limit", "used", "free"), [("1000", "400", 600), ("9000", "400", 5000), ("max", "400", 5000), (None, None, 5000)]
)
def test_free_memory_is_that_of_the_container(tmp_path, monkeypatch, limit, used, free):
    """What the container leaves counts where it is less; one without a limit says nothing."""
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 5000}))
    for name, text in (("LIMIT", limit), ("USED", used)):
        monkeypatch.setattr(parallel, name, tmp_path / name)
        if text is not None:
            (tmp_path / name).write_text(text)
    assert read_free_memory() == free


def test_memory_that_is_left_to_everything_else():
    """A quarter of a gigabyte; a new process is given three seconds to grow, and ten answers are a calm time."""
    assert (RESERVE, GROWING, CALM) == (268_435_456, 3.0, 10)
