"""A key says all that a price depends on, and nothing else, in text that reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.costs.price_keys import PriceKey, TensorKey, op_key, reorder_key
from tests.programs import parse

NCHW, BLOCKED, LAST = (Format.of(tag) for tag in ("nchw", "nChw8c", "nhwc"))

PROGRAM = """
func.func @main(%x : tensor<1x16x8x8xf32, #layout.any>) -> tensor<1x16x8x8xf32, #layout.any> {
  %w = nn.constant dense<0.5> : tensor<16x16x3x3xf32, #layout.any>
  %n = nn.constant dense<0.5> : tensor<1xf32, #layout.any>
  %a = nn.conv %x, %w pads = [1, 1, 1, 1] : (tensor<1x16x8x8xf32, #layout.any>, tensor<16x16x3x3xf32, #layout.any>) -> tensor<1x16x8x8xf32, #layout.any>
  %b = nn.mul %a, %n : (tensor<1x16x8x8xf32, #layout.any>, tensor<1xf32, #layout.any>) -> tensor<1x16x8x8xf32, #layout.any>
  func.return %b : tensor<1x16x8x8xf32, #layout.any>
}
"""  # noqa: E501


def _ops(text: str = PROGRAM) -> dict[type, Operation]:
    return {type(op): op for op in parse(text).walk()}


def _conv(fmt: Format = BLOCKED, weights: str = "OIhw8i8o", text: str = PROGRAM) -> PriceKey | None:
    return op_key(_ops(text)[nn.ConvOp], LayoutOption((fmt, Format.of(weights)), (fmt,), 1))


def test_a_key_has_attributes_shapes_types_and_formats() -> None:
    assert str(_conv()) == (
        "nn.conv {pads = array<i64: 1, 1, 1, 1>} (1x16x8x8xf32 nChw8c, 16x16x3x3xf32 constant) -> "
        "(1x16x8x8xf32 nChw8c)"
    )


def test_constants_are_packed_as_the_runtime_likes_so_their_format_is_no_part_of_it() -> None:
    assert _conv(weights="OIhw8i8o") == _conv(weights="oihw")
    assert _conv(BLOCKED) != _conv(LAST)
    assert _conv() != _conv(text=PROGRAM.replace("pads = [1, 1, 1, 1]", "pads = [0, 2, 2, 0]"))


def test_names_of_dims_and_pad_policies_are_no_part_of_it() -> None:
    other = BLOCKED.with_names(("b", "k", "y", "x")).with_pad("undef")
    assert _conv(BLOCKED.with_pad("zero")) == _conv(other)


def test_a_number_is_told_from_a_tensor_where_it_becomes_part_of_a_function() -> None:
    one = Format.row_major(("x",))
    found = op_key(_ops()[nn.MulOp], LayoutOption((LAST, one), (LAST,), 1))
    assert found is not None and found.ins[1] == TensorKey((1,), "f32", "number")


def test_negative_what_has_no_price_has_no_key() -> None:
    ops = _ops()
    assert op_key(ops[nn.ConstantOp], LayoutOption((), (NCHW,), 0)) is None
    assert op_key(ops[nn.ConvOp], LayoutOption((None, None), (NCHW,), 0)) is None
    assert op_key(ops[nn.ConvOp], LayoutOption((NCHW,), (NCHW,), 0)) is None


def test_a_reorder_has_both_sides() -> None:
    shape = (1, 17, 5, 4)
    key = reorder_key(NCHW.bind(shape), BLOCKED.bind(shape), "bf16")
    assert str(key) == "layout.reorder (1x17x5x4xbf16 nchw) -> (1x17x5x4xbf16 nChw8c)"
    assert key is not None and key.outs[0].nbytes == 24 * 20 * 2


formats = st.sampled_from(["nchw", "nhwc", "nChw8c", "NChw16n16c", "(n, c, h, w) : [n, h, c*32, w]"])


@given(formats, st.tuples(*[st.integers(1, 40)] * 4), st.sampled_from(["f32", "bf16", "i8"]))
def test_the_text_of_a_tensor_reads_back(text: str, shape: tuple[int, ...], dtype: str) -> None:
    layout = Format.of(text)
    try:
        bound = layout.bind(shape)
    except LayoutError:
        return
    key = reorder_key(bound, bound, dtype)
    if key is not None:
        (tensor,) = key.ins
        assert TensorKey.parse(str(tensor)) == tensor
        assert tensor.layout is not None and tensor.layout.same_map(bound)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nchw",
        "1x2xf32",
        "1x2xf32 nchw",
        "-1x2xf32 nc",
        "1x2xf99 nc",
        "1x2xf32  nc",
        f"{9**20}xf32 a",
        "2xf32 a b",
    ],
)
def test_negative_a_text_that_is_no_tensor(text: str) -> None:
    with pytest.raises(LayoutError):
        TensorKey.parse(text)
