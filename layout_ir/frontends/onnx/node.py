"""One node of the graph, with accessors that record which attributes and inputs a translation has read.

An attribute or input that was not read by the end of the translation is an error: to ignore it would change the
meaning of the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from layout_ir.frontends.onnx.budget import STEPS_PER_ELEMENT, Budget
from layout_ir.frontends.onnx.constants import Constant, is_splat
from layout_ir.frontends.onnx.functions import Call, domain_of
from layout_ir.frontends.onnx.import_error import OnnxImportError, UnsupportedUse, quoted
from layout_ir.frontends.onnx.tensor_protos import array_of

if TYPE_CHECKING:
    from pathlib import Path

    import onnx
    from numpy.typing import NDArray

    from layout_ir.frontends.onnx.values import Value

T = TypeVar("T")

MOST_INTS = 1 << 20
"""Entries of a list in a constant input: pads of 64 dims are 128, the parts of a Split may be many more."""


class Node:
    """A node with its input values, None where an optional input is left out."""

    def __init__(
        self, call: Call, inputs: Sequence[Value | None], budget: Budget, folder: Path | None = None
    ):
        self.proto = call.proto
        self.title = call.title
        self.op_type = call.proto.op_type
        self.domain = domain_of(call.proto.domain)
        self.opset = call.opsets.get(self.domain, 0)
        self._opsets = call.opsets
        self.users: dict[str, int] = {}
        """How many nodes and outputs use each input, by name; empty where that is not known."""
        self.not_folded: str | None = None
        """Why the node was not computed although all its inputs are known."""
        self._folder = folder
        """The folder of the model, for external data."""
        self._budget = budget
        self._inputs = list(inputs)
        self._read_inputs: set[int] = set()
        self._attributes = {attribute.name: attribute for attribute in self.proto.attribute}
        self._read_attributes: set[str] = set()

    def check_attributes(self) -> None:
        """Raises OnnxImportError where an attribute is given twice, or refers to one of a missing function."""
        if len(self._attributes) != len(self.proto.attribute):
            raise OnnxImportError(f"an attribute is given twice: {[a.name for a in self.proto.attribute]}")
        for attribute in self.proto.attribute:
            if attribute.ref_attr_name:
                raise OnnxImportError(
                    f"attribute {attribute.name} refers to {quoted(attribute.ref_attr_name)} of a function, "
                    f"but the node is in none"
                )

    @property
    def output(self) -> str:
        """Name of the first output."""
        return self.proto.output[0] if self.proto.output else ""

    def owns(self, number: int) -> bool:
        """Whether this node is the only user of an input, so that the op that computes it may be replaced."""
        return self.users.get(self.proto.input[number]) == 1

    @property
    def given(self) -> tuple[Value | None, ...]:
        """All inputs, None for one that is left out."""
        return tuple(self._inputs)

    def opset_of(self, domain: str) -> int:
        """The version of the operators of `domain` here; 0 where the model says none."""
        return self._opsets.get(domain, 0)

    def has(self, name: str) -> bool:
        """Whether the attribute is given."""
        return name in self._attributes

    def get(self, name: str, default: T) -> T:
        """The attribute, or `default` where it is not given.

        Raises OnnxImportError unless it has the type of `default`: int, float, str, or tuple of int or float.
        """
        self._read_attributes.add(name)
        attribute = self._attributes.get(name)
        if attribute is None:
            return default
        value: Any = _attribute_value(attribute)
        if isinstance(value, type(default)) and isinstance(value, tuple):
            self._check_items(name, cast("tuple[Any, ...]", value), cast("tuple[Any, ...]", default))
        if isinstance(default, float) and isinstance(value, float):
            return cast(T, value)
        if isinstance(value, type(default)):
            return cast(T, value)
        raise OnnxImportError(
            f"attribute {name} is of type {_word(attribute, value)}, expected {type(default).__name__}"
        )

    def _check_items(self, name: str, value: tuple[Any, ...], default: tuple[Any, ...]) -> None:
        """Raises OnnxImportError unless all items have the type of those in `default` (int where it is empty)."""
        wanted = cast("type[object]", type(default[0]) if default else int)
        for item in value:
            if not isinstance(item, wanted):
                raise OnnxImportError(
                    f"attribute {name} is a list of {type(item).__name__}, expected a list of {wanted.__name__}"
                )

    def flag(self, name: str, *, default: bool = False) -> bool:
        """An attribute of 0 or 1. Raises OnnxImportError for any other number: implementations read it differently."""
        value = self.get(name, int(default))
        if value not in (0, 1):
            raise OnnxImportError(f"attribute {name} = {value}, expected 0 or 1")
        return bool(value)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a finite number. Raises OnnxImportError for an infinity or NaN."""
        value = self.get(name, default)
        if not np.isfinite(value):
            raise OnnxImportError(f"attribute {name} = {value} is not finite")
        return value

    def required(self, name: str, like: T) -> T:
        """The attribute, which must be there and have the type of `like`."""
        if name not in self._attributes:
            raise OnnxImportError(f"attribute {name} is missing")
        return self.get(name, like)

    def ints(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, or None if it is not given."""
        self._read_attributes.add(name)
        return self.get(name, cast("tuple[int, ...]", ())) if name in self._attributes else None

    def tensor(self, name: str) -> NDArray[Any] | None:
        """The elements of a tensor attribute, or None if it is not given."""
        import onnx

        self._read_attributes.add(name)
        attribute = self._attributes.get(name)
        if attribute is None:
            return None
        if attribute.type != onnx.AttributeProto.TENSOR:
            word = _word(attribute, _attribute_value(attribute))
            raise OnnxImportError(f"attribute {name} is of type {word}, expected tensor")
        array = array_of(attribute.t, self._folder, f"attribute {name}")
        self._budget.grow(array.nbytes)
        return array

    def affords(self, size: int, steps: int) -> bool:
        """Takes `size` bytes and `steps` steps from the budget.

        Returns False, takes nothing and puts the reason into `not_folded` where there are too few left.
        """
        refusal = self._budget.spend(size, steps)
        if refusal is not None:
            self.not_folded = f"its result {refusal}"
        return refusal is None

    def affords_copy(self, array: NDArray[Any]) -> bool:
        """Takes the elements of a view from the budget, as if it were copied; a splat is free. False as `affords`."""
        return is_splat(array) or self.affords(array.nbytes, STEPS_PER_ELEMENT * array.size)

    @property
    def inputs(self) -> list[Value]:
        """All inputs, of an op with any number of them. Raises OnnxImportError where one is left out."""
        return [self.input(number) for number in range(len(self._inputs))]

    def input(self, number: int) -> Value:
        """An input. Raises OnnxImportError where it is left out."""
        value = self.optional(number)
        if value is None:
            raise OnnxImportError(f"input {number} is missing")
        return value

    def optional(self, number: int) -> Value | None:
        """An input, or None if it is left out."""
        self._read_inputs.add(number)
        return self._inputs[number] if number < len(self._inputs) else None

    def constant(self, number: int) -> NDArray[Any] | None:
        """The elements of an optional input, None where left out. Raises OnnxImportError where it is no constant."""
        value = self.optional(number)
        if value is None or isinstance(value, Constant):
            return None if value is None else value.array
        raise UnsupportedUse(
            f"input {number} {quoted(self.proto.input[number])} is computed at run time, "
            f"but is supported as a constant only"
        )

    def constant_ints(self, number: int) -> tuple[int, ...] | None:
        """An optional constant input that lists integers, None where left out. Raises OnnxImportError for any other."""
        array = self.constant(number)
        if array is None:
            return None
        if array.dtype.kind not in "iu":
            raise OnnxImportError(f"input {number} has elements of type {array.dtype}, expected integers")
        if array.size > MOST_INTS:
            raise OnnxImportError(
                f"input {number} lists {array.size} numbers, at most {MOST_INTS} can be about the dims of a tensor"
            )
        return tuple(int(value) for value in np.ravel(array))

    def int_list(self, name: str, number: int, since: int) -> tuple[int, ...] | None:
        """A list that is attribute `name` before opset `since` and input `number` from then on."""
        return self.ints(name) if self.opset < since else self.constant_ints(number)

    def is_constant(self) -> bool:
        """Whether the node has inputs and all are known at import."""
        values = [value for value in self._inputs if value is not None]
        return bool(values) and all(isinstance(value, Constant) for value in values)

    def constant_inputs(self) -> list[NDArray[Any] | None]:
        """The arrays of all inputs, None where one is left out; only for a node that `is_constant`."""
        return [value.array if isinstance(value, Constant) else None for value in self._inputs]

    def constant_types(self) -> list[np.dtype[Any] | None]:
        """The element types of `constant_inputs`."""
        return [None if array is None else array.dtype for array in self.constant_inputs()]

    def arrays(self) -> list[NDArray[Any]]:
        """The arrays of those `constant_inputs` that are given."""
        return [array for array in self.constant_inputs() if array is not None]

    def check_all_read(self) -> None:
        """Raises UnsupportedUse where the node has an attribute or input that was not read."""
        for name in self._attributes:
            if name not in self._read_attributes:
                raise UnsupportedUse(f"attribute {name} is not supported")
        for number, value in enumerate(self._inputs):
            if value is not None and number not in self._read_inputs:
                raise UnsupportedUse(f"input {number} {quoted(self.proto.input[number])} is not supported")


def _word(attribute: onnx.AttributeProto, value: Any) -> str:
    import onnx

    if isinstance(value, (int, float, str, tuple)):
        return cast(object, value).__class__.__name__
    return onnx.AttributeProto.AttributeType.Name(attribute.type).lower()


def _attribute_value(attribute: onnx.AttributeProto) -> Any:
    import onnx.helper

    try:
        value: Any = onnx.helper.get_attribute_value(attribute)
    except ValueError as error:
        raise OnnxImportError(f"attribute {attribute.name} has no type, or one that is not known") from error
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return shortest(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(cast("Sequence[Any]", value))
    return value


def shortest(value: float) -> float:
    """The number with the fewest digits that rounds to `value` in single precision, the type of stored attributes.

    So an epsilon that was written as 1e-5 and is stored as 9.99999974737875e-06 becomes 1e-5 again.
    """
    return float(str(np.float32(value)))
