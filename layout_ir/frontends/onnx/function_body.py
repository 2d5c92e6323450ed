"""The nodes of a function that stands for one node of a model, in the making.

A function is written for the node that calls it: with its attributes, the types of its inputs, and those of its inputs
that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import onnx
    from numpy.typing import ArrayLike


FLOAT, UINT8, INT64, UINT4, INT4 = 1, 2, 7, 21, 22
"""The numbers of element types in TensorProto.DataType."""


_FEW = 8
"""The most elements of a constant that its type states."""


class TensorType(NamedTuple):
    """The type of a value as far as it is known."""

    element: int
    """A TensorProto.DataType."""
    extents: tuple[int | None, ...]
    numbers: tuple[int, ...] | None = None
    """The elements of a constant of few integers."""


def type_of(type: onnx.TypeProto) -> TensorType:
    """What is known of the type of a tensor. Raises KeyError where its rank is not known."""
    tensor = type.tensor_type
    if not tensor.HasField("shape"):
        raise KeyError("shape")
    extents = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
    return TensorType(tensor.elem_type, extents)


def constant_type(tensor: onnx.TensorProto) -> TensorType:
    """The type of a constant."""
    import onnx
    import onnx.numpy_helper

    extents, numbers = tuple(tensor.dims), None
    if tensor.data_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64) and prod(extents) <= _FEW:
        numbers = tuple(int(each) for each in onnx.numpy_helper.to_array(tensor).ravel())
    return TensorType(tensor.data_type, extents, numbers)


Types = Callable[[str], TensorType]
"""The type of a value by name; KeyError where its rank is not known."""


class NoFunctionError(Exception):
    """The node is used in a way for which there is no function."""


class Body:
    """The nodes of a function, in the making, for one node that calls it."""

    def __init__(self, node: onnx.NodeProto, types: Types) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._node = node
        self._types = types
        self._attributes = {attribute.name: attribute for attribute in node.attribute}

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute of the call, of the type of its default where it has one; a text as str. Raises NoFunctionError
        where it is of another type."""
        import onnx.helper

        if name not in self._attributes:
            return default
        value = onnx.helper.get_attribute_value(self._attributes[name])
        value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if default is not None and type(value) is not type(default):
            raise NoFunctionError
        return value

    def stated(self, names: Sequence[str]) -> dict[str, Any]:
        """The attributes among `names` that the call states, with their values."""
        return {name: self.attribute(name, None) for name in names if name in self._attributes}

    def has(self, number: int) -> bool:
        """Whether the call has input `number`."""
        return number < len(self._node.input) and bool(self._node.input[number])

    def input(self, number: int) -> str:
        """The name of input `number`. Raises NoFunctionError where the call has none."""
        if not self.has(number):
            raise NoFunctionError
        return self._node.input[number]

    def count(self) -> int:
        """The number of inputs, those that are left out before others among them."""
        return len(self._node.input)

    def given(self, most: int) -> list[str]:
        """The names of the inputs, at most so many, "" for those that are left out before others. Raises
        NoFunctionError where the call lacks the first."""
        names = [self.input(0), *self._node.input[1:most]]
        while not names[-1]:
            names.pop()
        return names

    def allow(self, *numbers: int) -> None:
        """Raises NoFunctionError where the call has inputs but these."""
        if any(self.has(number) and number not in numbers for number in range(len(self._node.input))):
            raise NoFunctionError

    def extents(self, number: int) -> tuple[int | None, ...]:
        """The extents of input `number`, as far as they are known. Raises KeyError where its rank is not."""
        return self._types(self.input(number)).extents

    def rank(self, number: int) -> int:
        """The rank of input `number`. Raises KeyError where it is not known."""
        return len(self.extents(number))

    def extent(self, number: int, dim: int) -> int:
        """An extent of input `number`. Raises KeyError where it is not known, NoFunctionError where there is no such
        dim."""
        extents = self.extents(number)
        if not -len(extents) <= dim < len(extents):
            raise NoFunctionError
        found = extents[dim]
        if found is None:
            raise KeyError(self.input(number))
        return found

    def number(self, number: int) -> int | None:
        """The value of input `number` where it is a constant of one integer. Raises KeyError where its rank is not
        known."""
        numbers = self.numbers(number)
        return numbers[0] if numbers is not None and len(numbers) == 1 else None

    def numbers(self, number: int) -> tuple[int, ...] | None:
        """The elements of input `number` where it is a constant of few integers. Raises KeyError where its rank is not
        known."""
        return self._types(self.input(number)).numbers

    def element(self, *numbers: int) -> int:
        """The element type that these inputs have in common, as far as there are any, a TensorProto.DataType. Raises
        KeyError where it is known of none.

        What a model begins with is known before what it computes, so more than one is asked.
        """
        for name in (self.input(number) for number in numbers if self.has(number)):
            with suppress(KeyError):
                if found := self._types(name).element:
                    return found
        raise KeyError(numbers)

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """The name of the result of another node."""
        import onnx.helper

        name = f"value {len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op_type, list(inputs), [name], **attributes))
        return name

    def add_several(self, op_type: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """The names of the results of another node."""
        import onnx.helper

        names = [f"value {len(self.nodes)}.{number}" for number in range(count)]
        self.nodes.append(onnx.helper.make_node(op_type, list(inputs), names, **attributes))
        return names

    def constant(self, elements: ArrayLike, element: int) -> str:
        """A constant of these elements. Raises NoFunctionError where they are none of that type."""
        import onnx.helper

        array = np.asarray(elements)
        try:
            tensor = onnx.helper.make_tensor("value", element, array.shape, array.ravel().tolist())
        except (OverflowError, TypeError, ValueError) as error:
            raise NoFunctionError from error
        return self.add("Constant", value=tensor)

    def integers(self, elements: ArrayLike) -> str:
        """A constant of type int64."""
        import onnx

        return self.constant(elements, onnx.TensorProto.INT64)

    def reshaped(self, value: str, *extents: int) -> str:
        """`value` in another shape; 0 keeps the extent at that place, -1 takes what is left."""
        return self.add("Reshape", value, self.integers(list(extents)))

    def size(self, value: str, dim: int) -> str:
        """An extent of `value`, a tensor of rank 0."""
        return self.add("Gather", self.add("Shape", value), self.integers(dim))

    def part(self, value: str, dim: int, start: int, end: int, step: int = 1) -> str:
        """Every `step`-th index from `start` to before `end` along `dim`."""
        bounds = (self.integers([number]) for number in (start, end, dim, step))
        return self.add("Slice", value, *bounds)

    def shape(self, value: str, start: int, end: int) -> str:
        """The extents of `value` from one dim to before another, a tensor of rank 1."""
        return self.part(self.add("Shape", value), 0, start, end)

    def indices(self, count: str) -> str:
        """The integers from 0 to before `count`, a tensor of rank 0."""
        return self.add("Range", self.integers(0), count, self.integers(1))

    def cast(self, value: str, element: int) -> str:
        """`value` in elements of another type."""
        return self.add("Cast", value, to=element)


Function = Callable[[Body], Sequence[str]]
"""Writes nodes; returns the names of the results."""


def product_of_integers(body: Body, scales: tuple[int, int], zero_points: tuple[int, int]) -> str:
    """The product of the first two inputs, which are integers, as real numbers."""
    inputs = [body.input(0), body.input(1)]
    inputs += [body.input(number) if body.has(number) else "" for number in zero_points]
    while not inputs[-1]:
        inputs.pop()
    product = body.cast(body.add("MatMulInteger", *inputs), body.element(scales[0]))
    return body.add("Mul", product, body.add("Mul", *(body.input(number) for number in scales)))
