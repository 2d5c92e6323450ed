"""Pads in front of convolutions and pools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.backends.onednn.rewrites.pad_folding import fold_pads
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

LOWEST = float(np.finfo(np.float32).min)
SHAPE = 2, 7, 6, 3
AROUND: dict[str, Any] = {"pads": (0, 1, 0, 0, 0, 0, 2, 0)}
"""A row before and two columns behind, of (N, H, W, C)."""


def padded(op: Any, weights: list[Any], attributes: dict[str, Any], pad: dict[str, Any]) -> ModuleOp:
    """A window op behind a pad on channels last, with a transposition in between."""
    program = Program(SHAPE)
    x = program.insert(nn.NegOp(program.arguments[0]))
    x = program.insert(nn.PadOp(x, **(AROUND | pad)))
    x = program.insert(PermuteOp(x, (0, 3, 1, 2)))
    more = [program.constant(numbers(shape, 1)) for shape in weights]
    return program.module(program.insert(op(x, *more, **attributes)))


def pads_left(module: ModuleOp) -> int:
    folded = module.clone()
    fold_pads(folded)
    folded.verify()
    return sum(isinstance(op, nn.PadOp) for op in folded.walk())


@needs_library
@pytest.mark.parametrize(
    ("op", "weights", "attributes", "value"),
    [
        (nn.ConvOp, [(4, 3, 3, 2), (4,)], {"pads": (1, 0, 0, 1), "strides": (2, 1)}, 0.0),
        (nn.AvgPoolOp, [], {"kernel": (3, 3), "strides": (1, 2)}, 0.0),
        (nn.AvgPoolOp, [], {"kernel": (3, 3), "pads": (1, 1, 0, 0), "count_include_pad": True}, 0.0),
        (nn.MaxPoolOp, [], {"kernel": (3, 3)}, LOWEST),
        (nn.MaxPoolOp, [], {"kernel": (3, 3)}, -np.inf),
    ],
)
def test_a_pad_is_that_of_the_window_op(
    op: Any, weights: list[Any], attributes: dict[str, Any], value: float
):
    module = padded(op, weights, attributes, {"value": value})
    assert pads_left(module) == 0
    compare(module, numbers(SHAPE))


@pytest.mark.parametrize(
    ("op", "weights", "attributes", "pad"),
    [
        (nn.ConvOp, [(4, 3, 3, 2)], {}, {"value": 1.0}),
        (nn.ConvOp, [(4, 3, 3, 2)], {}, {"mode": "reflect"}),
        (nn.ConvOp, [(4, 3, 3, 2)], {}, {"pads": (0, -1, 0, 0, 0, 0, 0, 0)}),
        (nn.ConvOp, [(4, 4, 3, 2)], {}, {"pads": (0, 0, 0, 1, 0, 0, 0, 0)}),
        (nn.AvgPoolOp, [], {"kernel": (3, 3), "pads": (1, 1, 0, 0)}, {}),
        (nn.AvgPoolOp, [], {"kernel": (3, 3), "ceil_mode": True, "strides": (2, 2)}, {}),
        (nn.MaxPoolOp, [], {"kernel": (3, 3)}, {}),
        (nn.MaxPoolOp, [], {"kernel": (3, 2)}, {"value": LOWEST}),  # a window on two columns of pads
    ],
)
def test_negative_a_pad_that_the_op_would_read_otherwise_stays(
    op: Any, weights: list[Any], attributes: dict[str, Any], pad: dict[str, Any]
):
    assert pads_left(padded(op, weights, attributes, pad)) == 1
