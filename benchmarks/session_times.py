"""Run times of models in ONNX Runtime, compared so that the machine's other work does not decide.

One sample is a set of sessions, one per model, made anew in another order: where their weights happen to lie in memory
makes differences of some percent that more calls would not average out. Within a sample the models run in turns on the
same inputs, and each gives its best turn, since other work only adds. A ratio of two models is taken sample by sample;
what is told is the median of the ratios, with an interval that needs no assumption about how they are distributed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import comb
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.model_files import feeds_for

LEAST_SAMPLES = 6
"""The fewest of which least and largest are an interval of 95 % for the median."""
TURNS = 7
"""Calls of each model in a sample."""
LEAST_SECONDS = 0.002
"""A call that takes less is repeated within its turn until it takes as long: clocks have noise."""
MARGIN = 0.01
"""Ratios up to 1 + MARGIN are no difference that somebody would want to know of."""


@dataclass(frozen=True)
class Interval:
    """A median and the 95 % interval around it."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Interval:
        """By order statistics, each end with a chance of at most 2.5 %; the whole range where samples are too few."""
        ordered = sorted(samples)
        cut, chance = 0, 0.5 ** len(ordered)
        while chance <= 0.025 and 2 * cut < len(ordered):
            cut += 1
            chance += comb(len(ordered), cut) * 0.5 ** len(ordered)
        first = max(cut - 1, 0)
        return cls(ordered[first], median(ordered), ordered[-1 - first])

    def __str__(self) -> str:
        return f"{self.middle:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Times:
    """Seconds of one run of each model, sample by sample."""

    samples: Mapping[str, Sequence[float]]

    def seconds(self, name: str) -> Interval:
        return Interval.of(self.samples[name])

    def ratio(self, name: str, other: str) -> Interval:
        """Time of a model over that of another: above 1, it is slower."""
        pairs = zip(self.samples[name], self.samples[other], strict=True)
        return Interval.of([one / two for one, two in pairs])

    def verdict(self, name: str, other: str) -> str:
        """Whether a model is "faster" or "slower" than another, "equal" within the margin, or "undecided"."""
        ratio = self.ratio(name, other)
        if ratio.low > 1 + MARGIN:
            return "slower"
        if ratio.high < 1:
            return "faster"
        return "equal" if ratio.high <= 1 + MARGIN else "undecided"


def session_times(
    files: Mapping[str, str], original: str, threads: int, budget: float, compare: Sequence[str]
) -> Times:
    """Times of the models in the files, by name, on inputs for the model in the file `original`.

    Takes samples until the models of `compare` are decided beside every other model, or for `budget` seconds, but
    never less than six of them. Sessions have all optimizations and `threads` threads, which do not spin while they
    wait: those of another session would run against the one that is measured.
    """
    feeds = feeds_for(Path(original))
    order = random.Random(0)
    samples: dict[str, list[float]] = {name: [] for name in files}
    end = perf_counter() + budget
    while True:
        for name, seconds in _sample(files, feeds, threads, order).items():
            samples[name].append(seconds)
        times = Times(samples)
        count = len(next(iter(samples.values())))
        if count < LEAST_SAMPLES:
            continue
        pairs = [(name, other) for name in compare for other in files if other not in compare]
        if perf_counter() > end or all(times.verdict(*pair) != "undecided" for pair in pairs):
            return times


def _sample(
    files: Mapping[str, str], feeds: Mapping[str, Any], threads: int, order: random.Random
) -> dict[str, float]:
    names = list(files)
    order.shuffle(names)
    sessions = {name: session(files[name], threads) for name in names}
    repeats = {name: _repeats(sessions[name], feeds) for name in names}
    turns: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(TURNS):
        order.shuffle(names)
        for name in names:
            run = sessions[name].run
            begin = perf_counter()
            for _ in range(repeats[name]):
                run(None, feeds)
            turns[name].append((perf_counter() - begin) / repeats[name])
    return {name: min(seconds) for name, seconds in turns.items()}


def _repeats(made: Any, feeds: Mapping[str, Any]) -> int:
    made.run(None, feeds)  # allocates
    begin = perf_counter()
    made.run(None, feeds)
    return max(1, round(LEAST_SECONDS / max(perf_counter() - begin, 1e-6)))


def session(path: str, threads: int) -> Any:
    """A session of ONNX Runtime with all optimizations."""
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
