"""MegEngine's formats by element type, as its format tables have them."""

from __future__ import annotations

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import TensorType, i8

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr
from layout_ir.notations.megengine import physical_dims, physical_shape
from layout_ir.passes.selection.options import megengine
from layout_ir.passes.selection.options.models import options_of
from layout_ir.passes.selection.options.targets import target_named
from tests.passes.selection.options.convs import conv_of


def _names(dtype: str, channels: int, outputs: int, group: int = 1) -> set[str]:
    known = {fmt: name for kind in ("i8", "i4") for name, fmt in megengine.activations(kind).items()}
    known[Format.from_tag("nhwc")] = "NHWC"
    return {known[k.x] for k in megengine.conv_kernels(conv_of(channels, outputs, group, dtype=dtype))}


@pytest.mark.parametrize(
    ("dtype", "channels", "outputs", "group", "names"),
    [
        ("f32", 64, 64, 1, {"NCHW"}),
        ("f16", 64, 64, 1, {"NCHW"}),
        ("i8", 64, 64, 1, {"NCHW", "NCHW4", "CHWN4", "NCHW32", "NHWC"}),
        ("i8", 36, 64, 1, {"NCHW", "NCHW4", "CHWN4", "NHWC"}),
        ("i8", 3, 64, 1, {"NCHW"}),
        ("i8", 32, 32, 32, {"NCHW", "NCHW4"}),
        ("i8", 64, 64, 4, {"NCHW", "NCHW4"}),
        ("i8", 24, 64, 4, {"NCHW"}),
        ("i4", 64, 64, 1, {"NCHW", "NCHW64", "NHWC"}),
        ("i4", 32, 64, 1, {"NCHW", "NHWC"}),
        ("i4", 4, 64, 1, {"NCHW"}),
    ],
)
def test_convolutions_run_in_the_formats_of_their_element_type(
    dtype: str, channels: int, outputs: int, group: int, names: set[str]
) -> None:
    assert _names(dtype, channels, outputs, group) == names


@pytest.mark.parametrize("name", ["NCHW4", "NCHW32", "NCHW64", "CHWN4"])
def test_the_formats_are_those_of_the_notation(name: str) -> None:
    shape = (8, 64, 5, 3)
    fmt = {**megengine.activations("i8"), **megengine.activations("i4")}[name]
    layout = fmt.bind(shape)
    _, pieces = physical_dims(name)
    # Physical extents in order, and the address of the element whose physical index steps each of them.
    extents = physical_shape(name, shape)
    stride = layout.span
    for piece, extent in zip(pieces, extents, strict=True):
        stride //= extent
        if extent > 1:
            index = [0, 0, 0, 0]
            index[piece.dim] = piece.unit
            assert layout.address(tuple(index)) == stride
    assert stride == 1


def _pool(channels: int) -> nn.MaxPoolOp:
    source = test.TestOp(result_types=[TensorType(i8, [1, channels, 8, 8], AnyAttr())])
    return nn.MaxPoolOp(source.results[0], kernel=(2, 2), strides=(2, 2))


def _result_formats(op: nn.NNOp) -> set[Format]:
    known = list(megengine.activations("i8").values())
    options = options_of(op, lambda value: known, target_named("megengine-cuda"))
    return {option.outs[0] for option in options}


def test_pools_of_8_bit_follow_the_convolutions() -> None:
    assert _result_formats(_pool(64)) == set(megengine.activations("i8").values())


def test_negative_channels_that_are_no_whole_blocks_stay_out_of_blocks() -> None:
    found = _result_formats(_pool(36))
    assert Format.from_tag("nchw") in found
    assert megengine.activations("i8")["NCHW32"] not in found
    assert megengine.activations("i8")["NCHW4"] in found


def test_negative_a_concat_is_row_major() -> None:
    pool = _pool(64)
    concat = nn.ConcatOp(pool.result, pool.result, axis=1)
    assert _result_formats(concat) == {Format.from_tag("nchw")}
