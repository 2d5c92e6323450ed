"""Activations have torch's values."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.dialects import nn
from tests.dialects.nn.building import value

X = value((2,))
numbers = st.floats(-20, 20) | st.sampled_from([0.0, -0.0, 3.0, -3.0, math.nan])

CASES: list[tuple[nn.UnaryOp, Callable[[torch.Tensor], torch.Tensor]]] = [
    (nn.ReluOp(X), F.relu),
    (nn.LeakyReluOp(X), lambda x: F.leaky_relu(x, 0.01)),
    (nn.LeakyReluOp(X, alpha=-0.3), lambda x: F.leaky_relu(x, -0.3)),
    (nn.EluOp(X), F.elu),
    (nn.EluOp(X, alpha=2.5), lambda x: F.elu(x, 2.5)),
    (nn.SigmoidOp(X), torch.sigmoid),
    (nn.HardSigmoidOp(X, alpha=1 / 6), F.hardsigmoid),
    (nn.HardSwishOp(X), F.hardswish),
    (nn.SoftplusOp(X), lambda x: F.softplus(x, threshold=1000)),
    (nn.GeluOp(X), F.gelu),
    (nn.GeluOp(X, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh")),
    (nn.ClipOp(X), lambda x: x),
    (nn.ClipOp(X, min=-1.0, max=6.0), lambda x: torch.clamp(x, -1, 6)),
    (nn.ClipOp(X, min=6.0, max=-1.0), lambda x: torch.clamp(x, 6, -1)),
]


@pytest.mark.parametrize(("op", "oracle"), CASES)
@given(x=numbers)
def test_scalars_agree_with_torch(op: nn.UnaryOp, oracle: Callable[[torch.Tensor], torch.Tensor], x: float):
    ours = op.apply([x])
    theirs = oracle(torch.tensor(x, dtype=torch.float64)).item()
    if math.isnan(theirs) or math.isnan(ours):
        assert math.isnan(ours) and math.isnan(theirs)
    else:
        assert math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)


def test_large_arguments_do_not_overflow():
    for x in (-1000.0, 1000.0):
        assert nn.SigmoidOp.scalar(x) == (x > 0)
        assert nn.SoftplusOp.scalar(x) == max(x, 0)
        assert nn.EluOp.scalar(-1000.0, 1.0) == -1.0
