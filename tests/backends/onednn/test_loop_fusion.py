"""Elementwise ops that one loop computes, and those that it must not."""

from __future__ import annotations

import numpy as np
import pytest

import layout_ir as li
from layout_ir.backends.onednn.execution_plan import LoopStep, Owner, PrimitiveStep
from layout_ir.dialects import nn
from layout_ir.errors import LayoutError
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers
from tests.programs import parse

pytestmark = needs_library

SHAPE = (2, 16, 6, 5)


def loops_of(executable: li.Executable) -> list[list[str]]:
    """The ops of each loop."""
    return [list(step.text.ops) for step in executable.plan.steps if isinstance(step, LoopStep)]


@pytest.mark.parametrize("format", [None, "nhwc", "nChw8c"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_tree_of_functions_is_one_loop(format: str | None, threads: int):
    program = Program(SHAPE, SHAPE)
    x, y = (program.argument(k, format) for k in range(2))
    left = program.add(nn.SinOp, x, format=format)
    right = program.add(nn.CosOp, program.add(nn.MulOp, x, y, format=format), format=format)
    z = program.add(nn.SubOp, left, right, format=format)
    executable = compare(program.module(z), numbers(SHAPE), numbers(SHAPE, 1), threads=threads)
    assert loops_of(executable) == [["nn.sin", "nn.mul", "nn.cos", "nn.sub"]]
    assert executable.plan.bytes_not_moved == 6 * 4 * 960


def test_constants_are_broadcast_to_the_loop():
    program = Program(SHAPE)
    x = program.argument(0, "nhwc")
    scale, number = (
        program.constant(numbers((16, 1, 1), 3)),
        program.constant(np.full((1, 1), 0.3, np.float32)),
    )
    y = program.add(nn.MulOp, program.add(nn.SinOp, x, format="nhwc"), scale, format="nhwc")
    z = program.add(nn.MaxOp, y, number, format="nhwc")
    executable = compare(program.module(z), numbers(SHAPE))
    assert loops_of(executable) == [["nn.sin", "nn.mul", "nn.max"]]


def test_ops_for_which_the_library_has_its_reference_alone_are_one_loop():
    # Rotary position embeddings: numbers per position, for values whose heads lie before the positions.
    shape, heads = (1, 32, 4, 8), "(n, w, c, h) : [n, c, h, w]"
    program = Program(shape, shape)
    sides = [
        program.add(
            nn.MulOp,
            program.argument(k, heads),
            program.constant(numbers((1, 32, 1, 8), 3 + k)),
            format=heads,
        )
        for k in range(2)
    ]
    z = program.add(nn.AddOp, *sides, format=heads)
    executable = compare(program.module(z), numbers(shape), numbers(shape, 1))
    assert loops_of(executable) == [["nn.mul", "nn.mul", "nn.add"]]


@pytest.mark.parametrize("axes", [(1,), (3,), (2, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("format", [None, "nhwc", "nChw8c"])
def test_a_reduction_takes_in_the_functions_before_it(format: str | None, axes: tuple[int, ...]):
    program = Program(SHAPE, (2, 16, 1, 1))
    x, mean = program.argument(0, format), program.argument(1)
    apart = program.add(nn.SubOp, x, mean, format=format)
    square = program.add(nn.MulOp, apart, apart, format=format)
    y = program.add(nn.ReduceMeanOp, square, axes=axes, keepdims=0)
    executable = compare(program.module(y), numbers(SHAPE), numbers((2, 16, 1, 1), 1), threads=2)
    assert loops_of(executable) == [["nn.sub", "nn.mul", "nn.reduce_mean"]]
    assert executable.plan.bytes_not_moved == 4 * 4 * 960


def test_negative_a_reduction_that_reads_its_operand_twice_takes_in_nothing():
    program = Program(SHAPE)
    y = program.add(nn.ReduceLogSumExpOp, program.add(nn.SinOp, program.argument(0)), axes=(3,))
    assert loops_of(compare(program.module(y), numbers(SHAPE))) == [["nn.sin"], ["nn.reduce_log_sum_exp"]]


def test_negative_a_function_of_another_shape_than_what_is_reduced_is_computed_before():
    program = Program(SHAPE)
    means = program.add(nn.ReduceMeanOp, program.argument(0), axes=(3,), keepdims=1)
    y = program.add(nn.ReduceMaxOp, program.add(nn.SinOp, means), axes=(1,), keepdims=0)
    assert loops_of(compare(program.module(y), numbers(SHAPE))) == [
        ["nn.reduce_mean"],
        ["nn.sin", "nn.reduce_max"],
    ]


TRANSPOSED = "(n, c, h, w) : [n, c, w, h]"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("keys", [TRANSPOSED, "(n, c, h, w) : [n, w, c, h]"])
def test_few_rows_by_the_transpose_of_a_matrix_are_a_loop(keys: str, rows: int, threads: int):
    left, right = (2, 3, rows, 24), (2, 3, 24, 41)
    program = Program(left, right)
    scores = program.add(nn.MatmulOp, program.argument(0), program.argument(1, keys))
    scaled = program.add(nn.MulOp, scores, program.constant(np.full((), 0.25, np.float32)))
    executable = compare(program.module(scaled), numbers(left), numbers(right, 1), threads=threads)
    assert loops_of(executable) == [["nn.matmul"], ["nn.mul"]]


@pytest.mark.parametrize("columns", [1, 2])
def test_a_matrix_by_few_columns_is_a_loop(columns: int):
    left, right = (2, 3, 41, 24), (2, 3, 24, columns)
    program = Program(left, right)
    y = program.add(nn.MatmulOp, program.argument(0), program.argument(1, TRANSPOSED))
    assert loops_of(compare(program.module(y), numbers(left), numbers(right, 1))) == [["nn.matmul"]]


@pytest.mark.parametrize(
    ("rows", "format", "is_constant"),
    [(1, None, False), (3, TRANSPOSED, False), (1, TRANSPOSED, True)],
    ids=["rows far apart", "three rows", "constant"],
)
def test_negative_other_products_are_primitives(rows: int, format: str | None, is_constant: bool):
    left, right = (2, 3, rows, 24), (2, 3, 24, 41)
    program = Program(left, right)
    matrix = program.constant(numbers(right, 1), format) if is_constant else program.argument(1, format)
    y = program.add(nn.MatmulOp, program.argument(0), matrix)
    assert loops_of(compare(program.module(y), numbers(left), numbers(right, 1))) == []


def test_negative_a_value_that_others_read_is_written():
    program = Program(SHAPE)
    y = program.add(nn.SinOp, program.argument(0))
    z = program.add(nn.CosOp, y)
    executable = compare(program.module(z, program.add(nn.ReduceMaxOp, y, axes=(3,))), numbers(SHAPE))
    assert [ops for ops in loops_of(executable) if ops != ["nn.reduce_max"]] == [["nn.sin"], ["nn.cos"]]


def test_negative_ops_of_another_shape_are_computed_before():
    program = Program((16, 1, 1), SHAPE)
    y = program.add(nn.SinOp, program.argument(0))
    executable = compare(
        program.module(program.add(nn.PowOp, y, program.argument(1))),
        np.abs(numbers((16, 1, 1))) + 0.1, numbers(SHAPE, 1),
    )  # fmt: skip
    assert loops_of(executable) == [["nn.sin"], ["nn.pow"]]


def test_negative_without_fusion_each_op_is_a_step():
    program = Program(SHAPE)
    y = program.add(nn.CosOp, program.add(nn.SinOp, program.argument(0)))
    assert loops_of(compare(program.module(y), numbers(SHAPE), fuse=False)) == [["nn.sin"], ["nn.cos"]]


def test_negative_what_a_convolution_takes_as_post_op_stays_with_it():
    program = Program(SHAPE)
    w = program.constant(numbers((16, 16, 1, 1), 1))
    x = program.add(
        nn.ReluOp, program.add(nn.ConvOp, program.argument(0, "nChw8c"), w, format="nChw8c"), format="nChw8c"
    )
    y = program.add(nn.SinOp, x, format="nChw8c")
    executable = compare(program.module(y), numbers(SHAPE))
    assert loops_of(executable) == [["nn.sin"]]
    assert [len(step.text.ops) for step in executable.plan.steps if isinstance(step, PrimitiveStep)] == [2]


def test_a_loop_writes_over_an_operand_that_nobody_needs_later():
    program = Program(SHAPE)
    x = program.argument(0, "nhwc")
    for _ in range(3):
        x = program.add(nn.SinOp, x, format="nhwc")
    executable = compare(program.module(x), numbers(SHAPE), fuse=False)
    steps = [step for step in executable.plan.steps if isinstance(step, LoopStep)]
    assert all(step.operands[0].buffer is step.result.buffer for step in steps)


def test_negative_a_loop_does_not_write_over_an_operand_that_is_read_in_another_order():
    program = Program((4, 4))
    x = program.add(nn.SinOp, program.argument(0))
    y = program.add(nn.SliceOp, x, starts=(3, 0), sizes=(4, 4), steps=(-1, 1))
    executable = compare(program.module(y), numbers((4, 4)), fuse=False)
    steps = [step for step in executable.plan.steps if isinstance(step, LoopStep)]
    assert steps[-1].operands[0].buffer is not steps[-1].result.buffer
    assert all(step.operands[0].buffer.owner is not Owner.RESULT for step in steps)


@pytest.mark.parametrize("format", [None, "nhwc", "nChw8c"])
@pytest.mark.parametrize("extents", [(1, 16, 1, 1), SHAPE, (5,)])
def test_sums_and_products_are_loops(format: str | None, extents: tuple[int, ...]):
    program = Program(SHAPE, extents)
    other = program.argument(1, format if len(extents) == 4 else None)
    y = program.add(nn.MulOp, program.argument(0, format), other, format=format)
    executable = compare(program.module(y), numbers(SHAPE), numbers(extents, 1))
    assert loops_of(executable) == [["nn.mul"]]


def test_negative_functions_that_the_library_computes_as_fast_are_primitives():
    program = Program(SHAPE)
    executable = compare(program.module(program.add(nn.MishOp, program.argument(0))), numbers(SHAPE))
    assert loops_of(executable) == []


def test_a_mean_that_the_library_computes_element_by_element_is_a_loop():
    program = Program((4, 30, 768))
    executable = compare(
        program.module(program.add(nn.ReduceMeanOp, program.argument(0), axes=(2,))), numbers((4, 30, 768))
    )
    assert loops_of(executable) == [["nn.reduce_mean"]]


def _maximum_and_another(shape: tuple[int, ...]) -> li.Executable:
    program = Program(shape, ())
    top = program.add(nn.ReduceMaxOp, program.argument(0), axes=(0, 1, 2), keepdims=0)
    made = program.module(program.add(nn.MaxOp, top, program.argument(1)))
    return compare(made, numbers(shape), numbers((), 1))


def test_a_maximum_that_the_library_computes_element_by_element_is_a_loop_though_an_op_follows():
    assert ["nn.reduce_max"] in loops_of(_maximum_and_another((50, 1, 40)))


def test_negative_an_op_behind_a_maximum_that_the_library_computes_at_once_stays_with_it():
    [step] = _maximum_and_another((1, 50, 64)).plan.steps
    assert step.text.ops == ("nn.reduce_max", "nn.max")


def test_negative_an_index_that_the_caller_has_wrong_is_an_error_that_names_the_op():
    module = parse(
        "func.func @main(%x: tensor<4x3xf32>, %i: tensor<2xi64>) -> tensor<2x3xf32> {\n"
        "  %y = nn.gather %x, %i : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>\n"
        "  func.return %y : tensor<2x3xf32>\n}"
    )
    executable = compare(module, numbers((4, 3)), np.array([3, -4]))
    with pytest.raises(LayoutError, match=r"index 4 of nn\.gather is outside of its dim"):
        executable([numbers((4, 3)), np.array([3, 4])])
    assert executable([numbers((4, 3)), np.array([0, 1])])[0].shape == (2, 3)
