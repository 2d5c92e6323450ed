"""OpenVINO's execution graph: one that it writes itself, and files that are none."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError
from layout_ir.execution_graphs.copies import explain_copies
from layout_ir.execution_graphs.openvino_graph import read_openvino
from tests.zoo import NETWORKS


def _port(number: int, dims: str, kind: str = "FP32") -> str:
    inner = "".join(f"<dim>{extent}</dim>" for extent in dims.split("x"))
    return f'<port id="{number}" precision="{kind}">{inner}</port>'


def _layer(number: int, name: str, kind: str, layout: str, source: str, result: str) -> str:
    inputs = f"<input>{_port(0, source)}</input>" if source else ""
    outputs = f"<output>{_port(1, result)}</output>" if result else ""
    return (
        f'<layer id="{number}" name="{name}" type="{kind}"><data execOrder="{number}" execTimeMcs="{number + 1}" '
        f'outputLayouts="{layout}" outputPrecisions="f32" primitiveType="jit" />{inputs}{outputs}</layer>'
    )


def _edge(source: int, target: int) -> str:
    return f'<edge from-layer="{source}" from-port="1" to-layer="{target}" to-port="0" />'


TEXT = (
    '<?xml version="1.0"?><net name="g" version="11"><layers>'
    + _layer(0, "x", "Input", "abcd", "", "1x8x6x10")
    + _layer(1, "conv", "Convolution", "aBcd8b", "1x8x6x10", "1x17x6x10")
    + _layer(2, "to_nhwc", "Reorder", "acdb", "1x17x6x10", "1x17x6x10")
    + _layer(3, "pool", "Pooling", "acdb", "1x17x6x10", "1x17x3x5")
    + _layer(4, "turn", "Transpose", "abcd", "1x17x3x5", "1x3x5x17")
    + _layer(5, "mean", "Reduce", "abcd", "1x3x5x17", "1x3x5x1")
    + _layer(6, "y", "Output", "", "1x3x5x1", "")
    + "</layers><edges>"
    + "".join(_edge(k, k + 1) for k in range(6))
    + "</edges></net>"
)


def _read(text: str | bytes) -> Any:
    return read_openvino(io.BytesIO(text.encode() if isinstance(text, str) else text))


def test_names_of_the_gpu_plugin_are_layouts():
    text = TEXT.replace('"aBcd8b"', '"b_fs_yx_fsv16"').replace('"acdb"', '"byxf"')
    layouts = [value.layout for value in _read(text).values]
    assert layouts[1:4] == [
        Format.parse("(n, c, h, w) : [n, c, h, w, c:16]"),
        *[Format.parse("(n, c, h, w) : [n, h, w, c]")] * 2,
    ]
    assert explain_copies(_read(text))[0].nbytes == 4 * 60 * (32 + 17)


def test_reorders_and_transposes_are_copies():
    graph = _read(TEXT)
    reorder, transpose = explain_copies(graph)
    assert (reorder.nbytes, reorder.time_us) == (4 * 60 * (24 + 17), 3)
    assert (reorder.producer, reorder.consumers) == ("Convolution conv", ("Pooling pool",))
    assert (reorder.source.layout, reorder.verdict) == (Format.from_tag("aBcd8b"), "forced")
    # nhwc memory read as 1x3x5x17 row-major: the transpose moves nothing.
    assert graph.nodes[4].permutation == (0, 2, 3, 1)
    assert transpose.verdict == "avoidable"


def test_negative_an_order_of_dims_that_extents_do_not_tell_is_not_guessed():
    graph = _read(TEXT.replace("1x17x3x5", "1x17x3x3").replace("<dim>17</dim><dim>3</dim><dim>5</dim>",
        "<dim>17</dim><dim>3</dim><dim>3</dim>").replace("<dim>3</dim><dim>5</dim><dim>17</dim>",
        "<dim>3</dim><dim>3</dim><dim>17</dim>"))  # fmt: skip
    assert graph.nodes[4].permutation is None
    (transpose,) = (copy for copy in explain_copies(graph) if copy.kind == "Transpose")
    assert transpose.verdict == "undecided"


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE net [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(9))
    + "]><net><layers>&j;</layers></net>"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: not well-formed XML, or truncated: no element found"),
        (TEXT[: len(TEXT) // 2], "or truncated"),
        (TEXT.replace("</layers>", ""), "mismatched tag"),
        (LAUGHS, "declares a document type"),
        ('<!DOCTYPE net SYSTEM "file:///etc/passwd"><net/>', "declares a document type"),
        ("<html></html>", "root element <html>"),
        ("<net></net>", "has no layers"),
        (TEXT.replace("execOrder", "order").replace("primitiveType", "p"), "get_runtime_model"),
        (TEXT.replace('to-layer="3"', 'to-layer="33"'), "from layer 2 to 33"),
        (TEXT.replace('from-port="1" to-layer="3"', 'to-layer="3"'), "no attribute from-port"),
        (TEXT.replace("<dim>17</dim>", "<dim>many</dim>", 1), "layer 'conv' has a dim of extent 'many'"),
    ],
)  # fmt: skip
def test_negative_what_is_no_execution_graph_is_one_error(text: str, message: str):
    with pytest.raises(LayoutError, match=message):
        _read(text)


def test_negative_elements_within_elements_need_no_stack():
    with pytest.raises(LayoutError, match="truncated"):
        _read("<net>" + "<layers>" * 100_000)


@pytest.mark.parametrize("name", ["resnet18", "shufflenet_v2"])
def test_a_graph_that_openvino_writes(name: str, tmp_path: Path):
    openvino: Any = pytest.importorskip("openvino", reason="needs the extra 'openvino'")
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    pytest.importorskip("torch", reason="needs the extra 'oracles'")
    source, target = tmp_path / "model.onnx", tmp_path / "graph.xml"
    source.write_bytes(NETWORKS[name].build().SerializeToString())
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(source), "CPU", {"PERF_COUNT": "YES"})
    compiled.create_infer_request().infer(NETWORKS[name].inputs())
    openvino.serialize(compiled.get_runtime_model(), str(target))
    with open(target, "rb") as stream:
        graph = read_openvino(stream)
    kinds = Counter(layer.get("type") for layer in ElementTree.parse(target).iter("layer"))
    assert Counter(node.kind for node in graph.nodes) == kinds
    copies = explain_copies(graph)
    assert len(copies) == kinds["Reorder"] + kinds["Transpose"] > 0
    assert all(copy.nbytes is not None and copy.reason and copy.remedy for copy in copies)
    assert all(value.layout is not None for value in graph.values if value.layout_text)
    assert any(copy.verdict == "boundary" and copy.producer == "the caller (x)" for copy in copies)
