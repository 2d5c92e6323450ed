"""Graphs of ONNX models and of other compilers, drawn: what is counted is what is shown."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

onnx: Any = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("fast_sugiyama", reason="needs the extra 'draw'")

from layout_ir.drawing.drawn_graph import DrawnGraph  # noqa: E402
from layout_ir.execution_graphs.copies import explain_copies  # noqa: E402
from layout_ir.execution_graphs.dim_orders import DimOrders, same_values  # noqa: E402
from layout_ir.execution_graphs.execution_graph import ExecutionGraph  # noqa: E402
from layout_ir.execution_graphs.onednn_log import read_onednn  # noqa: E402
from layout_ir.execution_graphs.onnx_model import read_onnx  # noqa: E402
from layout_ir.execution_graphs.openvino_graph import read_openvino  # noqa: E402
from layout_ir.execution_graphs.optimized_copies import reasons_of  # noqa: E402
from layout_ir.execution_graphs.recognition import read_graph  # noqa: E402
from layout_ir.passes.onnx.optimize_model import optimize_orders  # noqa: E402
from layout_ir.tools.execution_drawing import drawn_graph, layout_pictures  # noqa: E402
from layout_ir.tools.layout_ir import main  # noqa: E402
from tests.drawing.browser import opened  # noqa: E402
from tests.execution_graphs.onnx_models import HEAD, LAST, NORM, parsed  # noqa: E402
from tests.execution_graphs.test_onednn_log import NEW  # noqa: E402
from tests.execution_graphs.test_openvino_graph import TEXT  # noqa: E402
from tests.execution_graphs.test_tensorrt_engine import (  # noqa: E402
    _engine as engine,  # pyright: ignore[reportPrivateUsage]
)
from tests.zoo import NETWORKS  # noqa: E402


def drawn(graph: ExecutionGraph, **reasons: str) -> DrawnGraph:
    return drawn_graph(
        graph, DimOrders([graph]), 0, {int(number[1:]): text for number, text in reasons.items()}
    )


def arrows(graph: DrawnGraph) -> set[tuple[str, str]]:
    """The edges by the labels of their ends."""
    return {(graph.nodes[source].label, graph.nodes[target].label) for source, target in graph.ends}


def layouts(graph: DrawnGraph) -> dict[str, str]:
    """The layouts of the edges, by the names of their values."""
    return {edge.value: edge.layout for edge in graph.edges}


def test_a_transpose_is_a_copy_between_its_two_formats():
    graph = drawn(read_onnx(parsed(NORM), {}))
    assert arrows(graph) >= {
        ("Conv", "nchw → nhwc"),
        ("nchw → nhwc", "LayerNormalization"),
        ("LayerNormalization", "nhwc → nchw"),
        ("nhwc → nchw", "Conv"),
    }
    assert [copy.nbytes for copy in graph.copies] == [2 * 4 * 480] * 2


def test_after_optimization_a_value_in_another_order_shows_it():
    model = parsed(LAST)
    result = optimize_orders(model, "ort-cpu")
    before, after = read_onnx(model, {}), read_onnx(result.model, {})
    orders = DimOrders([before, after], same_values(before, after, result.places))
    old = drawn_graph(before, orders, 0, {})
    roots = {name: root for name, (root, _) in result.places.items()}
    new = drawn_graph(after, orders, 1, reasons_of(after, result), roots)
    assert (len(old.copies), len(new.copies)) == (result.before.count, result.after.count) == (4, 2)
    for graph, traffic in ((old, result.before), (new, result.after)):
        assert sum(copy.nbytes or 0 for copy in graph.copies) == traffic.nbytes
    # The Softmax reads and writes the orders of the convolutions now.
    for graph, expected in ((old, "nhwc"), (new, "nchw")):
        (softmax,) = [node for node in graph.nodes if node.label == "Softmax"]
        assert {e.layout for e in graph.edges if softmax.id in (e.source, e.target)} == {expected}
    assert all(copy.reason for copy in new.copies)
    both = {node.id for node in old.nodes} & {node.id for node in new.nodes}
    assert {node.id for node in new.nodes if node.kind != "copy"} <= both


def test_constants_are_told_with_the_ops_that_use_them():
    text = (
        LAST.replace(", float[8,8,1,1] w)", ")")
        .replace("  a = ", "  w = ConstantOfShape(s)\n  a = ")
        .replace("  w = ", "  s = Constant<value = int64[4] {8, 8, 1, 1}>()\n  w = ")
    )
    graph = drawn(read_onnx(parsed(text), {}))
    assert "Constant" not in {node.label for node in graph.nodes}
    (user,) = [node for node in graph.nodes if node.label == "ConstantOfShape"]
    assert "constant s 4 i64" in user.detail


def test_negative_a_constant_that_a_copy_reads_is_a_node():
    text = (
        HEAD
        + """
    m (float[2,3] x) => (float[2,3] y) { k = Constant<value = float[3,2] {1, 2, 3, 4, 5, 6}>()
      t = Transpose(k)
      y = Add(x, t) }"""
    )
    graph = drawn(read_onnx(parsed(text), {}))
    assert ("Constant", "ab → ba") in arrows(graph) or ("Constant", "ba → ab") in arrows(graph)


def test_a_loop_and_its_body_are_drawn():
    text = (
        HEAD
        + """
    m (float[4,6] x, int64 n, bool p) => (float[4,6] y) {
      y = Loop(n, p, x) <body = b (int64 i, bool q, float[4,6] s) => (bool r, float[4,6] t) {
        r = Identity(q)
        t = Relu(s) }> }"""
    )
    assert {("Loop", "Relu"), ("Relu", "Loop"), ("input", "Loop"), ("Loop", "output")} <= arrows(
        drawn(read_onnx(parsed(text), {}))
    )


def test_every_layout_that_is_known_has_a_picture():
    graph = read_onnx(parsed(LAST), {})
    pictures = layout_pictures(DimOrders([graph]))
    # Those of activations, and those of weights.
    assert {edge.layout for edge in drawn(graph).edges} == {"nchw", "nhwc", "abcd"} == pictures.keys()


def test_the_copies_of_other_compilers_are_those_that_are_explained():
    for graph in (read_openvino(io.BytesIO(TEXT.encode())), read_onednn(NEW.encode().splitlines())):
        found = drawn(graph)
        copies = explain_copies(graph)
        assert len(found.copies) == len(copies) > 0
        assert sorted(c.nbytes or 0 for c in found.copies) == sorted(c.nbytes or 0 for c in copies)
        names = {value.layout_name for value in graph.values}
        assert {edge.layout for edge in found.edges} - {""} <= names


def _files(folder: Path) -> dict[str, str]:
    """A file of each kind, by what it is."""
    kinds = {
        "onnx": parsed(LAST).SerializeToString(),
        "log": NEW.encode(),
        "xml": TEXT.encode(),
        "json": json.dumps(engine()).encode(),
    }
    for name, data in kinds.items():
        (folder / name).write_bytes(data)
    return {name: str(folder / name) for name in kinds}


def test_explain_model_draws_every_kind_of_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name, path in _files(tmp_path).items():
        page, picture = tmp_path / f"{name}.html", tmp_path / f"{name}.svg"
        assert main(["explain-model", path, "--html", str(page), "--svg", str(picture)]) == 0
        count = len(explain_copies(read_graph(path)))
        shown = ElementTree.parse(picture).getroot()
        boxes = [e for e in shown.iter() if "copy" in e.get("class", "").split()]
        assert len(boxes) - 1 == count > 0, name  # and one in the legend
        text = page.read_text()
        assert f">{count} cop" in text and "remedy: " in text, name


def test_explain_model_draws_what_onnxruntime_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("onnxruntime", reason="needs the extra 'oracles'")
    pytest.importorskip("torch", reason="needs the extra 'oracles'")
    path, page = tmp_path / "model.onnx", tmp_path / "page.html"
    pages: list[str] = []
    for name in ("unet_resized", "yolov8"):
        path.write_bytes(NETWORKS[f"{name}-ort-all"].build().SerializeToString())
        assert main(["explain-model", str(path), "--html", str(page)]) == 0
        pages.append(page.read_text())
    assert all("NCHWc/" in text for text in pages)
    # Of which of them copies are left depends on how many channels a block has on this CPU.
    assert any("undecided: " in text for text in pages)


def test_pages_go_to_standard_output_and_the_report_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = _files(tmp_path)["onnx"]
    assert main(["explain-model", path, "--html", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("<!DOCTYPE html>") and "avoidable" in printed.err


def test_negative_no_picture_is_left_of_a_file_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = tmp_path / "page.html"
    (tmp_path / "file").write_text("hello")
    assert main(["explain-model", str(tmp_path / "file"), "--html", str(page)]) == 1
    assert not page.exists() and capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("command", ["optimize", "explain-model"])
def test_the_page_of_a_model_works_in_a_browser(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, page = tmp_path / "model.onnx", tmp_path / "page.html"
    path.write_bytes(parsed(LAST).SerializeToString())
    options = ["--target", "ort-cpu", "-o", str(tmp_path / "out.onnx")] if command == "optimize" else []
    assert main([command, str(path), *options, "--html", str(page)]) == 0
    with opened(page) as (tab, watched):
        rows = tab.locator("tr[data-n]")
        assert rows.count() == (2 if command == "optimize" else 4)
        rows.first.locator("button").click()
        tab.wait_for_timeout(200)
        text = tab.locator("body").inner_text()
        assert "nhwc → nchw" in text and "Transpose" in text
        assert watched.messages == [] and len(watched.requests) == 1
