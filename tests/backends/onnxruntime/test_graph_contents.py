"""What is counted of a graph, and what ONNX Runtime leaves of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import parser

from layout_ir.backends.onnxruntime.graph_contents import GraphContents, contents_left, contents_of
from layout_ir.errors import LayoutError
from tests.benchmarks.small_models import model, picture, save

BRANCHES = """network (bool c, float[2, 3] x) => (float[3, 2] y) {
    y = If (c) <then_branch = one () => (float[3, 2] p) { p = Transpose (x) },
                else_branch = two () => (float[3, 2] q) { a = Transpose (x) q = Relu (a) }>
}"""

FUNCTIONS = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    network (float[2, 3] x) => (float[2, 3] y) { a = own.turn (x) b = own.twice (a) y = own.turn (b) }
    <domain: "own", opset_import: ["" : 17]> turn (x) => (y) { y = Transpose (x) }
    <domain: "own", opset_import: ["" : 17, "own" : 1]>
    twice (x) => (y) { a = own.turn (x) b = Relu (a) y = own.turn (b) }
"""


@pytest.mark.parametrize(
    ("made", "nodes", "transposes"),
    [(picture(), 6, 4), (model(BRANCHES), 4, 2), (parser.parse_model(FUNCTIONS), 5, 4)],
    ids=["nodes", "subgraphs", "functions"],
)
def test_nodes_are_counted_wherever_they_stand(made: Any, nodes: int, transposes: int):
    assert contents_of(made) == GraphContents(nodes, transposes)


def test_negative_a_node_of_another_domain_is_no_transpose():
    made = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "own" : 1]> network (float[2, 3] x) => (float[3, 2] y) '
        "{ y = own.Transpose (x) }"
    )
    assert contents_of(made) == GraphContents(1, 0)


def test_onnx_runtime_leaves_fewer_transposes_the_more_it_optimizes(tmp_path: Path):
    made = model(
        """network (float[2, 3] x) => (float[2, 3] y) { a = Transpose <perm = [1, 0]> (x)
            b = Transpose <perm = [1, 0]> (a) y = Relu (b) }"""
    )
    path = str(save(made, tmp_path / "m.onnx"))
    assert contents_left(path, "m", level="disable") == GraphContents(3, 2)
    assert contents_left(path, "m", level="all") == GraphContents(1, 0)


def test_weights_need_not_fit_into_the_graph_that_is_written(tmp_path: Path):
    made = model("network (float[2, 700] x) => (float[2, 600] y) { y = MatMul (x, w) }", w=(700, 600))
    assert contents_left(str(save(made, tmp_path / "m.onnx")), "m", level="all").moves == 0


def test_negative_a_model_that_is_not_taken_is_named(tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"")
    with pytest.raises(LayoutError, match="does not take THE MODEL"):
        contents_left(str(path), "THE MODEL", level="all")
