"""Window arithmetic: convolution and pooling have the shapes that ONNX and torch give them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_ir.dialects import nn
from layout_ir.dialects.nn.windows import resolved_pads, window_shape
from layout_ir.errors import LayoutError
from tests.dialects.nn.building import result, value
from tests.dialects.nn.onnx_shapes import onnx_shape


@st.composite
def windows(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Spatial extents and kernel, strides, pads, dilations, which need not fit."""
    rank = draw(st.integers(1, 3))

    def ints(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    attributes = {
        "kernel": ints(1, 4),
        "strides": ints(1, 4),
        "pads": ints(0, 3, 2 * rank),
        "dilations": ints(1, 3),
    }
    return ints(1, 12), attributes


def fits(extents: tuple[int, ...], window: dict[str, Any], ceil_mode: bool = False) -> bool:
    rank = len(extents)
    return all(
        (window["kernel"][d] - 1) * window["dilations"][d] - (window["strides"][d] - 1 if ceil_mode else 0)
        < extents[d] + window["pads"][d] + window["pads"][rank + d]
        for d in range(rank)
    )


@given(windows(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_pool_has_the_shape_onnx_gives_it(drawn: tuple[tuple[int, ...], dict[str, Any]], ceil_mode: bool):
    extents, window = drawn
    x = value((2, 3, *extents))
    if not fits(extents, window, ceil_mode):
        with pytest.raises(LayoutError, match="window and extent do not fit"):
            nn.MaxPoolOp(x, ceil_mode=ceil_mode, **window)
        return
    attributes = {"kernel_shape" if name == "kernel" else name: entry for name, entry in window.items()}
    wanted = onnx_shape("MaxPool", [(2, 3, *extents)], ceil_mode=int(ceil_mode), **attributes)
    assert result(nn.MaxPoolOp(x, ceil_mode=ceil_mode, **window)).get_shape() == wanted
    assert result(nn.AvgPoolOp(x, ceil_mode=ceil_mode, **window)).get_shape() == wanted


@given(windows(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_a_convolution_has_the_shape_onnx_gives_it(
    drawn: tuple[tuple[int, ...], dict[str, Any]], group: int, inputs: int, outputs: int
):
    extents, window = drawn
    if not fits(extents, window):
        return
    x, w = (2, group * inputs, *extents), (group * outputs, inputs, *window.pop("kernel"))
    wanted = onnx_shape("Conv", [x, w], group=group, **window)
    assert result(nn.ConvOp(value(x), value(w), group=group, **window)).get_shape() == wanted


@given(windows())
@settings(max_examples=200, deadline=None)
def test_ceil_mode_agrees_with_torch(drawn: tuple[tuple[int, ...], dict[str, Any]]):
    extents, window = drawn
    rank = len(extents)
    # torch knows only equal pads at both ends, of at most half a kernel.
    begins = tuple(
        min(pad, kernel // 2) for pad, kernel in zip(window["pads"], window["kernel"], strict=False)
    )
    window["pads"] = begins * 2
    pool: Any = getattr(torch.nn.functional, f"max_pool{rank}d")
    x = torch.empty((2, 3, *extents), device="meta")
    for ceil_mode in (False, True):
        if not fits(extents, window, ceil_mode):
            continue
        wanted = pool(
            x, window["kernel"], window["strides"], begins, dilation=window["dilations"], ceil_mode=ceil_mode
        )
        ours = nn.MaxPoolOp(value((2, 3, *extents)), ceil_mode=ceil_mode, **window)
        assert result(ours).get_shape() == tuple(wanted.shape)


def test_global_pools_keep_their_dims():
    for op in (nn.GlobalAvgPoolOp, nn.GlobalMaxPoolOp):
        assert result(op(value((2, 3, 4, 5, 6)))).get_shape() == (2, 3, 1, 1, 1)


def test_pads_may_be_larger_than_the_kernel():
    assert window_shape((1,), (1,), strides=(1,), pads=(2, 0), dilations=(1,)) == (3,)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"strides": (1,)}, r"strides = \[1\] does not fit 2 spatial dims: 1 != 2 entries"),
        ({"strides": (0, 1)}, r"strides = \[0, 1\] has an entry below 1"),
        ({"dilations": (1, 1, 1)}, r"dilations = \[1, 1, 1\] does not fit 2 spatial dims: 3 != 2 entries"),
        ({"pads": (1, 1)}, r"pads = \[1, 1\] does not fit 2 spatial dims: 2 != 4 entries"),
        ({"pads": (1, 1, -1, 1)}, r"pads = \[1, 1, -1, 1\] has an entry below 0"),
        ({"kernel": (0, 1)}, r"kernel = \[0, 1\] has an entry below 1"),
        ({"kernel": (6, 1)}, r"spatial dim 0: kernel 6 dilated to 6 > extent 5 padded to 5"),
    ],
)
def test_negative_windows(attributes: dict[str, Any], message: str):
    defaults: dict[str, Any] = {
        "kernel": (3, 3),
        "strides": (1, 1),
        "pads": (0, 0, 0, 0),
        "dilations": (1, 1),
    }
    with pytest.raises(LayoutError, match=message):
        nn.MaxPoolOp(value((1, 2, 5, 5)), **{**defaults, **attributes})


def test_negative_rank():
    for op in (nn.GlobalAvgPoolOp, nn.GlobalMaxPoolOp):
        with pytest.raises(LayoutError, match=r"works on rank 3 to 5 .* but operand 0 is 2x3: rank 2"):
            op(value((2, 3)))


@pytest.mark.parametrize(
    ("automatic", "given_pads", "pads"),
    [
        ("SAME_UPPER", None, (0, 1, 1, 1)),
        ("SAME_LOWER", (9, 9, 9, 9), (1, 1, 0, 1)),
        ("VALID", (1, 1, 1, 1), (0, 0, 0, 0)),
        ("NOTSET", (1, 2, 3, 4), (1, 2, 3, 4)),
        (None, None, (0, 0, 0, 0)),
    ],
)
def test_pads_follow_from_auto_pad(
    automatic: str | None, given_pads: tuple[int, ...] | None, pads: tuple[int, ...]
):
    # A kernel of 3 over 6 and 5 in steps of 2: 3 windows each reach 1 and 2 elements too far.
    assert resolved_pads(automatic, given_pads, (6, 5), (3, 3), (2, 2), (1, 1)) == pads
