"""Which ops join the one before them, and that the result is the same."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from layout_ir.backends.onednn.library import library
from layout_ir.dialects import nn
from layout_ir.elements.numpy_types import narrow
from tests.backends.onednn.small_programs import BLOCKED, Program, compare, needs_library, numbers, steps

pytestmark = needs_library

SHAPE = (2, 16, 6, 5)


def convolution(program: Program, x: Any, seed: int = 1, layout: str = "nhwc") -> Any:
    """A 3x3 convolution of 16 channels with a bias, of the shape of its operand."""
    w = program.constant(numbers((16, 16, 3, 3), seed, -0.2, 0.2))
    b = program.constant(numbers((16,), seed + 50))
    return program.add(nn.ConvOp, x, w, b, pads=(1, 1, 1, 1), format=layout)


@pytest.mark.parametrize("layout", ["nhwc", BLOCKED])
@pytest.mark.parametrize(
    ("op", "attributes"),
    [(nn.ReluOp, {}), (nn.ClipOp, {"min": 0.0, "max": 6.0}), (nn.SigmoidOp, {}), (nn.GeluOp, {})],
)
def test_an_activation_joins_a_convolution(layout: str, op: Any, attributes: dict[str, Any]):
    program = Program(SHAPE)
    y = program.add(
        op, convolution(program, program.argument(0, layout), layout=layout), format=layout, **attributes
    )
    executable = compare(program.module(y), numbers(SHAPE))
    assert steps(executable, numbers(SHAPE)) == [("nn.conv", op.name)]


def test_a_residual_is_added_where_it_lies():
    """relu(conv(relu(x)) + relu(x)): nobody needs the first relu later."""
    program = Program(SHAPE)
    x = program.add(nn.ReluOp, program.argument(0, "nhwc"), format="nhwc")
    first = convolution(program, x)
    second = convolution(program, first, 2)
    z = program.add(nn.AddOp, second, x, format="nhwc")
    executable = compare(program.module(program.add(nn.ReluOp, z, format="nhwc")), numbers(SHAPE))
    assert steps(executable, numbers(SHAPE)) == [("nn.relu",), ("nn.conv",), ("nn.conv", "nn.add", "nn.relu")]
    assert "bytes not moved" in executable.describe()


def test_a_residual_that_is_needed_later_is_kept():
    program = Program(SHAPE)
    x = program.add(nn.ReluOp, program.argument(0, "nhwc"), format="nhwc")
    z = program.add(nn.AddOp, convolution(program, convolution(program, x), 2), x, format="nhwc")
    w = program.add(nn.MulOp, z, x, format="nhwc")
    compare(program.module(w), numbers(SHAPE))


def test_a_residual_that_the_convolution_reads_itself_is_kept():
    program = Program(SHAPE)
    x = program.add(nn.ReluOp, program.argument(0, "nhwc"), format="nhwc")
    z = program.add(nn.AddOp, convolution(program, x), x, format="nhwc")
    compare(program.module(z), numbers(SHAPE))


def test_a_residual_that_a_later_group_reads_is_kept():
    """conv(x) and its activations stand, as one step, behind the sum that could have been written over x."""
    program = Program(SHAPE)
    x = program.add(nn.ReluOp, program.argument(0, "nhwc"), format="nhwc")
    main = convolution(program, program.argument(0, "nhwc"))
    side = convolution(program, x, 2)
    z = program.add(nn.AddOp, main, x, format="nhwc")
    late = program.add(nn.ReluOp, side, format="nhwc")
    compare(program.module(z, late), numbers(SHAPE))


def test_two_branches_that_are_added_join_one_of_them():
    program = Program(SHAPE)
    x = program.argument(0, "nhwc")
    z = program.add(nn.AddOp, convolution(program, x), convolution(program, x, 2), format="nhwc")
    executable = compare(program.module(program.add(nn.ReluOp, z, format="nhwc")), numbers(SHAPE))
    assert sorted(steps(executable, numbers(SHAPE)), key=len) == [
        ("nn.conv",),
        ("nn.conv", "nn.add", "nn.relu"),
    ]


def test_a_sum_of_many_convolutions_takes_the_memory_of_one():
    """Each is computed on top of those before it."""
    arenas: list[int] = []
    for branches in (2, 6):
        program = Program(SHAPE)
        x = program.argument(0, "nhwc")
        z = convolution(program, x)
        for seed in range(2, branches + 1):
            z = program.add(nn.AddOp, z, convolution(program, x, seed), format="nhwc")
        executable = compare(program.module(z), numbers(SHAPE))
        added = (branches - 1) * [("nn.conv", "nn.add")]
        assert steps(executable, numbers(SHAPE)) == [("nn.conv",), *added]
        arenas.append(executable.plan.arena.size)
    assert arenas[0] == arenas[1]


@pytest.mark.parametrize("again", [0, 1])
def test_negative_what_is_added_and_used_again_is_not_written_over(again: int):
    program = Program(SHAPE)
    x = program.argument(0, "nhwc")
    branches = convolution(program, x), convolution(program, x, 2)
    z = program.add(nn.AddOp, *branches, format="nhwc")
    compare(program.module(program.add(nn.MulOp, z, branches[again], format="nhwc")), numbers(SHAPE))


def test_negative_a_convolution_by_unrolled_windows_takes_no_post_ops():
    """It would apply them to one element after the other; the residual and its activation are one primitive instead."""
    program = Program(SHAPE)
    x = program.argument(0)
    w = program.constant(numbers((16, 4, 3, 3), 1))
    y = program.add(nn.ConvOp, x, w, group=4, pads=(1, 1, 1, 1))
    y = program.add(nn.ReluOp, program.add(nn.AddOp, y, x))
    executable = compare(program.module(y), numbers(SHAPE))
    profile = executable.profile([numbers(SHAPE)])
    assert [time.ops for time in profile] == [("nn.conv",), ("nn.add", "nn.relu")]
    assert "gemm" in profile[0].implementation


def swish_of_a_convolution(size: int, dtype: str = "f32") -> tuple[list[tuple[str, ...]], tuple[int, ...]]:
    """The ops of each step of a swish behind a convolution to 16 channels of `size` pixels each way."""
    shape = 1, 16, size, size
    program = Program(shape, dtype=dtype)
    y = convolution(program, program.argument(0, "nhwc"))
    y = program.add(nn.SwishOp, y, format="nhwc")
    x = narrow(numbers(shape), dtype)
    return steps(compare(program.module(y), x), x), shape


def test_a_function_that_the_library_is_slow_at_is_a_loop_behind_the_convolution():
    found, shape = swish_of_a_convolution(32)
    assert prod(shape) >= 4096 and ("nn.conv",) in found and ("nn.swish",) in found


@pytest.mark.parametrize(("size", "dtype"), [(8, "f32"), (32, "bf16")])
def test_negative_small_results_and_half_floats_keep_it_as_a_post_op(size: int, dtype: str):
    if not library().computes(dtype):
        pytest.skip(f"the library does not compute in {dtype} here")
    found, _ = swish_of_a_convolution(size, dtype)
    assert ("nn.conv", "nn.swish") in found


@pytest.mark.parametrize("op", [nn.ReluOp, nn.GeluOp, nn.MishOp])
@pytest.mark.parametrize("rows", [4, 256])
def test_functions_join_products_where_that_is_no_second_pass(op: Any, rows: int):
    program = Program((rows, 24))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((24, 64), 1)))
    y = program.add(op, y)
    x = numbers((rows, 24))
    profile = compare(program.module(y), x).profile([x])
    apart = profile[0].implementation.startswith("gemm") and rows * 64 >= 4096
    assert len(profile) == (2 if apart else 1)


@pytest.mark.parametrize("addend", [(6,), (1, 1, 6), (), (2, 3, 6)])
def test_an_addend_and_an_activation_join_a_product(addend: tuple[int, ...]):
    program = Program((2, 3, 8))
    y = program.add(nn.MatmulOp, program.argument(0), program.constant(numbers((8, 6), 1)))
    y = program.add(nn.AddOp, y, program.constant(numbers(addend, 2)))
    y = program.add(nn.GeluOp, y)
    executable = compare(program.module(y), numbers((2, 3, 8)))
    expected = [("nn.matmul", "nn.add", "nn.gelu")] if addend != (2, 3, 6) else None
    assert expected is None or steps(executable, numbers((2, 3, 8))) == expected


@pytest.mark.parametrize("layout", ["nchw", "nhwc", "nChw8c"])
@pytest.mark.parametrize("op", [nn.MaxPoolOp, nn.AvgPoolOp])
@pytest.mark.parametrize("other", [SHAPE, (1, 16, 6, 1), (6, 5)])
def test_negative_no_tensor_joins_a_pool(op: Any, layout: str, other: tuple[int, ...]):
    program = Program(SHAPE, SHAPE)
    y = program.add(op, program.argument(0, layout), kernel=(1, 1), format=layout)
    second = program.argument(1, layout) if other == SHAPE else program.constant(numbers(other, 3))
    y = program.add(nn.MaxOp, y, second, format=layout)
    executable = compare(program.module(y), numbers(SHAPE), numbers(SHAPE, 2))
    assert all(len(ops) == 1 for ops in steps(executable, numbers(SHAPE), numbers(SHAPE, 2)))


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 13, 3, 3)])
@pytest.mark.parametrize("function", [False, True])
def test_negative_a_residual_is_not_added_where_a_pool_writes(shape: tuple[int, ...], function: bool):
    """Some of its kernels would leave the sum out."""
    program = Program(shape)
    x = program.add(nn.TanhOp, program.argument(0, "nchw"), format="nchw")
    y = program.add(nn.MaxPoolOp, program.argument(0, "nchw"), kernel=(1, 1), format="nchw")
    y = program.add(nn.SigmoidOp, y, format="nchw") if function else y
    compare(program.module(program.add(nn.AddOp, y, x, format="nchw")), numbers(shape))


def test_an_activation_joins_a_pool():
    program = Program(SHAPE)
    y = program.add(nn.MaxPoolOp, program.argument(0, "nhwc"), kernel=(2, 2), format="nhwc")
    y = program.add(nn.SigmoidOp, y, format="nhwc")
    executable = compare(program.module(y), numbers(SHAPE))
    assert steps(executable, numbers(SHAPE)) == [("nn.max_pool", "nn.sigmoid")]


@pytest.mark.parametrize("other", [(2, 3, 8, 10), (8, 10)])
def test_negative_no_tensor_joins_a_resampling(other: tuple[int, ...]):
    shape = (2, 3, 4, 5)
    program = Program(shape, (2, 3, 8, 10))
    y = program.add(
        nn.ResizeOp, program.argument(0, "nhwc"), sizes=(2, 3, 8, 10), mode="linear", coordinates="half_pixel",
        format="nhwc",
    )  # fmt: skip
    second = program.argument(1, "nhwc") if len(other) == 4 else program.constant(numbers(other, 3))
    y = program.add(nn.MaxOp, y, second, format="nhwc")
    compare(program.module(y), numbers(shape), numbers((2, 3, 8, 10), 2))


def test_negative_numbers_per_channel_do_not_join_a_softmax_or_a_sum():
    for shape, op, attributes in (((2, 17, 5, 4), nn.SoftmaxOp, {"axis": 3}), ((2, 16, 1, 1), nn.AddOp, {})):
        program = Program(shape)
        more = [program.constant(numbers((shape[1], 1, 1), 1))] if op is nn.AddOp else []
        y = program.add(op, program.argument(0, "nchw"), *more, format="nchw", **attributes)
        y = program.add(nn.MulOp, y, program.constant(numbers((shape[1], 1, 1), 2)), format="nchw")
        compare(program.module(y), numbers(shape))


def test_negative_a_row_does_not_join_products_in_batches_that_are_permuted():
    shape, layout = (2, 17, 5, 4), "(n, c, h, w) : [n, h, c, w]"
    program = Program(shape)
    y = program.add(
        nn.MatmulOp, program.argument(0, layout), program.constant(numbers((4, 7), 1)), format=layout
    )
    y = program.add(nn.MaxOp, y, program.constant(numbers((7,), 2)), format=layout)
    compare(program.module(y), numbers(shape))


def test_negative_a_result_with_two_users_is_kept():
    program = Program(SHAPE)
    y = convolution(program, program.argument(0, "nhwc"))
    z = program.add(nn.ReluOp, y, format="nhwc")
    executable = compare(program.module(z, y), numbers(SHAPE))
    assert ("nn.conv",) in steps(executable, numbers(SHAPE))


def test_negative_a_result_in_another_format_is_kept():
    program = Program(SHAPE)
    y = convolution(program, program.argument(0, "nhwc"))
    moved = program.reordered(
        y, "nchw"
    )  # which others want as well, so that no activation goes in front of it
    z = program.add(nn.ReluOp, moved, format="nchw")
    executable = compare(program.module(z, moved), numbers(SHAPE))
    assert steps(executable, numbers(SHAPE)) == [("nn.conv",), ("nn.relu",)]


def test_negative_nothing_joins_where_it_is_not_wanted():
    program = Program(SHAPE)
    y = program.add(nn.ReluOp, convolution(program, program.argument(0, "nhwc")), format="nhwc")
    executable = compare(program.module(y), numbers(SHAPE), fuse=False)
    assert steps(executable, numbers(SHAPE)) == [("nn.conv",), ("nn.relu",)]
    assert "0 bytes not moved" in executable.describe()


def test_negative_a_difference_is_joined_from_its_left_side_alone():
    program = Program(SHAPE, SHAPE)
    y = convolution(program, program.argument(0, "nhwc"))
    z = program.add(nn.SubOp, program.argument(1, "nhwc"), y, format="nhwc")
    inputs = numbers(SHAPE), numbers(SHAPE, 9)
    assert steps(compare(program.module(z), *inputs), *inputs) == [("nn.conv",), ("nn.sub",)]
