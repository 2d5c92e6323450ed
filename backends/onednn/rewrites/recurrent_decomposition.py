"""LSTM, GRU and RNN nodes in the form that primitives have: of their results only the first, directions one by one.

The primitive writes both directions one behind the other for each element of the batch, ONNX one batch behind the
other. So for more than one element each direction becomes a node of its own. The last hidden state is the first result
at the last step of the direction. Where the last cell state of an LSTM is used, its nodes have all three results.
Lengths that are those of whole sequences, and peepholes of 0, are left out. Other lengths say which steps are 0 and
which one is the last; for the direction from behind, each sequence is turned around, and its results back. A batch in
front is brought behind the steps. Nodes on floats of 16 bits, for which there are no primitives, compute in f32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from layout_ir.backends.onednn.op_primitives.primitive_operands import widened
from layout_ir.backends.onednn.rewrites.inserted_ops import elements_of
from layout_ir.backends.onednn.rewrites.mask_decomposition import as_i64, places, reversed_rows
from layout_ir.backends.onednn.rewrites.opaque_node import OpaqueNode, Unsupported
from layout_ir.dialects import nn
from layout_ir.dialects.layout import PermuteOp, ReshapeOp, dtype_of
from layout_ir.dialects.nn.tensor_types import shape_of, tensor_type

_DIRECTIONS = {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}

_LENGTHS, _PEEPHOLES = 4, 7


def split_recurrent(node: OpaqueNode) -> list[SSAValue | None]:
    """Per result of an LSTM, GRU or RNN node what it is by nodes that have primitives; None for unused ones."""
    op = node.op
    directions = _DIRECTIONS.get(node.attribute("direction", "forward"), ())
    given = iter(op.results)
    results = [next(given) if there else None for there in op.given_outputs]
    used = [value is not None and bool(list(value.uses)) for value in results] + [False, False]
    if any(value is not None and dtype_of(value.type) in ("f16", "bf16") for value in node.inputs):
        return _in_single_precision(node, results)
    if node.attribute("layout", 0):
        return _with_steps_in_front(node, results)
    size = node.attribute("hidden_size", 0)
    x, r = shape_of(node.input(0)), shape_of(node.input(2))
    if len(x) != 3 or len(r) != 3 or (r[0], r[2]) != (len(directions), size):
        raise Unsupported
    steps, batch, _ = x
    if (plain := _without_what_changes_nothing(node, steps, results)) is not None:
        return plain
    with_states, lengths = used[2], node.optional(_LENGTHS)
    if lengths is not None:
        is_primitive = False
    elif with_states:
        is_primitive = len(directions) == 1 and len(op.results) == 3
    else:
        is_primitive = not used[1] and (len(directions) == 1 or batch == 1)
    if is_primitive or not directions:
        raise Unsupported
    if (lengths is not None and with_states) or node.optional(_PEEPHOLES) is not None:
        raise Unsupported
    parts = [
        _direction(node, number, direction, len(directions), with_states)
        if lengths is None
        else _direction_of_lengths(node, number, direction, len(directions), lengths)
        for number, direction in enumerate(directions)
    ]
    last: list[SSAValue] = []
    for (y, *states), direction in zip(parts, directions, strict=True):
        if states:
            last.append(states[0])
        elif used[1]:
            step = _step(node, y, 0 if direction == "reverse" else steps - 1)
            last.append(node.insert(ReshapeOp(step, (1, batch, size))))
    found = [
        _joined(node, [part[0] for part in parts], 1) if used[0] else None,
        _joined(node, last, 0) if used[1] else None,
        _joined(node, [part[2] for part in parts], 0) if with_states else None,
    ]
    return [value for value, there in zip(found, op.given_outputs, strict=False) if there]


def _in_single_precision(node: OpaqueNode, results: Sequence[SSAValue | None]) -> list[SSAValue | None]:
    """The results of the same node in f32, rounded to what they are."""

    def converted(value: SSAValue, dtype: str) -> SSAValue:
        return node.converted(value, dtype, (None, None), (None, None))

    inputs: list[SSAValue | None] = []
    for value in node.inputs:
        dtype = "" if value is None else dtype_of(value.type)
        if value is None or dtype not in ("f16", "bf16"):
            inputs.append(value)
        elif (elements := elements_of(value)) is not None:
            inputs.append(node.constant(widened(elements, dtype)))
        else:
            inputs.append(converted(value, "f32"))
    types = [None if value is None else node.type_of("f32", shape_of(value)) for value in results]
    made = _same_node(node, inputs, node.op.node_attributes.data, types)
    given = [value for value in results if value is not None]
    return [
        None if new is None else converted(new, dtype_of(old.type))
        for new, old in zip(made, given, strict=True)
    ]


def _without_what_changes_nothing(
    node: OpaqueNode, steps: int, results: Sequence[SSAValue | None]
) -> list[SSAValue | None] | None:
    """The results of the same node without lengths that are those of whole sequences, which exporters write, and
    without peepholes that are 0; None where it has neither."""
    kept = list(node.inputs)
    for number, neutral in ((_LENGTHS, steps), (_PEEPHOLES, 0)):
        value = node.optional(number)
        elements = None if value is None else elements_of(value)
        if elements is not None and (elements == neutral).all():
            kept[number] = None
    if kept == node.inputs:
        return None
    types = [None if value is None else tensor_type(value) for value in results]
    return _same_node(node, kept, node.op.node_attributes.data, types)


def _with_steps_in_front(node: OpaqueNode, results: Sequence[SSAValue | None]) -> list[SSAValue | None]:
    """The results of the same node on steps, directions, batch, of one on batch, steps, directions."""
    inputs = list(node.inputs)
    for number in (0, 5, 6):  # the sequence and the initial states
        if number < len(inputs) and (given := inputs[number]) is not None:
            if len(shape_of(given)) != 3:
                raise Unsupported
            inputs[number] = node.insert(PermuteOp(given, (1, 0, 2)))
    orders = ((1, 2, 0, 3), (1, 0, 2), (1, 0, 2))
    types: list[TensorType[Attribute] | None] = []
    for value, order in zip(results, orders, strict=False):
        if value is not None and len(shape_of(value)) != len(order):
            raise Unsupported
        types.append(
            None if value is None else node.type_of(dtype_of(value.type), [shape_of(value)[d] for d in order])
        )
    attributes = {name: given for name, given in node.op.node_attributes.data.items() if name != "layout"}
    made = _same_node(node, inputs, attributes, types)
    back = [(2, 0, 1, 3) if len(shape_of(value)) == 4 else (1, 0, 2) for value in made if value is not None]
    return [
        node.insert(PermuteOp(value, order))
        for value, order in zip(made, back, strict=True)
        if value is not None
    ]


def _same_node(
    node: OpaqueNode,
    inputs: Sequence[SSAValue | None],
    attributes: Mapping[str, Attribute],
    types: Sequence[TensorType[Attribute] | None],
) -> list[SSAValue | None]:
    """The results of a node of the same operator."""
    op, kept = node.op, list(inputs)
    while kept and kept[-1] is None:
        kept.pop()
    made = nn.OpaqueOp.of_node(op.op_type.data, op.domain.data, op.versions, kept, {}, attributes, types)
    node.insert(made)
    return list(made.results)


def _direction_of_lengths(
    node: OpaqueNode, number: int, direction: str, directions: int, lengths: SSAValue
) -> Sequence[SSAValue]:
    """The sequence of one direction, 0 behind the length of each, and the hidden state at its end."""
    x, is_reverse = node.input(0), direction == "reverse"
    steps, batch, _ = shape_of(x)
    if is_reverse:
        x = reversed_rows(node, x, lengths, 0, 1)
    [y] = _direction(node, number, "forward", directions, False, x)
    length = node.insert(ReshapeOp(as_i64(node, lengths), (1, 1, batch, 1)))
    step, zero = places(node, steps, 0, 4), node.constant(np.array(0.0), dtype_of(y.type))
    following = node.apply(nn.AddOp, step, node.constant(np.array(1), "i64"))
    at_the_end = node.apply(nn.WhereOp, node.apply(nn.EqualOp, following, length), y, zero)
    last = node.apply(nn.ReduceSumOp, at_the_end, axes=(0,), keepdims=False)
    y = node.apply(nn.WhereOp, node.apply(nn.LessOp, step, length), y, zero)
    if is_reverse:
        shape = shape_of(y)
        rows = node.insert(ReshapeOp(y, (steps, batch, shape[3])))
        y = node.insert(ReshapeOp(reversed_rows(node, rows, lengths, 0, 1), shape))
    return y, last


def _direction(
    node: OpaqueNode,
    number: int,
    direction: str,
    directions: int,
    with_states: bool,
    x: SSAValue | None = None,
) -> Sequence[SSAValue]:
    """The results of one direction on all steps of `x`, the input where it is left out: the sequence, with its last
    states too where they are asked for."""
    op = node.op
    attributes = {**op.node_attributes.data, "direction": StringAttr(direction)}
    names: tuple[str, ...] = node.attribute("activations", ())
    if names:
        each, rest = divmod(len(names), directions)
        if rest:
            raise Unsupported
        own = names[number * each : (number + 1) * each]
        attributes["activations"] = ArrayAttr(StringAttr(name) for name in own)
    if directions > 1 and {"activation_alpha", "activation_beta"} & attributes.keys():
        raise Unsupported  # which of them belong to which direction depends on the activations
    type = tensor_type(op.results[0])
    steps, batch, _ = shape_of(node.input(0))
    size = node.attribute("hidden_size", 0)
    state = TensorType(type.element_type, (1, batch, size), type.encoding)
    made = nn.OpaqueOp.of_node(
        op.op_type.data,
        op.domain.data,
        op.versions,
        [x or node.input(0), *(_part(node, k, number, directions) for k in range(1, len(node.inputs)))],
        {},
        attributes,
        [
            TensorType(type.element_type, (steps, 1, batch, size), type.encoding),
            *([state, state] if with_states else []),
        ],
    )
    node.insert(made)
    return made.results


def _part(node: OpaqueNode, number: int, direction: int, directions: int) -> SSAValue | None:
    """Weights, biases or an initial state, which have one slice per direction, of one direction."""
    value = None if number == _LENGTHS else node.optional(number)
    if value is None or directions == 1:
        return value
    elements = elements_of(value)
    if elements is not None:
        return node.constant(elements[direction : direction + 1], dtype_of(value.type))
    rest = shape_of(value)[1:]
    return node.apply(nn.SliceOp, value, starts=(direction, *(0 for _ in rest)), sizes=(1, *rest))


def _step(node: OpaqueNode, y: SSAValue, step: int) -> SSAValue:
    return node.apply(nn.SliceOp, y, starts=(step, 0, 0, 0), sizes=(1, *shape_of(y)[1:]))


def _joined(node: OpaqueNode, parts: list[SSAValue], axis: int) -> SSAValue:
    return parts[0] if len(parts) == 1 else node.apply(nn.ConcatOp, *parts, axis=axis)
