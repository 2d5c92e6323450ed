"""A file is known by its content; what is none of the kinds is one error that says what was expected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layout_ir.errors import LayoutError
from layout_ir.execution_graphs.recognition import EXPECTED, read_graph
from tests.execution_graphs.test_onednn_log import NEW
from tests.execution_graphs.test_openvino_graph import TEXT
from tests.execution_graphs.test_tensorrt_engine import (
    _engine as engine,  # pyright: ignore[reportPrivateUsage]
)


def _file(folder: Path, content: str | bytes) -> str:
    path = folder / "file.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@pytest.mark.parametrize(
    ("content", "source"),
    [
        (NEW, "oneDNN verbose log"),
        ("[INFO] begin\n" * 1000 + NEW, "oneDNN verbose log"),
        (TEXT, "OpenVINO execution graph"),
        ("\ufeff\n" + TEXT.removeprefix('<?xml version="1.0"?>'), "OpenVINO execution graph"),
        (json.dumps(engine()), "TensorRT layer information"),
    ],
)
def test_the_kind_is_that_of_the_content(content: str, source: str, tmp_path: Path):
    assert read_graph(_file(tmp_path, content)).source == source


def test_a_model_is_recognized(tmp_path: Path):
    onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    text = '<ir_version: 8, opset_import: ["" : 17]> m (float[2,3] x) => (float[3,2] y) { y = Transpose(x) }'
    graph = read_graph(_file(tmp_path, onnx.parser.parse_model(text).SerializeToString()))
    assert [node.kind for node in graph.nodes if node.role == "copy"] == ["Transpose"]


@pytest.mark.parametrize("content", ["", "hello world\n", "def f():\n    return 1\n"])
def test_negative_text_of_another_kind(content: str, tmp_path: Path):
    with pytest.raises(LayoutError) as error:
        read_graph(_file(tmp_path, content))
    assert EXPECTED in str(error.value) and "file.txt" in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"Layers": [', "line 1, column 13: not valid JSON, or truncated"),
        ("[" * 200_000, "nested too deeply|not valid JSON"),
        ('{"Layers": [' + "9" * 5000 + "]}", "not valid JSON"),
        (b'{"Layers": "\xff"}', "not valid JSON"),
        ('{"nodes": []}', "not the 'Layers' of TensorRT"),
        (TEXT[:500], "not well-formed XML, or truncated"),
        (b"\x08\x08\x12\x04abc\x00", "not an ONNX model, or is truncated"),
    ],
)
def test_negative_a_broken_file_of_a_kind(content: str | bytes, message: str, tmp_path: Path):
    with pytest.raises(LayoutError, match=message):
        read_graph(_file(tmp_path, content))


def test_negative_options_of_another_kind(tmp_path: Path):
    path = _file(tmp_path, TEXT)
    with pytest.raises(LayoutError, match="a profile goes with TensorRT"):
        read_graph(path, profile=path)
    with pytest.raises(LayoutError, match="shapes of inputs are for ONNX"):
        read_graph(path, shapes={"x": (1, 2)})


def test_progress_reaches_the_end_of_a_log(tmp_path: Path):
    told: list[tuple[int, int]] = []
    path = _file(tmp_path, NEW * 20_000)
    read_graph(path, progress=lambda done, of: told.append((done, of)))
    size = Path(path).stat().st_size
    assert len(told) > 1 and told == sorted(told) and told[-1] == (size, size)
