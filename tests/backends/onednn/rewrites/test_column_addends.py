"""Columns and numbers that a Gemm adds, beside ONNX Runtime."""

from __future__ import annotations

import pytest

from tests.backends.onednn.quantized_models import compare, model, node, steps_of
from tests.backends.onednn.small_programs import needs_library, numbers

pytestmark = needs_library


@pytest.mark.parametrize("shape", [(5, 1), (1, 1), (1,), (), (1, 4), (4,), (5, 4)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (-2.0, 0.5), (1.0, 0.0)])
def test_addends_of_all_shapes(shape: tuple[int, ...], alpha: float, beta: float):
    inputs = {"a": numbers((5, 6)), "c": numbers(shape, 1)}
    made = model([node("Gemm", "abc", "y", alpha=alpha, beta=beta)], inputs, {"b": numbers((6, 4), 2)}, "y")
    steps = steps_of(compare(made, inputs), inputs)
    is_row = shape[-1:] == (4,) or not beta
    assert [ops for ops in steps if "nn.gemm" in ops] and (len(steps) == 1 or not is_row)


def test_one_column_is_a_row_as_well():
    inputs = {"a": numbers((5, 6)), "c": numbers((5, 1), 1)}
    compare(model([node("Gemm", "abc", "y")], inputs, {"b": numbers((6, 1), 2)}, "y"), inputs)
