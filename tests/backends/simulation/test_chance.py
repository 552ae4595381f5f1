"""Luck without memory."""

from __future__ import annotations

from skillopt_sleep.backends.simulated_world import draw_uniform


def test_chance_is_a_function_of_its_name():
    """The same name has the same luck, another name another, all of it spread over [0, 1)."""
    assert draw_uniform(1, "a", "bc") == draw_uniform(1, "a", "bc")
    assert draw_uniform(1, "a", "bc") != draw_uniform(1, "ab", "c")
    drawn = [draw_uniform("spread", number) for number in range(2000)]
    assert 0 <= min(drawn) < 0.01
    assert 0.99 < max(drawn) < 1
    assert abs(sum(drawn) / len(drawn) - 0.5) < 0.03
