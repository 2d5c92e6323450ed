"""LSTM, GRU and RNN nodes as recurrent primitives.

ONNX has the gates of an LSTM in the order input, output, forget, cell, and oneDNN input, forget, cell, output; those of
a GRU are alike in both, and so is what `linear_before_reset` chooses between. Weights, (directions, gates * hidden, x)
there, are packed as (layers, directions, x, gates, hidden); two biases are added up. Both directions are computed by
one primitive, which writes them one behind the other per element of the batch: the result of ONNX for a batch of one.

Taken are nodes with constant weights whose sequences are all of full length, without peepholes, with the usual
activations (an RNN may have a relu), and of whose results only the first is used, or of an LSTM in one direction all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from xdsl.ir import SSAValue

from layout_ir.backends.onednn.library import Refused
from layout_ir.backends.onednn.memory_descriptors import MemoryDescriptor, strided
from layout_ir.backends.onednn.op_primitives.primitive_operands import Operand, OpPrimitive, Values
from layout_ir.backends.onednn.primitives import INFERENCE, Algorithm, Argument, Request
from layout_ir.dialects import nn
from layout_ir.elements.numpy_types import Array
from layout_ir.errors import LayoutError

_DIRECTIONS = {"forward": (1, 1), "reverse": (2, 1), "bidirectional": (3, 2)}
"""By the name in ONNX the library's number, and how many directions that are."""

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (0, 1, 2), "RNN": (0,)}
"""Per gate of the library that of ONNX."""

_USUAL = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}
"""The activations of one direction."""

_ACTIVATIONS = {"tanh": Algorithm.TANH, "relu": Algorithm.RELU}
"""The activations that an RNN may have."""


def recurrent_candidates(op: nn.OpaqueOp, values: Values) -> Iterator[OpPrimitive]:
    """The primitive for an LSTM, GRU or RNN node of f32; none for other nodes."""
    if op.title not in _GATES or any(values.dtype(value) != "f32" for value in op.operands):
        return
    if not op.given_outputs[0]:
        return
    try:
        yield _recurrent(op, values)
    except (Refused, LayoutError):  # an attribute of another kind
        return


def _recurrent(op: nn.OpaqueOp, values: Values) -> OpPrimitive:
    given = iter(op.operands)
    inputs = [next(given) if there else None for there in op.given_inputs]
    inputs += [None] * (8 - len(inputs))
    x, w, r, bias, lengths, hidden, cell, peepholes = inputs
    is_lstm = op.title == "LSTM"
    activation = _activation(op)
    if x is None or w is None or r is None or lengths is not None or peepholes is not None:
        raise Refused("sequences are of full length, without peepholes")
    direction, count = _DIRECTIONS.get(op.node_attribute("direction", "forward"), (0, 0))
    size = op.node_attribute("hidden_size", 0)
    order = _GATES[op.title]
    gates = len(order)
    shape = values.layout(x).shape
    if len(shape) != 3 or not count or not size:
        raise Refused("the node is none of ONNX")
    if not all(shape):
        raise Refused("the library divides by the extents of a source")
    steps, batch, width = shape
    state = (count, batch, size)
    wanted = (
        (w, (count, gates * size, width)),
        (r, (count, gates * size, size)),
        (bias, (count, 2 * gates * size)),
        (hidden, state),
        (cell, state),
    )
    if any(value is not None and values.layout(value).shape != extents for value, extents in wanted):
        raise Refused("operands have other shapes than the attributes say")
    if count > 1 and batch > 1:
        raise Refused("directions of ONNX do not lie one behind the other in a batch")
    is_used = any(list(result.uses) for result in op.results[1:])
    if is_used and (not is_lstm or count > 1 or not all(op.given_outputs) or len(op.results) != 3):
        raise Refused("primitives write the last states of an LSTM in one direction, both of them")
    source = _in_rows(values, x, shape)
    result = _in_rows(values, op.results[0], (steps, batch, count * size))
    packed: dict[int, tuple[Operand, MemoryDescriptor]] = {
        Argument.WEIGHTS: _weights(values, w, count, order, width),
        Argument.WEIGHTS_1: _weights(values, r, count, order, size),
        Argument.BIAS: values.packed(_bias(op, values, bias, count, gates, size, order)),
    }
    if hidden is not None or cell is not None:
        for argument, value in ((Argument.SRC_1, hidden), (Argument.SRC_2, cell))[: 2 if is_lstm else 1]:
            zeros = np.zeros((1, *state), np.float32)
            packed[argument] = values.packed(zeros) if value is None else _state(values, value, zeros.shape)
    states = [packed[k][1] if k in packed else None for k in (Argument.SRC_1, Argument.SRC_2)]
    weights = [packed[k][1] for k in (Argument.WEIGHTS, Argument.WEIGHTS_1)]
    offsets = packed[Argument.BIAS][1]
    last = [
        (argument, value, _in_rows(values, value, (1, *state)))
        for argument, value in zip((Argument.DST_1, Argument.DST_2), op.results[1:], strict=False)
        if is_used
    ]
    given_last = [descriptor for _, _, descriptor in last] or [None, None]
    if is_lstm:
        name = "lstm"
        arguments = (direction, source, *states, *weights, None, None, offsets, result, *given_last, 0)
    elif op.title == "GRU":
        name = "lbr_gru" if op.node_attribute("linear_before_reset", 0) else "gru"
        arguments = (direction, source, states[0], *weights, offsets, result, None, 0)
    else:
        name = "vanilla_rnn"
        arguments = (activation, direction, source, states[0], *weights, offsets, result, None, 0, 0.0, 0.0)
    operands: dict[int, Operand] = {Argument.SRC: Operand(x, source)}
    operands |= {argument: operand for argument, (operand, _) in packed.items()}
    request = Request(f"{name}_forward", (INFERENCE, *arguments))
    # Without extents: no constant is broadcast to it as a post-op.
    return OpPrimitive(request, operands, result, (), more_results=tuple(last))


