"""The table of networks beside other runtimes: a row that is measured, and what the table says of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.network_times import CACHED, OURS, Memory, Row, difference, markdown, measured, model_file
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import needs_library
from tests.benchmarks.small_models import picture, save


def row(ours: float, peer: float, **changes: object) -> Row:
    values: dict[str, object] = {
        "network": "onnx:net", "batch": 1, "threads": 1, "times": {OURS: ours, "onnxruntime": peer},
        "ratios": {"onnxruntime": (peer / ours, peer / ours, peer / ours)},
        "created": {OURS: 9.0, CACHED: 2.0, "onnxruntime": 3.0},
        "difference": 1e-6, "arena": 100, "arena_bound": 90, "constants": 10, "fallbacks": {},
        "steps": ["nn.conv by jit 90%"],
    }  # fmt: skip
    return Row(**{**values, **changes})  # type: ignore[arg-type]


@needs_library
def test_a_row_is_measured_beside_the_runtime(tmp_path: Path):
    path = save(picture(), tmp_path / "picture.onnx")
    found = measured(str(path), 1, 1, ["onnxruntime"], 0.0, False)
    assert set(found.times) == {OURS, "onnxruntime"} and all(time > 0 for time in found.times.values())
    assert found.difference < 1e-5 and found.arena >= found.arena_bound >= 0
    low, high = found.ratios["onnxruntime"][1:]
    assert low <= found.ratios["onnxruntime"][0] <= high and found.steps


def test_the_difference_is_relative_to_the_largest_magnitude_of_each_output():
    a = [np.array([4.0, -8.0]), np.array([1e-3])]
    assert difference(a, a) == 0
    assert difference(a, [np.array([4.0, -8.4]), np.array([1e-3])]) == pytest.approx(0.05)
    assert difference(a, [a[0], np.array([1.1e-3])]) == pytest.approx(0.1)


def test_rows_that_are_slow_have_a_reason_and_short_ones_do_not_count():
    text = markdown([row(2.0, 1.0), row(0.1, 0.01), row(2.0, 8.0)], ["onnxruntime"])
    assert "2 rows of 1 ms or more, 1 thread(s): 1.41" in text
    assert text.count("nn.conv by jit 90%") == 1


def test_outputs_that_differ_and_memory_are_told():
    mib = 2**20
    has = {OURS: Memory(30 * mib, 40 * mib), "onnxruntime": Memory(50 * mib, 60 * mib)}
    text = markdown([row(2.0, 2.0, difference=0.1, memory=has)], ["onnxruntime"])
    assert "NOT EQUAL" in text and "| net | 1 |  | 30, 40 | 50, 60 |" in text
    assert "NOT EQUAL" not in markdown([row(2.0, 2.0)], ["onnxruntime"])


def test_negative_the_batch_of_a_file_is_fixed(tmp_path: Path):
    with pytest.raises(LayoutError, match="fixed"):
        model_file("m.onnx", 8, tmp_path)
