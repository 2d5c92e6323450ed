"""Targets: what they take, and what a Transpose costs them."""

from __future__ import annotations

import onnx.helper as oh
import pytest

import layout_ir as li
from layout_ir.errors import LayoutError
from layout_ir.passes.onnx.consumers import CONSUMERS
from tests.passes.onnx.optimized import check_optimized, model_of, op_types, transpose, value


@pytest.mark.parametrize("name", CONSUMERS)
def test_fewer_bytes_cost_less_and_of_as_many_fewer_transposes(name: str):
    cost = CONSUMERS[name].transpose_cost
    assert cost(4096) < cost(8192) < 2 * cost(4096)


def test_negative_unknown_targets_and_boundaries():
    model = model_of([transpose("x", "y", 1, 0)], [value("x", 2, 3)], [value("y", 3, 2)])
    with pytest.raises(LayoutError, match="no consumer is called 'cpu': there are onnx, ort-cpu"):
        li.optimize_onnx(model, "cpu")
    with pytest.raises(LayoutError, match="outputs = 'all' is unknown, expected 'keep' or 'free'"):
        li.optimize_onnx(model, outputs="all")  # pyright: ignore[reportArgumentType]


def test_products_with_flags_are_for_onnx_runtime_alone():
    nodes = [transpose("k", "kt", 0, 1, 3, 2), oh.make_node("MatMul", ["q", "kt"], ["s"])]
    nodes += [oh.make_node("Softmax", ["s"], ["p"]), oh.make_node("MatMul", ["p", "k"], ["y"])]
    model = model_of(nodes, [value("q", 2, 3, 4, 5), value("k", 2, 3, 6, 5)], [value("y", 2, 3, 4, 5)])
    assert check_optimized(model, target="onnx").after.count == 1
    result = check_optimized(model, target="ort-cpu")
    assert result.after.count == 0
    assert op_types(result.model) == ["FusedMatMul", "Softmax", "MatMul"]


def test_the_domain_of_those_is_imported_where_they_are_in_a_subgraph():
    inner = [transpose("q", "t", 0, 2, 1), oh.make_node("MatMul", ["t", "k"], ["o"])]
    branch = oh.make_graph(inner, "then", [], [value("o", 2, 4, 6)])
    other = oh.make_graph([oh.make_node("MatMul", ["z", "k"], ["p"])], "else", [], [value("p", 2, 4, 6)])
    nodes = [oh.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)]
    inputs = [value("q", 2, 5, 4), value("k", 2, 5, 6), value("z", 2, 4, 5), value("c", dtype=9)]
    model = model_of(nodes, inputs, [value("y", 2, 4, 6)])
    del model.opset_import[1:]
    new = li.optimize_onnx(model, "ort-cpu").model
    assert {entry.domain: entry.version for entry in new.opset_import} == {"": 18, "com.microsoft": 1}
