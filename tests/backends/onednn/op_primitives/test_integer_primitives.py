"""Quantized convolutions, products and sums on integers, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layout_ir.backends.onednn.library import library, unavailable
from layout_ir.dialects.nn.depthwise_products import DEPTHWISE_INTEGER_CONV
from layout_ir.dialects.nn.integer_products import PACKED_INTEGER_CONV
from tests.backends.onednn.quantized_models import (
    Array,
    compare,
    dequantize,
    integers,
    model,
    node,
    quantize,
    steps_of,
    weights,
)
from tests.backends.onednn.small_programs import needs_library, numbers
from tests.processes import run_python

pytestmark = needs_library

exact_sums = pytest.mark.skipif(
    unavailable() is None and not library().sums_bytes_exactly,
    reason="without VNNI, sums of bytes saturate: the product runs on floats",
)


def convolution(
    x: Array, zero: str, result_zero: str, constants: dict[str, Any], *, relu: bool = False, **attributes: Any
) -> Any:
    nodes = [
        dequantize("x", "s1", zero, "xf"),
        dequantize("w", "ws", "wz", "wf", axis=0),
        node("Conv", ("xf", "wf", "b"), "c", **attributes),
        *([node("Relu", ("c",), "r")] if relu else []),
        quantize("r" if relu else "c", "s3", result_zero, "y"),
    ]
    return model(nodes, {"x": x}, constants, "y")


@pytest.mark.parametrize("largest", [64, 127])
@pytest.mark.parametrize(("dtype", "zero"), [(np.uint8, "z1"), (np.int8, "signed"), (np.int8, "symmetric")])
@pytest.mark.parametrize("result_zero", ["z3", "signed"])
@pytest.mark.parametrize(
    ("channels", "outputs", "group", "attributes"),
    [
        (3, 16, 1, {"pads": [1, 1, 1, 1]}),
        (17, 19, 1, {"pads": [0, 1, 2, 0], "strides": [2, 1]}),
        (16, 16, 16, {"pads": [1, 1, 1, 1]}),
        (16, 24, 4, {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    ],
)
def test_a_convolution_is_one_step_with_its_quantization(
    dtype: Any,
    zero: str,
    result_zero: str,
    channels: int,
    outputs: int,
    group: int,
    attributes: Any,
    largest: int,
):
    x = integers((2, channels, 9, 7), 0, dtype)
    constants = weights((outputs, channels // group, 3, 3), 0, largest=largest)
    executable = compare(convolution(x, zero, result_zero, constants, group=group, **attributes), {"x": x})
    wanted = DEPTHWISE_INTEGER_CONV if group == channels else PACKED_INTEGER_CONV
    # Without VNNI ours is faster on single channels, and the library has none for groups of four by six.
    small = dtype is np.uint8 and largest == 64 and group == 1
    if library().sums_bytes_exactly or small:
        assert steps_of(executable, {"x": x}) == [("nn.conv", "layout.reorder")]
    else:
        assert steps_of(executable, {"x": x})[-1] == (wanted,)


EXACT = """if True:
    import numpy as np
    from tests.backends.onednn.quantized_models import compare, dequantize, integers, model, node, weights
    from layout_ir.backends.onednn.library import library

    print(library().instruction_set, end="")
    for seed in range(8):
        draw = np.random.default_rng(seed)
        channels, outputs, kernel = (int(k) for k in draw.integers((1, 1, 1), (40, 40, 4)))
        dtype, zero = [(np.uint8, "z1"), (np.int8, "signed")][seed % 2]
        for largest in (64, 127):
            for rows, w, op, axis in (
                ((2, channels, 9, 7), (outputs, channels, kernel, kernel), "Conv", 0),
                ((5, channels), (channels, outputs), "MatMul", 1),
            ):
                x = integers(rows, seed, dtype)
                nodes = [dequantize("x", "s1", zero, "xf"), dequantize("w", "ws", "wz", "wf", axis=axis),
                         node(op, ("xf", "wf"), "y")]
                constants = weights(w, axis, seed, largest=largest)
                constants["w"].flat[0] = largest
                compare(model(nodes, {"x": x}, constants, "y"), {"x": x})
