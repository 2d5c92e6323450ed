"""Constants: what a literal holds, how it is read, and that a big one costs little."""

from __future__ import annotations

import math
import re
import tracemalloc
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr
from xdsl.utils.exceptions import ParseError

from layout_ir.dialects import nn
from layout_ir.dialects.nn.constant import Literal, literal
from layout_ir.errors import LayoutError
from layout_ir.printing import print_module
from tests.dialects.nn.building import error_of, program, result, tensor, text
from tests.programs import parse

DTYPES = {
    "f16": "<f2",
    "f32": "<f4",
    "f64": "<f8",
    "i8": "i1",
    "ui8": "u1",
    "i32": "<i4",
    "i64": "<i8",
    "i1": "?",
}


def constant(
    data: bytes, shape: tuple[int, ...], element: str = "f32", fmt: str | None = None
) -> nn.ConstantOp:
    type = tensor(shape, element, fmt)
    return nn.ConstantOp(literal(type, data), type)


def bits(op: nn.ConstantOp) -> bytes:
    """All elements."""
    data = op.literal.data.data
    return data * math.prod(result(op).get_shape()) if op.is_splat else data


def read(source: str) -> nn.ConstantOp:
    (op,) = parse(source).body.block.ops
    assert isinstance(op, nn.ConstantOp)
    return op


@pytest.mark.parametrize("element", [*DTYPES, "bf16"])
@given(data=st.data(), shape=st.lists(st.integers(0, 4), max_size=3).map(tuple))
def test_every_bit_survives_printing(element: str, data: st.DataObject, shape: tuple[int, ...]):
    count = math.prod(shape)
    if element == "i1":
        raw = bytes(data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    else:
        size = 2 if element == "bf16" else np.dtype(DTYPES[element]).itemsize
        raw = data.draw(st.binary(min_size=size * count, max_size=size * count))
    op = constant(raw, shape, element)
    assert bits(read(print_module(program(op)))) == raw


@pytest.mark.parametrize("element", DTYPES)
def test_elements_are_numpy_s(element: str):
    values = np.array(
        [[0, 1, 1], [1, 0, 1]] if element == "i1" else [[0, 1, 2], [3, 100, 5]], DTYPES[element]
    )
    literal = str(values.tolist()).lower()
    assert bits(read(f"%0 = nn.constant dense<{literal}> : tensor<2x3x{element}>")) == values.tobytes()


def test_a_splat_holds_one_element():
    op = read("%0 = nn.constant dense<0.5> : tensor<4096x25088xf32, #layout.any>")
    assert op.is_splat
    assert op.literal.data.data == np.float32(0.5).tobytes()
    assert op.literal.type == tensor((4096, 25088))
    assert result(op) == tensor((4096, 25088), fmt="any")


def test_a_splat_of_no_elements_holds_none():
    assert read("%0 = nn.constant dense<0.5> : tensor<0x4xf32>").literal.data.data == b""


def test_hexadecimal_floats_are_bit_patterns():
    assert bits(read("%0 = nn.constant dense<[0x7FC00001, 1.0]> : tensor<2xf32>")).hex() == "0100c07f0000803f"


def test_the_elements_of_a_constant_are_never_numbers_of_python():
    array = np.random.default_rng(0).random(1_000_000, np.float32)
    tracemalloc.start()
    try:
        op = constant(array.tobytes(), (1_000_000,), fmt="any")
        assert error_of(op) == ""
        assert not op.is_splat
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * array.nbytes  # a float of Python takes 24 bytes, and 8 in a list


def test_left_out_values_can_be_carried_but_not_used():
    op = read("%0 = nn.constant dense_resource<__elided__> : tensor<3xf32, #layout.any>")
    assert error_of(op) == ""
    # xDSL numbers the handles that a process reads again.
    assert re.search(r"nn.constant dense_resource<__elided__(_\d+)?> : tensor<3xf32, #layout.any>$", text(op))
    with pytest.raises(LayoutError, match="the values of this constant were left out"):
        _ = op.literal


def test_pads_hold_what_the_type_says():
    op = constant(bytes(4), (1, 17, 2, 2), fmt="(n, c, h, w) : [n, c, h, w, c:8], pad = 3")
    assert op.pad_result([]) == 3.0
    assert error_of(op) == ""


def test_negative_literal_of_the_wrong_size():
    with pytest.raises(
        LayoutError, match="a literal of 8 bytes does not fit tensor<4xf32>, which has 4 elements"
    ):
        literal(tensor((4,), fmt="any"), bytes(8))


def test_negative_result_of_another_type():
    value = literal(tensor((3,)), bytes(12))
    assert "shape mismatch" in error_of(nn.ConstantOp(value, tensor((4,))))
    assert "element type mismatch between the literal and the result: f32 != i32" in error_of(
        nn.ConstantOp(value, tensor((3,), "i32"))
    )


def test_negative_literal_with_an_encoding():
    value: Literal = DenseIntOrFPElementsAttr(cast(Any, tensor((2,), fmt="any")), BytesAttr(bytes(8)))
    assert "the literal needs a tensor type without encoding" in error_of(
        nn.ConstantOp(value, tensor((2,), fmt="any"))
    )


def test_negative_literal_of_some_elements():
    value: Literal = DenseIntOrFPElementsAttr(cast(Any, tensor((4,))), BytesAttr(bytes(8)))
    assert "the literal holds 2 elements, but its shape 4 has 4" in error_of(
        nn.ConstantOp(value, tensor((4,)))
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("dense<[1, 2, 3]> : tensor<4xi32>", "shape mismatch between the literal and its type: 3 != 4"),
        ("dense<[[1, 2], [3]]> : tensor<2x2xi32>", "the lists inside the literal differ in shape"),
        ("dense<[1, 2]> : tensor<2x1xi32>", "shape mismatch between the literal and its type: 2 != 2x1"),
        ("dense<0.5> : tensor<4xi32>", "0.5 is no element of type i32"),
        ("dense<256> : tensor<4xui8>", r"256 is no element of type ui8: not in 0\.\.255"),
        ("dense<> : tensor<4xf32>", "a literal of 0 bytes does not fit tensor<4xf32>"),
        ('dense<"0x00"> : tensor<4xf32>', "a literal of 1 bytes does not fit"),
        ('dense<"0xzz"> : tensor<4xf32>', "non-hexadecimal"),
        ("dense<1> : i32", "nn.constant has a tensor type, not i32"),
        ("dense<1> : tensor<?xi32>", "a tensor of numbers and a static shape"),
        ("1 : i32", "holds dense<...>"),
    ],
)
def test_negative_literals(source: str, message: str):
    with pytest.raises(ParseError, match=message):
        read(f"%0 = nn.constant {source}")
