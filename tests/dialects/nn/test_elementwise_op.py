"""Shapes that broadcast, and numbers in the pads of operands and results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from tests.dialects.nn.building import result, tensor, value

shapes = st.lists(st.integers(1, 3), max_size=4).map(tuple)


def test_truth_values_in_pads():
    x, b = value((2, 3)), value((2, 3), "i1")
    assert nn.GreaterOp(x, x).pad_result([1.0, 0.0]) == 1
    assert nn.LessOp(x, x).pad_result([1.0, 0.0]) == 0
    assert nn.EqualOp(x, x).pad_result([0.0, -0.0]) == 1
    assert nn.NotOp(b).pad_result([0.0]) == 1
    assert nn.XorOp(b, b).pad_result([1.0, 1.0]) == 0
    assert nn.AndOp(b, b).pad_result([1.0, 1.0]) == 1
    assert nn.WhereOp(b, x, x).pad_result([0.0, 5.0, 7.0]) == 7.0
    assert not isinstance(nn.GreaterOp(x, x).pad_result([1.0, 0.0]), bool)


def test_negative_truth_values_of_unknown_pads():
    x, b = value((2, 3)), value((2, 3), "i1")
    assert nn.GreaterOp(x, x).pad_result([1.0, None]) is None
    # Which of the two it is, the condition says.
    assert nn.WhereOp(b, x, x).pad_result([None, 5.0, 5.0]) is None


@given(shapes, shapes)
def test_operands_broadcast_as_in_numpy(a: tuple[int, ...], b: tuple[int, ...]):
    try:
        wanted = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(LayoutError, match="do not broadcast"):
            nn.AddOp(value(a), value(b))
        return
    assert result(nn.AddOp(value(a), value(b))).get_shape() == wanted


def test_negative_broadcast():
    with pytest.raises(LayoutError, match="shapes 2x3 and 2 do not broadcast: 3 != 2 in dim 1"):
        nn.AddOp(value((2, 3)), value((2,)))


def test_pads_of_the_result_are_computed_from_those_of_the_operands():
    x = value((2, 3))
    assert nn.AddOp(x, x).pad_result([1.0, 2.0]) == 3.0
    assert nn.ExpOp(x).pad_result([0.0]) == 1.0
    assert nn.SigmoidOp(x).pad_result([-math.inf]) == 0.0
    assert nn.ClipOp(x, min=2.0).pad_result([0.0]) == 2.0


def test_negative_unknown_pads_stay_unknown():
    x = value((2, 3))
    assert nn.AddOp(x, x).pad_result([1.0, None]) is None
    assert nn.NegOp(x).pad_result([None]) is None


def test_negative_pads_without_a_value_are_unknown():
    x = value((2, 3))
    assert nn.DivOp(x, x).pad_result([0.0, 0.0]) is None
    assert nn.LogOp(x).pad_result([-1.0]) is None
    assert nn.SubOp(x, x).pad_result([math.inf, math.inf]) is None
    assert nn.NegOp(x).pad_result([math.nan]) is None


def test_negative_a_broadcast_operand_meets_pads_with_valid_elements():
    assert nn.MulOp(value((2, 3)), value((3,))).pad_result([0.0, 0.0]) is None


def test_integers_divide_towards_zero():
    x = value((2,), "i32")
    assert nn.DivOp(x, x).pad_result([7.0, 2.0]) == 3.0
    assert nn.DivOp(x, x).pad_result([-7.0, 2.0]) == -3.0
    assert nn.DivOp(x, x).pad_result([7.0, 0.0]) is None


@pytest.mark.parametrize(
    ("element", "pad", "wanted"),
    [("i32", 2.75, 2.0), ("i32", -2.75, -2.0), ("i1", 0.5, 1.0), ("i1", 0.0, 0.0), ("f64", 0.5, 0.5)],
)
def test_cast_converts_pads(element: str, pad: float, wanted: float):
    op = nn.CastOp(value((2, 3)), result_type=tensor((2, 3), element))
    assert op.pad_result([pad]) == wanted


def test_negative_cast_of_a_pad_that_is_no_integer():
    assert nn.CastOp(value((2, 3)), result_type=tensor((2, 3), "i32")).pad_result([math.inf]) is None


def test_pads_hold_what_their_element_type_does():
    """0.1 and 0.2 of f32 are not those of f64: their sum, less 0.3, is 1.2e-8 there and 5.6e-17 here."""
    x, i = value((2, 3)), value((2, 3), "i8")
    total = nn.AddOp(x, x).pad_result([0.1, 0.2])
    assert total == float(np.float32(0.1) + np.float32(0.2))
    assert nn.SubOp(x, x).pad_result([total, 0.3]) == float(
        np.float32(0.1) + np.float32(0.2) - np.float32(0.3)
    )
    assert nn.AddOp(i, i).pad_result([100, 27]) == 127


def test_integer_pads_are_exact():
    """As numbers of double precision, 2^53 + 1 would be 2^53, and the least integer plus -1 the least integer."""
    x = value((2, 3), "i64")
    assert nn.AddOp(x, x).pad_result([0.0, 2**53 + 1]) == 2**53 + 1
    assert nn.AddOp(x, x).pad_result([-(2.0**63), -1]) is None


def test_negative_a_zero_of_either_sign_is_no_divisor():
    x = value((2, 3))
    for zero in (0.0, -0.0):
        assert nn.DivOp(x, x).pad_result([math.inf, zero]) is None
        assert nn.ReciprocalOp(x).pad_result([zero]) is None
        assert nn.LogOp(x).pad_result([zero]) is None


def test_negative_pads_that_depend_on_the_kernel_are_unknown():
    x, i, h = value((2, 3)), value((2, 3), "i8"), value((2, 3), "f16")
    assert nn.AddOp(i, i).pad_result([100, 100]) is None  # wraps, or saturates
    assert nn.ExpOp(x).pad_result([1.0]) is None  # the last bit differs between libraries
    assert nn.TanhOp(x).pad_result([20.0]) is None
    assert nn.DivOp(h, h).pad_result([1.0, 3.0]) is None
