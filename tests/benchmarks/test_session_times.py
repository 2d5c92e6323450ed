from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.session_times import LEAST_SAMPLES, MARGIN, Interval, Times, session_times
from tests.benchmarks.small_models import picture, save


@pytest.mark.parametrize("count", range(LEAST_SAMPLES, 60))
def test_an_interval_misses_the_median_as_seldom_as_it_says_and_is_no_wider_than_that(count: int):
    stats: Any = pytest.importorskip("scipy.stats")
    interval = Interval.of([float(k) for k in range(count)])
    below = int(interval.low)
    assert interval.high == count - 1 - below
    # The median lies below sample k exactly if at most k samples lie below the median.
    assert stats.binom.cdf(below, count, 0.5) <= 0.025 < stats.binom.cdf(below + 1, count, 0.5)


def test_negative_too_few_samples_have_an_interval_that_is_all_of_them():
    assert Interval.of([3.0, 1.0, 2.0]) == Interval(1.0, 2.0, 3.0)


def _times(*ratios: float) -> Times:
    """Samples of two models where the machine's speed changes from one to the next."""
    speeds = [1.0 + 0.3 * k for k in range(len(ratios))]
    return Times({"one": [s * r for s, r in zip(speeds, ratios, strict=True)], "other": speeds})


@pytest.mark.parametrize(
    "ratios, verdict",
    [
        ([0.5, 0.6, 0.5, 0.7, 0.6, 0.5], "faster"),
        ([1.5, 1.6, 1.5, 1.7, 1.6, 1.5], "slower"),
        ([1.0, 1 + MARGIN / 2, 1.0, 0.999, 1.0, 1.0], "equal"),
        ([0.8, 1.2, 0.9, 1.1, 1.0, 1.0], "undecided"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1 + 2 * MARGIN], "undecided"),
    ],
)
def test_a_verdict_is_what_the_whole_interval_says(ratios: list[float], verdict: str):
    assert _times(*ratios).verdict("one", "other") == verdict


def test_models_are_timed_in_at_least_six_samples_each(tmp_path: Path):
    files = {name: str(tmp_path / f"{name}.onnx") for name in ("ours", "original")}
    for path in files.values():
        save(picture(), Path(path))
    times = session_times(files, files["original"], threads=1, budget=0, compare=["ours"])
    assert {name: len(samples) for name, samples in times.samples.items()} == dict.fromkeys(
        files, LEAST_SAMPLES
    )
    assert all(seconds > 0 for samples in times.samples.values() for seconds in samples)
