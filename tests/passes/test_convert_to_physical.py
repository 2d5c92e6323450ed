"""The physical program computes what the program before it computes, on tensors without encodings."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, NoneAttr

from layout_ir.api.execute import run
from layout_ir.dialects.layout import ReorderOp, is_tensor
from layout_ir.passes.convert_to_physical import convert_to_physical
from layout_ir.passes.optimize_pipeline import optimize
from tests.passes.programs import random_program
from tests.programs import TARGETS


def _check_physical(module: ModuleOp) -> None:
    """Every tensor is dense and row-major, and no reorder is left but those that convert elements."""
    module.verify()
    for op in module.walk():
        values = [
            *op.results,
            *(arg for region in op.regions for block in region.blocks for arg in block.args),
        ]
        for value in values:
            assert not is_tensor(value.type) or isinstance(value.type.encoding, NoneAttr), value
        assert not isinstance(op, ReorderOp) or not op.keeps_elements


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_compute_the_same_as_physical_programs(seed: int, target: str):
    module, shape = random_program(300 + seed, 10)
    optimize(module, target)
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    want = run(module, [x], reorders="reference")
    convert_to_physical(module)
    _check_physical(module)
    for got, expected in zip(run(module, [x], reorders="reference"), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
