"""Integers that ONNX's inference follows from operator to operator, as the shapes that a model computes.

It follows them through few operators (those of onnx 1.22 and 1.23 that have a function for it), and takes those that
reach a shape for extents, whatever they are. What may be below 0 is told here from how large they are at most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.subgraphs import is_graph

if TYPE_CHECKING:
    import onnx

    from layout_ir.frontends.onnx.subgraphs import Body

_OF_FIRST = frozenset(("Cast", "Gather", "Slice", "Squeeze", "Unsqueeze"))
"""Operators that inference follows numbers of the first operand through; the others say which of them."""

_LONG_NUMBER = re.compile(rb"[\x80-\xff]{4}")
"""What a number of more than 28 bits has in the bytes of a message."""

_EXTENT_BITS = 28

_MOST_BITS = 31
"""What leaves them is below 0 in onnx 1.22, which adds and multiplies 32 bits."""

_DEEPEST = 64
"""How many operators are followed one behind the other."""


class PropagatedNumbers:
    """The integers that inference may find in graphs and functions."""

    def __init__(self, bodies: Sequence[Body]):
        self._bodies = bodies
        self._bits: dict[str, int | None] = {}

    def may_be_negative(self, name: str) -> bool:
        """Whether inference may find a number below 0 in a value."""
        bits = self._bits_of(name, 0)
        return bits is None or bits > _MOST_BITS

    def _bits_of(self, name: str, depth: int) -> int | None:
        """How many bits the numbers have at most that inference finds, 0 where it finds none; None where they may be
        below 0."""
        if name not in self._bits:
            self._bits[name] = None  # of a value that follows from itself
            self._bits[name] = self._found(name, depth) if depth < _DEEPEST else None
        return self._bits[name]

    def _found(self, name: str, depth: int) -> int | None:
        tensors, nodes = self._tensors.get(name, []), self._nodes.get(name, [])
        if len(tensors) + len(nodes) > 1:
            return None  # names of several bodies
        if tensors:
            return _bits_of_tensor(tensors[0])
        if not nodes or nodes[0].domain:
            return 0
        (node,) = nodes
        match node.op_type:
            case "Constant":
                return _bits_of_constant(node)
            case "Shape":
                return self._extent_bits
            case "Size" | "Sub":
                return None
            case "Add" | "Concat" | "Mul":
                operands = [self._bits_of(operand, depth + 1) for operand in node.input]
                known = [bits for bits in operands if bits is not None]
                if len(known) < len(operands):
                    return None
                if node.op_type == "Concat":
                    return max(known, default=0)
                bits = sum(known) if node.op_type == "Mul" else max(known, default=0) + 1
                return bits if bits <= _MOST_BITS else None
            case operator if operator in _OF_FIRST and node.input:
                return self._bits_of(node.input[0], depth + 1)
            case _:
                return 0

    @cached_property
    def _extent_bits(self) -> int | None:
        """The bits that extents need; None where types say larger ones."""
        values = (
            value
            for body in self._bodies
            if is_graph(body)
            for value in (*body.input, *body.value_info, *body.output)
        )
        is_long = any(_LONG_NUMBER.search(value.type.SerializeToString()) for value in values)
        return None if is_long else _EXTENT_BITS

    @cached_property
    def _nodes(self) -> dict[str, list[onnx.NodeProto]]:
        found: dict[str, list[onnx.NodeProto]] = {}
        for body in self._bodies:
            for node in body.node:
                for name in node.output[:]:
                    found.setdefault(name, []).append(node)
        return found

    @cached_property
    def _tensors(self) -> dict[str, list[onnx.TensorProto]]:
        found: dict[str, list[onnx.TensorProto]] = {}
        for body in self._bodies:
            for tensor in body.initializer if is_graph(body) else ():
                found.setdefault(tensor.name, []).append(tensor)
        return found


def _bits_of_constant(node: onnx.NodeProto) -> int | None:
    for attribute in node.attribute:
        if attribute.name == "value":
            return _bits_of_tensor(attribute.t)
        if attribute.name in ("value_int", "value_ints"):
            return _bits_of([*attribute.ints, attribute.i])
    return 0


def _bits_of_tensor(tensor: onnx.TensorProto) -> int | None:
    import onnx
    import onnx.numpy_helper

    is_integer = tensor.data_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    if not is_integer or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return 0
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError):
        return 0  # its bytes do not fit its dims, which inference says
    return _bits_of([int(array.min()), int(array.max())]) if array.size else 0


def _bits_of(numbers: Sequence[int]) -> int | None:
    return None if min(numbers) < 0 else max(numbers).bit_length()
