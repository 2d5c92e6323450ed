"""Elementwise ops: NumPy's broadcast, torch's values, and what becomes of pads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from tests.dialects.nn.building import result, tensor, value

shapes = st.lists(st.integers(1, 3), max_size=4).map(tuple)
numbers = st.floats(-20, 20) | st.sampled_from([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan])

UNARY: dict[type[nn.UnaryOp], Callable[[torch.Tensor], torch.Tensor]] = {
    nn.AbsOp: torch.abs,
    nn.CeilOp: torch.ceil,
    nn.ErfOp: torch.erf,
    nn.ExpOp: torch.exp,
    nn.FloorOp: torch.floor,
    nn.LogOp: torch.log,
    nn.NegOp: torch.neg,
    nn.ReciprocalOp: torch.reciprocal,
    nn.SqrtOp: torch.sqrt,
    nn.TanhOp: torch.tanh,
}
BINARY: dict[type[nn.BinaryOp], Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    nn.AddOp: torch.add,
    nn.DivOp: torch.div,
    nn.MaxOp: torch.maximum,
    nn.MinOp: torch.minimum,
    nn.MulOp: torch.mul,
    nn.PowOp: torch.pow,
    nn.SubOp: torch.sub,
}


def evaluated(function: Callable[..., Any], *args: float) -> float | None:
    """The value in double precision; None where Python has an error instead of inf or NaN."""
    try:
        return function(*args)
    except (ArithmeticError, ValueError):
        return None


def close(ours: float, theirs: float) -> bool:
    return (math.isnan(ours) and math.isnan(theirs)) or math.isclose(
        ours, theirs, rel_tol=1e-12, abs_tol=1e-15
    )


@pytest.mark.parametrize("op", UNARY)
@given(x=numbers)
def test_unary_scalars_agree_with_torch(op: type[nn.UnaryOp], x: float):
    ours = evaluated(op.scalar, x)
    theirs = UNARY[op](torch.tensor(x, dtype=torch.float64)).item()
    assert not math.isfinite(theirs) if ours is None else close(ours, theirs)


@pytest.mark.parametrize("op", BINARY)
@given(x=numbers, y=numbers)
def test_binary_scalars_agree_with_torch(op: type[nn.BinaryOp], x: float, y: float):
    ours = evaluated(op.scalar, x, y)
    theirs = BINARY[op](torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)).item()
    assert not math.isfinite(theirs) if ours is None else close(ours, theirs)


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


def test_negative_pads_that_depend_on_the_kernel_are_unknown():
    x, i, h = value((2, 3)), value((2, 3), "i8"), value((2, 3), "f16")
    assert nn.AddOp(i, i).pad_result([100, 100]) is None  # wraps, or saturates
    assert nn.ExpOp(x).pad_result([1.0]) is None  # the last bit differs between libraries
    assert nn.TanhOp(x).pad_result([20.0]) is None
    assert nn.DivOp(h, h).pad_result([1.0, 3.0]) is None