"""


@pytest.mark.parametrize("instructions", ["AVX", "AVX2", "AVX512_CORE", "AVX512_CORE_VNNI"])
def test_products_are_exact_whatever_the_instructions(instructions: str):
    """In a process of its own: which instructions it may use, the library reads once."""
    run = run_python("-c", EXACT, variables={"ONEDNN_MAX_CPU_ISA": instructions})
    if run.stdout != instructions.lower():
        pytest.skip(f"this CPU has {run.stdout}")


def test_an_activation_is_between_the_convolution_and_its_quantization():
    x = integers((1, 8, 6, 5), 0)
    constants = weights((16, 8, 3, 3), 0, largest=64)
    executable = compare(convolution(x, "z1", "z3", constants, relu=True), {"x": x})
    assert steps_of(executable, {"x": x}) == [("nn.conv", "nn.relu", "layout.reorder")]


def test_unsigned_weights_lose_their_zero_point():
    constants = weights((16, 8, 3, 3), 0, largest=64)
    constants |= {"w": constants["w"].view(np.uint8) ^ 0x80, "wz": np.full(16, 128, np.uint8)}
    x = integers((1, 8, 6, 5), 0)
    executable = compare(convolution(x, "z1", "z3", constants), {"x": x})
    assert steps_of(executable, {"x": x}) == [("nn.conv", "layout.reorder")]


@pytest.mark.parametrize(("dtype", "zero"), [(np.uint8, "z1"), (np.int8, "signed")])
def test_a_constant_picture_lies_as_the_program_has_it(dtype: Any, zero: str):
    """It is read as it is stored, with its zero point; only weights are packed without theirs."""
    x = integers((1, 8, 6, 5), 0, dtype)
    constants = weights((16, 8, 3, 3), 0, largest=64)
    compare(convolution(x, zero, "z3", constants | {"x": x}), {})


def test_a_constant_matrix_on_the_left_lies_as_the_program_has_it():
    x = integers((5, 9), 0)
    nodes = [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("w", "ws", "wz", "wf", axis=1),
        node("MatMul", ("xf", "wf"), "y"),
    ]
    compare(model(nodes, {}, weights((9, 6), 1, largest=64) | {"x": x}, "y"), {})


def test_negative_a_sum_of_floats_leaves_its_quantization_to_a_step_behind_it():
    x, z = (np.random.default_rng(seed).standard_normal((1, 8, 6, 5)).astype(np.float32) for seed in (0, 1))
    nodes = [node("Add", ("x", "z"), "c"), quantize("c", "s3", "z3", "y")]
    executable = compare(model(nodes, {"x": x, "z": z}, weights((1, 1), 0), "y"), {"x": x, "z": z})
    assert ("layout.reorder",) in [time.ops for time in executable.profile({"x": x, "z": z})]


def test_negative_weights_that_are_no_integers_of_8_bits_without_zero_point_are_none_for_the_library():
    constants = weights((16, 8, 3, 3), 0)
    constants |= {"w": constants["w"].view(np.uint8), "wz": np.full(16, 3, np.uint8)}
    x = integers((1, 8, 6, 5), 0)
    executable = compare(convolution(x, "z1", "z3", constants), {"x": x})
    found = "nn.conv" if library().sums_bytes_exactly else PACKED_INTEGER_CONV
    assert steps_of(executable, {"x": x})[-1] == (found,)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_a_gemm(transposed: int, alpha: float):
    x = integers((5, 9), 0)
    constants = weights((6, 9) if transposed else (9, 6), 1 - transposed, largest=64)
    nodes = [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("w", "ws", "wz", "wf", axis=1 - transposed),
        node("Gemm", ("xf", "wf", "b"), "c", transB=transposed, alpha=alpha),
    ]
    quantized = model([*nodes, quantize("c", "s3", "z3", "y")], {"x": x}, constants, "y")
    assert steps_of(compare(quantized, {"x": x}), {"x": x}) == [("nn.gemm", "layout.reorder")]
    compare(model(nodes, {"x": x}, constants, "c"), {"x": x})


@pytest.mark.parametrize("largest", [64, 127], ids=["7 bits", "8 bits"])
@pytest.mark.parametrize("rows", [1, 2])
def test_the_bias_of_a_product_of_one_row_stays_one_of_floats(rows: int, largest: int):
    nodes = [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("w", "ws", "wz", "wf", axis=0),
        node("Gemm", ("xf", "wf", "b"), "y", transB=1),
        quantize("y", "s3", "z3", "result"),
    ]
    inputs = {"x": integers((rows, 32), 2)}
    compare(model(nodes, inputs, weights((10, 32), 0, largest=largest), "result"), inputs)


def test_a_matrix_product_with_an_addend_and_constant_weights():
    x = integers((2, 5, 9), 0)
    nodes = [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("w", "ws", "wz", "wf", axis=1),
        node("MatMul", ("xf", "wf"), "c"),
        node("Add", ("c", "b"), "d"),
        quantize("d", "s3", "z3", "y"),
    ]
    executable = compare(model(nodes, {"x": x}, weights((9, 6), 1, largest=64), "y"), {"x": x})
    assert steps_of(executable, {"x": x}) == [("nn.matmul", "nn.add", "layout.reorder")]


@pytest.mark.parametrize(("op", "shape"), [("Gemm", (1, 196, 192)), ("MatMul", (1, 96, 64))])
def test_a_product_behind_a_transpose_has_the_kernel_of_one_that_is_not(op: str, shape: tuple[int, int, int]):
    # Of floats, one whose left operand lies transposed costs no more than any other.
    _, rows, columns = shape
    constants = {**weights((columns, 80), 1, largest=64), "flat": np.array([rows, columns])}
    kernels: list[str] = []
    for is_transposed in (True, False):
        x = numbers((1, columns, rows) if is_transposed else shape)
        nodes = [
            quantize("x", "s1", "z1", "xq"),
            dequantize("xq", "s1", "z1", "xf"),
            *([node("Transpose", ("xf",), "t", perm=(0, 2, 1))] if is_transposed else []),
            node("Reshape", ("t" if is_transposed else "xf", "flat"), "r"),
            quantize("r", "s1", "z1", "rq"),
            dequantize("rq", "s1", "z1", "rf"),
            dequantize("w", "ws", "wz", "wf", axis=1),
            node(op, ("rf", "wf", "b") if op == "Gemm" else ("rf", "wf"), "c"),
            quantize("c", "s3", "z3", "y"),
        ]
        executable = compare(model(nodes, {"x": x}, constants, "y"), {"x": x})
        steps = executable.profile({"x": x}, calls=1)
        kernels += [step.implementation for step in steps if f"nn.{op.lower()}" in step.ops]
    assert kernels[0] == kernels[1]


def product(right_zero: str) -> list[Any]:
    return [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("v", "s2", right_zero, "vf"),
        node("MatMul", ("xf", "vf"), "c"),
        quantize("c", "s3", "z3", "y"),
    ]


@exact_sums
def test_a_product_of_two_computed_tensors_the_right_one_symmetric():
    inputs = {"x": integers((2, 3, 5, 9), 0), "v": integers((2, 3, 9, 4), 1, np.int8)}
    executable = compare(model(product("symmetric"), inputs, {}, "y"), inputs)
    assert steps_of(executable, inputs) == [("nn.matmul", "layout.reorder")]


def test_negative_such_a_product_with_a_zero_point_on_the_right_runs_on_floats():
    inputs = {"x": integers((2, 3, 5, 9), 0), "v": integers((2, 3, 9, 4), 1, np.int8)}
    executable = compare(model(product("signed"), inputs, {}, "y"), inputs)
    assert steps_of(executable, inputs) == [("nn.matmul",)]


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("relu", [False, True])
def test_two_quantized_tensors(op: str, relu: bool):
    inputs = {"x": integers((2, 5, 4, 3), 0), "v": integers((2, 5, 4, 3), 1)}
    nodes = [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("v", "s2", "z2", "vf"),
        node(op, ("xf", "vf"), "c"),
        *([node("Relu", ("c",), "r")] if relu else []),
        quantize("r" if relu else "c", "s3", "z3", "y"),
    ]
    # Two zero points and two scales are rounded once more than in ONNX Runtime.
    # Every sixth sum is a tie that the scales, no powers of two, break; the library adds both zero points at once.
    executable = compare(model(nodes, inputs, {}, "y"), inputs, share=0.08)
    on_integers = op != "Mul"  # whose zero points are no constant behind it
    ops = (f"nn.{op.lower()}", *(["nn.relu"] if relu else []), *(["layout.reorder"] if on_integers else []))
    assert steps_of(executable, inputs) == [ops]


@pytest.mark.parametrize(("dtype", "zero_point"), [(np.uint8, 101), (np.int8, -77), (np.int8, 0)])
def test_ties_are_rounded_before_the_zero_point_is_added(dtype: Any, zero_point: int):
    """Scales are powers of two, so that the sums are exact and every fourth is a tie; the oracle is ONNX's formula."""
    draw = np.random.default_rng(3)
    x = draw.integers(0, 256, (1, 16, 6, 5)).astype(np.uint8)
    w = draw.integers(-3, 4, (16, 16, 1, 1)).astype(np.int8)
    constants = {
        "s1": np.float32(0.5), "z1": np.uint8(120), "ws": np.float32(0.25), "wz": np.int8(0),
        "s3": np.float32(0.5), "zero": dtype(zero_point), "w": w,
    }  # fmt: skip
    nodes = [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("w", "ws", "wz", "wf"),
        node("Conv", ("xf", "wf"), "c"),
        quantize("c", "s3", "zero", "y"),
    ]
    executable = compare(model(nodes, {"x": x}, constants, "y"), {"x": x}, share=0)
    assert steps_of(executable, {"x": x}) == [("nn.conv", "layout.reorder")]
    quarters = np.einsum("oi,nihw->nohw", w[:, :, 0, 0].astype(np.int64), x.astype(np.int64) - 120)
    assert np.count_nonzero(quarters % 4 == 2) > quarters.size / 8
    bounds = np.iinfo(dtype)
    expected = np.clip(np.rint(quarters / 4) + zero_point, bounds.min, bounds.max)
    assert np.array_equal(executable({"x": x})[0], expected)


