"""Operators of ONNX Runtime as functions of standard ones: what those compute of which ONNX itself says nothing.

ONNX has functions for its own operators; these are the same for operators that ONNX Runtime's optimizer, its quantizer
and the builders of language models write. Types follow from the nodes, the reference evaluates them, and the executor
compiles them. All are of operators that have been the same since opset 13.

The functions are those of the kernels for CPUs: where ONNX Runtime has none for an attribute or an input, there is no
function, and where its kernel leaves results undefined (rows of a GroupQueryAttention behind the end of a sequence)
they are what the nodes make of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.attention_functions import (
    attention,
    group_query_attention,
    multi_head_attention,
    quantized_attention,
    rotary_embedding,
)
from layout_ir.frontends.onnx.function_body import (
    FLOAT,
    INT64,
    UINT8,
    Body,
    Function,
    NoFunctionError,
    TensorType,
    Types,
    constant_type,
    product_of_integers,
    type_of,
)

if TYPE_CHECKING:
    import onnx

OPSET = 21
"""The version of the standard operators in which functions are evaluated and compiled."""


def function_nodes(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto] | None:
    """Standard nodes that compute what `node` does, in the order of their use, with the outputs of the node, the first
    of them by the last node; names in between begin with "value". None where no function is known for it, or none for
    its attributes and inputs.

    Raises KeyError where the function depends on a type that is not known.
    """
    import onnx.helper

    function = FUNCTIONS.get(f"{node.domain}.{node.op_type}")
    if function is None or not node.output or not node.output[0]:
        return None
    body = Body(node, types)
    try:
        results = function(body)
    except NoFunctionError:
        return None
    if len(results) < len(node.output):
        return None
    wanted = [(name, found) for name, found in zip(node.output, results, strict=False) if name]
    return [
        *body.nodes,
        *(onnx.helper.make_node("Identity", [found], [name]) for name, found in reversed(wanted)),
    ]


def written_out(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The function of the one node of `model` as a model with the same inputs and outputs; None where there is none."""
    import onnx
    import onnx.helper

    (node,) = model.graph.node
    graph = model.graph
    known = {value.name: value.type for value in (*graph.input, *graph.value_info)}
    constants = {tensor.name: constant_type(tensor) for tensor in graph.initializer}

    def type_by_name(name: str) -> TensorType:
        return constants[name] if name in constants else type_of(known[name])

    nodes = function_nodes(node, type_by_name)
    if nodes is None:
        return None
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    del result.opset_import[:]
    result.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    return result


# Quantization ---------------------------------------------------------------------------------------------------------


def _product_to_float(body: Body) -> Sequence[str]:
    """MatMulIntegerToFloat."""
    product = product_of_integers(body, (0, 1), (2, 3), (4, 5))
    return [body.add("Add", product, body.input(6)) if body.has(6) else product]


def _dynamic_product(body: Body) -> Sequence[str]:
    """DynamicQuantizeMatMul: the first factor is quantized by its own range."""
    levels, scale, zero_point = body.add_several("DynamicQuantizeLinear", 3, body.input(0))
    inputs = [levels, body.input(1), zero_point, *([body.input(3)] if body.has(3) else [])]
    product = body.cast(body.add("MatMulInteger", *inputs), FLOAT)
    product = body.add("Mul", product, body.add("Mul", scale, body.input(2)))
    return [body.add("Add", product, body.input(4)) if body.has(4) else product]


def _quantized_choice(body: Body) -> Sequence[str]:
    """QLinearWhere."""
    one, other = (
        body.add("DequantizeLinear", *(body.input(first + number) for number in range(3))) for first in (1, 4)
    )
    chosen = body.add("Where", body.input(0), one, other)
    return [body.add("QuantizeLinear", chosen, body.input(7), body.input(8))]


def _channels_last(op_type: str, inputs: int, *attributes: str) -> Function:
    """A standard operator of windows on the dims of input 0 with the channels second, its result with the channels
    last, where the operator has them so; a pool always, a convolution, whose weights are input 3, as it says."""

    def function(body: Body) -> Sequence[str]:
        given = body.given(inputs)
        is_pool = op_type == "MaxPool"
        is_last = is_pool or bool(body.attribute("channels_last", 0))
        dims = range(2 + len(body.attribute("kernel_shape", []))) if is_pool else range(body.rank(3))
        if is_last:
            given[0] = body.add("Transpose", given[0], perm=[0, dims[-1], *dims[1:-1]])
        said = {name: value for name in attributes if (value := body.attribute(name, None)) is not None}
        result = body.add(op_type, *given, **said)
        return [body.add("Transpose", result, perm=[0, *dims[2:], 1]) if is_last else result]

    return function


