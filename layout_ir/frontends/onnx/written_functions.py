"""Nodes of a model in the standard operators of their functions, for any sizes.

A function of an operator of ONNX Runtime is written for the types of its inputs (`runtime_functions`). Extents that
only a call knows are left open here: what the model itself states, of an input or a constant, is all that the function
may use. So the nodes compute what the node does whatever the sizes are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.function_body import TensorType, constant_type, type_of
from layout_ir.frontends.onnx.functions import Call
from layout_ir.frontends.onnx.model import Model
from layout_ir.frontends.onnx.runtime_functions import FUNCTIONS, function_nodes
from layout_ir.frontends.onnx.values import Value, dtype_of, shape_of

if TYPE_CHECKING:
    import onnx

_OLDEST = 13
"""The version from which on the operators that functions are written in are the same."""


def has_function(node: onnx.NodeProto) -> bool:
    """Whether a node is of an operator that has a function."""
    return f"{node.domain}.{node.op_type}" in FUNCTIONS


def with_functions(model: Model, values: Mapping[str, Value], among: Collection[str]) -> Model:
    """The model with functions in place of those nodes that give values `among` and have one that needs no extents but
    the stated. `values` are those of the model for some sizes, of which element types and ranks are taken."""
    stated = {tensor.name: constant_type(tensor) for tensor in model.graph.initializer}
    stated |= {
        value.name: type_of(value.type)
        for value in model.graph.input
        if value.type.tensor_type.HasField("shape")
    }

    def type_by_name(name: str) -> TensorType:
        return stated[name] if name in stated else _open_type(values[name])

    taken = {name for call in model.calls for name in (*call.proto.input, *call.proto.output)}
    calls: list[Call] = []
    for call in model.calls:
        nodes: list[onnx.NodeProto] | None = None
        if not set(among).isdisjoint(call.proto.output) and call.opsets.get("", 0) >= _OLDEST:
            try:
                nodes = function_nodes(call.proto, type_by_name)
            except KeyError:  # an extent that is open decides what the function is
                nodes = None
        calls += [call] if nodes is None else _calls(call, nodes, taken)
    return replace(model, calls=calls)


def _open_type(value: Value) -> TensorType:
    """The type of a value with the rank alone, which holds for all sizes."""
    import onnx.helper

    return TensorType(onnx.helper.np_dtype_to_tensor_dtype(dtype_of(value)), (None,) * len(shape_of(value)))


def _calls(call: Call, nodes: Collection[onnx.NodeProto], taken: set[str]) -> Iterator[Call]:
    """The nodes of a function, whose inner values get names that no other value has."""
    outer = {*call.proto.input, *call.proto.output}
    names: dict[str, str] = {}
    for node in nodes:
        for name in node.output:
            if name and name not in outer:
                fresh = f"{call.proto.output[0]} {name}"
                while fresh in taken:
                    fresh += "'"
                taken.add(fresh)
                names[name] = fresh
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
        yield Call(node, f"{call.title}: {node.op_type} of its function", call.opsets)
