"""Scales of operands of products, which go to the smaller operand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.onednn.rewrites.operand_scales import move_operand_scales
from layout_ir.dialects import nn
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.frontends.onnx import from_onnx
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.small_programs import needs_library, numbers


def _product(
    operator: str = "Mul",
    *,
    rows: int = 1,
    keys: int = 9,
    scale: Any = 0.125,
    turned: str = "",
    swapped: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Queries by keys that are scaled, transposed in front of the scaling or behind it."""
    shape = (2, 3, keys, 8) if turned else (2, 3, 8, keys)
    inputs = {"q": numbers((2, 3, rows, 8)), "k": numbers(shape, 1)}
    swap = [0, 1, 3, 2]
    nodes, last = [], "k"
    if turned == "before":
        nodes, last = [node("Transpose", (last,), "t", perm=swap)], "t"
    nodes.append(node(operator, ("c", last) if swapped else (last, "c"), "s"))
    last = "s"
    if turned == "behind":
        nodes.append(node("Transpose", (last,), "t", perm=swap))
        last = "t"
    nodes.append(node("MatMul", ("q", last), "y"))
    return model(nodes, inputs, {"c": np.asarray(scale, np.float32)}, "y"), inputs


def _scaled(made: Any) -> list[tuple[int, ...]]:
    """The shapes of what is scaled once the rule was applied."""
    module = from_onnx(made)
    move_operand_scales(module)
    module.verify()
    return [shape_of(op.results[0]) for op in module.walk() if isinstance(op, nn.MulOp | nn.DivOp)]


@needs_library
@pytest.mark.parametrize("turned", ["", "before", "behind"])
@pytest.mark.parametrize(("operator", "swapped"), [("Mul", False), ("Mul", True), ("Div", False)])
def test_the_smaller_operand_is_scaled(operator: str, swapped: bool, turned: str):
    made, inputs = _product(operator, turned=turned, swapped=swapped)
    assert _scaled(made) == [(2, 3, 1, 8)]
    compare(made, inputs)


@needs_library
def test_one_behind_another_is_scaled_too():
    made, inputs = _product()
    made.graph.node.append(node("MatMul", ("y", "ws"), "z"))
    made.graph.node.insert(0, node("Mul", ("w", "c"), "ws"))
    inputs["w"] = numbers((2, 3, 9, 5), 2)
    again = model(list(made.graph.node), inputs, {"c": np.asarray(0.125, np.float32)}, "z")
    assert _scaled(again) == [(2, 3, 1, 8), (2, 3, 1, 9)]
    compare(again, inputs)


@needs_library
def test_the_right_one_is_where_the_left_one_is_larger():
    inputs = {"q": numbers((5, 7, 8)), "k": numbers((8, 3), 1)}
    nodes = [node("Mul", ("q", "c"), "s"), node("MatMul", ("s", "k"), "y")]
    made = model(nodes, inputs, {"c": np.array([0.25], np.float32)}, "y")
    assert _scaled(made) == [(8, 3)]
    compare(made, inputs)


@pytest.mark.parametrize(
    "given",
    [
        {"rows": 9},  # as many
        {"rows": 20},
        {"scale": 1e30},
        {"scale": 0.0},
        {"scale": float("nan")},
        {"scale": [[0.5], [0.25], [0.5], [0.5], [0.5], [0.5], [0.5], [0.5]]},
        {"operator": "Div", "swapped": True},
    ],
    ids=str,
)
def test_negative_what_is_scaled_stays_so(given: dict[str, Any]):
    made, _ = _product(**given)
    assert _scaled(made) == [(2, 3, 8, 9)]


@pytest.mark.parametrize("turned", [False, True])
def test_negative_weights_are_not_scaled(turned: bool):
    last = "w"
    nodes = [node("Mul", ("q", "c"), "s")]
    if turned:
        nodes.append(node("Transpose", (last,), "t", perm=[1, 0]))
        last = "t"
    nodes.append(node("MatMul", ("s", last), "y"))
    constants = {"c": np.array(0.25, np.float32), "w": numbers((3, 8) if turned else (8, 3), 1)}
    assert _scaled(model(nodes, {"q": numbers((5, 7, 8))}, constants, "y")) == [(5, 7, 8)]


@pytest.mark.parametrize("operator", ["Mul", "Div"])
def test_negative_integers_are_not_scaled_elsewhere(operator: str):
    inputs = {"q": np.ones((1, 8), np.int32), "k": np.ones((8, 9), np.int32)}
    nodes = [node(operator, ("k", "c"), "s"), node("MatMul", ("q", "s"), "y")]
    assert _scaled(model(nodes, inputs, {"c": np.array(2, np.int32)}, "y")) == [(8, 9)]


def test_negative_what_others_use_stays_scaled():
    made, _ = _product()
    made.graph.node.append(node("Neg", ("s",), "z"))
    made.graph.output.append(made.graph.output[0])
    made.graph.output[1].name = "z"
    made.graph.output[1].type.tensor_type.shape.dim[2].dim_value = 8
    assert _scaled(made) == [(2, 3, 8, 9)]
