"""Operators on integers that ONNX Runtime's quantizer and optimizer write, as functions of standard operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layout_ir.frontends.onnx.function_body import (
    FLOAT,
    INT4,
    INT64,
    UINT4,
    UINT8,
    Body,
    Function,
    NoFunctionError,
    product_of_integers,
)

WINDOW = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
"""The attributes of pools."""


def product_to_float(body: Body) -> Sequence[str]:
    """MatMulIntegerToFloat."""
    product = product_of_integers(body, (2, 3), (4, 5))
    return [body.add("Add", product, body.input(6)) if body.has(6) else product]


def dynamic_product(body: Body) -> Sequence[str]:
    """DynamicQuantizeMatMul: the first factor is quantized by its own range."""
    levels, scale, zero_point = body.add_several("DynamicQuantizeLinear", 3, body.input(0))
    inputs = [levels, body.input(1), zero_point, *([body.input(3)] if body.has(3) else [])]
    product = body.cast(body.add("MatMulInteger", *inputs), FLOAT)
    product = body.add("Mul", product, body.add("Mul", scale, body.input(2)))
    return [body.add("Add", product, body.input(4)) if body.has(4) else product]


def dynamic_lstm(body: Body) -> Sequence[str]:
    """DynamicQuantizeLSTM: an LSTM whose weights are integers, inputs first and gates last, of scales per direction, or
    per direction and row of gates.

    ONNX Runtime multiplies integers: it also rounds the sequence, and the hidden state at each step, to 256 levels of
    their range, which the reference does as well, and the executor where weights are constants (`integer_recurrence`).
    Here they stay as they are, which is more exact.
    """
    directions = 2 if body.attribute("direction", "forward") == "bidirectional" else 1
    element = body.element(8)

    def weights(number: int, scale: int) -> str:
        levels = body.cast(body.input(number), element)
        if body.has(scale + 1):
            middle = body.cast(body.input(scale + 1), element)
            levels = body.add("Sub", levels, body.reshaped(middle, directions, 1, -1))
        real = body.add("Mul", levels, body.reshaped(body.input(scale), directions, 1, -1))
        return body.add("Transpose", real, perm=[0, 2, 1])

    others = body.given(8)[3:]
    attributes = ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size")
    stated = body.stated((*attributes, "input_forget"))
    return body.add_several("LSTM", 3, body.input(0), weights(1, 8), weights(2, 10), *others, **stated)


def quantized_embedding(body: Body) -> Sequence[str]:
    """QEmbedLayerNormalization: rows of quantized tables, added up and normalized, and the unmasked tokens per row.

    Inputs 2 to 6 are tables and parameters, 8 to 12 their scales and 13 to 17 their zero points, in that order.
    """

    def real(value: str, number: int) -> str:
        scale, zero_point = (body.reshaped(body.input(number + k)) for k in (6, 11))
        return body.add("DequantizeLinear", value, scale, zero_point)

    def rows(number: int, indices: str) -> str:
        return real(body.add("Gather", body.input(number), indices), number)

    tokens = body.input(0)
    # In the shape of the tokens, so that it is known where theirs is.
    ones = body.add("Expand", body.integers([[1]]), body.add("Shape", tokens))
    places = body.add("CumSum", ones, body.integers(1), exclusive=1)
    total = body.add("Add", rows(2, tokens), rows(3, places))
    if body.has(1) and body.has(4):
        total = body.add("Add", total, rows(4, body.input(1)))
    parameters = (real(body.input(number), number) for number in (5, 6))
    epsilon = float(body.attribute("epsilon", 1e-12))
    normal = body.add("LayerNormalization", total, *parameters, axis=-1, epsilon=epsilon)
    mask = body.input(7) if body.has(7) else body.add("Sub", tokens, tokens)
    return [normal, body.add("ReduceSum", mask, body.integers([1]), keepdims=0)]


def quantized_choice(body: Body) -> Sequence[str]:
    """QLinearWhere."""
    return _quantized(body, body.add("Where", body.input(0), _real(body, 1), _real(body, 4)), 7)


def _real(body: Body, number: int, axis: int = 1) -> str:
    """The real numbers of input `number`, which its scale and zero point follow."""
    given = [body.input(number), body.input(number + 1)]
    given += [body.input(number + 2)] if body.has(number + 2) else []
    return body.add("DequantizeLinear", *given, axis=axis)


def _quantized(body: Body, value: str, number: int) -> Sequence[str]:
    """The result: `value` in levels whose scale is input `number`, and the next one their zero point."""
    given = [body.input(number), *([body.input(number + 1)] if body.has(number + 1) else [])]
    return [body.add("QuantizeLinear", value, *given)]


def quantized_pair(op_type: str) -> Function:
    """QLinearAdd, QLinearMul: the standard operator on two tensors, each before its scale and zero point."""
    return lambda body: _quantized(body, body.add(op_type, _real(body, 0), _real(body, 3)), 6)


def quantized_alone(op_type: str, **defaults: Any) -> Function:
    """QLinearSigmoid, QLinearLeakyRelu: the standard operator, with its attributes and their defaults."""

    def function(body: Body) -> Sequence[str]:
        said = {name: body.attribute(name, default) for name, default in defaults.items()}
        return _quantized(body, body.add(op_type, _real(body, 0), **said), 3)

    return function


def quantized_softmax(body: Body) -> Sequence[str]:
    """QLinearSoftmax: it says itself of which opset it is; before 13 it works along all dims from its axis on."""
    axis, value = body.attribute("axis", -1), _real(body, 0)
    if body.attribute("opset", 1) >= 13:
        return _quantized(body, body.add("Softmax", value, axis=axis), 3)
    rows = body.add("Softmax", body.add("Flatten", value, axis=axis), axis=-1)
    return _quantized(body, body.add("Reshape", rows, body.add("Shape", value)), 3)


def quantized_concat(body: Body) -> Sequence[str]:
    """QLinearConcat: scale and zero point of the result, then each tensor before its own."""
    parts = [_real(body, number) for number in range(2, body.count(), 3)]
    return _quantized(body, body.add("Concat", *parts, axis=body.attribute("axis", 0)), 0)


def quantized_pool(op_type: str, *attributes: str) -> Function:
    """QLinearAveragePool, QLinearGlobalAveragePool: the standard operator, its channels last where it says so."""

    def function(body: Body) -> Sequence[str]:
        rank = body.rank(0) if body.attribute("channels_last", 0) else 0
        value = _over_images(body, op_type, [_real(body, 0)], rank, attributes)
        return _quantized(body, value, 3)

    return function


def _over_images(
    body: Body, op_type: str, inputs: Sequence[str], rank: int, attributes: Sequence[str]
) -> str:
    """The result of a standard operator of windows; for a `rank`, the first of the inputs and the result have so many
    dims, the channels last."""
    value, *others = inputs
    dims = range(rank)
    if rank:
        value = body.add("Transpose", value, perm=[0, dims[-1], *dims[1:-1]])
    value = body.add(op_type, value, *others, **body.stated(attributes))
    return body.add("Transpose", value, perm=[0, *dims[2:], 1]) if rank else value


def quantized_gemm(body: Body) -> Sequence[str]:
    """QGemm: what is added is in integers, of the scales of both factors and alpha; without a scale for the result it
    stays real."""
    flags = {name: body.attribute(name, 0) for name in ("transA", "transB")}
    alpha, element = body.attribute("alpha", 1.0), body.element(1)
    columns = 0 if flags["transB"] else 1
    factors = [_real(body, 0), _real(body, 3, columns)]
    value = body.add("Gemm", *factors, alpha=alpha, **flags)
    if body.has(6):
        scale = body.add("Mul", body.add("Mul", body.input(1), body.input(4)), body.constant(alpha, element))
        value = body.add("Add", value, body.add("Mul", body.cast(body.input(6), element), scale))
    return _quantized(body, value, 7) if body.has(7) else [value]


def pool_of_channels_last(body: Body) -> Sequence[str]:
    """NhwcMaxPool."""
    rank = 2 + len(body.attribute("kernel_shape", []))
    return [_over_images(body, "MaxPool", body.given(1), rank, ("storage_order", *WINDOW))]


def quantized_convolution(body: Body) -> Sequence[str]:
    """QLinearConv: the standard operator, its channels last where it says so."""
    rank = body.rank(3) if body.attribute("channels_last", 0) else 0
    attributes = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    return [_over_images(body, "QLinearConv", body.given(9), rank, attributes)]


def rows_of_blocks(body: Body) -> Sequence[str]:
    """GatherBlockQuantized: parts of a table whose last dim is in blocks that each have a scale, of numbers of 4 bits,
    or of bytes that have one or two numbers each."""
    is_packed = body.element(0) == UINT8
    bits, size = (body.attribute("bits", 4) if is_packed else 4), body.attribute("block_size", 128)
    rank = body.rank(0)
    is_last = body.attribute("quantize_axis", 1) in (rank - 1, -1)
    if (
        body.attribute("gather_axis", 0)
        or rank < 2
        or not is_last
        or body.element(0) not in (UINT8, UINT4, INT4)
        or bits not in (4, 8)
    ):
        raise NoFunctionError
    element, width = body.element(2), body.extent(0, -1) * (8 // bits if is_packed else 1)
    if size < 1:
        raise NoFunctionError
    dims = [0] * (body.rank(1) + rank - 2)
    size = min(size, max(width, 1))  # a row that is shorter than a block is one
    blocks = -(-width // size)
    missing = blocks * size - width

    def rows(number: int) -> str:
        found = body.add("Gather", body.input(number), body.input(1), axis=0)
        return (
            _numbers_in_bytes(body, found, len(dims) + 1, bits, element)
            if is_packed
            else body.cast(found, element)
        )

    levels = rows(0)
    if missing:
        levels = body.add("Pad", levels, body.integers([0] * (2 * len(dims) + 1) + [missing]))
    levels = body.reshaped(levels, *dims, blocks, size)
    if body.has(3):
        middle = body.add("Unsqueeze", body.part(rows(3), len(dims), 0, blocks), body.integers([-1]))
        levels = body.add("Sub", levels, middle)
    elif is_packed:
        levels = body.add("Sub", levels, body.constant([float(1 << (bits - 1))], element))
    scales = body.add(
        "Unsqueeze", body.add("Gather", body.input(2), body.input(1), axis=0), body.integers([-1])
    )
    real = body.reshaped(body.add("Mul", levels, scales), *dims, -1)
    return [body.part(real, len(dims), 0, width) if missing else real]


def product_with_bits(body: Body) -> Sequence[str]:
    """MatMulNBits: a row of the second factor is a column of the matrix, in blocks that each have a scale."""
    body.allow(0, 1, 2, 3, 5)
    rows, columns = body.attribute("K", 0), body.attribute("N", 0)
    bits, size = body.attribute("bits", 4), body.attribute("block_size", 0)
    if min(rows, columns, size) < 1 or body.element(1) != UINT8 or bits not in (2, 4, 8):
        raise NoFunctionError
    element, blocks = body.element(2), -(-rows // size)

    def numbers(number: int) -> str:
        return _numbers_in_bytes(body, body.reshaped(body.input(number), columns, -1), 2, bits, element)

    middle = body.constant([float(1 << (bits - 1))], element)
    if body.has(3):
        is_packed = body.element(3) == UINT8
        middle = body.part(numbers(3), 1, 0, blocks) if is_packed else body.cast(body.input(3), element)
        middle = body.reshaped(middle, columns, blocks, 1)
    levels = body.reshaped(numbers(1), columns, blocks, size)
    real = body.add("Mul", body.add("Sub", levels, middle), body.reshaped(body.input(2), columns, blocks, 1))
    matrix = body.part(body.reshaped(real, columns, -1), 1, 0, rows)
    product = body.add("MatMul", body.input(0), body.add("Transpose", matrix, perm=[1, 0]))
    return [body.add("Add", product, body.input(5)) if body.has(5) else product]


_REAL_NUMBERS = (
    # FP4: a sign, two bits of an exponent and one of a mantissa.
    [
        sign * number
        for sign in (1, -1)
        for number in (0.0, 0.00520833, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
    ],
    # NF4: such that equally many numbers of a normal distribution are nearest to each.
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ],
)  # fmt: skip
"""What 4 bits stand for in weights of bitsandbytes, by `quant_type`: parts of the largest number of a block."""


def product_with_codes(body: Body) -> Sequence[str]:
    """MatMulBnb4: the columns of the matrix one behind the other, in blocks that each have a largest number; of the two
    numbers in a byte the higher bits are the first."""
    rows, columns = body.attribute("K", 0), body.attribute("N", 0)
    size, kind = body.attribute("block_size", 0), body.attribute("quant_type", 0)
    if min(rows, columns, size) < 1 or kind not in (0, 1) or body.attribute("transB", 1) != 1:
        raise NoFunctionError
    element = body.element(2, 0)
    pairs = _numbers_in_bytes(body, body.reshaped(body.input(1), -1, 1), 2, 4, element)
    codes = body.part(body.reshaped(body.part(pairs, 1, -1, -3, -1), -1), 0, 0, rows * columns)
    parts = body.add("Gather", body.constant(_REAL_NUMBERS[kind], element), body.cast(codes, INT64))
    largest = body.add("Expand", body.reshaped(body.input(2), -1, 1), body.integers([1, size]))
    real = body.add("Mul", parts, body.part(body.reshaped(largest, -1), 0, 0, rows * columns))
    matrix = body.add("Transpose", body.reshaped(real, columns, rows), perm=[1, 0])
    return [body.add("MatMul", body.input(0), matrix)]


def _numbers_in_bytes(body: Body, packed: str, rank: int, bits: int, element: int) -> str:
    """The numbers in the bytes of each row of a tensor, lower bits of bytes first, as floats."""
    rest = body.cast(packed, element)
    if bits == 8:
        return rest
    base = body.constant(float(1 << bits), element)
    numbers: list[str] = []
    for _ in range(8 // bits - 1):
        high = body.add("Floor", body.add("Div", rest, base))
        numbers.append(body.add("Sub", rest, body.add("Mul", high, base)))
        rest = high
    columns = [body.add("Unsqueeze", each, body.integers([-1])) for each in (*numbers, rest)]
    return body.reshaped(body.add("Concat", *columns, axis=-1), *[0] * (rank - 1), -1)
