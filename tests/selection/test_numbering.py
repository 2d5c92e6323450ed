"""An option is checked where it is made."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest

from layout_ir.errors import LayoutError
from layout_ir.selection.numbering import Option


@pytest.mark.parametrize("cost", [0, 1.5, None, inf, np.int64(3), np.float32(0.5), Fraction(1, 3)], ids=repr)
def test_any_number_is_a_cost(cost: Any):
    assert Option(("a",), ["b"], cost).cost == cost


@pytest.mark.parametrize("cost", ["1", "x", (1,), {}], ids=repr)
def test_negative_what_is_no_number_is_no_cost(cost: Any):
    with pytest.raises(LayoutError, match=r"an option costs .* which is no number"):
        Option(("a",), ("b",), cost)
