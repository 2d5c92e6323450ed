"""CuTe shape:stride, against its own definition: colexicographic coordinates, inner products with strides."""

from __future__ import annotations

import itertools
import math
import random
from typing import TypeAlias

import pytest

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError
from layout_ir.notations import NOTATIONS

Tree: TypeAlias = "int | tuple[Tree, ...]"

CUTE = NOTATIONS["cute"]


def size(shape: Tree) -> int:
    return shape if isinstance(shape, int) else math.prod(size(part) for part in shape)


def offset(index: int, shape: Tree, stride: Tree) -> int:
    """Of an integer coordinate of a (nested) mode."""
    if isinstance(shape, int) or isinstance(stride, int):
        assert isinstance(stride, int)
        return index * stride
    total = 0
    for part, step in zip(shape, stride, strict=True):
        total += offset(index % size(part), part, step)
        index //= size(part)
    return total


def swizzle(address: int, bits: int, base: int, shift: int) -> int:
    return address ^ (((address >> (base + shift)) & ((1 << bits) - 1)) << base)


def random_mode(rng: random.Random, depth: int = 0) -> tuple[Tree, Tree]:
    if depth == 2 or rng.random() < 0.6:
        return rng.randint(1, 4), rng.randint(0, 30)
    parts = [random_mode(rng, depth + 1) for _ in range(rng.randint(1, 3))]
    return tuple(p[0] for p in parts), tuple(p[1] for p in parts)


def test_random_layouts_are_their_inner_products():
    rng = random.Random(0)
    for _ in range(200):
        modes = [random_mode(rng) for _ in range(rng.randint(1, 3))]
        shape, stride = tuple(m[0] for m in modes), tuple(m[1] for m in modes)
        text = f"{shape}:{stride}"
        layout = CUTE.parse(text)
        assert isinstance(layout, Layout)
        assert layout.shape == tuple(size(m) for m in shape)
        for index in itertools.product(*map(range, layout.shape)):
            assert layout.address(index) == sum(
                offset(x, s, d) for x, s, d in zip(index, shape, stride, strict=True)
            ), text
        again = CUTE.parse(CUTE.print(layout))
        assert isinstance(again, Layout)
        assert again.same_map(layout)


def test_swizzles_are_composed():
    layout = CUTE.parse("Sw<3,4,3> o 0 o (8,64):(64,1)")
    assert isinstance(layout, Layout)
    for i, j in itertools.product(range(8), range(64)):
        assert layout.address((i, j)) == swizzle(64 * i + j, 3, 4, 3)
    assert CUTE.print(layout) == "Sw<3,4,3> o 0 o (8,64):(64,1)"
    assert (
        CUTE.print(Format.parse("(a, b) : [a, b], offset = 5").bind((2, 3))) == "Sw<0,0,0> o 5 o (2,3):(3,1)"
    )


def test_the_example_of_the_theory():
    layout = CUTE.parse("(2,(8,2),5,4):(320,(1,160),32,8)")
    assert isinstance(layout, Layout)
    assert layout.address((1, 10, 3, 2)) == 594
    assert layout.same_map(Format.from_tag("nChw8c").bind((2, 16, 5, 4)))


