"""The nodes and initializers of a graph, as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
import onnx.helper
from xdsl.ir import Operation, SSAValue

from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.elements.numpy_types import storage, stored_number
from layout_ir.errors import LayoutError
from layout_ir.exits.onnx.graph_names import GraphNames, name_of_value
from layout_ir.exits.onnx.operator_versions import DATA_TYPES, first_version

LARGEST = 2**31 - 1
"""Bytes of a message that protobuf can write."""

_FILLED_FROM = 1024
"""Bytes from which on a constant of one value is a ConstantOfShape: a node takes some 100, a small initializer less."""


class NodeWriter:
    """Writes nodes and initializers into `graph`, in version `opset` of the operators.

    `names` are those that values have taken, `given` those of some values, `node_names` those of some nodes.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        opset: int,
        names: GraphNames,
        given: dict[SSAValue, str],
        node_names: dict[Operation, str],
    ):
        self.graph = graph
        self.opset = opset
        self.names = names
        self._values = given
        self._node_names = node_names
        self._other_node_names = GraphNames(node_names.values())
        self._known: dict[tuple[str, int, tuple[int, ...], bytes], str] = {}
        self._bytes = 0

    def name_of(self, value: SSAValue) -> str:
        """The name of a value, which it has from the first question on."""
        if value not in self._values:
            owner = value.owner
            kind = owner.name.partition(".")[2] if isinstance(owner, Operation) else "argument"
            self._values[value] = self.names.fresh(name_of_value(value, kind))
        return self._values[value]

    def names_of(self, values: Sequence[SSAValue]) -> list[str]:
        """The names of values, in order."""
        return [self.name_of(value) for value in values]

    def node(
        self,
        op: Operation,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str] | None = None,
        **attributes: Any,
    ) -> list[str]:
        """Writes a node for `op`; returns the names of its outputs, those of the results of `op` if none are given.

        Attributes that are None are left out, as are inputs without a name at the end.
        """
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        outputs = self.names_of(op.results) if outputs is None else outputs
        known = {name: value for name, value in attributes.items() if value is not None}
        self.add(op, onnx.helper.make_node(op_type, list(inputs), list(outputs), **known))
        return list(outputs)

    def add(self, op: Operation, node: onnx.NodeProto) -> None:
        """Writes a node that stands for `op`, the first one under its name."""
        name = self._node_names.pop(op, None)
        node.name = self._other_node_names.fresh(op.name.partition(".")[2]) if name is None else name
        self.graph.node.append(node)

    def temporary(self, op: Operation) -> str:
        """A name for a value between two nodes of `op`."""
        return self.names.fresh(f"{self.name_of(op.results[0])}_before")

    # Constants ------------------------------------------------------------------------------------------------

    def ints(self, values: Sequence[int], name: str) -> str:
        """The name of an initializer that lists integers; `name` is a proposal."""
        return self.initializer(name, "i64", (len(values),), np.array(values, "<i8").tobytes())

    def floats(self, values: Sequence[float], name: str) -> str:
        """The name of an initializer that lists numbers in single precision."""
        return self.initializer(name, "f32", (len(values),), np.array(values, "<f4").tobytes())

    def number(self, value: float, dtype: str, name: str) -> str:
        """The name of an initializer that is the scalar `value` as an element of `dtype`."""
        return self.numbers([value], dtype, name, ())

    def numbers(self, values: Sequence[float], dtype: str, name: str, shape: tuple[int, ...]) -> str:
        """The name of an initializer of `shape` with `values` as elements of `dtype`."""
        data = b"".join(np.asarray(stored_number(x, dtype)).astype(storage(dtype)).tobytes() for x in values)
        return self.initializer(name, dtype, shape, data)

    def initializer(self, name: str, dtype: str, shape: tuple[int, ...], data: bytes) -> str:
        """The name of the initializer with these elements, where `name` is a proposal.

        One that was written by the same proposal is shared. Raises LayoutError where the model grows too large.
        """
        key = (name, DATA_TYPES[dtype], shape, data)
        if key not in self._known:
            self._write(key, self.names.fresh(name))
        return self._known[key]

    def _write(self, key: tuple[str, int, tuple[int, ...], bytes], name: str) -> None:
        _, data_type, shape, data = key
        self._check_size(len(data))
        self._bytes += len(data)
        self.graph.initializer.add(name=name, data_type=data_type, dims=shape, raw_data=data)
        self._known[key] = name

    def _check_size(self, added: int) -> None:
        """Raises LayoutError where the model cannot hold so many more bytes."""
        if self._bytes + added > LARGEST:
            raise LayoutError(
                f"the constants of the program take more than {LARGEST} bytes, the most that a ModelProto holds"
            )

    def constant(self, op: nn.ConstantOp) -> None:
        """Writes a constant: an initializer, or a node where it is large and has one value."""
        type = tensor_type(op.result.type)
        dtype, shape, data = dtype_of(type), type.get_shape(), op.literal.data.data
        name = name_of_value(op.result, "constant")
        if op.is_splat and (count := prod(shape)) != 1:
            filled = first_version("ConstantOfShape", (), (op.result,), self.opset) == self.opset
            if count * len(data) >= _FILLED_FROM and filled:
                value = onnx.TensorProto(data_type=DATA_TYPES[dtype], dims=(1,), raw_data=data)
                self.node(op, "ConstantOfShape", [self.ints(shape, f"{name}_shape")], value=value)
                return
            self._check_size(count * len(data))
            data *= count
        key = (name, DATA_TYPES[dtype], shape, data)
        if key not in self._known:
            self._write(key, self.name_of(op.result))
        self._values[op.result] = self._known[key]
