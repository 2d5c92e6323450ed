"""One node of the graph, as the translation of its op reads it.

Whatever a translation does not read of a node is an error in the end: an attribute or input that nobody looked at
must not be dropped in silence, as it would change what the node means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from layout_ir.frontends.onnx.errors import OnnxImportError
from layout_ir.frontends.onnx.values import Constant, Value

if TYPE_CHECKING:
    from pathlib import Path

    import onnx
    from numpy.typing import NDArray

T = TypeVar("T")


class Node:
    """A node with its input values; None stands for an optional input that is left out."""

    def __init__(self, proto: onnx.NodeProto, number: int, opset: int, inputs: Sequence[Value | None]):
        self.proto = proto
        self.opset = opset
        self.op_type = proto.op_type
        self.title = node_title(proto, number)
        self.owns_input = False
        """Whether nothing else uses input 0, so that what computes it may be changed."""
        self.folder: Path | None = None
        """Where external data lies."""
        self._inputs = list(inputs)
        self._read_inputs: set[int] = set()
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}
        self._read_attributes: set[str] = set()

    @property
    def output(self) -> str:
        """Name of the first output."""
        return self.proto.output[0] if self.proto.output else ""

    def has(self, name: str) -> bool:
        """Whether the attribute is given."""
        return name in self._attributes

    def get(self, name: str, default: T) -> T:
        """The attribute, which has the type of the default: int, float, str or tuple of int or float."""
        self._read_attributes.add(name)
        attribute = self._attributes.get(name)
        if attribute is None:
            return default
        value = _attribute_value(attribute)
        if isinstance(default, float) and isinstance(value, float):
            return cast(T, value)
        if isinstance(value, type(default)):
            return value
        raise OnnxImportError(
            f"attribute {name} is of type {type(value).__name__}, expected {type(default).__name__}"
        )

    def required(self, name: str, like: T) -> T:
        """The attribute, which must be there and have the type of `like`."""
        if name not in self._attributes:
            raise OnnxImportError(f"attribute {name} is missing")
        return self.get(name, like)

    def ints(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, or None if it is not given."""
        self._read_attributes.add(name)
        return self.get(name, cast("tuple[int, ...]", ())) if name in self._attributes else None

    def tensor(self, name: str) -> onnx.TensorProto | None:
        """A tensor attribute, or None if it is not given."""
        self._read_attributes.add(name)
        return self._attributes[name].t if name in self._attributes else None

    @property
    def inputs(self) -> list[Value]:
        """All inputs of an op that takes any number of them."""
        return [self.input(number) for number in range(len(self._inputs))]

    def input(self, number: int) -> Value:
        """An input that must be there."""
        value = self.optional(number)
        if value is None:
            raise OnnxImportError(f"input {number} is missing")
        return value

    def optional(self, number: int) -> Value | None:
        """An input, or None if it is left out."""
        self._read_inputs.add(number)
        return self._inputs[number] if number < len(self._inputs) else None

    def constant(self, number: int) -> NDArray[Any] | None:
        """The elements of an optional input that must be known at import."""
        value = self.optional(number)
        if value is None or isinstance(value, Constant):
            return None if value is None else value.array
        raise OnnxImportError(
            f"input {number} '{self.proto.input[number]}' is computed at run time, "
            f"but is supported as a constant only"
        )

    def constant_ints(self, number: int) -> tuple[int, ...] | None:
        """An optional constant input that lists integers."""
        array = self.constant(number)
        if array is None:
            return None
        if array.dtype.kind not in "iu":
            raise OnnxImportError(f"input {number} has elements of type {array.dtype}, expected integers")
        return tuple(int(value) for value in np.ravel(array))

    def int_list(self, name: str, number: int, since: int) -> tuple[int, ...] | None:
        """A list that is attribute `name` before opset `since` and input `number` from then on."""
        return self.ints(name) if self.opset < since else self.constant_ints(number)

    def is_constant(self) -> bool:
        """Whether the node has inputs and all are known at import."""
        values = [value for value in self._inputs if value is not None]
        return bool(values) and all(isinstance(value, Constant) for value in values)

    def constant_inputs(self) -> list[NDArray[Any] | None]:
        """All inputs of a node that `is_constant`."""
        return [value.array if isinstance(value, Constant) else None for value in self._inputs]

    def check_all_read(self) -> None:
        """Raise OnnxImportError if the node has an attribute or input that the translation did not look at."""
        for name in self._attributes:
            if name not in self._read_attributes:
                raise OnnxImportError(f"attribute {name} is not supported")
        for number, value in enumerate(self._inputs):
            if value is not None and number not in self._read_inputs:
                raise OnnxImportError(f"input {number} '{self.proto.input[number]}' is not supported")


def node_name(proto: onnx.NodeProto) -> str:
    """The name of a node; one without a name goes by its first output."""
    return proto.name or next(iter(proto.output), "")


def node_title(proto: onnx.NodeProto, number: int) -> str:
    """The node in messages."""
    return f"node {number} '{node_name(proto)}' ({proto.op_type})"


def _attribute_value(attribute: onnx.AttributeProto) -> Any:
    import onnx.helper

    value: Any = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return shortest(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(cast("Sequence[Any]", value))
    return value


def shortest(value: float) -> float:
    """The number with the fewest digits that is the same in single precision, which attributes are stored in.

    A file that was written with epsilon = 1e-5 holds 9.99999974737875e-06.
    """
    return float(str(np.float32(value)))
