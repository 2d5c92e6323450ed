"""Sequences and optional values during import: where it is known what they hold, their nodes fold away.

A sequence is the tensors in it, of which there is a known number, each a value of its own; an optional value is what it
holds, or nothing. So a node that takes an element, or joins all of them, is one on tensors:

    SequenceConstruct(a, b) -> s;  SequenceAt(s, 1) -> y        y is b
    SplitToSequence(x) -> s;       ConcatFromSequence(s) -> y   Split(x) -> a, b;  Concat(a, b) -> y
    Optional(x) -> o;              OptionalHasElement(o) -> y   y is true

A position that is computed, and a sequence that a loop makes, are known at run time only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.frontends.onnx.axes import normalize_axis
from layout_ir.frontends.onnx.constants import Constant
from layout_ir.frontends.onnx.import_error import OnnxImportError, UnknownTypeError, UnsupportedUse
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.values import Value, dtype_of, shape_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeIs

MOST_ELEMENTS = 4096
"""Elements of a sequence that a node is split into at most: each is an op."""


@dataclass(frozen=True, eq=False)
class TensorSequence:
    """A sequence of these tensors."""

    elements: tuple[Value, ...]

    def __str__(self) -> str:
        return f"a sequence of {len(self.elements)} tensors"


@dataclass(frozen=True, eq=False)
class NoValue:
    """An optional value that holds nothing."""

    def __str__(self) -> str:
        return "an optional value that is empty"


StructuredValue = TensorSequence | NoValue
AnyValue = Value | StructuredValue

Apply = Callable[..., Sequence[Value]]
"""Translates a node of a standard operator: its name, its inputs, how many outputs it has, and its attributes."""


def is_structured(value: AnyValue | None) -> TypeIs[StructuredValue]:
    """Whether a value is a sequence, or an empty optional value."""
    return isinstance(value, StructuredValue)


class StructuredNode:
    """A node on such values."""

    def __init__(self, node: Node, inputs: Sequence[AnyValue | None], apply: Apply) -> None:
        """`node` is the same with its tensors alone."""
        self.node = node
        self.inputs = inputs
        self.apply = apply

    def value(self) -> AnyValue:
        """What the node gives. Raises UnknownTypeError where the run time alone knows it, OnnxImportError where the
        node is not valid."""
        return OPERATORS[self.node.op_type](self)

    def sequence(self) -> tuple[Value, ...]:
        """The elements of the first input, a sequence."""
        value = self.inputs[0] if self.inputs else None
        if not isinstance(value, TensorSequence):
            raise OnnxImportError(f"input 0 is {value if is_structured(value) else 'no sequence'}")
        return value.elements

    def integers(self, number: int) -> NDArray[Any] | None:
        """A constant input of integers; None where it is left out. Raises UnknownTypeError where it is computed."""
        try:
            array = self.node.constant(number)
        except UnsupportedUse as error:
            raise UnknownTypeError(str(error)) from error
        if array is not None and array.dtype.kind not in "iu":
            raise OnnxImportError(f"input {number} has elements of type {array.dtype}, expected integers")
        return array

    def position(self, number: int, count: int, *, behind: bool = False) -> int | None:
        """The place of one of `count` elements that an input says, counted from the end where it is negative, with
        `behind` also the place behind them; None where it is left out."""
        array = self.integers(number)
        if array is None:
            return None
        if array.size != 1:
            raise OnnxImportError(f"input {number} has {array.size} elements, expected one position")
        position = int(array.reshape(()))
        if not -count <= position < count + behind:
            raise OnnxImportError(f"position {position} is outside of a sequence of {count}")
        return position + count if position < 0 else position

    def with_axes(self, op_type: str, value: Value, axis: int) -> Value:
        """A Squeeze or Unsqueeze of one dim, whose axes are an attribute before opset 13."""
        if self.node.opset < 13:
            return self.apply(op_type, [value], 1, axes=[axis])[0]
        return self.apply(op_type, [value, Constant(np.array([axis]), "")], 1)[0]


def _constructed(node: StructuredNode) -> AnyValue:
    if not node.inputs:
        raise OnnxImportError("the node has no inputs, expected 1 or more")
    return _sequence([_tensor(value, number) for number, value in enumerate(node.inputs)])


def _tensor(value: AnyValue | None, number: int) -> Value:
    if value is None or is_structured(value):
        raise OnnxImportError(f"input {number} is {'missing' if value is None else f'{value}, no tensor'}")
    return value


def _sequence(elements: Sequence[Value]) -> TensorSequence:
    types = {dtype_of(element).name for element in elements}
    if len(types) > 1:
        raise OnnxImportError(f"elements of a sequence are of several types: {', '.join(sorted(types))}")
    return TensorSequence(tuple(elements))


def _inserted(node: StructuredNode) -> AnyValue:
    elements = list(node.sequence())
    value = _tensor(node.inputs[1] if len(node.inputs) > 1 else None, 1)
    # The place behind the last element is one, too, but a negative position counts from the last element.
    position = node.position(2, len(elements), behind=True)
    elements.insert(len(elements) if position is None else position, value)
    return _sequence(elements)


def _erased(node: StructuredNode) -> AnyValue:
    elements = list(node.sequence())
    if not elements:
        raise OnnxImportError("an element of an empty sequence is erased")
    position = node.position(1, len(elements))
    del elements[-1 if position is None else position]
    return TensorSequence(tuple(elements))


def _at(node: StructuredNode) -> AnyValue:
    elements = node.sequence()
    position = node.position(1, len(elements))
    if position is None:
        raise OnnxImportError("input 1 is missing")
    return elements[position]


def _length(node: StructuredNode) -> AnyValue:
    return Constant(np.array(len(node.sequence())), node.node.output)


def _split(node: StructuredNode) -> AnyValue:
    x = _tensor(node.inputs[0] if node.inputs else None, 0)
    shape = shape_of(x)
    axis = normalize_axis(node.node.get("axis", 0), len(shape))
    keeps = node.node.flag("keepdims", default=True)
    given = node.integers(1)
    extent = shape[axis]
    if given is None:
        sizes = [1] * extent
    elif given.ndim == 0:
        size = int(given)
        if size < 1:
            raise OnnxImportError(f"parts of {size} are no parts of a dim")
        sizes = [min(size, extent - start) for start in range(0, extent, size)]
    else:
        sizes = [int(size) for size in given.ravel()]
    if len(sizes) > MOST_ELEMENTS:
        raise UnknownTypeError(f"{len(sizes)} elements are not written out, at most {MOST_ELEMENTS} are")
    if not sizes:
        return TensorSequence(())
    if node.node.opset < 13:
        parts = node.apply("Split", [x], len(sizes), axis=axis, split=sizes)
    else:
        parts = node.apply("Split", [x, Constant(np.array(sizes), "")], len(sizes), axis=axis)
    if given is None and not keeps:
        parts = [node.with_axes("Squeeze", part, axis) for part in parts]
    return TensorSequence(tuple(parts))


def _joined(node: StructuredNode) -> AnyValue:
    elements = node.sequence()
    if not elements:
        raise OnnxImportError("an empty sequence has no elements to join")
    axis = node.node.required("axis", 0)
    if node.node.flag("new_axis"):
        elements = [node.with_axes("Unsqueeze", element, axis) for element in elements]
    return node.apply("Concat", elements, 1, axis=axis)[0]


def _optional(node: StructuredNode) -> AnyValue:
    value = node.inputs[0] if node.inputs else None
    return NoValue() if value is None else value


def _has_element(node: StructuredNode) -> AnyValue:
    value = node.inputs[0] if node.inputs else None
    return Constant(np.array(value is not None and not isinstance(value, NoValue)), node.node.output)


def _element(node: StructuredNode) -> AnyValue:
    value = node.inputs[0] if node.inputs else None
    if value is None or isinstance(value, NoValue):
        raise OnnxImportError(f"input 0 is {'missing' if value is None else f'{value}: it has no element'}")
    return value


def _passed_on(node: StructuredNode) -> AnyValue:
    value = node.inputs[0]
    assert value is not None
    return value


OPERATORS: Mapping[str, Callable[[StructuredNode], AnyValue]] = {
    "ConcatFromSequence": _joined,
    "Identity": _passed_on,
    "Optional": _optional,
    "OptionalGetElement": _element,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceConstruct": _constructed,
    "SequenceEmpty": lambda node: TensorSequence(()),
    "SequenceErase": _erased,
    "SequenceInsert": _inserted,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
"""The operators on such values, each of which gives one."""
