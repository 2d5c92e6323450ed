"""A factor is checked where it is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError


def test_numbers_of_any_kind_make_the_same_factor():
    assert Factor(np.int64(1), np.int32(8), np.int8(2)) == Factor(1, 8, 2)  # pyright: ignore[reportArgumentType]
    made = Format(("a",), (Factor(np.int64(0), np.int64(4)),))  # pyright: ignore[reportArgumentType]
    assert type(made.factors[0].size) is int


def test_a_stride_may_be_anything():
    assert [Factor(0, 4, stride).stride for stride in (-3, 0, None)] == [-3, 0, None]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (("n",), r"^dim of a factor = 'n' is no integer$"),
        ((None,), r"^dim of a factor = None is no integer$"),
        ((0.0,), r"^dim of a factor = 0.0 is no integer$"),
        ((-1,), r"^a factor refers to dim -1, "),
        ((0, "8"), r"^size of a factor = '8' is no integer$"),
        ((0, -2), r"^a factor of dim 0 has size -2, "),
        ((2, 0), r"^a factor of dim 2 has size 0, "),
        ((0, 8, 1.5), r"^stride of a factor = 1.5 is no integer$"),
    ],
    ids=str,
)
def test_negative_what_is_no_factor_is_named(numbers: tuple[Any, ...], message: str):
    with pytest.raises(LayoutError, match=message):
        Factor(*numbers)
