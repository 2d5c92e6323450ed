"""What is asked of the library for any op: in other element types, with pads, without elements; concats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.dialects import nn
from layout_ir.elements.numpy_types import narrow
from tests.backends.onednn.small_programs import HALF, LAYOUTS, Program, compare, needs_library, numbers

pytestmark = needs_library

LEAVING_ZEROS: list[tuple[Any, dict[str, Any]]] = [
    (nn.MaxPoolOp, {"kernel": (2, 2)}), (nn.AvgPoolOp, {"kernel": (3, 3), "pads": (1, 1, 1, 1)}),
    (nn.GlobalAvgPoolOp, {}), (nn.SoftmaxOp, {"axis": 2}), (nn.LrnOp, {"size": 3}), (nn.TanhOp, {}),
    (nn.ResizeOp, {"scales": (1.0, 1.0, 2.0, 2.0), "coordinates": "asymmetric", "nearest_mode": "floor"}),
    (nn.BatchNormOp, {}), (nn.ConvOp, {}), (nn.MulOp, {}), (nn.AddOp, {}),
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("axis", "parts"), [(1, (16, 32)), (2, (3, 1, 2)), (1, (16, 16, 16))])
def test_a_concat(layout: str, axis: int, parts: tuple[int, ...]):
    shapes = [
        tuple(part if d == axis else extent for d, extent in enumerate((2, 16, 4, 5))) for part in parts
    ]
    program = Program(*shapes)
    values = [program.argument(k, layout) for k in range(len(parts))]
    y = program.add(nn.ConcatOp, *values, axis=axis, format=layout)
    compare(program.module(y), *(numbers(shape, k) for k, shape in enumerate(shapes)))


def test_negative_other_elements_than_floats_run_by_a_loop():
    from tests.programs import parse

    module = parse(
        "func.func @main(%x: tensor<3x5xi32>) -> tensor<3x5xi32> {\n"
        "  %y = nn.relu %x : tensor<3x5xi32>\n  func.return %y : tensor<3x5xi32>\n}"
    )
    compare(module, np.arange(-7, 8, dtype=np.int32).reshape(3, 5))


def test_negative_tensors_without_elements_run_by_a_loop():
    program = Program((0, 5))
    y = program.add(nn.ReluOp, program.argument(0))
    compare(program.module(y), numbers((0, 5)))


@pytest.mark.parametrize(("op", "attributes"), LEAVING_ZEROS, ids=lambda v: getattr(v, "name", None))
@pytest.mark.parametrize("layout", ["nChw8c", "nChw16c"])
def test_pads_that_a_type_promises_to_be_zero_are(op: Any, attributes: dict[str, Any], layout: str):
    """A convolution multiplies them: were one NaN, so were its result."""
    program = Program((2, 17, 6, 5))
    x = program.argument(0, layout)
    more: list[Any] = []
    if op is nn.BatchNormOp:
        more = [program.constant(numbers((17,), k, 0.5, 2.0)) for k in range(4)]
    elif op is nn.ConvOp:
        more = [program.constant(numbers((17, 17, 3, 3), 1, -0.1, 0.1)), program.constant(numbers((17,), 2))]
    elif op in (nn.MulOp, nn.AddOp):
        more = [program.argument(0, layout)]
    y = program.add(op, x, *more, format=layout, **attributes)
    z = program.add(nn.ConvOp, y, program.constant(numbers((16, 17, 1, 1), 3)), format=layout)
    compare(program.module(z), numbers((2, 17, 6, 5)))


@HALF
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    ("op", "operands", "attributes"),
    [
        (nn.ConvOp, [(19, 17, 3, 3), (19,)], {"pads": (1, 1, 1, 1)}),
        (nn.ConvOp, [(17, 1, 3, 3)], {"group": 17}),
        (nn.ConvTransposeOp, [(17, 6, 2, 2)], {"strides": (2, 2)}),
        (nn.MaxPoolOp, [], {"kernel": (3, 2)}),
        (nn.AvgPoolOp, [], {"kernel": (2, 3)}),
        (nn.BatchNormOp, [(17,)] * 4, {}),
        (nn.GeluOp, [], {}),
        (nn.AddOp, [(17, 1, 1)], {}),
    ],
)
def test_ops_on_bf16(layout: str, op: Any, operands: list[Any], attributes: dict[str, Any]):
    program = Program((2, 17, 9, 8), dtype="bf16")
    more = [program.constant(numbers(shape, k + 1, 0.1, 0.5)) for k, shape in enumerate(operands)]
    y = program.add(op, program.argument(0, layout), *more, format=layout, **attributes)
    compare(program.module(y), narrow(numbers((2, 17, 9, 8)), "bf16"))
