"""What the limit of a request and the size of gains do to the error: enumerated state by state, not simulated."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.gate.account import Account, Tried, compute_account, find_poisson_quantile
from skillopt_sleep.gate.rule import (
    DROP,
    MOST_LOSSES,
    PROMISING,
    PROVEN,
    PROVEN_ALONE,
    Verdict,
    choose_threshold,
    decide,
    describe_needs,
    exact_error,
    explain_unmeasured,
)
from skillopt_sleep.gate.tally import STAKES, WINS_A_REQUEST, Lost, Result, Tally

WIN, LOSS = Result.WIN, Result.LOSS


def compute_error(k: int, chances: list[tuple[float, float]], rounds: int) -> float:
    """The chance that a rule with these chances of a win and a loss on each request is accepted, over all paths.

    Every round tries each request once, as long as a win on it would count. A state is the score, the losses, and the
    wins of every request.
    """
    alive: Mapping[tuple[int, int, tuple[int, ...]], float] = {(0, 0, (0,) * len(chances)): 1.0}
    accepted = 0.0
    for _ in range(rounds):
        for place, (win, loss) in enumerate(chances):
            ahead: dict[tuple[int, int, tuple[int, ...]], float] = {}
            for (score, losses, wins), chance in alive.items():
                if wins[place] == WINS_A_REQUEST:
                    ahead[score, losses, wins] = ahead.get((score, losses, wins), 0.0) + chance
                    continue
                won = (*wins[:place], wins[place] + 1, *wins[place + 1 :])
                steps = [((score + 1, losses, won), win), ((score - 2, losses + 1, wins), loss)]
                steps.append(((score, losses, wins), 1 - win - loss))
                for state, share in steps:
                    if state[0] >= k:
                        accepted += chance * share
                    elif share and state[0] > DROP and state[1] <= MOST_LOSSES:
                        ahead[state] = ahead.get(state, 0.0) + chance * share
            alive = ahead
    return accepted


@pytest.mark.sample(3)
@pytest.mark.parametrize("k", [PROMISING, PROVEN, PROVEN_ALONE])
@pytest.mark.parametrize("requests", [3, 5, 6])
def test_useless_rule_is_proven_at_most_as_often_as_stated(k, requests):
    """The limit of a request only removes paths, whether pairs are always decided or half of them are ties."""
    for share in (0.5, 0.25):
        error = compute_error(k, [(share, share)] * requests, rounds=8)
        assert error <= exact_error(k) + 1e-12
        assert (error == 0) is (2 * requests < k)


def test_request_that_the_words_flip_cannot_carry_a_rule():
    """One request is always won and the others never change: with the limit it gives two wins, whatever the nights."""
    flipped = [(1.0, 0.0), *[(0.0, 0.0)] * 5]
    assert compute_error(PROMISING, flipped, rounds=30) == 0
    assert compute_error(PROMISING, [(1.0, 0.0)] * 3, rounds=2) == 1


@pytest.mark.parametrize(("tasks", "most"), [(4, 0.0), (12, 0.01), (40, 0.02)])
def test_words_that_flip_one_task_in_ten(tasks, most):
    """A tenth of the tasks is turned over for good, upward or downward: proven at 9 in at most 0, 1 and 2 of 100.

    Nine wins take five requests more upward than downward: a request that loses is met before any is met again.
    """
    chance = 0.0
    for upward in range(tasks + 1):
        for downward in range(tasks + 1 - upward):
            ways = math.comb(tasks, upward) * math.comb(tasks - upward, downward)
            share = ways * 0.05 ** (upward + downward) * 0.9 ** (tasks - upward - downward)
            in_first_round = upward >= PROVEN  # in the best of all orders
            later = 2 * upward - 2 * downward >= PROVEN
            chance += share * (in_first_round or later)
    assert chance <= most


def test_third_win_of_a_request_is_a_tie():
    """It adds neither to the score nor to the size; its losses all count."""
    tally = Tally()
    for _ in range(3):
        tally = tally.add(WIN, gain=1.0, request="a")
    assert (tally.wins, tally.ties, tally.won) == (2, 1, ("a", "a"))
    assert tally.fortunes == tuple(pytest.approx((1 + stake) ** 2) for stake in STAKES)
    for _ in range(3):
        tally = tally.add(LOSS, gain=-1.0, request="a")
    assert (tally.losses, tally.lost, tally.has_room("a"), tally.has_room("b")) == (3, ("a",) * 3, False, True)


def test_requests_that_become_one_share_their_limit():
    """Two groups of tasks that merge keep two wins of their four."""
    tally = Tally()
    for name in ("a", "b", "a", "b", "c"):
        tally = tally.add(WIN, request=name)
    merged = tally.add(LOSS, request="b").rename_requests({"b": "a"})
    assert (merged.won, merged.lost, merged.wins, merged.ties) == (("a", "a", "c"), ("a",), 3, 2)


@given(
    gains=st.lists(st.floats(-1, 1), min_size=1, max_size=8),
    stake=st.sampled_from(STAKES),
)
def test_size_is_the_mean_of_the_products(gains, stake):
    """Each stake makes its own fortune out of 1, pair by pair; none of them can fall to 0."""
    tally = Tally()
    for gain in gains:
        tally = tally.add(Result.TIE, gain=gain, request="a")
    products = [math.prod(1 + share * gain for gain in gains) for share in STAKES]
    assert tally.size == pytest.approx(sum(products) / len(products))
    assert tally.fortunes[STAKES.index(stake)] > 0


def test_many_small_gains_do_not_pay_for_a_few_large_harms():
    """Four pairs in five gain .15 and one loses .85: the counts would accept it, the size does not."""
    tally = Tally()
    for number in range(60):
        result, gain = (LOSS, -0.85) if number % 10 == 9 else (WIN, 0.15)
        tally = tally.add(result, gain=gain, request=f"r{number}")
        assert decide(tally, PROVEN) is not Verdict.ACCEPT
    assert tally.score > PROVEN
    assert describe_needs(tally, PROVEN) == "larger gains"
    assert explain_unmeasured(tally, PROVEN, planned=60, measured=60) is None


@pytest.mark.parametrize("losses", range(MOST_LOSSES + 1))
@pytest.mark.parametrize("k", [PROMISING, PROVEN, PROVEN_ALONE])
def test_size_is_no_hurdle_for_passes_and_fails(k, losses):
    """Where every pair differs by a whole point, whoever has the score has the size."""
    tally = Tally()
    for number in range(k + 3 * losses):
        won = number < k + 2 * losses
        tally = tally.add(WIN if won else LOSS, gain=1.0 if won else -1.0, request=f"r{number}")
    assert decide(tally, k) is Verdict.ACCEPT
    assert decide(tally, PROMISING) is Verdict.ACCEPT


def test_rule_on_one_request_needs_more():
    """Nine wins prove what two requests asked for, twelve what one did."""
    assert [choose_threshold(requests) for requests in (0, 1, 2, 5)] == [12, 12, 9, 9]


def test_requests_count_once_for_adoption():
    """A request that was both won and lost counts as lost; a lost call counts for nothing."""
    tally = Tally()
    for result, name in ((WIN, "a"), (WIN, "a"), (WIN, "b"), (LOSS, "b"), (WIN, "c"), (Lost.BOTH, "d")):
        tally = tally.add(result, request=name)
    assert tally.net_requests == 1


@pytest.mark.parametrize("mean", [0.0, 0.05, 0.3, 1.0, 4.0])
def test_poisson_quantile(mean):
    """It is the smallest count that is exceeded in at most 5 of 100 cases."""

    def below(count: int) -> float:
        return sum(math.exp(-mean) * mean**number / math.factorial(number) for number in range(count + 1))

    quantile = find_poisson_quantile(mean)
    assert below(quantile) >= 0.95
    assert quantile == 0 or below(quantile - 1) < 0.95


def test_account_counts_every_life_once():
    """Sixty tried, nine proven: the bounds add up to .5, so at most two of the nine are luck."""
    lives = [
        Tried(id=f"r{n}", night="n", k=9 if n % 2 else 12, verdict=Verdict.ACCEPT if n < 9 else Verdict.REJECT)
        for n in range(80)
    ]
    account = compute_account(lives)
    assert (account.tried, account.accepted, account.at_most) == (80, 9, 2)
    assert account.by_chance == pytest.approx(40 * (exact_error(9) + exact_error(12)), abs=1e-4)
    assert compute_account([]) == Account()
