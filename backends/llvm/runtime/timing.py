"""Times of kernels on a machine that others use too: the one harness of tuning, calibration and benchmarks.

Contenders take turns, round after round, until the noise allows a statement. A machine that others use too is slow for
a while and fast for a while. Two contenders that are timed one after the other meet different machines; within a round
they meet nearly the same one. So the statement is about ratios inside rounds: their median, and an interval that holds
the true median in 95 of 100 cases (order statistics: no assumption about the noise). Rounds are added until the
interval is narrow enough or the time is up, and both are reported.

Where nothing is compared (a curve of costs), or where a choice must be made in milliseconds (which plan is fastest), a
few rounds are run and the least time of each counts, for whatever else the machine does only adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, inf
from random import Random
from time import perf_counter, sleep

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.machine.machine import PAGE

_AFTER_REST = 16
"""Unmeasured calls after a pause. A virtual CPU that rests is another's meanwhile: it comes back at a fifth of its
speed, and what the caches held it has to win back from its neighbours, which takes several passes over the data."""

_AFTER_OTHERS = 8
"""Unmeasured calls behind another contender, whose threads may spin, and whose data is in the last level, or which has
written ours past it. Measured on Zen 4, 16 MiB of f32 from nhwc to nchw through the caches, us of each call behind
copies of other data: 1325, 1112, 943, 579, 421, 363, 315, and then 280; 8 MiB behind stores past the caches to the same
place 620, 250, 125, 106, and then 98."""


@dataclass(frozen=True)
class Limits:
    """When `race` stops: after `fewest` rounds at least and `most` at most, as soon as a ratio is known well enough.

    That is to `precision`, the relative half width of its interval, or where `seconds` are over.
    """

    precision: float = 0.02
    seconds: float = 4.0
    fewest: int = 9
    most: int = 200
    patience: float = 10.0
    """Seconds after which times count that were taken while the machine was not sound."""
    batch: float = 0.002
    """Seconds of calls between two looks at the clock."""


@dataclass(frozen=True)
class Interval:
    """The median of samples, and the interval that holds the true one in at least 95 of 100 cases."""

    middle: float
    low: float
    high: float

    @property
    def uncertainty(self) -> float:
        """Half the width of the interval, relative to the median."""
        return (self.high - self.low) / 2 / self.middle

    def __str__(self) -> str:
        return f"{self.middle:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Times:
    """Seconds per call of every contender, one entry per round."""

    rounds: Mapping[str, Sequence[float]]
    doubtful: int = 0
    """How many of these times count only because patience was at its end."""

    def best(self, name: str) -> float:
        """Seconds of the fastest round of `name`."""
        return min(self.rounds[name])

    def median(self, name: str) -> float:
        """Seconds of the median round of `name`."""
        return _median(sorted(self.rounds[name]))

    def ratio(self, name: str, to: str) -> Interval:
        """The time of `name` over that of `to`: the median over the rounds of the ratio inside a round."""
        return median_interval([a / b for a, b in zip(self.rounds[name], self.rounds[to], strict=True)])

    def speedup(self, name: str, over: str) -> Interval:
        """How many times as fast `name` is as `over`."""
        return self.ratio(over, to=name)


LEAST_SAMPLES = 6
"""The fewest samples of which least and largest enclose the median with a probability of 0.95."""


def median_interval(samples: Sequence[float]) -> Interval:
    """The median, between order statistics that enclose the true one with a probability of at least 0.95.

    Nothing is assumed of how samples are distributed: each of n falls below the true median with probability one half,
    so that k or fewer of them do with the probability of a binomial distribution. Each end is the innermost one that
    misses with at most 0.025; where even the outermost ones miss more often (`LEAST_SAMPLES`), they are the interval.
    """
    ordered, n = sorted(samples), len(samples)
    k, outcomes = 0, 1  # of the 2**n ways to fall below or above, those in which at most k samples fall below
    while 40 * (outcomes := outcomes + comb(n, k + 1)) <= 2**n:
        k += 1
    return Interval(_median(ordered), ordered[k], ordered[n - 1 - k])


def _median(ordered: Sequence[float]) -> float:
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def race(
    contenders: Mapping[str, Callable[[], object]],
    settled: Callable[[Times], float],
    limits: Limits,
    pause: float = 0.0,
    sound: Callable[[], bool] = lambda: True,
) -> Times:
    """Rounds of all contenders, in another order each, until what `settled` tells of them is precise or the time is up.

    `settled` gives an uncertainty, which should be at most `limits.precision`. `pause` seconds of rest before each
    contender let the threads of the one before go to sleep; it then has some unmeasured calls. A time counts where
    the machine was `sound` before and after it, or patience has ended.
    """
    calls = {name: _batch(run, limits.batch) for name, run in contenders.items()}
    # All of them or none: first calls find nothing in the caches, and a contender that barely fills a batch would meet
    # one that barely does not.
    warm = any(number > 1 for number in calls.values())
    rounds: dict[str, list[float]] = {name: [] for name in contenders}
    times = Times(rounds)
    order = list(contenders)
    rng = Random(0)
    start = perf_counter()
    doubtful = 0
    for done in range(1, limits.most + 1):
        rng.shuffle(order)  # whoever always came behind the same other would pay for what that leaves behind
        for name in order:
            while True:
                seconds, was_sound = _timed(contenders[name], calls[name], warm, pause, sound, limits.batch)
                if was_sound or perf_counter() - start > limits.patience:
                    break
            rounds[name].append(seconds)
            doubtful += not was_sound
        late = perf_counter() - start > limits.seconds
        if done >= limits.fewest and (late or settled(times) <= limits.precision):
            break
    return replace(times, doubtful=doubtful)


def _timed(
    run: Callable[[], object], number: int, warm: bool, pause: float, sound: Callable[[], bool], batch: float
) -> tuple[float, bool]:
    """Seconds of each of `number` calls, behind some that are not counted if `warm` or after a `pause`; whether the
    machine was sound all the while."""
    if pause:
        sleep(pause)
        _warm_up(run, _AFTER_REST, 6 * batch)
    before = sound()
    if pause or warm:
        _warm_up(run, _AFTER_OTHERS, 3 * batch)
    start = perf_counter()
    for _ in range(number):
        run()
    seconds = (perf_counter() - start) / number
    return seconds, before and sound()


def _warm_up(run: Callable[[], object], most: int, seconds: float) -> None:
    """Calls `run` at most `most` times; the last call begins within `seconds`."""
    end = perf_counter() + seconds
    for _ in range(most):
        run()
        if perf_counter() > end:
            return


def _batch(run: Callable[[], object], batch: float) -> int:
    """How many calls take `batch` seconds, at least 1."""
    run()
    least = inf
    for _ in range(3):
        start = perf_counter()
        run()
        least = min(least, perf_counter() - start)
        if least >= batch:
            return 1
    return max(1, min(int(batch / max(least, 1e-8)), 100_000))


def least_times(contenders: Sequence[Callable[[], object]], rounds: int, batch: float) -> list[float]:
    """Seconds of one call of each contender: the least of so many rounds, in batches of `batch` seconds."""
    names = list(map(str, range(len(contenders))))
    limits = Limits(seconds=inf, fewest=rounds, most=rounds, batch=batch)
    times = race(dict(zip(names, contenders, strict=True)), lambda _: inf, limits)
    return list(map(times.best, names))


def touched_bytes(size: int) -> NDArray[np.uint8]:
    """A buffer of `size` bytes at the start of a page, all of them written: untouched zeros share one cached page."""
    data = bytes_at_page(size)
    data[:] = 1
    return data


def bytes_at_page(size: int) -> NDArray[np.uint8]:
    """A buffer of `size` bytes at the start of a page, which nobody has written."""
    data = np.empty(size + PAGE, np.uint8)
    start = -int(data.ctypes.data) % PAGE
    return data[start : start + size]
