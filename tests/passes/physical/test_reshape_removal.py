"""Reshapes around elementwise ops go where that leaves fewer, and the program computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.api.execute import run
from layout_ir.dialects.layout import ReshapeOp
from layout_ir.passes.physical.reshape_removal import remove_reshapes
from tests.programs import parse

TYPES = """
!A = tensor<2x6xf32>
!B = tensor<2x1x6xf32>
"""


def reshapes_left(body: str) -> int:
    """How many reshapes are left of a body that makes %y, which computes what it did."""
    module = parse(f"{TYPES} func.func @main(%x: !A, %z: !A) -> !A {{ {body} func.return %y : !A }}")
    inputs = [np.random.default_rng(seed).standard_normal((2, 6)).astype(np.float32) for seed in range(2)]
    want = run(module, inputs)
    remove_reshapes(module)
    module.verify()
    for got, expected in zip(run(module, inputs), want, strict=True):
        np.testing.assert_array_equal(got, expected)
    return sum(isinstance(op, ReshapeOp) for op in module.walk())


THERE_AND_BACK = """
    %a = layout.reshape %x : !A -> !B
    %b = nn.relu %a : !B
    %y = layout.reshape %b : !B -> !A
"""

CHAIN = """
    %a = layout.reshape %x : !A -> !B
    %b = nn.relu %a : !B
    %c = nn.exp %b : !B
    %y = layout.reshape %c : !B -> !A
"""

WAYS_THAT_MEET = """
    %a = layout.reshape %x : !A -> !B
    %b = nn.sigmoid %a : !B
    %c = nn.mul %b, %a : !B
    %y = layout.reshape %c : !B -> !A
"""

TWO_INPUTS = """
    %a = layout.reshape %x : !A -> !B
    %b = layout.reshape %z : !A -> !B
    %c = nn.add %a, %b : !B
    %y = layout.reshape %c : !B -> !A
"""

ONE_NUMBER = """
    %k = nn.constant dense<2.0> : tensor<1xf32>
    %a = layout.reshape %x : !A -> !B
    %b = nn.mul %a, %k : (!B, tensor<1xf32>) -> !B
    %y = layout.reshape %b : !B -> !A
"""


@pytest.mark.parametrize("body", [THERE_AND_BACK, CHAIN, WAYS_THAT_MEET, TWO_INPUTS, ONE_NUMBER])
def test_reshapes_around_elementwise_ops_go(body: str):
    assert reshapes_left(body) == 0


ANOTHER_USER = """
    %a = layout.reshape %x : !A -> !B
    %b = nn.relu %a : !B
    %c = layout.reshape %b : !B -> !A
    %m = nn.reduce_max %VALUE axes = [1] : !B
    %n = layout.reshape %m : !B -> !A
    %y = nn.add %c, %n : !A
"""


@pytest.mark.parametrize("value", ["a", "b"])
def test_who_needs_the_other_shape_keeps_a_reshape(value: str):
    assert reshapes_left(ANOTHER_USER.replace("VALUE", value)) == 2


ALONG_AN_AXIS = """
    %a = layout.reshape %x : !A -> !B
    %b = nn.softmax %a : !B
    %y = layout.reshape %b : !B -> !A
"""

BROADCAST = """
    %k = nn.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
    %a = layout.reshape %x : !A -> !B
    %b = nn.mul %a, %k : (!B, tensor<2x1x1xf32>) -> !B
    %y = layout.reshape %b : !B -> !A
"""

ONE_NUMBER_OF_MORE_DIMS = """
    %k = nn.constant dense<2.0> : tensor<1x1x1xf32>
    %a = layout.reshape %x : !A -> !B
    %b = nn.mul %a, %k : (!B, tensor<1x1x1xf32>) -> !B
    %y = layout.reshape %b : !B -> !A
"""

TO_A_THIRD_SHAPE = """
    %a = layout.reshape %x : !A -> !B
    %b = nn.relu %a : !B
    %c = layout.reshape %b : !B -> tensor<12xf32>
    %d = nn.softmax %c : tensor<12xf32>
    %y = layout.reshape %d : tensor<12xf32> -> !A
"""


@pytest.mark.parametrize(
    ("body", "left"),
    [(ALONG_AN_AXIS, 2), (BROADCAST, 2), (ONE_NUMBER_OF_MORE_DIMS, 2), (TO_A_THIRD_SHAPE, 3)],
)
def test_negative_reshapes_that_somebody_needs_stay(body: str, left: int):
    assert reshapes_left(body) == left
