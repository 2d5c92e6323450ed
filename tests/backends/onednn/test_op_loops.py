"""Compiled loops of ops against the reference: every scalar op, every element type, layouts of all kinds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i64

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.backends.llvm.loops.integer_convolution import panel_columns
from layout_ir.backends.llvm.loops.vector_numpy import COMPUTED
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.onednn.op_loops import loop_of
from layout_ir.dialects import nn
from layout_ir.dialects.layout.types import attribute_of
from layout_ir.dialects.nn.depthwise_products import DepthwiseIntegerConv
from layout_ir.dialects.nn.integer_products import PackedIntegerConv
from layout_ir.elements.numpy_types import storage
from layout_ir.errors import LayoutError
from tests.backends.onednn.loop_cases import check_op, make_op, random_format, values_of
from tests.backends.onednn.small_programs import Program, compare, needs_library, numbers

ELEMENTWISE = sorted(
    (op for op in nn.NN.operations if issubclass(op, nn.ElementwiseOp)), key=lambda op: op.name
)
BY_F64_NOT = {"nn.erf", "nn.gelu"}
"""Ops of a function that loops have for f32 alone."""


def operands_of(op: Any, dtype: str) -> list[str]:
    """Element types of the operands."""
    count = {nn.UnaryOp: 1, nn.BinaryOp: 2}
    number = next((n for base, n in count.items() if issubclass(op, base)), 3)
    return ["i1", dtype, dtype] if op is nn.WhereOp else [dtype] * number


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_every_scalar_op_on_every_element_type(op: Any):
    rng = np.random.default_rng(sum(op.name.encode()))
    for dtype in op.ALLOWED:
        if dtype not in COMPUTED or (dtype == "f64" and op.name in BY_F64_NOT):
            continue
        shape = (3, 19, 7)
        dtypes = operands_of(op, dtype)
        attributes: dict[str, Any] = {"shape": (2, 1, 1, 1)} if op is nn.ExpandOp else {}
        shapes: list[tuple[int, ...]] = [shape] * len(dtypes)
        if len(dtypes) > 1 and op is not nn.PReluOp and rng.integers(2):
            shapes[0] = (19, 1)
        if len(dtypes) > 1:
            shapes[-1] = (1, 19, 1) if rng.integers(2) else shape
        if op is nn.WhereOp:
            shapes = [(3, 1, 7), shape, (7,)]
        if op is nn.CastOp:
            others = [target for target in COMPUTED if target != dtype]
            cases = [str(target) for target in rng.choice(others, 6, replace=False)]
        else:
            cases = [""]
        for target in cases:
            formats = [random_format(rng, len(s)) for s in shapes]
            result = random_format(rng, 4 if op is nn.ExpandOp else 3)
            if target:
                made = cast_op(dtype, target, shape, formats[0], result)
            else:
                made = make_op(op, shapes, dtypes, formats, result, **attributes)
            arrays = [values_of(rng, s, d) for s, d in zip(shapes, dtypes, strict=True)]
            check_op(made, arrays, exact=op.EXACT, threads=int(rng.integers(1, 3)))


def cast_op(dtype: str, target: str, shape: tuple[int, ...], source: Format, result: Format) -> Any:
    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Block

    from layout_ir.dialects.layout import FormatAttr

    [x] = Block(arg_types=[TensorType(attribute_of(dtype), shape, FormatAttr(source))]).args
    return nn.CastOp(x, result_type=TensorType(attribute_of(target), shape, FormatAttr(result)))


def test_negative_there_is_no_loop_for_some_functions_of_f64():
    for op in (nn.ErfOp, nn.GeluOp):
        assert loop_of([make_op(op, [(3, 4)], ["f64"], [None])], 1) is None


def test_negative_there_is_no_loop_over_a_swizzle():
    plain = Format.row_major(("r", "c"))
    for format, found in ((plain, True), (replace(plain, swizzle=(2, 0, 3)), False)):
        assert (loop_of([make_op(nn.AbsOp, [(8, 8)], ["f32"], [format])], 1) is not None) is found


@pytest.mark.parametrize("seed", range(12))
def test_elementwise_ops_on_layouts_that_are_alike_and_others(seed: int):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(0, 5))
    shape = tuple(int(rng.integers(0 if seed == 3 else 1, 21)) for _ in range(rank))
    first = random_format(rng, rank)
    second = first if seed % 2 else random_format(rng, rank)
    made = make_op(nn.SubOp, [shape, shape], ["f32", "f32"], [first, second], first.with_pad("undef"))
    check_op(made, [values_of(rng, shape, "f32") for _ in range(2)], exact=True, threads=1 + seed % 2)


def test_numbers_and_splats_are_part_of_the_code():
    number = np.array([0.5], np.float32)
    made = make_op(nn.MulOp, [(40,), (1,)], ["f32", "f32"], [None, None], constants={1: number})
    loop = loop_of([made], 1)
    assert loop is not None and loop.operands == (made.operands[0],)


def test_negative_a_constant_of_several_elements_is_an_operand():
    numbers = np.arange(40, dtype=np.float32)
    made = make_op(nn.MulOp, [(40,), (40,)], ["f32", "f32"], [None, None], constants={1: numbers})
    loop = loop_of([made], 1)
    assert loop is not None and loop.operands == tuple(made.operands)


# Folds ----------------------------------------------------------------------------------------------------------------

REDUCTIONS = sorted((op for op in nn.NN.operations if issubclass(op, nn.ReduceOp)), key=lambda op: op.name)


@pytest.mark.parametrize("op", REDUCTIONS, ids=lambda op: op.name)
def test_reductions_over_every_subset_of_dims(op: Any):
    rng = np.random.default_rng(sum(op.name.encode()))
    shape = (3, 5, 18)
    for number, axes in enumerate(a for n in range(4) for a in combinations(range(3), n)):
        dtype = ("f32", "f16", "i32", "bf16", "f32", "f32", "i64", "f32")[number]
        dtype = dtype if dtype in op.ALLOWED else "f32"
        keepdims = bool(number % 2)
        source = random_format(rng, 3)
        result = random_format(rng, 3 if keepdims else 3 - len(axes), pad="undef")
        # Reductions read pads, which hold the neutral element: here there are none.
        source = Format(
            source.names, tuple(f for f in source.factors if f.size is None), offset=source.offset
        )
        made = make_op(op, [shape], [dtype], [source], result, axes=axes, keepdims=keepdims)
        x = values_of(rng, shape, dtype)
        if dtype in ("f32", "f16", "bf16"):
            x = (
                np.nan_to_num(x.astype(np.float32), nan=1, posinf=2, neginf=-2)
                if dtype != "bf16"
                else x & 0xBFFF
            )
            x = (np.abs(x) + 0.5 if op is nn.ReduceLogSumOp and dtype != "bf16" else x).astype(storage(dtype))
        if dtype == "bf16" and op is nn.ReduceLogSumOp:
            x = x & 0x3FFF
        check_op(made, [x], exact=False, tolerance=3e-5, threads=1 + number % 2)


@pytest.mark.parametrize("op", REDUCTIONS, ids=lambda op: op.name)
def test_reductions_of_nothing_and_of_one(op: Any):
    for shape, axes in (((3, 0, 4), (1,)), ((0, 4), (1,)), ((5, 1), (1,)), ((), ())):
        if op is nn.ReduceMeanOp and 0 in shape:
            continue  # NumPy warns of what it divides by 0
        made = make_op(op, [shape], ["f32"], [None], axes=axes)
        check_op(made, [np.full(shape, 2.0, np.float32)], exact=False)


@pytest.mark.parametrize("shape", [(2, 3, 1000), (5, 1000, 2), (1, 1, 7), (2, 65, 33), (3, 4, 0)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_along_and_across_what_is_dense(shape: tuple[int, ...], axis: int):
    rng = np.random.default_rng(axis)
    x = rng.uniform(-9, 9, shape).astype(np.float32)
    for op, source in ((nn.SoftmaxOp, "abc"), (nn.LogSoftmaxOp, "acb"), (nn.SoftmaxOp, "bca")):
        format = Format.from_tag(source)
        made = make_op(op, [shape], ["f32"], [format], format, axis=axis)
        check_op(made, [x], exact=False, threads=2)


def test_a_softmax_in_halves_is_computed_in_single_precision():
    rng = np.random.default_rng(0)
    x = rng.uniform(-9, 9, (4, 50)).astype(np.float16)
    check_op(make_op(nn.SoftmaxOp, [(4, 50)], ["f16"], [None]), [x], exact=False)


@pytest.mark.parametrize("tag", ["abcd", "acdb", "aBcd8b", "aBcd4b"])
def test_normalizations_in_blocked_layouts(tag: str):
    rng = np.random.default_rng(0)
    shape = (2, 24, 5, 7)
    format = Format.from_tag(tag).with_pad("undef")
    x = (rng.standard_normal(shape) + 3).astype(np.float32)
    channels = [rng.standard_normal(24).astype(np.float32) for _ in range(2)]
    for groups in (1, 3, 6, 24):
        made = make_op(
            nn.GroupNormOp, [shape, (24,), (24,)], ["f32"] * 3, [format, None, None], format, groups=groups
        )
        if groups == 6 and tag == "aBcd8b":
            # Groups of 4 in blocks of 8: every second one begins inside of a block, and has the same steps.
            assert loop_of([made], 1) is not None
        check_op(made, [x, *channels], exact=False, tolerance=1e-4)
    for axes in ((3,), (1,), (2, 3), (1, 2, 3)):
        scale = rng.standard_normal((24, 1, 1)).astype(np.float32)
        made = make_op(
            nn.LayerNormOp, [shape, (24, 1, 1), (7,)], ["f32"] * 3, [format, None, None], format, axes=axes
        )
        arrays = [x, scale, rng.standard_normal(7).astype(np.float32)]
        check_op(made, arrays, exact=False, tolerance=1e-4, threads=2)
    made = make_op(nn.RmsNormOp, [shape, (7,)], ["f32"] * 2, [format, None], format)
    check_op(made, [x, rng.standard_normal(7).astype(np.float32)], exact=False, tolerance=1e-5)


def test_negative_groups_that_blocks_cut_at_different_places_have_no_loop():
    format = Format.from_tag("aBcd8b").with_pad("undef")
    made = make_op(
        nn.GroupNormOp, [(2, 24, 3, 3), (24,), (24,)], ["f32"] * 3, [format, None, None], format, groups=2
    )
    assert loop_of([made], 1) is None


@pytest.mark.parametrize("op", [nn.ArgMaxOp, nn.ArgMinOp])
@pytest.mark.parametrize("select_last", [False, True])
def test_the_first_or_last_of_equal_elements_is_chosen(op: Any, select_last: bool):
    rng = np.random.default_rng(0)
    for shape in ((3, 100), (50, 3), (1, 1)):
        for axis in (0, 1):
            for dtype in ("f32", "i32"):
                x = rng.integers(-2, 3, shape).astype(storage(dtype))
                made = make_op(op, [shape], [dtype], [None], axis=axis, select_last=select_last)
                check_op(made, [x], exact=True, threads=2)


def test_the_first_nan_is_the_largest_and_the_least():
    x = np.array([[1, np.nan, 5, np.nan], [-np.inf, -np.inf, -np.inf, -np.inf]], np.float32)
    for op in (nn.ArgMaxOp, nn.ArgMinOp):
        check_op(make_op(op, [(2, 4)], ["f32"], [None], axis=1), [x], exact=True)


# Chosen elements ------------------------------------------------------------------------------------------------------


def test_types_of_the_table_are_those_of_the_loops():
    assert attribute_of("f32") == f32 and attribute_of("i64") == i64


# Products -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["i32", "ui32", "i64", "ui64", "f64"])
def test_products_of_elements_that_the_library_does_not_multiply(dtype: str):
    rng = np.random.default_rng(len(dtype))
    for left, right in (
        ((3, 5), (5, 4)), ((5,), (5,)), ((5,), (2, 5, 4)), ((2, 3, 5), (5,)), ((2, 1, 3, 5), (7, 5, 4)),
        ((3, 0), (0, 4)),
    ):  # fmt: skip
        result = random_format(rng, np.matmul(np.ones(left), np.ones(right)).ndim)
        formats = [random_format(rng, len(shape), pad="zero") for shape in (left, right)]
        made = make_op(nn.MatmulOp, [left, right], [dtype] * 2, formats, result)
        check_op(
            made, [values_of(rng, shape, dtype) for shape in (left, right)], exact=dtype != "f64", threads=1
        )


def packed_product(result: tuple[int, int], **attributes: Any) -> tuple[Any, Any]:
    """A model with a node that the executor makes for itself, of 3 rows of 7 by 5 columns, and its result."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    conv = PackedIntegerConv((), (), (), 5, panel_columns(host()))
    weights = np.random.default_rng(0).integers(-128, 128, (5, 7))
    node = helper.make_node(
        "PackedIntegerConv", ["x", "w"], ["y"], domain="layout_ir", **(conv.attributes() | attributes)
    )
    graph = helper.make_graph(
        [node],
        "packed",
        [helper.make_tensor_value_info("x", onnx.TensorProto.INT16, (3, 7))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, result)],
        [onnx.numpy_helper.from_array(conv.packed(weights), "w")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("layout_ir", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), weights


@needs_library
def test_a_product_of_integers_that_a_model_brings():
    model, weights = packed_product((3, 5))
    x = np.arange(21, dtype=np.int16).reshape(3, 7)
    executable = li.compile(model)
    np.testing.assert_array_equal(executable([x])[0], x.astype(np.int64) @ weights.T)
    assert executable.fallbacks == {}


@needs_library
@pytest.mark.parametrize(
    ("result", "attributes"),
    [
        ((1000, 5), {}),
        ((3, 50), {"columns": 50}),
        ((3, 5), {"panel": 0}),
        ((3, 5), {"kernel": [3]}),
        ((3, 5), {"kernel": [3], "strides": [0], "dilations": [1]}),
        ((3, 5), {"columns": "five"}),
        ((3, 5), {"dtype": "ui8", "low": 0.0, "high": 6.0, "factor": 1.0}),
    ],
)
def test_negative_such_a_node_is_held_to_the_shapes_that_it_says(
    result: tuple[int, int], attributes: dict[str, Any]
):
    """A kernel that believed it would write beyond its memory."""
    model, _ = packed_product(result, **attributes)
    with pytest.raises(LayoutError, match="PackedIntegerConv"):
        li.compile(model)([np.ones((3, 7), np.int16)])


def depthwise_product(result: tuple[int, ...], zero_point: Any, **attributes: Any) -> Any:
    """A model with a depthwise convolution that the executor makes for itself, of 3x3 numbers of 5 channels."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    conv = DepthwiseIntegerConv((3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    node = helper.make_node(
        "DepthwiseIntegerConv",
        ["x", "z", "w"],
        ["y"],
        domain="layout_ir",
        **(conv.attributes() | attributes),
    )
    graph = helper.make_graph(
        [node],
        "depthwise",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, (1, 3, 3, 5))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, result)],
        [
            onnx.numpy_helper.from_array(np.asarray(zero_point), "z"),
            onnx.numpy_helper.from_array(conv.packed(np.ones((5, 3, 3), int)), "w"),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("layout_ir", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@needs_library
def test_a_depthwise_convolution_of_integers_that_a_model_brings():
    executable = li.compile(depthwise_product((1, 3, 3, 5), np.uint8(3)))
    (y,) = executable([np.full((1, 3, 3, 5), 10, np.uint8)])
    np.testing.assert_array_equal(y[0, :, :, 0], [[28, 42, 28], [42, 63, 42], [28, 42, 28]])
    assert executable.fallbacks == {}


@needs_library
@pytest.mark.parametrize(
    ("result", "zero_point", "attributes"),
    [
        ((1, 9, 9, 5), np.uint8(3), {}),
        ((1, 3, 3, 5), np.full(2, 3, np.uint8), {}),
        ((1, 5, 5, 5), np.uint8(3), {"pads": [2, 2, 2, 2], "kernel": [5, 5]}),
        ((1, 3, 3, 5), np.uint8(3), {"dtype": "ui8", "low": 0.0, "high": 6.0, "factor": 1.0}),
    ],
)
def test_negative_such_a_convolution_is_held_to_the_shapes_that_it_says(
    result: tuple[int, ...], zero_point: Any, attributes: dict[str, Any]
):
    with pytest.raises(LayoutError, match="DepthwiseIntegerConv"):
        li.compile(depthwise_product(result, zero_point, **attributes))([np.ones((1, 3, 3, 5), np.uint8)])


@needs_library
@pytest.mark.parametrize("dtype", ["i8", "ui8"])
@pytest.mark.parametrize(
    ("shape", "layout", "windows"),
    [
        ((2, 70, 9, 8), "nhwc", {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ((1, 5, 9, 8), "nhwc", {"kernel": (2, 3), "strides": (2, 1), "ceil_mode": True}),
        ((2, 33, 13), "nwc", {"kernel": (5,), "dilations": (2,), "pads": (3, 4)}),
    ],
)
def test_pools_of_bytes_with_channels_last(
    shape: tuple[int, ...], layout: str, windows: dict[str, Any], dtype: str
):
    program = Program(shape, dtype=dtype)
    module = program.module(program.add(nn.MaxPoolOp, program.argument(0, layout), format=layout, **windows))
    x = values_of(np.random.default_rng(0), shape, dtype)
    executable = li.compile(module)
    np.testing.assert_array_equal(executable([x])[0], li.run(module, [x])[0])
    steps = {step.ops: step.implementation for step in executable.profile([x])}
    assert steps[("nn.max_pool",)] == "loop"


@needs_library
@pytest.mark.parametrize("op", [nn.MaxPoolOp, nn.AvgPoolOp])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("shape", "layout", "windows"),
    [
        ((1, 1, 32, 37), "nchw", {"kernel": (3, 3), "strides": (2, 2)}),
        ((2, 3, 9, 28), "nchw", {"kernel": (3, 5), "strides": (2, 1), "pads": (1, 2, 0, 4)}),
        ((1, 1, 9, 8), "nhwc", {"kernel": (2, 3), "strides": (2, 1), "ceil_mode": True}),
        ((2, 5, 43), "ncw", {"kernel": (5,), "dilations": (2,), "pads": (3, 4), "strides": (3,)}),
        ((1, 2, 6, 7, 9), "ncdhw", {"kernel": (2, 3, 2), "pads": (1, 1, 0, 0, 1, 1)}),
    ],
)
def test_pools_of_row_major_floats(
    shape: tuple[int, ...], layout: str, windows: dict[str, Any], dtype: str, op: Any
):
    for flags in ({}, {"count_include_pad": True}) if op is nn.AvgPoolOp else ({},):
        program = Program(shape, dtype=dtype)
        module = program.module(
            program.add(op, program.argument(0, layout), format=layout, **windows, **flags)
        )
        x = values_of(np.random.default_rng(0), shape, dtype)
        executable = li.compile(module)
        np.testing.assert_allclose(executable([x])[0], li.run(module, [x])[0], rtol=1e-5, atol=1e-5)
        steps = {step.ops: step.implementation for step in executable.profile([x])}
        assert steps[(op.name,)] == "loop"


@needs_library
@pytest.mark.parametrize("behind", [nn.SigmoidOp, nn.ReluOp])
def test_negative_no_function_joins_a_pool_that_is_a_loop(behind: Any):
    program = Program((1, 4, 9, 12))
    y = program.add(nn.MaxPoolOp, program.argument(0, "nchw"), kernel=(2, 2), format="nchw")
    module = program.module(program.add(behind, y, format="nchw"))
    x = numbers((1, 4, 9, 12))
    steps = {step.ops: step.implementation for step in compare(module, x).profile([x])}
    assert steps[("nn.max_pool",)] == "loop"


@pytest.mark.parametrize(
    ("layout", "dtype"), [("nchw", "ui8"), ("nChw8c", "ui8"), ("nhwc", "f32"), ("nchw", "f16")]
)
def test_negative_other_pools_have_no_loop(layout: str, dtype: str):
    fmt = Format.from_tag(layout)
    assert loop_of([make_op(nn.MaxPoolOp, [(1, 9, 5, 4)], [dtype], [fmt], fmt, kernel=(2, 2))], 1) is None
