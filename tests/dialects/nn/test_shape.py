"""Ops that move elements: NumPy's and ONNX's shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from tests.dialects.nn.building import result, value
from tests.dialects.nn.onnx_shapes import onnx_shape

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@given(st.lists(shapes, min_size=1, max_size=3), st.integers(0, 3))
def test_concat_has_the_shape_numpy_gives_it(parts: list[tuple[int, ...]], axis: int):
    try:
        wanted = np.concatenate([np.zeros(part) for part in parts], axis).shape
    except (ValueError, np.exceptions.AxisError):
        with pytest.raises(LayoutError):
            nn.ConcatOp(*map(value, parts), axis=axis)
        return
    assert result(nn.ConcatOp(*map(value, parts), axis=axis)).get_shape() == wanted


@given(shapes, st.data(), st.sampled_from(["constant", "reflect", "edge", "wrap"]))
def test_pad_has_the_shape_numpy_gives_it(shape: tuple[int, ...], data: st.DataObject, mode: Any):
    amounts = st.tuples(st.integers(0, 6), st.integers(0, 6))
    pads = data.draw(st.tuples(*(amounts for _ in shape)))
    attribute = [begin for begin, _ in pads] + [end for _, end in pads]
    if mode == "reflect" and any(max(pair) >= extent for pair, extent in zip(pads, shape, strict=True)):
        with pytest.raises(LayoutError, match=r"reflect pads .* reach beyond dim"):
            nn.PadOp(value(shape), pads=attribute, mode=mode)
        return
    assert (
        result(nn.PadOp(value(shape), pads=attribute, mode=mode)).get_shape()
        == np.pad(np.zeros(shape), pads, mode).shape
    )


def test_pad_takes_away():
    assert result(nn.PadOp(value((5, 6)), pads=[-2, 1, -3, -4])).get_shape() == (0, 3)


@pytest.mark.parametrize(
    ("shape", "pads", "mode", "message"),
    [
        ((2, 3), [1, 1], "constant", r"pads = \[1, 1\] does not fit 2x3: 2 != 4 entries"),
        ((2,), [-1, -2], "constant", "pads -1 and -2 take more than dim 0 of 2 has: 3 > 2"),
        ((0,), [1, 0], "edge", "edge pads 1 and 0 reach beyond dim 0 of 0: 1 > 0"),
        ((0,), [1, 0], "wrap", "wrap pads 1 and 0 reach beyond dim 0 of 0: 1 > 0"),
    ],
)
def test_negative_pad(shape: tuple[int, ...], pads: list[int], mode: str, message: str):
    with pytest.raises(LayoutError, match=message):
        nn.PadOp(value(shape), pads=pads, mode=mode)


@given(st.integers(0, 9), st.integers(-10, 10), st.integers(-10, 10), st.integers(-4, 4).filter(bool))
def test_slice_holds_what_numpy_slices(extent: int, start: int, stop: int, step: int):
    indices = range(extent)[start:stop:step]
    op = nn.SliceOp(value((extent,)), starts=[indices.start], sizes=[len(indices)], steps=[indices.step])
    assert result(op).get_shape() == np.zeros(extent)[start:stop:step].shape


@pytest.mark.parametrize(
    ("starts", "sizes", "steps", "message"),
    [
        ([0], [2, 2], [1, 1], r"starts = \[0\] does not fit 8x8: 1 != 2 entries"),
        ([0, 2], [2, 4], [1, 2], r"slice reaches outside dim 1 of 8x8: elements 2 to 8 are not in 0\.\.7"),
        ([0, 2], [2, 4], [1, -1], r"elements 2 to -1 are not in 0\.\.7"),
        ([8, 0], [1, 1], [1, 1], r"slice reaches outside dim 0 of 8x8: elements 8 to 8"),
        ([0, 0], [1, -1], [1, 1], r"sizes = \[1, -1\] has an entry below 0 in dim 1"),
        ([0, 0], [1, 1], [1, 0], r"steps = \[1, 0\] has a 0 in dim 1"),
    ],
)
def test_negative_slice(starts: list[int], sizes: list[int], steps: list[int], message: str):
    with pytest.raises(LayoutError, match=message):
        nn.SliceOp(value((8, 8)), starts=starts, sizes=sizes, steps=steps)


@given(st.lists(st.tuples(st.integers(1, 12), st.floats(0.125, 4, width=32)), min_size=1, max_size=4))
@settings(deadline=None)
def test_resize_by_scales_has_the_shape_onnx_gives_it(dims: list[tuple[int, float]]):
    shape, scales = zip(*dims, strict=True)
    wanted = onnx_shape(
        "Resize", [shape], [(TensorProto.FLOAT, []), (TensorProto.FLOAT, scales)], mode="nearest"
    )
    assert result(nn.ResizeOp(value(shape), scales=scales)).get_shape() == wanted


def test_resize_multiplies_in_double_precision():
    # In single precision the product of 10 and 0.7f is rounded up to 7.
    assert result(nn.ResizeOp(value((10,)), scales=[float(np.float32(0.7))])).get_shape() == (6,)


def test_resize_to_sizes():
    assert result(nn.ResizeOp(value((4, 4)), sizes=[3, 9])).get_shape() == (3, 9)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, r"either scales or sizes, not scales = \[\] and sizes = \[\]"),
        ({"scales": [1.0], "sizes": [4]}, r"either scales or sizes, not scales = \[1.0\] and sizes = \[4\]"),
        ({"scales": [1.0, 1.0]}, r"scales = \[1.0, 1.0\] does not fit 4: 2 != 1 entries"),
        ({"sizes": [0]}, r"sizes = \[0\] has an entry that is not above 0"),
        ({"scales": [-1.0]}, r"scales = \[-1.0\] has an entry that is not above 0"),
    ],
)
def test_negative_resize(attributes: dict[str, Any], message: str):
    with pytest.raises(LayoutError, match=message):
        nn.ResizeOp(value((4,)), **attributes)
