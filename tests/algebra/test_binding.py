"""One stride per dim, as a layout: where its elements lie, and that no two of them lie at one address."""

from __future__ import annotations

import itertools
from math import prod

import pytest

from layout_ir.algebra.binding import check_overlap, strided_layout
from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError
from tests.layouts import indices

SHAPES = ((2, 4), (4, 2), (1, 3), (3, 1), (2, 2), (3, 3))
STRIDES = tuple(itertools.product(range(-4, 9), repeat=2))


def test_elements_lie_where_their_strides_put_them():
    for shape, strides in itertools.product(SHAPES, STRIDES):
        layout = strided_layout(shape, strides, offset=50)
        for i, j in indices(shape):
            assert layout.address((i, j)) == 50 + i * strides[0] + j * strides[1], (shape, strides)


def test_overlap_is_two_elements_at_one_address_but_for_strides_of_0():
    refused = 0
    for shape, strides in itertools.product(SHAPES, STRIDES):
        moving = tuple(x if s else 1 for x, s in zip(shape, strides, strict=True))
        places = {i * strides[0] + j * strides[1] for i, j in indices(moving)}
        layout = strided_layout(shape, strides, offset=50)
        if len(places) == prod(moving):
            check_overlap(layout)
            continue
        refused += 1
        with pytest.raises(LayoutError, match="put several elements at one address"):
            check_overlap(layout)
    assert 0 < refused < len(SHAPES) * len(STRIDES) // 2


@pytest.mark.parametrize("strides", [(3, 1), (1, 1), (2, 2), (4, 2)])
def test_negative_strides_that_overlap(strides: tuple[int, int]):
    match = f"^strides {strides[0]}x{strides[1]} of shape 2x4 put several elements at one address$"
    with pytest.raises(LayoutError, match=match):
        check_overlap(strided_layout((2, 4), strides))


@pytest.mark.parametrize("offset", [0, 2])
def test_negative_backward_strides_that_leave_the_buffer(offset: int):
    match = f"reach address {offset - 3}: an offset of at least 3 keeps them in the buffer"
    with pytest.raises(LayoutError, match=match):
        strided_layout((4,), (-1,), offset)
    assert strided_layout((4,), (-1,), 3).first_address == 0


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("(a, b) : [b, a, b:2, a:4611686018427387904]", (8, 0)),
        ("(a, b) : [b, a, a:4611686018427387904, a:2]", (0, 8)),
        ("(a, b) : [a*9223372036854775808, b]", (1, 3)),
    ],
)
def test_negative_strides_that_no_machine_counts_are_refused_even_of_nothing(
    text: str, shape: tuple[int, ...]
):
    with pytest.raises(LayoutError, match=r"(stride|spans|positions|below 2\^63)"):
        Format.parse(text).bind(shape)


def test_strides_of_tensors_without_elements_are_kept():
    layout = Format.parse("(a, b) : [a, b, a:8]").bind((0, 5))
    assert layout.addresses().shape == (0, 5)
