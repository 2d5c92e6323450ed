"""A splat is the same bits everywhere, wherever the first difference would be."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.elements.splats import is_splat


@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize("count", [1, 2, 64, 65, 300_000])
def test_equal_elements_are_a_splat(size: int, count: int):
    assert is_splat(bytes(range(1, size + 1)) * count, size)


@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize("position", [1, 63, 64, 299_999])
def test_negative_one_other_element_is_found_anywhere(size: int, position: int):
    data = bytearray(bytes(range(1, size + 1)) * 300_000)
    data[position * size] ^= 1
    assert not is_splat(bytes(data), size)


def test_negative_equal_values_of_other_bits_and_no_elements_are_no_splat():
    assert not is_splat(np.array([0.0, -0.0], np.float32).tobytes(), 4)
    assert not is_splat(b"", 4)
