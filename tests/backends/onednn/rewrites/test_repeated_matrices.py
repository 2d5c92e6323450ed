"""Products by matrices that are repeated for several heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.onednn.rewrites.repeated_matrices import share_repeated_matrices
from layout_ir.dialects import nn
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.frontends.onnx import from_onnx
from tests.backends.onednn.quantized_models import compare, model, node
from tests.backends.onednn.small_programs import needs_library, numbers

Shape = tuple[int, ...]


def attention(
    queries: Shape, keys: Shape, wide: Shape | None, shape: Shape | None, *, turned: bool = False
) -> tuple[Any, dict[str, Any]]:
    """A product of queries by keys, or by their transposes, that are expanded to `wide` and reshaped to `shape`."""
    inputs = {"q": numbers(queries), "k": numbers(keys, 1)}
    nodes = [node("Neg", ("k",), "b")]
    constants: dict[str, Any] = {}
    for operator, extents in (("Expand", wide), ("Reshape", shape)):
        if extents is not None:
            constants[f"to{len(nodes)}"] = np.array(extents, np.int64)
            nodes.append(node(operator, (nodes[-1].output[0], f"to{len(nodes)}"), f"b{len(nodes)}"))
    last = nodes[-1].output[0]
    if turned:
        rank = len(shape or wide or keys)
        order = [*range(rank - 2), rank - 1, rank - 2]
        nodes.append(node("Transpose", (last,), "t", perm=order))
        last = "t"
    nodes.append(node("MatMul", ("q", last), "y"))
    return model(nodes, inputs, constants, "y"), inputs


def left(made: Any) -> list[tuple[Shape, Shape]]:
    """The shapes of the operands of what products are left, and that no matrix is repeated."""
    module = from_onnx(made)
    share_repeated_matrices(module)
    module.verify()
    ops = list(module.walk())
    assert not any(isinstance(op, nn.ExpandOp) for op in ops)
    return [(shape_of(op.a), shape_of(op.b)) for op in ops if isinstance(op, nn.MatmulOp)]


@needs_library
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
def test_heads_that_share_a_matrix_are_rows_of_one_product(rows: int, turned: bool):
    last = (5, 7) if turned else (7, 5)
    made, inputs = attention(
        (2, 6, rows, 7), (2, 3, 1, *last), (2, 3, 2, *last), (2, 6, *last), turned=turned
    )
    assert left(made) == [((2, 3, 2 * rows, 7), (2, 3, 7, 5))]
    compare(made, inputs)


@needs_library
@pytest.mark.parametrize("turned", [False, True])
def test_all_heads_share_one_matrix(turned: bool):
    last = (5, 7) if turned else (7, 5)
    for wide in ((2, 6, *last), None):
        made, inputs = attention((2, 6, 3, 7), (2, 1, *last), wide, None, turned=turned)
        assert left(made) == [((2, 1, 18, 7), (2, 1, 7, 5))]
        compare(made, inputs)


@pytest.mark.parametrize(
    ("keys", "wide", "shape"),
    [
        ((2, 1, 3, 7, 5), (2, 2, 3, 7, 5), (2, 6, 7, 5)),  # the heads one behind the other, and again
        ((2, 3, 1, 7, 1), (2, 3, 2, 7, 5), (2, 6, 7, 5)),  # columns are repeated, too
        ((1, 6, 7, 5), (2, 6, 7, 5), None),
        ((2, 3, 1, 7, 5), (2, 3, 2, 7, 5), (2, 6, 5, 7)),
    ],
)
def test_negative_what_is_repeated_otherwise_stays(keys: Shape, wide: Shape, shape: Shape | None):
    width = (shape or wide)[-2]
    made, inputs = attention((2, 6, 3, width), keys, wide, shape)
    module = from_onnx(made)
    share_repeated_matrices(module)
    assert sum(isinstance(op, nn.ExpandOp) for op in module.walk()) == 1
    compare(made, inputs)
