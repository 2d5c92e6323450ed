from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from layout_ir.backends.llvm.runtime.timing import LEAST_SAMPLES, Times
from layout_ir.backends.onnxruntime.session_times import MARGIN, session_times, verdict
from tests.benchmarks.small_models import picture, save


def _times(*ratios: float) -> Times:
    """Samples of two models where the machine's speed changes from one to the next."""
    speeds = [1.0 + 0.3 * k for k in range(len(ratios))]
    return Times({"one": [s * r for s, r in zip(speeds, ratios, strict=True)], "other": speeds})


@pytest.mark.parametrize(
    "ratios, wanted",
    [
        ([0.5, 0.6, 0.5, 0.7, 0.6, 0.5], "faster"),
        ([1.5, 1.6, 1.5, 1.7, 1.6, 1.5], "slower"),
        ([1.0, 1 + MARGIN / 2, 1.0, 0.999, 1.0, 1.0], "equal"),
        ([0.8, 1.2, 0.9, 1.1, 1.0, 1.0], "undecided"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1 + 2 * MARGIN], "undecided"),
    ],
)
def test_a_verdict_is_what_the_whole_interval_says(ratios: list[float], wanted: str):
    assert verdict(_times(*ratios).ratio("one", "other")) == wanted


def test_models_are_timed_in_at_least_six_samples_each(tmp_path: Path):
    files = {name: str(tmp_path / f"{name}.onnx") for name in ("ours", "original")}
    for path in files.values():
        save(picture(), Path(path))
    feeds = {"x": np.ones((2, 5, 7, 3), np.float32)}
    times = session_times(files, feeds, threads=1, seconds=0, compare=["ours"])
    assert {name: len(samples) for name, samples in times.rounds.items()} == dict.fromkeys(
        files, LEAST_SAMPLES
    )
    assert all(seconds > 0 for samples in times.rounds.values() for seconds in samples)
