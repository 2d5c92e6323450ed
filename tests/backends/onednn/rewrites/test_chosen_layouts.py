"""Windows in layouts that the library has no kernels for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn.library import library
from layout_ir.backends.onednn.op_group import single_op_group
from layout_ir.backends.onednn.op_primitives.primitive_operands import Values
from layout_ir.backends.onednn.rewrites.chosen_layouts import move_ops_without_kernels
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp
from tests.backends.onednn.small_programs import BLOCKED, Program, compare, needs_library, numbers

pytestmark = needs_library

NOWHERE = "#layout.format<(n, c, h, w) : [n, h, c, w]>"
"""No CPU has kernels for it."""

PLAIN = "#layout.format<(n, c, h, w) : [n, c, h, w]>"


def program(layout: str, op: str) -> Any:
    weights = np.asarray(numbers((8, 1, 3, 3), 1), np.float32).tobytes().hex()
    x, w = f"tensor<2x8x6x5xf32, {layout}>", "tensor<8x1x3x3xf32>"
    y = f"tensor<2x8x1x1xf32, {layout}>" if op == "global pool" else x
    ops = {
        "conv": f"nn.conv %x, %w pads = [1, 1, 1, 1] group = 8 : ({x}, {w}) -> {x}",
        "pool": f"nn.max_pool %x kernel = [3, 3] pads = [1, 1, 1, 1] : ({x}) -> {x}",
        "global pool": f"nn.global_max_pool %x : ({x}) -> {y}",
    }
    return li.parse(f"""func.func @main(%x: {x}) -> {y} {{
      %w = nn.constant dense<"0x{weights}"> : {w}
      %y = {ops[op]}
      func.return %y : {y}
    }}""")


def moved(module: Any) -> list[str]:
    """The names of the ops behind the rule."""
    [function] = [op for op in module.walk() if op.name == "func.func"]
    move_ops_without_kernels(function, library())
    module.verify()
    return [op.name for op in function.body.block.ops if not isinstance(op, nn.ConstantOp)]


def test_windows_without_a_kernel_run_between_reorders():
    module = program(NOWHERE, "conv")
    x = numbers((2, 8, 6, 5))
    (expected,) = li.run(module, [x])
    names = moved(module)
    assert names[0] == names[2] == ReorderOp.name and len(names) == 4
    inner = next(each for each in module.walk() if isinstance(each, nn.ConvOp))
    assert single_op_group(inner, Values(library())).primitive is not None
    (found,) = li.run(module, [x])
    np.testing.assert_allclose(found, expected, atol=1e-6)


SHAPE = 2, 17, 6, 5


@pytest.mark.parametrize("layout", ["(n, c, h, w) : [n, h, c, w]", "nChw32c", "nChw4c", "nChw16c"])
def test_convolutions_and_pools_need_no_reference_whatever_the_layout(layout: str):
    program = Program(SHAPE)
    x = program.argument(0, layout)
    x = program.add(nn.ConvOp, x, program.constant(numbers((16, 17, 3, 3), 1)), format=layout)
    x = program.add(nn.ReluOp, x, format=layout)
    compare(program.module(program.add(nn.MaxPoolOp, x, kernel=(2, 2), format=layout)), numbers(SHAPE))


def test_products_need_no_reference_whatever_the_layout():
    program = Program((6, 10), (10, 9))
    blocks = "(m, k) : [k, m, k:4], pad = zero"
    a, b = (program.argument(number, blocks) for number in (0, 1))
    y = program.add(nn.MatmulOp, a, b, format=blocks)
    compare(program.module(y), numbers((6, 10)), numbers((10, 9), 1))


@pytest.mark.parametrize("layout", [BLOCKED, "nhwc", "nchw"])
def test_negative_a_layout_with_a_kernel_is_kept(layout: str):
    program = Program(SHAPE)
    x = program.argument(0, layout)
    module = program.module(
        program.add(nn.ConvOp, x, program.constant(numbers((16, 17, 3, 3), 1)), format=layout)
    )
    before = str(module)
    moved(module)
    assert str(module) == before


LAST = "#layout.format<(n, c, h, w) : [n, h, w, c]>"


@pytest.mark.parametrize(("layout", "op"), [(PLAIN, "conv"), (LAST, "pool"), (PLAIN, "pool")])
def test_negative_windows_with_a_kernel_stay_where_they_are(layout: str, op: str):
    assert len(moved(program(layout, op))) == 2


def is_vectorized(module: Any) -> bool:
    """Whether the library has a kernel of whole registers for the pool as it stands."""
    pool = next(each for each in module.walk() if isinstance(each, nn.GlobalMaxPoolOp))
    descriptor = single_op_group(pool, Values(library())).descriptor
    assert descriptor is not None
    return descriptor.is_vectorized


def test_a_pool_that_would_take_element_after_element_runs_between_reorders():
    module = program(PLAIN, "global pool")
    x = numbers((2, 8, 6, 5))
    (expected,) = li.run(module, [x])
    slow = not is_vectorized(module)  # with AVX2, and not with AVX-512
    names = moved(module)
    assert [name == ReorderOp.name for name in names] == (
        [True, False, True, False] if slow else [False, False]
    )
    assert is_vectorized(module)
    np.testing.assert_array_equal(li.run(module, [x])[0], expected)


def test_negative_windows_that_have_no_kernel_in_any_layout_stay_where_they_are():
    x, y = (f"tensor<{shape}xf64, {NOWHERE}>" for shape in ("2x8x6x5", "2x8x1x1"))
    module = li.parse(f"""func.func @main(%x: {x}) -> {y} {{
      %y = nn.global_max_pool %x : ({x}) -> {y}
      func.return %y : {y}
    }}""")
    assert len(moved(module)) == 2


@pytest.mark.parametrize(
    ("channels", "axis", "layout"),
    [((24, 24), 1, "nChw16c"), ((24, 3), 1, "nChw16c"), ((16, 8), 1, "nChw16c"), ((5, 5), 2, "nChw16c")],
)
def test_concats_need_no_reference_where_parts_begin_within_blocks(
    channels: tuple[int, int], axis: int, layout: str
):
    outer, inner = (2, 5, 6, 4)[:axis], (2, 5, 6, 4)[axis + 1 :]
    shapes = [(*outer, count, *inner) for count in channels]
    program = Program(*shapes)
    parts = [program.add(nn.ReluOp, program.argument(k, layout), format=layout) for k in range(2)]
    joined = program.add(nn.ConcatOp, *parts, axis=axis, format=layout)
    compare(program.module(joined), *(numbers(shape, k) for k, shape in enumerate(shapes)))


def test_concats_of_more_dims_than_pictures_have_need_no_reference_either():
    blocks = "(n, c, a, b, d, e) : [n, c, a, b, d, e, c:8], pad = zero"
    shapes = [(1, 12, count, 3, 2, 2) for count in (1, 2)]
    program = Program(*shapes)
    parts = [program.add(nn.ReluOp, program.argument(k, blocks), format=blocks) for k in range(2)]
    joined = program.add(nn.ConcatOp, *parts, axis=2, format=blocks)
    compare(program.module(joined), *(numbers(shape, k) for k, shape in enumerate(shapes)))


def test_negative_a_concat_of_whole_blocks_stays():
    program = Program((2, 16, 5, 4), (2, 32, 5, 4))
    parts = [program.argument(number, "nChw16c") for number in range(2)]
    joined = program.add(nn.ConcatOp, *parts, axis=1, format="nChw16c")
    module = program.module(joined)
    before = [op.name for op in module.walk()]
    moved(module)
    assert [op.name for op in module.walk()] == before
