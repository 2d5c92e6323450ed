"""Booleans eight to a byte, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.elements.packed_bits import unpacked_bits


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 16, 101, 1000])
def test_bits_are_those_of_numpy_lowest_first(count: int):
    booleans = np.random.default_rng(count).integers(0, 2, count).astype(bool)
    bits = np.packbits(booleans, bitorder="little").tobytes()
    if bits not in (b"\x00", b"\xff"):
        assert unpacked_bits(bits, count) == (booleans * np.uint8(255)).tobytes()


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_a_byte_of_one_bit_stands_for_all(byte: bytes):
    assert unpacked_bits(byte, 8) == unpacked_bits(byte, 200) == byte


def test_negative_a_byte_for_each_stays():
    booleans = bytes([0, 255, 1, 0, 255, 0, 0, 1, 1])
    assert unpacked_bits(booleans, len(booleans)) == booleans
    assert unpacked_bits(b"\x00\x01\x02", 9) == b"\x00\x01\x02"