def _rows_of_blocks(body: Body) -> Sequence[str]:
    """GatherBlockQuantized: rows of a table in blocks that each have a scale, two numbers of 4 bits to a byte."""
    bits, size = body.attribute("bits", 4), body.attribute("block_size", 128)
    is_last = body.attribute("quantize_axis", 1) in (1, -1)
    if (
        body.attribute("gather_axis", 0)
        or body.rank(0) != 2
        or not is_last
        or body.element(0) != UINT8
        or bits not in (4, 8)
    ):
        raise NoFunctionError
    element, width = body.element(2), body.extent(0, 1) * 8 // bits
    if size < 1 or width % size:
        raise NoFunctionError
    dims = [0] * body.rank(1)

    def rows(number: int) -> str:
        packed = body.add("Gather", body.input(number), body.input(1), axis=0)
        return _numbers_in_bytes(body, packed, len(dims) + 1, bits, element)

    blocks = width // size
    levels = body.reshaped(rows(0), *dims, blocks, size)
    middle = body.constant([float(1 << (bits - 1))], element)
    if body.has(3):
        middle = body.add("Unsqueeze", body.part(rows(3), len(dims), 0, blocks), body.integers([-1]))
    scales = body.add(
        "Unsqueeze", body.add("Gather", body.input(2), body.input(1), axis=0), body.integers([-1])
    )
    real = body.add("Mul", body.add("Sub", levels, middle), scales)
    return [body.reshaped(real, *dims, -1)]


def _product_with_bits(body: Body) -> Sequence[str]:
    """MatMulNBits: a row of the second factor is a column of the matrix, in blocks that each have a scale."""
    body.allow(0, 1, 2, 3, 5)
    rows, columns = body.attribute("K", 0), body.attribute("N", 0)
    bits, size = body.attribute("bits", 4), body.attribute("block_size", 0)
    if min(rows, columns, size) < 1 or body.element(1) != UINT8 or bits not in (4, 8):
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


def _numbers_in_bytes(body: Body, packed: str, rank: int, bits: int, element: int) -> str:
    """The numbers in the bytes of each row of a tensor, lower halves of bytes first, as floats."""
    real = body.cast(packed, element)
    if bits == 8:
        return real
    base = body.constant(16.0, element)
    high = body.add("Floor", body.add("Div", real, base))
    low = body.add("Sub", real, body.add("Mul", high, base))
    pair = [body.add("Unsqueeze", half, body.integers([-1])) for half in (low, high)]
    return body.reshaped(body.add("Concat", *pair, axis=-1), *[0] * (rank - 1), -1)


# --- older names of what ONNX has since -----------------------------------------------------------------------------


def _renamed(op_type: str, inputs: int, *attributes: str) -> Function:
    """A standard operator of the same inputs and attributes."""

    def function(body: Body) -> Sequence[str]:
        given = body.given(inputs)
        said = {name: value for name in attributes if (value := body.attribute(name, None)) is not None}
        return [body.add(op_type, *given, **said)]

    return function


def _expanded_dims(body: Body) -> Sequence[str]:
    """ExpandDims: one more dim, where input 1 says."""
    known = body.number(1)
    dims = body.reshaped(body.cast(body.input(1), INT64), 1) if known is None else body.integers([known])
    return [body.add("Unsqueeze", body.input(0), dims)]


_WINDOW = ("auto_pad", "ceil_mode", "dilations", "group", "kernel_shape", "pads", "storage_order", "strides")
_CONVOLUTION = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")

FUNCTIONS: dict[str, Function] = {
    "com.microsoft.Attention": attention,
    "com.microsoft.DynamicQuantizeMatMul": _dynamic_product,
    "com.microsoft.ExpandDims": _expanded_dims,
    "com.microsoft.GatherBlockQuantized": _rows_of_blocks,
    "com.microsoft.GatherND": _renamed("GatherND", 2),
    "com.microsoft.GroupQueryAttention": group_query_attention,
    "com.microsoft.MatMulIntegerToFloat": _product_to_float,
    "com.microsoft.MatMulNBits": _product_with_bits,
    "com.microsoft.MultiHeadAttention": multi_head_attention,
    "com.microsoft.NhwcMaxPool": _channels_last("MaxPool", 1, *_WINDOW),
    "com.microsoft.Pad": _renamed("Pad", 3, "mode"),
    "com.microsoft.QAttention": quantized_attention,
    "com.microsoft.QLinearConv": _channels_last("QLinearConv", 9, *_CONVOLUTION),
    "com.microsoft.QLinearWhere": _quantized_choice,
    "com.microsoft.Range": _renamed("Range", 3),
    "com.microsoft.RotaryEmbedding": rotary_embedding,
    "com.microsoft.Trilu": _renamed("Trilu", 2, "upper"),
}
"""By domain and operator."""
