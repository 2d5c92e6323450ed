"""Einsums that are Transposes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import pytest

from layout_ir.passes.onnx.einsum_transposes import write_einsum_transposes
from tests.passes.onnx.optimized import check_optimized, model_of, op_types, transpose, value


def _einsum(equation: str, x: str, y: str) -> onnx.NodeProto:
    return oh.make_node("Einsum", [x], [y], equation=equation)


def test_an_einsum_is_undone_by_a_transpose():
    nodes = [
        _einsum("abc -> cab", "x", "a"),
        oh.make_node("Relu", ["a"], ["b"]),
        transpose("b", "y", 1, 2, 0),
    ]
    result = check_optimized(model_of(nodes, [value("x", 2, 3, 4)], [value("y", 2, 3, 4)]))
    assert op_types(result.model) == ["Relu"]
    assert (result.before.count, result.after.count) == (2, 0)


def test_an_einsum_that_does_not_name_its_result_has_it_in_alphabetical_order():
    nodes = [_einsum("cab", "x", "a"), oh.make_node("Relu", ["a"], ["b"]), transpose("b", "y", 2, 0, 1)]
    result = check_optimized(model_of(nodes, [value("x", 2, 3, 4)], [value("y", 2, 3, 4)]))
    assert op_types(result.model) == ["Relu"]


def test_two_einsums_of_one_value_share_what_they_move():
    """As attention of XLNet has it, whose mask each layer takes in another order."""
    nodes = [_einsum("ijbn->bnij", "x", "a"), _einsum("ijbn->bnij", "x", "b")]
    nodes += [oh.make_node("Softmax", [name], [f"{name}s"], axis=-1) for name in "ab"]
    nodes += [oh.make_node("MatMul", ["as", "bs"], ["y"])]
    result = check_optimized(model_of(nodes, [value("x", 4, 4, 2, 3)], [value("y", 2, 3, 4, 4)]))
    assert op_types(result.model).count("Transpose") == 1 and "Einsum" not in op_types(result.model)


def test_einsums_of_subgraphs():
    branches = [
        oh.make_graph(
            [
                _einsum("ab->ba", "x", f"{name}t"),
                oh.make_node(op, [f"{name}t"], [f"{name}u"]),
                _einsum("ab->ba", f"{name}u", name),
            ],
            name,
            [],
            [value(name, 2, 3)],
        )
        for name, op in (("p", "Neg"), ("q", "Abs"))
    ]
    node = oh.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = [value("x", 2, 3), value("c", dtype=onnx.TensorProto.BOOL)]
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.array(True)}
    result = check_optimized(model_of([node], inputs, [value("y", 2, 3)]), feeds)
    assert (result.before.count, result.after.count) == (4, 0)


@pytest.mark.parametrize("equation", ["aa->a", "ab->a", "...a->a...", "bA", "ab->ab,", "a b->a b c"])
def test_negative_other_einsums_stay(equation: str):
    node = _einsum(equation, "x", "y")
    model = model_of([node], [value("x", 3, 3)], [value("y")])
    write_einsum_transposes(model.graph)
    assert model.graph.node[0] == node
