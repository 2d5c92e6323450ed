"""Every op that the library has a primitive for, in several layouts, beside the reference."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from layout_ir.backends.onednn import memory_descriptors as descriptors
from layout_ir.backends.onednn import op_primitives
from layout_ir.backends.onednn.library import library, unavailable
from layout_ir.dialects import nn
from layout_ir.elements.element_types import element_type
from layout_ir.elements.numpy_types import narrow
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

pytestmark = needs_library

LAYOUTS = ("nchw", "nhwc", "nChw8c", "nChw16c")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "attributes"),
    [
        (17, 19, (3, 3), {"pads": (1, 1, 1, 1)}),
        (16, 32, (1, 1), {}),
        (3, 16, (5, 3), {"strides": (2, 1), "pads": (2, 0, 1, 2)}),
        (16, 16, (3, 3), {"dilations": (2, 1), "pads": (2, 1, 2, 1)}),
    ],
)
def test_a_convolution(layout: str, channels: int, outputs: int, kernel: Any, attributes: dict[str, Any]):
    program = Program((2, channels, 9, 8))
    x = program.argument(0, layout)
    w = program.constant(numbers((outputs, channels, *kernel), 1))
    b = program.constant(numbers((outputs,), 2))
    y = program.add(nn.ConvOp, x, w, b, format=layout, **attributes)
    compare(program.module(y), numbers((2, channels, 9, 8)))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(("group", "per_group", "outputs"), [(4, 4, 8), (16, 1, 16), (8, 1, 16), (2, 8, 10)])
def test_a_grouped_convolution(layout: str, group: int, per_group: int, outputs: int):
    program = Program((2, group * per_group, 7, 6))
    w = program.constant(numbers((outputs, per_group, 3, 3), 1))
    y = program.add(nn.ConvOp, program.argument(0, layout), w, format=layout, group=group, pads=(1, 1, 1, 1))
    compare(program.module(y), numbers((2, group * per_group, 7, 6)))


def test_a_convolution_whose_weights_are_no_constant():
    program = Program((1, 8, 5, 5), (6, 8, 3, 3))
    y = program.add(nn.ConvOp, program.argument(0), program.argument(1))
    compare(program.module(y), numbers((1, 8, 5, 5)), numbers((6, 8, 3, 3), 1))


def test_negative_such_a_convolution_on_channels_last_runs_by_the_reference():
    program = Program((1, 8, 5, 5), (6, 8, 3, 3))
    y = program.add(nn.ConvOp, program.argument(0, "nhwc"), program.argument(1), format="nhwc")
    inputs = numbers((1, 8, 5, 5)), numbers((6, 8, 3, 3), 1)
    compare(program.module(y), *inputs, fallbacks={"nn.conv": 1})


def test_a_convolution_between_orders_brings_its_operand_into_that_of_the_result():
    program = Program((1, 8, 5, 5))
    w = program.constant(numbers((6, 8, 3, 3), 1))
    y = program.add(nn.ConvOp, program.argument(0), w, format="nhwc")
    compare(program.module(y), numbers((1, 8, 5, 5)))


@pytest.mark.parametrize(("shape", "kernel"), [((2, 5, 20), (4,)), ((1, 4, 5, 6, 4), (2, 3, 1))])
def test_a_convolution_over_one_or_three_dims(shape: tuple[int, ...], kernel: tuple[int, ...]):
    program = Program(shape)
    w = program.constant(numbers((7, shape[1], *kernel), 1))
    compare(program.module(program.add(nn.ConvOp, program.argument(0), w)), numbers(shape))


@pytest.mark.parametrize(
    ("group", "attributes"),
    [
        (1, {"strides": (2, 2), "pads": (1, 1, 0, 1)}),
        (2, {"strides": (2, 1), "output_padding": (1, 0)}),
        (1, {"dilations": (2, 2)}),
    ],
)
def test_a_transposed_convolution(group: int, attributes: dict[str, Any]):
    program = Program((2, 8, 5, 4))
    w = program.constant(numbers((8, 6, 3, 3), 1))
    b = program.constant(numbers((6 * group,), 2))
    y = program.add(nn.ConvTransposeOp, program.argument(0), w, b, group=group, **attributes)
    compare(program.module(y), numbers((2, 8, 5, 4)))


@pytest.mark.parametrize("source", ["nhwc", "nChw8c"])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 1)])
def test_a_transposed_convolution_of_disjoint_windows_is_a_product(source: str, kernel: tuple[int, int]):
    shape = 2, 16, 5, 4
    program = Program(shape)
    w = program.constant(numbers((16, 8, *kernel), 1))
    b = program.constant(numbers((8,), 2))
    # Eight channels in nChw8c are channels last.
    y = program.add(nn.ConvTransposeOp, program.argument(0, source), w, b, strides=kernel, format=source)
    executable = compare(program.module(program.add(nn.ReluOp, y, format=source)), numbers(shape))
    [step] = [s for s in executable.profile([numbers(shape)]) if s.implementation != "reorder"]
    assert step.ops == ("nn.conv_transpose", "nn.relu") and "conv" not in step.implementation


@pytest.mark.parametrize(("shape", "kernel"), [((3, 6, 5), (4,)), ((1, 6, 3, 4, 5), (2, 1, 3))])
def test_disjoint_windows_over_one_or_three_dims(shape: tuple[int, ...], kernel: tuple[int, ...]):
    program = Program(shape)
    last = "nwc" if len(shape) == 3 else "ndhwc"
    w = program.constant(numbers((6, 7, *kernel), 1))
    y = program.add(nn.ConvTransposeOp, program.argument(0, last), w, strides=kernel, format=last)
    compare(program.module(y), numbers(shape))


@pytest.mark.parametrize(
    "attributes",
    [{"strides": (2, 2), "pads": (0, 1, 0, 0)}, {"strides": (3, 3)}, {"strides": (2, 1)},
     {"strides": (2, 2), "group": 2}, {"strides": (2, 2), "output_padding": (1, 0)},
     {"strides": (2, 2), "dilations": (2, 2)}],
)  # fmt: skip
def test_negative_windows_that_are_no_product(attributes: dict[str, Any]):
    program = Program((2, 8, 5, 4))
    w = program.constant(numbers((8, 6, 2, 2), 1))
    y = program.add(nn.ConvTransposeOp, program.argument(0, "nhwc"), w, format="nhwc", **attributes)
    compare(program.module(y), numbers((2, 8, 5, 4)))


@pytest.mark.parametrize(
    ("left", "right"),
    [((5, 7), (7, 3)), ((2, 3, 5, 7), (7, 3)), ((2, 3, 5, 7), (3, 7, 4)), ((4, 1, 5, 7), (3, 7, 2)), ((7,), (7, 3)),
     ((5, 7), (7,)), ((2, 5, 7), (2, 7, 6))],
)  # fmt: skip
@pytest.mark.parametrize("constant", [False, True])
def test_a_matrix_product(left: tuple[int, ...], right: tuple[int, ...], constant: bool):
    values = numbers(right, 1)
    program = Program(left) if constant else Program(left, right)
    b = program.constant(values) if constant else program.argument(1)
    y = program.add(nn.MatmulOp, program.argument(0), b)
    compare(program.module(y), numbers(left), *([] if constant else [values]))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("batches", [(), (3,)])
def test_a_matrix_product_whose_columns_are_dense(constant: bool, batches: tuple[int, ...]):
    names = "abcdefg"[: len(batches) + 2]
    turned = f"({', '.join(names)}) : [{', '.join((*names[:-2], names[-1], names[-2]))}]"
    left, right = (*batches, 5, 7), (*batches, 7, 6)
    program = Program(left) if constant else Program(left, right)
    b = program.constant(numbers(right, 1)) if constant else program.argument(1)
    y = program.add(nn.MatmulOp, program.argument(0), b, format=turned)
    y = program.add(nn.ReluOp, y, format=turned)
    y = program.add(nn.AddOp, y, program.constant(numbers((6,), 2)), format=turned)
    compare(program.module(y), numbers(left), *([] if constant else [numbers(right, 1)]))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    "attributes", [{}, {"trans_a": True}, {"trans_b": True}, {"beta": 0.5, "trans_b": True}]
)
@pytest.mark.parametrize("addend", [None, (6,), (1, 6), (1, 1)])
def test_a_product_with_an_addend(constant: bool, attributes: dict[str, Any], addend: Any):
    if addend is None and "beta" in attributes:
        pytest.skip("beta is that of the addend")
    a = (7, 5) if attributes.get("trans_a") else (5, 7)
    b = (6, 7) if attributes.get("trans_b") else (7, 6)
    program = Program(a) if constant else Program(a, b)
    right = program.constant(numbers(b, 1)) if constant else program.argument(1)
    more = [] if addend is None else [program.constant(numbers(addend, 2))]
    y = program.add(nn.GemmOp, program.argument(0), right, *more, **attributes)
    compare(program.module(y), numbers(a), *([] if constant else [numbers(b, 1)]))


def test_a_picture_in_blocks_whose_pads_are_undefined_is_resized():
    program = Program((1, 21, 6, 5))
    x = program.argument(0, "(n, c, h, w) : [n, c, h, w, c:16]")
    y = program.add(nn.ResizeOp, x, sizes=(1, 21, 12, 15), mode="linear", format="nChw16c")
    compare(program.module(y), numbers((1, 21, 6, 5)))


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"trans_a": True}, {"trans_b": True, "alpha": 0.5}])
@pytest.mark.parametrize("addend", [None, (6,), (5, 1), (5, 6), ()])
def test_a_product_whose_columns_are_dense(constant: bool, attributes: dict[str, Any], addend: Any):
    a = (7, 5) if attributes.get("trans_a") else (5, 7)
    b = (6, 7) if attributes.get("trans_b") else (7, 6)
    program = Program(a) if constant else Program(a, b)
    right = program.constant(numbers(b, 1)) if constant else program.argument(1)
    more = [] if addend is None else [program.constant(numbers(addend, 2))]
    columns = "(m, n) : [n, m]"
    y = program.add(nn.GemmOp, program.argument(0), right, *more, beta=2.0, format=columns, **attributes)
    y = program.add(nn.ReluOp, y, format=columns)
    y = program.add(nn.AddOp, y, program.constant(numbers((6,), 3)), format=columns)
    compare(program.module(y), numbers(a), *([] if constant else [numbers(b, 1)]))


def test_an_addend_that_lies_like_a_result_with_dense_columns():
    columns = "(m, n) : [n, m]"
    program = Program((5, 7), (5, 6))
    b = program.constant(numbers((7, 6), 1))
    y = program.add(nn.GemmOp, program.argument(0), b, program.argument(1, columns), format=columns, beta=0.5)
    compare(program.module(y), numbers((5, 7)), numbers((5, 6), 2))


def test_the_rows_of_a_constant_follow_the_order_in_which_the_left_operand_lies():
    order = "(m, k) : [m*12, k*1, k:3*4]"  # k runs as the columns of a 4x3 matrix do
    program = Program((2, 12))
    b = program.constant(numbers((12, 5), 1))
    compare(program.module(program.add(nn.GemmOp, program.argument(0, order), b)), numbers((2, 12)))


@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 1.0), (0.5, 3.0), (1.0, 0.5), (1.0, 0.0)])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(
    ("addend", "constant"),
    [(None, True), ((6,), True), ((5, 1), True), ((5, 6), True), ((), True), ((6,), False), ((5, 6), False)],
)
def test_a_product_with_factors(alpha: float, beta: float, weights: bool, addend: Any, constant: bool):
    given = [(5, 7), *([] if weights else [(7, 6)]), *([] if constant or addend is None else [addend])]
    program = Program(*given)
    right = program.constant(numbers((7, 6), 1)) if weights else program.argument(1)
    more: list[Any] = []
    if addend is not None:
        number = len(given) - 1
        more = [program.constant(numbers(addend, number)) if constant else program.argument(number)]
    y = program.add(nn.GemmOp, program.argument(0), right, *more, alpha=alpha, beta=beta)
    compare(program.module(y), *(numbers(shape, k) for k, shape in enumerate(given)))


def test_negative_a_computed_addend_that_has_a_number_per_row_runs_by_the_reference():
    program = Program((5, 7), (7, 6), (5, 1))
    y = program.add(nn.GemmOp, *(program.argument(k) for k in range(3)))
    inputs = numbers((5, 7)), numbers((7, 6), 1), numbers((5, 1), 2)
    compare(program.module(y), *inputs, fallbacks={"nn.gemm": 1})


@pytest.mark.parametrize("exponent", [3.0, -2.0, 0.0, 2.5])
def test_a_power(exponent: float):
    program = Program((2, 17, 5, 4))
    y = program.add(nn.PowOp, program.argument(0), program.constant(np.array([exponent], np.float32)))
    values = numbers((2, 17, 5, 4))
    compare(program.module(y), np.abs(values) if exponent == 2.5 else values)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    ("slopes", "constant"), [((17, 1, 1), True), ((17, 1, 1), False), ((1, 17, 1, 1), True), ((1,), True)]
)
def test_a_parametric_relu(layout: str, slopes: tuple[int, ...], constant: bool):
    shape = 4, 17, 9, 8  # more than the library's reference would be taken for
    program = Program(shape) if constant else Program(shape, slopes)
    slope = program.constant(numbers(slopes, 1)) if constant else program.argument(1)
    y = program.add(nn.PReluOp, program.argument(0, layout), slope, format=layout)
    compare(program.module(y), numbers(shape), *([] if constant else [numbers(slopes, 1)]))


@pytest.mark.parametrize(("source", "result"), [("nhwc", "nChw8c"), ("nChw8c", "nhwc")])
def test_a_transposed_convolution_between_orders_brings_its_operand_into_that_of_the_result(
    source: str, result: str
):
    program = Program((1, 16, 6, 5))
    w = program.constant(numbers((16, 8, 2, 2), 1))
    y = program.add(nn.ConvTransposeOp, program.argument(0, source), w, strides=(2, 2), format=result)
    compare(program.module(y), numbers((1, 16, 6, 5)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        (nn.MaxPoolOp, {"kernel": (3, 2), "strides": (2, 2), "pads": (1, 0, 1, 1)}),
        (nn.MaxPoolOp, {"kernel": (3, 3), "strides": (2, 2), "ceil_mode": True}),
        (nn.AvgPoolOp, {"kernel": (3, 3), "pads": (1, 1, 1, 1)}),
        (nn.AvgPoolOp, {"kernel": (3, 3), "pads": (1, 1, 1, 1), "count_include_pad": True}),
        (nn.AvgPoolOp, {"kernel": (2, 2), "strides": (2, 2), "ceil_mode": True}),
        (nn.GlobalAvgPoolOp, {}),
        (nn.GlobalMaxPoolOp, {}),
    ],
)
def test_a_pool(layout: str, op: Any, attributes: dict[str, Any]):
    program = Program((2, 17, 7, 8))
    y = program.add(op, program.argument(0, layout), format=layout, **attributes)
    compare(program.module(y), numbers((2, 17, 7, 8)))


def test_negative_what_ceil_mode_adds_to_a_counted_pad_runs_by_the_reference():
    program = Program((1, 4, 6, 6))
    attributes: dict[str, Any] = {
        "kernel": (3, 3),
        "strides": (2, 2),
        "pads": (1, 1, 1, 1),
        "ceil_mode": True,
    }
    y = program.add(nn.AvgPoolOp, program.argument(0), count_include_pad=True, **attributes)
    compare(program.module(y), numbers((1, 4, 6, 6)), fallbacks={"nn.avg_pool": 1})


@pytest.mark.parametrize("layout", ["nchw", "nhwc", "nChw16c"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"scales": (1.0, 1.0, 2.0, 2.0), "coordinates": "asymmetric", "nearest_mode": "floor"},
        {"scales": (1.0, 1.0, 3.0, 2.0)},
        {"sizes": (2, 16, 9, 7), "mode": "linear"},
    ],
)
def test_a_resize(layout: str, attributes: dict[str, Any]):
    program = Program((2, 16, 4, 5))
    y = program.add(nn.ResizeOp, program.argument(0, layout), format=layout, **attributes)
    compare(program.module(y), numbers((2, 16, 4, 5)))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are protected by mprotect")
def test_a_nearest_resize_reads_nothing_outside_of_its_operand():
    """5 MB between pages that nobody may read, in a process of its own, since what reads there ends it."""
    code = """if True:
        import ctypes, mmap
        import numpy as np
        import layout_ir as li
        from tests.backends.onednn.small_programs import Program
        from layout_ir.dialects import nn

        shape = (5, 64, 64, 64)
        program = Program(shape)
        y = program.add(nn.ResizeOp, program.argument(0), scales=(1.0, 1.0, 2.0, 2.0), coordinates="asymmetric",
                        nearest_mode="floor")
        run = li.compile(program.module(y))
        page, size = mmap.PAGESIZE, 4 * int(np.prod(shape))
        memory = mmap.mmap(-1, size + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        x = np.frombuffer(memory, np.float32, size // 4, page).reshape(shape)
        x[...] = np.random.default_rng(0).random(shape, np.float32)
        for guard in (start, start + page + size):
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
        (found,) = run([x])
        assert np.array_equal(found, x.repeat(2, axis=2).repeat(2, axis=3))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_negative_a_resize_by_another_rule_of_coordinates_runs_by_the_reference():
    program = Program((1, 2, 4, 4))
    y = program.add(
        nn.ResizeOp, program.argument(0), sizes=(1, 2, 7, 7), mode="linear", coordinates="align_corners"
    )
    compare(program.module(y), numbers((1, 2, 4, 4)), fallbacks={"nn.resize": 1})


@pytest.mark.parametrize("op", [nn.SoftmaxOp, nn.LogSoftmaxOp])
@pytest.mark.parametrize(("layout", "axis"), [(None, 1), (None, 3), ("nhwc", 1), ("nChw8c", 2)])
def test_a_softmax(op: Any, layout: str | None, axis: int):
    program = Program((2, 17, 4, 5))
    y = program.add(op, program.argument(0, layout), format=layout, axis=axis)
    compare(program.module(y), numbers((2, 17, 4, 5)))


@pytest.mark.parametrize(("axes", "scale"), [((2,), (7,)), ((1, 2), (5, 7)), ((2,), (1,))])
@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_normalization(axes: tuple[int, ...], scale: tuple[int, ...], bias: bool):
    program = Program((3, 5, 7))
    more = [program.constant(numbers(scale, 2))] if bias else []
    y = program.add(
        nn.LayerNormOp, program.argument(0), program.constant(numbers(scale, 1)), *more, axes=axes
    )
    compare(program.module(y), numbers((3, 5, 7)))


def test_negative_a_normalization_over_a_dim_in_the_middle_runs_by_a_loop():
    program = Program((3, 5, 7))
    y = program.add(nn.LayerNormOp, program.argument(0), program.constant(numbers((1,), 1)), axes=(1,))
    compare(program.module(y), numbers((3, 5, 7)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_batch_normalization(layout: str):
    program = Program((2, 17, 4, 5))
    parameters = [program.constant(numbers((17,), k, 0.5, 2.0)) for k in range(4)]
    y = program.add(nn.BatchNormOp, program.argument(0, layout), *parameters, format=layout, epsilon=1e-3)
    compare(program.module(y), numbers((2, 17, 4, 5)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [3, 5])
def test_a_local_response_normalization(layout: str, size: int):
    program = Program((2, 17, 6, 5))
    y = program.add(
        nn.LrnOp, program.argument(0, layout), format=layout, size=size, alpha=0.1, beta=0.6, bias=1.5
    )
    compare(program.module(y), numbers((2, 17, 6, 5)))


@pytest.mark.parametrize(
    "op", [nn.ReduceSumOp, nn.ReduceMeanOp, nn.ReduceMaxOp, nn.ReduceMinOp, nn.ReduceProdOp]
)
@pytest.mark.parametrize(("axes", "keepdims"), [((3,), True), ((2, 3), False), ((1,), True)])
def test_a_reduction(op: Any, axes: tuple[int, ...], keepdims: bool):
    program = Program((2, 6, 4, 5))
    y = program.add(op, program.argument(0), axes=axes, keepdims=keepdims)
    compare(program.module(y), numbers((2, 6, 4, 5), low=0.5, high=1.5))


def test_negative_a_reduction_that_the_library_lacks_runs_by_a_loop():
    program = Program((2, 6, 4, 5))
    y = program.add(nn.ReduceLogSumOp, program.argument(0), axes=(3,))
    compare(program.module(y), numbers((2, 6, 4, 5), low=0.5))


FUNCTIONS: list[tuple[Any, dict[str, Any], float]] = [
    (nn.ReluOp, {}, -3), (nn.LeakyReluOp, {"alpha": 0.2}, -3), (nn.EluOp, {"alpha": 1.3}, -3), (nn.TanhOp, {}, -3),
    (nn.AbsOp, {}, -3), (nn.SqrtOp, {}, 0.1), (nn.NegOp, {}, -3), (nn.ReciprocalOp, {}, 0.2), (nn.ExpOp, {}, -3),
    (nn.LogOp, {}, 0.2), (nn.ClipOp, {"min": -0.5, "max": 1.5}, -3), (nn.ClipOp, {"max": 1.5}, -3),
    (nn.SigmoidOp, {}, -3), (nn.SwishOp, {"alpha": 1.5}, -3), (nn.HardSigmoidOp, {"alpha": 0.3, "beta": 0.4}, -3),
    (nn.HardSwishOp, {}, -5), (nn.SoftplusOp, {}, -3), (nn.MishOp, {}, -3), (nn.GeluOp, {}, -3),
    (nn.GeluOp, {"approximate": "tanh"}, -3), (nn.RoundOp, {}, -3),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes", "low"), FUNCTIONS, ids=lambda v: getattr(v, "name", None))
@pytest.mark.parametrize("layout", ["nchw", "nChw16c"])
def test_a_function_of_one_operand(op: Any, attributes: dict[str, Any], low: float, layout: str):
    program = Program((2, 17, 5, 4))
    y = program.add(op, program.argument(0, layout), format=_unpromised(layout), **attributes)
    compare(program.module(y), numbers((2, 17, 5, 4), low=low, high=5))


def _unpromised(layout: str) -> str:
    """The format of a tag, which promises nothing of its pads: exp(0) is not 0."""
    from layout_ir.algebra.format import Format

    return str(Format.from_tag(layout).with_pad("undef"))


BINARY = [nn.AddOp, nn.SubOp, nn.MulOp, nn.DivOp, nn.MaxOp, nn.MinOp]


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("other", [(2, 16, 5, 4), (1, 16, 1, 1), (16, 1, 1)])
def test_a_function_of_two_operands(op: Any, layout: str, other: tuple[int, ...]):
    program = Program((2, 16, 5, 4))
    constant = program.constant(
        numbers(other, 1, 0.5, 2.0), layout if len(other) == 4 and other[0] == 2 else None
    )
    y = program.add(op, program.argument(0, layout), constant, format=layout)
    compare(program.module(y), numbers((2, 16, 5, 4)))


@pytest.mark.parametrize("op", BINARY)
def test_a_function_of_two_values_in_blocks_runs_over_their_pads(op: Any):
    program = Program((2, 17, 3, 4), (2, 17, 3, 4))
    x, y = program.argument(0, "nChw8c"), program.argument(1, "nChw8c")
    z = program.add(op, x, y, format=_unpromised("nChw8c"))
    compare(program.module(z), numbers((2, 17, 3, 4)), numbers((2, 17, 3, 4), 1, 0.5, 2.0))


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("number", [0.75, -3.0])
def test_a_function_of_a_value_and_a_number(op: Any, first: bool, number: float):
    program = Program((3, 5))
    constant = program.constant(np.full((), number, np.float32))
    operands = [constant, program.argument(0)] if first else [program.argument(0), constant]
    executable = compare(program.module(program.add(op, *operands)), numbers((3, 5), low=0.5))
    assert executable.profile([numbers((3, 5), low=0.5)])[0].implementation != "reference"


@pytest.mark.parametrize("number", [2.0, 0.5])
def test_a_square_and_a_root_as_powers(number: float):
    program = Program((3, 5))
    y = program.add(nn.PowOp, program.argument(0), program.constant(np.full((1,), number, np.float32)))
    compare(program.module(y), numbers((3, 5), low=0.5))


def test_negative_a_power_of_two_values_runs_by_a_loop():
    program = Program((3, 5), (3, 5))
    y = program.add(nn.PowOp, program.argument(0), program.argument(1))
    compare(program.module(y), numbers((3, 5), low=0.5), numbers((3, 5), 1))


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


LEAVING_ZEROS: list[tuple[Any, dict[str, Any]]] = [
    (nn.MaxPoolOp, {"kernel": (2, 2)}), (nn.AvgPoolOp, {"kernel": (3, 3), "pads": (1, 1, 1, 1)}),
    (nn.GlobalAvgPoolOp, {}), (nn.SoftmaxOp, {"axis": 2}), (nn.LrnOp, {"size": 3}), (nn.TanhOp, {}),
    (nn.ResizeOp, {"scales": (1.0, 1.0, 2.0, 2.0), "coordinates": "asymmetric", "nearest_mode": "floor"}),
    (nn.BatchNormOp, {}), (nn.ConvOp, {}), (nn.MulOp, {}), (nn.AddOp, {}),
]  # fmt: skip


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


@pytest.mark.parametrize("order", ["[n, h, c, w]", "[h, n, c, w]", "[c, n, h, w]", "[n, h, w, c]"])
@pytest.mark.parametrize("shape", [(2, 3, 1, 4), (1, 3, 1, 4), (2, 1, 3, 4)])
def test_a_broadcast_beside_dims_of_one_element(order: str, shape: tuple[int, ...]):
    for other in ((shape[1], 1, 1), (shape[3],), (shape[0], shape[1], 1, 1)):
        program, layout = Program(shape), f"(n, c, h, w) : {order}"
        x = program.argument(0, layout)
        y = program.add(nn.SubOp, x, program.constant(numbers(other, 1)), format=layout)
        compare(program.module(y), numbers(shape))


@pytest.mark.parametrize("columns", [1, 7])
def test_a_product_of_one_row_that_lies_by_columns(columns: int):
    program, layout = Program((1, 4)), "(h, w) : [w, h]"
    y = program.add(
        nn.MatmulOp, program.argument(0), program.constant(numbers((4, columns), 1)), format=layout
    )
    compare(program.module(y), numbers((1, 4)))


HALF = pytest.mark.skipif(
    unavailable() is not None or not library().computes("bf16"), reason="the CPU computes nothing in bf16"
)


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


@HALF
@pytest.mark.parametrize("constant", [False, True])
def test_products_on_bf16_with_an_activation(constant: bool):
    program = Program((3, 5, 7), *([] if constant else [(7, 6)]), dtype="bf16")
    right = program.constant(numbers((7, 6), 1)) if constant else program.argument(1)
    y = program.add(nn.MatmulOp, program.argument(0), right)
    y = program.add(nn.ReluOp, program.add(nn.AddOp, y, program.constant(numbers((6,), 2))))
    inputs = [numbers((3, 5, 7)), *([] if constant else [numbers((7, 6), 1)])]
    compare(program.module(y), *(narrow(values, "bf16") for values in inputs))


@HALF
@pytest.mark.parametrize("constant", [False, True])
def test_products_on_bf16_with_dense_columns(constant: bool):
    program = Program((3, 5, 7), *([] if constant else [(7, 6)]), dtype="bf16")
    right = program.constant(numbers((7, 6), 1)) if constant else program.argument(1)
    y = program.add(nn.MatmulOp, program.argument(0), right, format="(n, m, k) : [n, k, m]")
    inputs = [numbers((3, 5, 7)), *([] if constant else [numbers((7, 6), 1)])]
    compare(program.module(y), *(narrow(values, "bf16") for values in inputs))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "i8"])
def test_the_transpose_of_a_matrix_has_the_same_elements(dtype: str):
    matrices = descriptors.row_major(library(), (2, 3, 5), dtype)
    turned = op_primitives._transposed(matrices)  # pyright: ignore[reportPrivateUsage]
    wanted = descriptors.strided(library(), (2, 5, 3), (15, 1, 5), dtype)
    assert library().api.dnnl_memory_desc_equal(turned.handle, wanted.handle)
    assert turned.nbytes == 30 * element_type(dtype).bits // 8


@HALF
def test_a_softmax_of_bf16():
    program = Program((3, 5, 32), dtype="bf16")
    y = program.add(nn.SoftmaxOp, program.argument(0), axis=2)
    compare(program.module(y), narrow(numbers((3, 5, 32)), "bf16"))


@HALF
def test_a_normalization_of_bf16_takes_its_factors_in_f32():
    program = Program((3, 5, 32), dtype="bf16")
    factors = [program.constant(numbers((32,), k, 0.5, 1.5)) for k in (1, 2)]
    y = program.add(nn.LayerNormOp, program.argument(0), *factors, axes=(2,))
    compare(program.module(y), narrow(numbers((3, 5, 32)), "bf16"))
