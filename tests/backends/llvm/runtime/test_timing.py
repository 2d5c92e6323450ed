"""Rounds: contenders take turns, the statement is about ratios inside rounds."""

from __future__ import annotations

from functools import partial
from random import Random
from time import sleep
from typing import Any

import pytest

from layout_ir.backends.llvm.runtime import timing
from layout_ir.backends.llvm.runtime.timing import LEAST_SAMPLES, Limits, Times, median_interval, race


def test_a_machine_that_slows_down_does_not_change_a_ratio():
    slow = [1.0, 1.0, 5.0, 3.0, 1.0, 9.0, 2.0, 2.0, 1.0]
    times = Times({"a": slow, "b": [2 * t for t in slow]})
    ratio = times.speedup("a", "b")
    assert (ratio.middle, ratio.low, ratio.high) == (2.0, 2.0, 2.0)
    assert times.ratio("a", to="b").middle == 0.5
    assert times.best("a") == 1.0
    assert times.median("a") == 2.0


def test_the_interval_holds_the_true_median():
    rng = Random(5)
    held = 0
    for _ in range(400):
        found = median_interval([rng.lognormvariate(0, 0.5) for _ in range(25)])
        assert found.low <= found.middle <= found.high
        held += found.low <= 1 <= found.high
    assert held >= 0.92 * 400


@pytest.mark.parametrize("count", range(LEAST_SAMPLES, 60))
def test_an_interval_misses_the_median_as_seldom_as_it_says_and_is_no_wider_than_that(count: int):
    stats: Any = pytest.importorskip("scipy.stats")
    found = median_interval([float(k) for k in range(count)])
    below = int(found.low)
    assert found.high == count - 1 - below
    # The median lies below sample k exactly if at most k samples lie below the median.
    assert stats.binom.cdf(below, count, 0.5) <= 0.025 < stats.binom.cdf(below + 1, count, 0.5)


def test_contenders_take_turns_until_the_noise_allows():
    order: list[str] = []
    limits = Limits(precision=0.5, seconds=1e9, fewest=3, most=50)
    seen: list[int] = []

    def settled(times: Times) -> float:
        seen.append(len(times.rounds["b"]))
        return 1.0 if seen[-1] < 5 else 0.1

    times = race({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, settled, limits)
    assert seen == [3, 4, 5]
    assert {len(rounds) for rounds in times.rounds.values()} == {5}


def test_nobody_always_comes_behind_the_same_other():
    order: list[str] = []

    def run(name: str) -> None:
        order.append(name)
        sleep(0.003)  # longer than a batch: one call each

    race({name: partial(run, name) for name in "ab"}, lambda _: 1.0, Limits(0.0, 0.0, fewest=12))
    rounds = ["".join(order[k : k + 2]) for k in range(len(order) - 24, len(order), 2)]
    assert {*rounds} == {"ab", "ba"}


@pytest.mark.parametrize(("other", "calls"), [(0.0001, 4 + 2 * 6), (0.0013, 4 + 2)])
def test_all_contenders_have_first_calls_that_are_not_counted_or_none_has(
    other: float, calls: int, monkeypatch: pytest.MonkeyPatch
):
    """A call of 1.3 ms is one in a batch of 2 ms, found by four, and two rounds have one each: or behind five, which
    take three batches, beside a contender that is called more often."""
    counts, now = {"a": 0, "b": 0}, 0.0

    def run(name: str, seconds: float) -> None:
        nonlocal now
        counts[name] += 1
        now += seconds

    monkeypatch.setattr(timing, "perf_counter", lambda: now)
    contenders = {"a": partial(run, "a", 0.0013), "b": partial(run, "b", other)}
    race(contenders, lambda _: 1.0, Limits(0.0, 0.0, fewest=2))
    assert counts["a"] == calls


def test_a_call_that_finds_its_data_where_others_left_it_is_not_counted(monkeypatch: pytest.MonkeyPatch):
    """Of what comes behind another contender, the first three calls take longer: none of them is in a time."""
    now, behind, last = 0.0, 0, ""

    def run(name: str) -> None:
        nonlocal now, behind, last
        behind = behind + 1 if name == last else 0
        last = name
        now += (0.0006, 0.0003, 0.0002)[behind] if behind < 3 else 0.0001

    monkeypatch.setattr(timing, "perf_counter", lambda: now)
    times = race({name: partial(run, name) for name in "ab"}, lambda _: 1.0, Limits(0.0, 0.0, fewest=6))
    assert [*times.rounds["a"], *times.rounds["b"]] == pytest.approx([0.0001] * 12)


def test_negative_noise_that_never_settles_ends_with_the_time():
    times = race(
        {"a": lambda: None}, lambda _: 1.0, Limits(precision=0.0, seconds=0.05, fewest=2, most=10**6)
    )
    assert 2 <= len(times.rounds["a"]) < 10**6


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_few_rounds_have_the_widest_interval(count: int):
    values = [float(k) for k in range(1, count + 1)]
    found = median_interval(values)
    assert (found.low, found.high) == (1.0, float(count))


def test_what_was_measured_on_an_unsound_machine_is_measured_again():
    answers = iter([False, True, False, *[True] * 100])
    asked: list[bool] = []

    def sound() -> bool:
        asked.append(next(answers))
        return asked[-1]

    times = race(
        {"a": lambda: None}, lambda _: 1.0, Limits(precision=0.0, seconds=0.0, fewest=3), sound=sound
    )
    assert len(times.rounds["a"]) == 3
    assert times.doubtful == 0
    # Unsound before, unsound after, and three times sound before and after.
    assert asked == [False, True, False, *[True] * 6]


def test_negative_patience_ends():
    limits = Limits(precision=0.0, seconds=0.0, fewest=2, patience=0.02)
    times = race({"a": lambda: None, "b": lambda: None}, lambda _: 1.0, limits, sound=lambda: False)
    assert {len(rounds) for rounds in times.rounds.values()} == {2}
    assert times.doubtful >= 1
