"""Matrix products: NumPy's shapes, and what they need of pads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from layout_ir.interfaces import PadRead
from tests.dialects.nn.building import result, value

shapes = st.lists(st.integers(1, 3), max_size=4).map(tuple)


@given(shapes, shapes)
def test_matmul_has_the_shape_numpy_gives_it(a: tuple[int, ...], b: tuple[int, ...]):
    try:
        wanted = np.matmul(np.zeros(a), np.zeros(b)).shape
    except ValueError:
        with pytest.raises(LayoutError):
            nn.MatmulOp(value(a), value(b))
        return
    assert result(nn.MatmulOp(value(a), value(b))).get_shape() == wanted


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.booleans(), shapes)
def test_gemm_has_the_shape_numpy_gives_it(
    m: int, k: int, n: int, trans_a: bool, trans_b: bool, c: tuple[int, ...]
):
    a, b = (k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n)
    assert result(nn.GemmOp(value(a), value(b), trans_a=trans_a, trans_b=trans_b)).get_shape() == (m, n)
    try:
        fits = np.broadcast_shapes(c, (m, n)) == (m, n)
    except ValueError:
        fits = False
    if fits:
        op = nn.GemmOp(value(a), value(b), value(c), trans_a=trans_a, trans_b=trans_b)
        assert result(op).get_shape() == (m, n)
    else:
        with pytest.raises(LayoutError, match="broadcast"):
            nn.GemmOp(value(a), value(b), value(c), trans_a=trans_a, trans_b=trans_b)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((2, 3), (4, 5), "inner extent mismatch between operands 2x3 and 4x5: 3 != 4"),
        ((2, 3), (4,), "inner extent mismatch between operands 2x3 and 4: 3 != 4"),
        ((), (4,), "needs rank 1 or more, but the operands are scalar and 4"),
        ((2, 2, 3), (4, 3, 5), "shapes 2 and 4 do not broadcast: 2 != 4 in dim 0"),
    ],
)
def test_negative_matmul(a: tuple[int, ...], b: tuple[int, ...], message: str):
    with pytest.raises(LayoutError, match=message):
        nn.MatmulOp(value(a), value(b))


def test_negative_gemm():
    with pytest.raises(LayoutError, match="inner extent mismatch between a 2x3 transposed and b 3x4: 2 != 3"):
        nn.GemmOp(value((2, 3)), value((3, 4)), trans_a=True)
    with pytest.raises(LayoutError, match="works on matrices, but operand b is 3: rank 1 != 2"):
        nn.GemmOp(value((2, 3)), value((3,)))


@pytest.mark.parametrize(
    ("a", "b", "dims"), [((2, 3), (3, 4), (1, 0)), ((3,), (3,), (0, 0)), ((5, 2, 3), (5, 3, 4), (2, 1))]
)
def test_matmul_reduces_over_the_inner_dims(a: tuple[int, ...], b: tuple[int, ...], dims: tuple[int, int]):
    op = nn.MatmulOp(value(a), value(b))
    assert [op.pad_reads(0), op.pad_reads(1)] == [(PadRead(dim, 0.0),) for dim in dims]


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_gemm_reduces_over_the_inner_dims(trans_a: bool, trans_b: bool):
    op = nn.GemmOp(value((3, 3)), value((3, 3)), value((3,)), trans_a=trans_a, trans_b=trans_b)
    assert op.pad_reads(0) == (PadRead(0 if trans_a else 1, 0.0),)
    assert op.pad_reads(1) == (PadRead(1 if trans_b else 0, 0.0),)
    assert op.pad_reads(2) == ()