def _in_rows(values: Values, value: SSAValue, shape: Sequence[int]) -> MemoryDescriptor:
    """The descriptor of a value seen as `shape`, whose dims of one element have the strides of rows that lie dense.

    Kernels of 3.2 read the lengths of rows off the strides of the batch, also of a batch of one: where that is less
    than a row they write into other memory.
    """
    found = values.descriptor(value, shape)
    said = found.blocking()
    if said.inner_blks:
        return found
    strides, inner = list(said.strides), 1
    for d in reversed(range(len(strides))):
        strides[d] = inner if said.dims[d] == 1 else strides[d]
        inner = strides[d] * said.dims[d]
    return strided(values.library, said.dims, strides, values.dtype(value))


def _state(values: Values, value: SSAValue, shape: Sequence[int]) -> tuple[Operand, MemoryDescriptor]:
    """A state that the node is given, and its descriptor."""
    if values.constant(value) is not None:
        return values.operand(value, shape)
    found = _in_rows(values, value, shape)
    return Operand(value, found), found


def _activation(op: nn.OpaqueOp) -> Algorithm:
    """The activation of an RNN. Raises Refused where activations, gates or the order of dims are not the usual ones."""
    unusual = {"activation_alpha", "activation_beta", "clip"} & set(op.node_attributes.data)
    if unusual or op.node_attribute("input_forget", 0) or op.node_attribute("layout", 0):
        raise Refused("activations, gates or the order of dims are not the usual ones")
    usual = _USUAL[op.title]
    given = op.node_attribute("activations", ()) or usual
    names = tuple(str(name).lower() for name in cast("tuple[Any, ...]", given) if isinstance(given, tuple))
    first = names[: len(usual)]
    if not first or len(names) % len(usual) or names != first * (len(names) // len(usual)):
        raise Refused("directions have activations of their own")
    if first != usual and (op.title != "RNN" or first[0] not in _ACTIVATIONS):
        raise Refused("activations are not the usual ones")
    return _ACTIVATIONS.get(first[0], Algorithm.TANH)


def _constant(values: Values, value: SSAValue) -> Array:
    found = values.constant(value)
    if found is None:
        raise Refused("weights are constants")
    return found


def _weights(
    values: Values, value: SSAValue, count: int, order: tuple[int, ...], width: int
) -> tuple[Operand, MemoryDescriptor]:
    """(directions, gates * hidden, width) as (1, directions, width, gates, hidden), put in order when it is packed."""
    array = _constant(values, value).reshape(count, len(order), -1, width)
    operand, descriptor = values.packed(array.transpose(0, 3, 1, 2)[None], chosen=True)
    sorted_already = order == tuple(range(len(order)))
    return replace(operand, order=None if sorted_already else (3, np.array(order))), descriptor


def _bias(
    op: nn.OpaqueOp,
    values: Values,
    value: SSAValue | None,
    count: int,
    gates: int,
    size: int,
    order: tuple[int, ...],
) -> Array:
    """Both biases of each gate added up; where the reset comes behind the product, that gate keeps them apart."""
    apart = op.title == "GRU" and bool(op.node_attribute("linear_before_reset", 0))
    if value is None:
        return np.zeros((1, count, gates + apart, size), np.float32)
    both = _constant(values, value).reshape(count, 2, gates, size)[:, :, order]
    added = both.sum(axis=1)
    if apart:
        added = np.concatenate([added[:, :-1], both[:, :1, -1], both[:, 1:, -1]], axis=1)
    return np.ascontiguousarray(added[None], np.float32)
