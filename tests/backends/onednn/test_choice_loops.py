"""Loops of ops that choose elements against the reference, and what an index may not be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.algebra.format import Format
from layout_ir.backends.reference.semantics import layout_at_run_time
from layout_ir.backends.reference.tensor import Tensor
from layout_ir.dialects import nn
from layout_ir.elements.numpy_types import storage
from layout_ir.errors import LayoutError
from tests.backends.onednn.loop_cases import check_op, make_op, random_format, run_loop, values_of


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8", "i64", "i1"])
def test_ops_that_choose_elements(dtype: str):
    rng = np.random.default_rng(7)
    shape = (3, 10, 7)
    cases: list[tuple[Any, dict[str, Any]]] = [
        (nn.SliceOp, {"starts": (2, 8, 1), "sizes": (3, 3, 2), "steps": (-1, -2, 3)}),
        (nn.TileOp, {"repeats": (2, 1, 3)}),
        (nn.PadOp, {"pads": (1, 0, 2, 0, 3, 1), "value": 1.0}),
        (nn.PadOp, {"pads": (1, -2, 2, 0, 3, -1), "value": 1.0}),
        (nn.PadOp, {"pads": (0, 2, 2, 0, 3, 1), "mode": "reflect"}),
        (nn.PadOp, {"pads": (2, 2, 0, 0, 3, 9), "mode": "edge"}),
        (nn.PadOp, {"pads": (0, 2, 2, 4, 3, 1), "mode": "wrap"}),
    ]
    if dtype != "i1":
        cases.append((nn.ResizeOp, {"sizes": (6, 5, 7), "mode": "nearest"}))
    for op, attributes in cases:
        made = make_op(
            op, [shape], [dtype], [random_format(rng, 3)], random_format(rng, 3, pad="zero"), **attributes
        )
        check_op(made, [values_of(rng, shape, dtype)], exact=True, threads=2)


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gathers_by_constants_and_by_operands(rank: int, axis: int):
    rng = np.random.default_rng(rank)
    shape = (6, 11, 20)
    indices_shape = (5, 3)[:rank]
    for dtype in ("i32", "i64"):
        indices = rng.integers(-shape[axis], shape[axis], indices_shape).astype(storage(dtype))
        for constants in ({}, {1: indices}):
            formats = [random_format(rng, 3), random_format(rng, rank)]
            if constants:
                formats[1] = Format.row_major(formats[1].names)
            made = make_op(
                nn.GatherOp, [shape, indices_shape], ["f32", dtype], formats, random_format(rng, 2 + rank),
                constants=constants, axis=axis,
            )  # fmt: skip
            check_op(made, [values_of(rng, shape, "f32"), indices], exact=True, threads=2)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("wrong", [-5, 4, 1 << 40])
def test_negative_an_index_outside_of_its_dim_is_an_error_and_reads_nothing(axis: int, wrong: int):
    made = make_op(nn.GatherOp, [(4, 4), (3,)], ["f32", "i64"], [None, None], axis=axis)
    x = np.arange(16, dtype=np.float32)
    tensors = [
        Tensor(x, layout_at_run_time(made.operands[0].type), "f32"),
        Tensor(np.array([0, wrong, 1]), layout_at_run_time(made.operands[1].type), "i64"),
    ]
    with pytest.raises(LayoutError, match=f"index {wrong} of .* is outside of its dim"):
        run_loop(made, tensors)
