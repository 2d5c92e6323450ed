"""Sums of convolutions of one tensor, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.backends.onednn.rewrites.parallel_convolutions import merge_parallel_convolutions
from layout_ir.dialects import nn
from layout_ir.frontends.onnx import from_onnx
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library

SHAPE = (2, 8, 9, 7)

Branch = tuple[tuple[int, ...], dict[str, Any]]
"""The shape of the weights, and attributes; no shape for a batch normalization."""


def network(branches: list[Branch], *, bias: bool = True, used: bool = False) -> tuple[Any, dict[str, Any]]:
    """The sum of branches of one tensor, and of the first branch once more where that is `used` elsewhere."""
    nodes: list[Any] = [node("Sigmoid", ("x",), "r")]
    given: dict[str, np.ndarray[Any, Any]] = {}
    for number, (weights, attributes) in enumerate(branches):
        name = f"branch{number}"
        if weights:
            inputs = [f"w{number}"]
            given[f"w{number}"] = numbers(weights, number)
            if bias:
                inputs.append(f"b{number}")
                given[f"b{number}"] = numbers(weights[:1], 10 + number)
            nodes.append(node("Conv", ("r", *inputs), name, **attributes))
        else:
            inputs = [f"{key}{number}" for key in ("scale", "shift", "mean", "var")]
            given |= {key: np.abs(numbers((8,), seed)) + 0.1 for seed, key in enumerate(inputs)}
            nodes.append(node("BatchNormalization", ("r", *inputs), name, **attributes))
        if number:
            nodes.append(node("Add", (f"sum{number - 1}" if number > 1 else "branch0", name), f"sum{number}"))
    last = f"sum{len(branches) - 1}"
    if used:
        nodes.append(node("Mul", (last, "branch0"), "product"))
        last = "product"
    nodes.append(node("Relu", (last,), "y"))
    inputs_of = {"x": numbers(SHAPE)}
    return model(nodes, inputs_of, given, "y"), inputs_of


def count_of(made: Any) -> int:
    """How many convolutions and batch normalizations are left."""
    module: ModuleOp = from_onnx(made)
    merge_parallel_convolutions(module)
    module.verify()
    return sum(isinstance(op, nn.ConvOp | nn.BatchNormOp) for op in module.walk())


THREE: Branch = ((8, 8, 3, 3), {"pads": [1, 1, 1, 1]})
ONE: Branch = ((8, 8, 1, 1), {})
NORM: Branch = ((), {"epsilon": 1e-3})


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "branches",
    [
        [THREE, ONE],
        [ONE, THREE],
        [THREE, ONE, NORM],
        [ONE, NORM],
        [NORM, THREE],
        [THREE, ((8, 8, 3, 1), {"pads": [1, 0, 1, 0]}), ((8, 8, 1, 3), {"pads": [0, 1, 0, 1]})],
        [((8, 2, 3, 3), {"pads": [1, 1, 1, 1], "group": 4}), ((8, 2, 1, 1), {"group": 4}), NORM],
        [((8, 1, 5, 5), {"pads": [2, 2, 2, 2], "group": 8}), ((8, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 8}), NORM],
        [((6, 8, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}), ((6, 8, 1, 1), {"strides": [2, 2]})],
        [((8, 8, 5, 5), {"pads": [2, 2, 2, 2]}), ((8, 8, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]})],
        [((8, 8, 3, 3), {"pads": [2, 0, 0, 2]}), ((8, 8, 2, 1), {"pads": [1, 0, 0, 0]})],
    ],
)  # fmt: skip
def test_branches_become_one(branches: list[Branch], bias: bool):
    made, inputs = network(branches, bias=bias)
    assert count_of(made) == 1
    compare(made, inputs)


@pytest.mark.parametrize(
    "branches",
    [
        [
            ((8, 8, 3, 1), {"pads": [1, 0, 1, 0]}),
            ((8, 8, 1, 3), {"pads": [0, 1, 0, 1]}),
        ],  # neither has the other's
        [THREE, ((8, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 8})],  # other groups
        [((8, 8, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}), ((8, 8, 3, 3), {"pads": [1, 1, 1, 1]})],
        [NORM, NORM],
        [((8, 8, 2, 2), {"pads": [1, 1, 0, 0]}), ((8, 8, 2, 2), {"pads": [0, 0, 1, 1]})],  # shifted
    ],
)
def test_negative_branches_that_take_other_elements_stay(branches: list[Branch]):
    made, inputs = network(branches)
    assert count_of(made) == 2
    compare(made, inputs)


def test_negative_a_branch_that_is_used_elsewhere_stays():
    made, inputs = network([THREE, ONE], used=True)
    assert count_of(made) == 2
    compare(made, inputs)


def test_negative_convolutions_of_different_tensors_stay():
    given = {"v": numbers((8, 8, 1, 1)), "w": numbers((8, 8, 1, 1), 1)}
    nodes = [
        node("Sigmoid", ("x",), "r"),
        node("Conv", ("x", "v"), "a"),
        node("Conv", ("r", "w"), "b"),
        node("Add", ("a", "b"), "y"),
    ]
    inputs = {"x": numbers(SHAPE)}
    made = model(nodes, inputs, given, "y")
    assert count_of(made) == 2
    compare(made, inputs)
