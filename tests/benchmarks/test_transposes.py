from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from benchmarks import transposes
from benchmarks.model_tools import TOOLS, Tool
from benchmarks.transposes import Cell, Row, means_of, measure, summary_of
from tests.benchmarks.small_models import load, picture, save
from tests.processes import run_python

SCRIPT = Path(transposes.__file__)


def test_the_script_writes_a_table_and_everything_in_it(tmp_path: Path):
    save(picture(), tmp_path / "picture-nhwc.onnx")
    options = ["--tools", "ort-basic", "ours-onnx", "--time", "--threads", "1", "--budget", "0"]
    done = run_python(SCRIPT, tmp_path, "--json", tmp_path / "all.json", *options)
    (row,) = json.loads((tmp_path / "all.json").read_text())["models"]
    assert list(row["cells"]) == ["original", "ort-basic", "ours-onnx", "left-of-onnx"]
    assert row["cells"]["original"]["transposes"] == 4
    assert row["cells"]["ort-basic"]["transposes"] < 4
    assert "picture-nhwc" in done.stdout
    assert row["times"]["1"]["original"]


def _scaled(factor: float, source: Path, target: Path) -> None:
    """The model with its weights multiplied: a tool that breaks models."""
    model: Any = load(source)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor) * np.float32(factor)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    save(model, target)


@pytest.mark.parametrize("factor, wrong", [(1.0, False), (1.00001, False), (1.01, True)])
def test_a_result_that_computes_something_else_is_wrong(
    factor: float, wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(TOOLS, "breaker", Tool("breaker", "onnx", partial(_scaled, factor)))
    source = str(tmp_path / "picture.onnx")
    save(picture(), Path(source))
    cell = measure("breaker", source, source, str(tmp_path / "out.onnx"), 16)
    assert cell.failure.startswith("wrong") == wrong


def _row(name: str, ours: Cell, **others: Cell) -> Row:
    return Row(name, True, 9, {"ours-onnx": ours} | {key.replace("_", "-"): c for key, c in others.items()})


def test_a_summary_names_the_models_where_another_tool_leaves_less():
    rows = [
        _row("fewer", Cell(transposes=2, nbytes=100), original=Cell(transposes=9, nbytes=900)),
        _row("more", Cell(transposes=3, nbytes=100), onnxsim=Cell(transposes=2, nbytes=200)),
        _row("larger", Cell(transposes=2, nbytes=300), onnxsim=Cell(transposes=2, nbytes=200)),
        _row("reordered", Cell(transposes=2, nbytes=100), ort_all=Cell(transposes=1, reorders=5, nbytes=500)),
        _row("crash", Cell(failure="crash (-6)"), original=Cell()),
    ]
    told = summary_of(rows, "ours-onnx")
    assert told.more_moves.keys() == {"more"}
    assert told.more_bytes.keys() == {"larger"}
    assert told.failures == {"crash": "crash (-6)"}


def test_negative_a_tool_that_is_wrong_beats_nobody():
    rows = [_row("one", Cell(transposes=3), onnxsim=Cell(failure="wrong by 1"), original=Cell(transposes=8))]
    assert not summary_of(rows, "ours-onnx").more_moves


def test_a_count_of_zero_is_one_in_a_geometric_mean():
    rows = [
        _row("none", Cell(), original=Cell(transposes=16)),
        _row("some", Cell(transposes=4), original=Cell(transposes=4)),
    ]
    count, means = means_of(rows, ["original", "ours-onnx"])
    assert count == 2
    assert means == pytest.approx({"original": 8.0, "ours-onnx": 2.0})


def test_negative_models_that_one_column_has_no_result_for_are_in_no_mean():
    rows = [
        _row("failed", Cell(failure="timeout"), original=Cell(transposes=1)),
        _row("both", Cell(transposes=3), original=Cell(transposes=5)),
    ]
    count, means = means_of(rows, ["original", "ours-onnx"])
    assert count == 1
    assert means == pytest.approx({"original": 5.0, "ours-onnx": 3.0})


def test_a_column_without_any_result_keeps_no_model_out_of_the_means():
    rows = [_row("one", Cell(failure="missing"), original=Cell(transposes=5))]
    assert means_of(rows, ["original", "ours-onnx"]) == (1, {"original": pytest.approx(5.0)})