def test_ties_of_sums_are_rounded_before_the_zero_point_is_added():
    draw = np.random.default_rng(4)
    inputs = {name: draw.integers(0, 256, (1, 16, 6, 5)).astype(np.uint8) for name in ("x", "v")}
    half = {"s1": np.float32(0.5), "s2": np.float32(0.5), "s3": np.float32(1), "z3": np.uint8(33)}
    nodes = [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("v", "s2", "z2", "vf"),
        node("Add", ("xf", "vf"), "c"),
        quantize("c", "s3", "z3", "y"),
    ]
    executable = compare(model(nodes, inputs, half, "y"), inputs, share=0)
    halves = sum(array.astype(np.int64) for array in inputs.values()) - 120 - 7
    assert np.array_equal(executable(inputs)[0], np.clip(np.rint(halves / 2) + 33, 0, 255))


def test_a_residual_block_that_reads_its_input_twice():
    x = integers((2, 8, 6, 5), 0)
    nodes = [
        dequantize("x", "s1", "z1", "xf"),
        dequantize("w", "ws", "wz", "wf", axis=0),
        node("Conv", ("xf", "wf", "b"), "c", pads=[1, 1, 1, 1]),
        quantize("c", "s2", "z3", "q"),
        dequantize("q", "s2", "z3", "qf"),
        node("Add", ("qf", "xf"), "a"),
        node("Relu", ("a",), "r"),
        quantize("r", "s3", "z2", "p"),
        dequantize("p", "s3", "z2", "pf"),
        node("Conv", ("pf", "wf", "b"), "d", pads=[1, 1, 1, 1]),
        quantize("d", "s3", "z3", "y"),
    ]
    compare(model(nodes, {"x": x}, weights((8, 8, 3, 3), 0), "y"), {"x": x}, steps=2, share=0.5)
