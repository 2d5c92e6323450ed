"""Run times of models in ONNX Runtime, compared so that the machine's other work does not decide.

One sample is a set of sessions, one per model, made anew in another order: where their weights happen to lie in memory
makes differences of some percent that more calls would not average out. Within a sample the models run in turns on the
same inputs, and each gives its best turn, since other work only adds. A ratio of two models is taken sample by sample;
what is told is the median of the ratios, with an interval that needs no assumption about how they are distributed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

from layout_ir.backends.llvm.runtime.timing import LEAST_SAMPLES, Interval, Limits, Times, race
from layout_ir.backends.onnxruntime.runtime_session import RuntimeSession

if TYPE_CHECKING:
    from numpy.typing import NDArray

TURNS = 7
"""Calls of each model in a sample, fewer where these take longer than their part of the time."""
LEAST_SECONDS = 0.002
"""A call that takes less is repeated within its turn until it takes as long: clocks have noise."""
MARGIN = 0.01
"""Ratios up to 1 + MARGIN are no difference that somebody would want to know of."""


def verdict(ratio: Interval) -> str:
    """What the ratio of two times says of the first: "faster", "slower", "equal" within the margin, "undecided"."""
    if ratio.low > 1 + MARGIN:
        return "slower"
    if ratio.high < 1:
        return "faster"
    return "equal" if ratio.high <= 1 + MARGIN else "undecided"


def session_times(
    files: Mapping[str, str], feeds: Mapping[str, NDArray[Any]], *, threads: int, seconds: float,
    compare: Sequence[str], level: str = "all", titles: Mapping[str, str] | None = None,
) -> Times:  # fmt: skip
    """Times of the models in the files, by name, on the same inputs; a round is a sample.

    Takes samples until the models of `compare` are decided beside every other model, or for so many seconds, but never
    less than six of them. Raises LayoutError, with the title of the model, where ONNX Runtime does not run one.
    """
    order = random.Random(0)
    samples: dict[str, list[float]] = {name: [] for name in files}
    times = Times(samples)
    pairs = [(name, other) for name in compare for other in files if other not in compare]
    limits = Limits(seconds=seconds / LEAST_SAMPLES, fewest=3, most=TURNS, batch=LEAST_SECONDS)
    end = perf_counter() + seconds
    while True:
        names = list(files)
        order.shuffle(names)
        sessions = {
            name: RuntimeSession(files[name], (titles or files)[name], threads=threads, level=level)
            for name in names
        }
        turns = race({name: made.call(feeds) for name, made in sessions.items()}, lambda _: inf, limits)
        for name in names:
            samples[name].append(turns.best(name))
        if len(samples[names[0]]) < LEAST_SAMPLES:
            continue
        if perf_counter() > end or all(verdict(times.ratio(*pair)) != "undecided" for pair in pairs):
            return times
