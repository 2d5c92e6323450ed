"""Extents below 0 in a model, of which ONNX's own inference aborts the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx.helper as oh
import pytest

from layout_ir.frontends.onnx.shape_inference import infer_shapes, would_abort
from layout_ir.tools.layout_ir import main

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def _model(
    nodes: list[onnx.NodeProto], extents: list[int], constants: dict[str, list[int]]
) -> onnx.ModelProto:
    """`nodes` from x to e, of which rows 0 to 5 are cut."""
    graph = oh.make_graph(
        [*nodes, oh.make_node("Slice", ["e", "start", "end", "axis"], ["y"])],
        "g",
        [oh.make_tensor_value_info("x", FLOAT, extents)],
        [oh.make_tensor_value_info("y", FLOAT, None)],
        [
            oh.make_tensor(name, INT64, [len(values)], values)
            for name, values in {"start": [0], "end": [5], "axis": [0], **constants}.items()
        ],
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)


CASES: dict[str, Any] = {
    "declared": _model([oh.make_node("Relu", ["x"], ["e"])], [-1, 4], {}),
    "Expand": _model([oh.make_node("Expand", ["x", "shape"], ["e"])], [1, 4], {"shape": [-1, 4]}),
    "Constant": _model(
        [
            oh.make_node("Constant", [], ["shape"], value_ints=[-3, 4]),
            oh.make_node("ConstantOfShape", ["shape"], ["e"]),
        ],
        [1, 4],
        {},
    ),
    "Tile": _model([oh.make_node("Tile", ["x", "times"], ["e"])], [1, 4], {"times": [-2, 1]}),
}


@pytest.mark.parametrize("case", CASES)
def test_inference_survives_an_extent_below_0_and_leaves_the_model_as_it_is(case: str):
    model = CASES[case]
    given = model.SerializeToString(deterministic=True)
    found = infer_shapes(model)
    assert model.SerializeToString(deterministic=True) == given
    assert [node.op_type for node in found.graph.node] == [node.op_type for node in model.graph.node]
    (result,) = found.graph.output
    assert all(dim.dim_value >= 0 for dim in result.type.tensor_type.shape.dim)


def test_an_extent_that_is_not_known_stays_so_and_the_others_are_inferred():
    (result,) = infer_shapes(CASES["declared"]).graph.output
    rows, columns = result.type.tensor_type.shape.dim
    assert not rows.HasField("dim_value") and columns.dim_value == 4


@pytest.mark.parametrize("case", CASES)
def test_inference_does_not_look_into_an_operator_that_it_does_not_know(case: str):
    inner = CASES[case].graph
    model = _model([oh.make_node("Apply", ["x"], ["e"], domain="org.example", body=inner)], [1, 4], {})
    model.opset_import.append(oh.make_opsetid("org.example", 1))
    found = infer_shapes(model)
    assert found.graph.node[0].attribute[0].g == inner


def test_negative_a_shape_of_whole_extents_is_inferred():
    model = _model([oh.make_node("Expand", ["x", "shape"], ["e"])], [1, 4], {"shape": [7, 4]})
    (result,) = infer_shapes(model).graph.output
    assert [dim.dim_value for dim in result.type.tensor_type.shape.dim] == [5, 4]


def test_one_node_alone_is_not_asked_either():
    node = oh.make_node("Slice", ["x", "start", "end"], ["y"])
    assert would_abort(node, {"x": oh.make_tensor_type_proto(FLOAT, [-1, 4])})
    assert not would_abort(node, {"x": oh.make_tensor_type_proto(FLOAT, [2, 4])})


def test_the_copies_of_such_a_model_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "declared.onnx"
    path.write_bytes(CASES["declared"].SerializeToString())
    assert main(["explain-model", str(path)]) == 0
    assert "2 ops, no copy" in capsys.readouterr().out
