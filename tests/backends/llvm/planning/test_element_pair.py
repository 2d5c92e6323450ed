"""Widths and bytes of elements on both sides, and which of them may be written twice."""

from __future__ import annotations

import pytest

from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.elements.quantization import Conversion


@pytest.mark.parametrize(
    "src, dst, widths, narrower",
    [("f32", "bf16", (4, 2), 2), ("ui8", "f64", (1, 8), 1), ("i4", "f32", (1, 4), 1)],
)
def test_widths_are_distances_in_what_offsets_count(
    src: str, dst: str, widths: tuple[int, int], narrower: int
):
    pair = ElementPair.of(Conversion(src, dst))
    assert (pair.src, pair.dst) == widths
    assert pair.narrower == narrower


@pytest.mark.parametrize("count, size", [(0, 0), (1, 1), (2, 1), (15, 8)])
def test_two_elements_of_four_bits_are_a_byte(count: int, size: int):
    pair = ElementPair.of(Conversion("i4", "f32"))
    assert (pair.src_bytes(count), pair.dst_bytes(count)) == (size, 4 * count)


def test_the_identity_is_a_move():
    assert ElementPair.of(Conversion("f32", "f32")) == ElementPair(4, 4)
    assert ElementPair.of(Conversion("f32", "f32")) == ElementPair.of(Conversion("i32", "i32"))


def test_negative_the_identity_of_half_bytes_is_none():
    pair = ElementPair.of(Conversion("i4", "i4"))
    assert pair.packed and pair.exactly_once and pair.conversion is not None


def test_what_is_added_to_is_written_once_and_converted_last():
    pair = ElementPair.of(Conversion("f32", "i8", beta=1.0))
    assert pair.exactly_once and pair.transposes_first


def test_negative_narrower_elements_are_shuffled_after_the_conversion():
    pair = ElementPair.of(Conversion("f32", "i8"))
    assert not pair.exactly_once and not pair.transposes_first
    assert ElementPair.of(Conversion("i8", "f32")).transposes_first
