"""Gathers by one index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.onednn.rewrites.gather_views import replace_gathers
from layout_ir.dialects import nn
from layout_ir.frontends.onnx import from_onnx
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.small_programs import needs_library, numbers


def gathers(made: Any) -> int:
    module = from_onnx(made)
    replace_gathers(module)
    module.verify()
    return sum(isinstance(op, nn.GatherOp) for op in module.walk())


def gathered(index: Any, axis: int) -> tuple[Any, dict[str, Any]]:
    x = {"x": numbers((3, 5, 4))}
    nodes = [node("Neg", ("x",), "n"), node("Gather", ("n", "i"), "g", axis=axis), node("Neg", ("g",), "y")]
    return model(nodes, x, {"i": np.array(index, np.int64)}, "y"), x


@needs_library
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("index", [2, -1, [1]])
def test_a_gather_by_one_index_is_a_view(index: Any, axis: int):
    made, x = gathered(index, axis)
    assert gathers(made) == 0
    executable = compare(made, x)
    assert all("nn.gather" not in time.ops for time in executable.profile(x))


def test_negative_a_gather_by_several_stays():
    made, _ = gathered([2, 0], 1)
    assert gathers(made) == 1
