"""Shapes that broadcast, and integer division, beside NumPy and Python."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from layout_ir.elements.elementwise_formulas import broadcast, divide
from layout_ir.errors import LayoutError

SHAPES = [(), *((n,) for n in range(3)), *product(range(3), repeat=2)]


@pytest.mark.parametrize(("a", "b"), list(product(SHAPES, repeat=2)))
def test_shapes_broadcast_as_in_numpy(a: tuple[int, ...], b: tuple[int, ...]):
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(LayoutError, match="do not broadcast"):
            broadcast(a, b)
    else:
        assert broadcast(a, b) == expected


def test_integer_quotients_are_cut_off_towards_zero():
    pairs = [(x, y) for x in range(-7, 8) for y in range(-3, 4) if y]
    x, y = (np.array(numbers, np.int32) for numbers in zip(*pairs, strict=True))
    quotients = divide(np, x, y)
    assert quotients.dtype == np.int32
    assert quotients.tolist() == [int(one / other) for one, other in pairs]
