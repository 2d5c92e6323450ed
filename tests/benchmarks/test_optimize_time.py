from __future__ import annotations

from pathlib import Path

import pytest

import layout_ir
from benchmarks.optimize_time import TARGETS, Durations, durations
from layout_ir.backends.llvm.runtime.timing import LEAST_SAMPLES
from tests.benchmarks.small_models import picture, save


def test_a_ratio_is_taken_round_by_round():
    times = Durations(9, [1.0, 2.0, 4.0], {"onnx": [3.0, 6.0, 12.0]})
    assert times.ratio("onnx").low == times.ratio("onnx").high == 3.0


def test_every_target_is_timed_as_often_as_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def optimize(path: str, target: str) -> None:
        asked.append(target)

    monkeypatch.setattr(layout_ir, "optimize_onnx", optimize, raising=False)
    save(picture(), tmp_path / "picture.onnx")
    found = durations(str(tmp_path / "picture.onnx"), TARGETS, 0)
    assert found.nodes == 6
    assert [len(seconds) for seconds in (found.session, *found.ours.values())] == [LEAST_SAMPLES] * 3
    # One round more, which is not counted.
    assert asked == list(TARGETS) * (LEAST_SAMPLES + 1)
