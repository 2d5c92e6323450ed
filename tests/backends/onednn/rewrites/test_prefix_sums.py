"""Prefix sums, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_a_tensor(axis: int, exclusive: int, reverse: int, dtype: Any):
    inputs = {"x": numbers((1, 7, 32), 0, -9, 9).astype(dtype)}
    attributes = {"exclusive": exclusive, "reverse": reverse}
    made = model([node("CumSum", ("x", "axis"), "y", **attributes)], inputs, {"axis": np.array(axis)}, "y")
    compare(made, inputs)


def test_negative_what_is_not_finite_reaches_only_what_follows():
    inputs = {"x": np.array([1, 2, np.nan, 4, np.inf, 6], np.float32)}
    made = model([node("CumSum", ("x", "axis"), "y")], inputs, {"axis": np.array(0)}, "y")
    import layout_ir as li

    (found,) = li.compile(made)(inputs)
    np.testing.assert_array_equal(found, [1, 3, np.nan, np.nan, np.nan, np.nan])