def test_padded_layouts_print_their_padded_box():
    assert CUTE.print(Format.from_tag("nChw8c").bind((2, 17, 5, 4))) == "(2,(8,3),5,4):(480,(1,160),32,8)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(2,3):(3)", "differ in structure"),
        ("(2,(3,4)):(3,1)", "differ in structure"),
        ("(2,0):(3,1)", "at least 1"),
        ("(2,3)", "expected ':'"),
        ("Sw<3,4,2> o 0 o (8,64):(64,1)", "would overlap"),
        ("Sw<3,4> o 0 o 8:1", "expected ','"),
        ("Sw<1,99,1> o 0 o 8:1", "leaves a 64-bit address"),
        ("8:9223372036854775807", "2\\^63"),
    ],
)
def test_negative_texts(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        CUTE.parse(text)


def test_negative_empty_tensors_and_formats():
    with pytest.raises(LayoutError, match="extents start at 1 there"):
        CUTE.print(Format.parse("(a) : [a]").bind((0,)))
    with pytest.raises(LayoutError, match="bind it to a shape first"):
        CUTE.print(Format.from_tag("nhwc"))


@pytest.mark.parametrize(
    "text",
    [
        "(2,(_8,2),5,_4):(320,(1,160),_32,8)",
        "( 2,(8, 2),5,4):(320,(_1,160),32,8)",
        "gmem_ptr[32b](0x7f5a) o (2,(8,2),5,4):(320,(1,160),32,8)",
        "Sw<0,4,3> o smem_ptr[16b](unset) o (2,(8,2),5,4):(320,(1,160),32,8)",
    ],
)
def test_spellings_of_one_layout(text: str):
    assert CUTE.parse(text) == CUTE.parse("(2,(8,2),5,4):(320,(1,160),32,8)")


@pytest.mark.parametrize("bits", [1, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize(("b", "m", "s"), [(3, 4, 3), (2, 4, 3), (1, 4, 3), (2, 3, 3), (3, 0, 4)])
def test_a_swizzle_of_a_pointer_is_one_of_bytes(bits: int, b: int, m: int, s: int):
    """By the bytes: address times width, swizzled as bytes are, and back; bits of one element go together."""
    layout = CUTE.parse(f"Sw<{b},{m},{s}> o smem_ptr[{bits}b](unset) o (_16,_64):(_64,_1)")
    assert isinstance(layout, Layout)
    for row, column in itertools.product(range(16), range(64)):
        start = (row * 64 + column) * bits
        # The byte in which the element starts; of elements of less than a byte several share one.
        byte, rest = divmod(start, 8)
        want = (swizzle(byte, b, m, s) * 8 + rest) // bits
        if m + 3 >= (bits - 1).bit_length():
            assert layout.address((row, column)) == want


def test_a_swizzle_within_elements_is_none_of_elements():
    """Of elements of 16 bytes, a swizzle of 3 bits from byte 8 on moves two; one within an element moves none."""
    layout = CUTE.parse("Sw<3,3,3> o smem_ptr[128b](unset) o (_16,_64):(_64,_1)")
    assert isinstance(layout, Layout) and layout.swizzle == (2, 0, 3)
    layout = CUTE.parse("Sw<1,3,3> o smem_ptr[128b](unset) o (_16,_64):(_64,_1)")
    assert isinstance(layout, Layout) and layout.swizzle is None


@pytest.mark.parametrize(
    "opening", ["Sw<3,3,3> o 0 o", "Swizzle<3,3,3> o", "S<3,3,3> o 0 o", "SW_3_3_3 o 0 o"]
)
def test_spellings_of_a_swizzle(opening: str):
    layout = CUTE.parse(f"{opening} (8, 64):(64, 1)")
    assert isinstance(layout, Layout)
    # Three elements as pycute 4.2 composes them.
    assert [layout.address(index) for index in ((3, 17), (7, 63), (5, 8))] == [201, 455, 352]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(4,2):(1@0,1@1)", "counts coordinates"),
        ("ptr[12b](x) o 8:1", "elements of 12 bits"),
        ("smem_ptr[16b](unset) 8:1", "expected 'o'"),
        ("smem_ptr[16b](unset", "found the end"),
        ("layout o 8:1", "expected a layout, an offset or a pointer"),
        ("Sw<3,3,3> (8,64):(64,1)", "expected 'o'"),
        ("SW_99_3_3 o 0 o 8:1", "64-bit address"),
        ("(__4):(1)", "expected an extent"),
    ],
)
def test_negative_pasted_texts(text: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        CUTE.parse(text)


@pytest.mark.parametrize(
    ("cpp", "text"),
    [
        ("Layout<_8>", "(8):(1)"),
        ("Layout<Shape<_8, Shape<_2, Int<4>>>, Stride<_1, Stride<_64, C<8>>>>{}", "(8,(2,4)):(1,(64,8))"),
        ("cute::Layout<cute::tuple<cute::C<2>, cute::C<3> > >", "(2,3):(1,2)"),
        ("Layout<Shape<_2, Shape<_3, _4>>, LayoutRight>", "(2,(3,4)):(12,(4,1))"),
        ("Layout<Shape<_2, Shape<_3, _4>>, GenColMajor>", "(2,(3,4)):(1,(2,6))"),
        ("make_layout(make_shape(Int<8>{}, 64), make_stride(_64{}, -1));", "(8,64):(64,-1)"),
        ("make_layout(make_shape(2, 3), LayoutRight{})", "(2,3):(3,1)"),
        ("Layout<std::integral_constant<int, 5>, _2>", "(5):(2)"),
        ("ComposedLayout<Swizzle<3,4,3>, _0, Layout<Shape<_8,_64>,Stride<_64,_1>>>", "Sw<3,4,3> o 0 o (8,64):(64,1)"),
        (
            "ComposedLayout<Swizzle<3,4,3>, smem_ptr_flag_bits<16>, Layout<Shape<_8,_64>,Stride<_64,_1>>>",
            "Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)",
        ),
        (
            "cute::ComposedLayout<cute::Swizzle<2,4,3>, cute::smem_ptr_flag, cute::Layout<cute::Shape<_8,_64> > >",
            "Sw<2,4,3> o smem_ptr[1b](unset) o (8,64):(1,8)",
        ),
    ],
)  # fmt: skip
def test_types_and_calls_of_cpp_say_the_same(cpp: str, text: str):
    read, expected = CUTE.parse(cpp), CUTE.parse(text)
    assert isinstance(read, Layout) and isinstance(expected, Layout)
    assert read.shape == expected.shape
    assert read.same_store(expected)


@pytest.mark.parametrize(
    ("cpp", "reason"),
    [
        ("Layout<Shape<int, _8>>", "an extent is 'int', which is no number"),
        ("Layout<Shape<_8, _4>", "expected '>', found the end"),
        ("Layout<Shape<_8, _4>, Stride<_1>>", "differ in structure"),
        ("Layout<Shape<_0, _4>>", "at least 1"),
        ("Layout<_99999999999999999999>", "not below 2"),
        ("ComposedLayout<Foo<1,2,3>, _0, Layout<_8>>", "expected Swizzle<B, M, S>, found 'Foo'"),
        ("ComposedLayout<Swizzle<3,4,99>, _0, Layout<_8>>", "a swizzle by 99 bits"),
        ("ComposedLayout<Swizzle<3,4,3>, smem_ptr_flag_bits<12>, Layout<_8>>", "elements of 12 bits"),
        (
            "ComposedLayout<Swizzle<1,2,3>, _0, ComposedLayout<Swizzle<1,2,3>, _0, Layout<_8>>>",
            "a composed layout inside of another",
        ),
        ("Layout<" + "Shape<" * 5000, "levels of nesting"),
        ("Layout<_8>>", "unexpected '>'"),
    ],
)
def test_negative_types_of_cpp(cpp: str, reason: str):
    with pytest.raises(LayoutError, match=reason):
        CUTE.parse(cpp)
