"""DynamicQuantizeLSTM: the products of the sequence at once, and a node for all steps behind them (`nn/integer_lstm`).

Weights are constants, and stay integers, less their zero points. The sequence is rounded to 256 levels of its range,
and states are at each step, as ONNX Runtime does on one thread. Where the longest sequence ends before the last step,
what is behind takes no part in the range.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from layout_ir.backends.llvm.loops.integer_convolution import panel_columns
from layout_ir.backends.llvm.loops.nibble_product import has_nibble_product
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.onednn.rewrites.dynamic_quantization import quantized_by_range
from layout_ir.backends.onednn.rewrites.mask_decomposition import as_i64, places
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.backends.onednn.rewrites.packed_integers import multiplied_rows
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp, dtype_of
from layout_ir.dialects.nn.integer_lstm import INTEGER_LSTM, IntegerLstm
from layout_ir.dialects.nn.opaque import domain_and_operator
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array, storage

_LENGTHS, _HIDDEN, _CELL, _PEEPHOLES = 4, 5, 6, 7
_OF_INPUT, _OF_STATES = (1, 8), (2, 10)
"""The numbers of weights, and of their scales, which their zero points follow."""


def lstm_of_integers(node: OpaqueNode) -> list[SSAValue | None]:
    """Per result of the node what it is; None for unused ones."""
    x = node.input(0)
    added = {"panel": panel_columns(host())}

    def attribute(name: str, default: Any) -> Any:
        return added[name] if name in added else node.attribute(name, default)

    lstm = IntegerLstm.of_node(attribute)
    if len(shape_of(x)) != 3 or not prod(shape_of(x)) or dtype_of(x.type) != "f32":
        raise Unsupported
    steps, batch, width = shape_of(x)
    directions, columns = lstm.directions, lstm.columns
    state = (directions, batch, lstm.hidden)
    shapes = {_LENGTHS: (batch,), _HIDDEN: state, _CELL: state}
    types = {_LENGTHS: "i32", _HIDDEN: "f32", _CELL: "f32"}
    for number, shape in shapes.items():
        value = node.optional(number)
        if value is not None and (shape_of(value), dtype_of(value.type)) != (shape, types[number]):
            raise Unsupported
    of_input = _integers(node, *_OF_INPUT, (directions, width, columns))
    of_states = _integers(node, *_OF_STATES, (directions, lstm.hidden, columns))
    levels, scale, zero_point = quantized_by_range(node, x, _before_the_end(node, x))
    together = of_input.transpose(1, 0, 2).reshape(width, directions * columns)
    dtype = "i8" if of_states.min() >= -128 and of_states.max() <= 127 else "i16"
    added["quads"] = int(dtype == "i8" and batch == 1 and has_nibble_product(host()))
    lstm = IntegerLstm.of_node(attribute)
    packed = np.concatenate([lstm.packed(each.T) for each in of_states.astype(storage(dtype))])
    columns_of = _columns(node, directions, columns)
    if lstm.in_quads:
        columns_of = np.concatenate([columns_of, of_states.sum(axis=1, keepdims=True)], axis=1)
    peepholes = _constant(node, _PEEPHOLES, (directions, 3 * lstm.hidden))
    inputs = [
        multiplied_rows(node, levels, zero_point, together),
        node.insert(ReshapeOp(scale, ())) if shape_of(scale) else scale,
        node.constant(packed, dtype),
        node.constant(columns_of),
        None if peepholes is None or not peepholes.any() else node.constant(peepholes),
        *(node.optional(number) for number in (_LENGTHS, _HIDDEN, _CELL)),
    ]
    while inputs[-1] is None:
        inputs.pop()
    domain, operator = domain_and_operator(INTEGER_LSTM)
    results = [
        node.type_of("f32", (steps, directions, batch, lstm.hidden)),
        *(node.type_of("f32", state) for _ in range(2)),
        node.type_of("i32", (directions, lstm.scratch(batch))),
    ]
    versions = {"": 21, domain: 1}
    attributes = {
        **node.op.node_attributes.data,
        **{name: IntegerAttr(number, i64) for name, number in added.items()},
    }
    made = nn.OpaqueOp.of_node(operator, domain, versions, inputs, {}, attributes, results)
    node.insert(made)
    return [value for value, there in zip(made.results, node.op.given_outputs, strict=False) if there]


def _integers(node: OpaqueNode, number: int, scale: int, shape: tuple[int, ...]) -> Array:
    """Weights of a shape less their zero points."""
    weights, zero_points = node.constant_input(number), node.constant_input(scale + 1)
    if weights is None or weights.shape != shape or weights.dtype.itemsize != 1:
        raise Unsupported
    if zero_points is None:
        return weights.astype(np.int16)
    return weights.astype(np.int16) - _by_column(zero_points.astype(np.int16), shape[0], shape[2])


def _by_column(numbers: Array, directions: int, columns: int) -> Array:
    """Numbers per direction, or per direction and column, as (directions, 1, columns), or of one column for all."""
    if numbers.size not in (directions, directions * columns):
        raise Unsupported
    return numbers.reshape(directions, 1, -1)


def _columns(node: OpaqueNode, directions: int, columns: int) -> Array:
    """Scales of both weights and the bias, (directions, 3, columns)."""
    rows: list[Array] = []
    for _, number in (_OF_INPUT, _OF_STATES):
        scales = node.constant_input(number)
        if scales is None or scales.dtype != np.float32:
            raise Unsupported
        found = _by_column(scales, directions, columns)
        rows.append(np.broadcast_to(found, (directions, 1, columns)))
    bias = _constant(node, 3, (directions, 2 * columns))
    both = np.zeros((directions, 2, columns), np.float32) if bias is None else bias
    rows.append(both.reshape(directions, 2, columns).sum(axis=1, keepdims=True))
    return np.concatenate(rows, axis=1)


def _constant(node: OpaqueNode, number: int, shape: tuple[int, ...]) -> Array | None:
    found = node.constant_input(number)
    if found is not None and (found.shape != shape or found.dtype != np.float32):
        raise Unsupported
    return found


def _before_the_end(node: OpaqueNode, x: SSAValue) -> SSAValue | None:
    """The sequence, 0 behind the end of the longest one; None where all are as long as can be."""
    lengths = node.optional(_LENGTHS)
    if lengths is None:
        return None
    longest = node.apply(nn.ReduceMaxOp, as_i64(node, lengths), axes=(0,), keepdims=False)
    is_before = node.apply(nn.LessOp, places(node, shape_of(x)[0], 0, 3), longest)
    return node.apply(nn.WhereOp, is_before, x, node.constant(np.array(0.0)))
