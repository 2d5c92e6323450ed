"""Sessions of ONNX Runtime: what goes in comes out, in types that NumPy has and has not, and errors name the model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from layout_ir.backends.onnxruntime.runtime_session import LEVELS, RuntimeSession
from layout_ir.errors import LayoutError
from tests.benchmarks.small_models import model, picture, save
from tests.frontends.onnx.test_negative_extents import COMPUTED


def _identity(tmp_path: Path, word: str) -> str:
    text = f"network ({word}[2, 3] x) => ({word}[2, 3] y) {{ y = Identity (x) }}"
    made = model(text) if word in ("float", "bool") else _newer(text)
    return str(save(made, tmp_path / f"{word}.onnx"))


def _newer(text: str) -> Any:
    from onnx import parser

    return parser.parse_model('<ir_version: 10, opset_import: ["" : 21]>\n' + text)


@pytest.mark.parametrize("word", ["float", "bool", "float16", "bfloat16", "float8e4m3fn", "float8e5m2"])
def test_elements_go_in_and_out_in_every_type(tmp_path: Path, word: str):
    number = TensorProto.DataType.Value(word.upper())
    array = np.array([[0, 1, 2], [3, 4, 6]]).astype(helper.tensor_dtype_to_np_dtype(number))
    found = RuntimeSession(_identity(tmp_path, word), "m").outputs_of({"x": array})["y"]
    assert found.dtype == array.dtype
    assert np.array_equal(found.astype(np.float32), array.astype(np.float32))


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_computes_the_same(tmp_path: Path, level: str):
    path = str(save(picture(), tmp_path / "m.onnx"))
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 5, 7, 3)).astype(np.float32)}
    want = RuntimeSession(path, "m").outputs_of(feeds)["y"]
    assert np.allclose(RuntimeSession(path, "m", level=level).outputs_of(feeds)["y"], want, atol=1e-5)


def test_a_call_takes_the_inputs_that_the_model_has(tmp_path: Path):
    session = RuntimeSession(_identity(tmp_path, "float"), "m")
    feeds = {"x": np.ones((2, 3), np.float32), "other": np.ones(7)}
    assert session.inputs == ["x"]
    assert np.array_equal(session.call(feeds)()[0], feeds["x"])


def test_negative_a_file_that_is_no_model_is_named(tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(LayoutError, match=r"^ONNX Runtime \S+ does not take THE MODEL: "):
        RuntimeSession(str(path), "THE MODEL")


def test_negative_a_model_on_which_it_would_end_the_process_is_refused(tmp_path: Path):
    path = save(COMPUTED["MaxPool"], tmp_path / "m.onnx")
    with pytest.raises(LayoutError, match=r"^THE MODEL: MaxPool 'e' has an extent below 0"):
        RuntimeSession(str(path), "THE MODEL")


def test_negative_a_run_that_fails_names_the_model(tmp_path: Path):
    session = RuntimeSession(_identity(tmp_path, "float"), "THE MODEL")
    with pytest.raises(LayoutError, match=r"fails on THE MODEL: .*Got invalid dimensions"):
        session.outputs_of({"x": np.ones((2, 4), np.float32)})


def test_negative_without_onnx_runtime_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(LayoutError, match="pip install onnxruntime"):
        RuntimeSession("m.onnx", "m")
