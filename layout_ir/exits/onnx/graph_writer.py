"""The walk over the function: each op becomes nodes, each constant an initializer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import onnx.helper
from xdsl.dialects.builtin import ModuleOp, NoneAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from layout_ir.diagnostics import LocatedError, name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.layout import dtype_of, has_layout, is_tensor
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.nn.protos import node_of
from layout_ir.errors import LayoutError
from layout_ir.exits.onnx.graph_names import GraphNames, names_of_nodes, names_of_signature
from layout_ir.exits.onnx.node_forms import FORMS
from layout_ir.exits.onnx.node_groups import NodeGroup, node_groups
from layout_ir.exits.onnx.node_writer import LARGEST, NodeWriter
from layout_ir.exits.onnx.operator_versions import (
    DATA_TYPES,
    chosen_versions,
    graphs_in,
    nodes_in,
)


def write_model(module: ModuleOp, function: FuncOp) -> onnx.ModelProto:
    """The model of `function`; see `model_of`."""
    block, end = _only_block(function)
    ops = [op for op in block.ops if op is not end]
    for argument in block.args:
        _check_value(argument, function)
    needed = {op: version for op in ops if (version := _needed(op)) is not None}
    versions = chosen_versions(module, ops, needed)
    groups = node_groups(ops, versions.opset)
    results = list(end.operands)
    names = GraphNames(_inner_names(ops))
    inputs, outputs = names_of_signature(function, names, results)
    given: dict[SSAValue, str] = dict(zip(block.args, inputs, strict=True))
    for name, value in zip(outputs, results, strict=True):
        if not isinstance(value.owner, Block | nn.ConstantOp):
            given.setdefault(value, name)
    model = versions.empty_model()
    write = NodeWriter(model.graph, versions.opset, names, given, names_of_nodes(block, GraphNames(())))
    for op in ops:
        # Before the first node, whose lists of axes and the like take what names are left.
        write.names_of(op.results)
    for op in ops:
        try:
            _write(write, op, groups)
        except LocatedError:
            raise
        except LayoutError as error:
            raise LocatedError(f"{name_of_op(op)} has no form in ONNX: {error}", op) from error
    for name, value in zip(outputs, results, strict=True):
        if write.name_of(value) != name:
            write.node(end, "Identity", [write.name_of(value)], [name])
    model.graph.input.extend(_value_info(value, name) for value, name in zip(block.args, inputs, strict=True))
    model.graph.output.extend(_value_info(value, name) for value, name in zip(results, outputs, strict=True))
    if model.ByteSize() > LARGEST:
        raise LayoutError(
            f"the model has {model.ByteSize()} bytes, more than {LARGEST}, the most of a ModelProto"
        )
    return model


def _only_block(function: FuncOp) -> tuple[Block, ReturnOp]:
    """The block of `function`, and its end. Raises LocatedError where there are several."""
    blocks = list(function.body.blocks)
    if len(blocks) != 1 or not isinstance(blocks[0].last_op, ReturnOp):
        raise LocatedError(
            f"function @{function.sym_name.data} has {len(blocks)} blocks, and a graph of ONNX one", function
        )
    return blocks[0], blocks[0].last_op


def _check_value(value: SSAValue, op: Operation) -> None:
    """Raises LocatedError unless `value` is what ONNX has: a tensor without encoding, of a known element type."""
    type = value.type
    problem = None
    if not is_tensor(type):
        problem = "no tensor"
    elif any(extent < 0 for extent in type.get_shape()):
        problem = "a tensor with a dynamic extent"
    elif not isinstance(type.encoding, NoneAttr):
        problem = "a tensor with an encoding: run convert-layout-to-physical first"
    elif not has_layout(type) or dtype_of(type) not in DATA_TYPES:
        problem = f"a tensor whose elements ONNX export does not know: {', '.join(DATA_TYPES)}"
    if problem is not None:
        raise LocatedError(f"{name_of_op(op)} has a value of type {type}, {problem}", op)


def _needed(op: Operation) -> int | None:
    """The first version of ONNX's operators in which `op` can be written; None for one that every version has.

    Raises LocatedError where there is none.
    """
    for value in (*op.operands, *op.results):
        _check_value(value, op)
    if isinstance(op, nn.ConstantOp | nn.OpaqueOp):
        return None
    form = FORMS.get(type(op))
    if form is None:
        raise LocatedError(f"{name_of_op(op)} has no form in ONNX", op)
    version = form.first_version(op)
    if version is None:
        elements = ", ".join(dict.fromkeys(dtype_of(x.type) for x in (*op.operands, *op.results)))
        raise LocatedError(
            f"{name_of_op(op)} of {elements} has no form in ONNX: {form.op_type} does not take it", op
        )
    return version


def _write(write: NodeWriter, op: Operation, groups: Mapping[Operation, NodeGroup]) -> None:
    if isinstance(op, nn.ConstantOp):
        write.constant(op)
    elif isinstance(op, nn.OpaqueOp):
        _opaque(write, op)
    elif op in groups:
        if groups[op].writer is op:
            groups[op].write(write)
    else:
        FORMS[type(op)].write_in(write, op)


def _value_info(value: SSAValue, name: str) -> onnx.ValueInfoProto:
    element = DATA_TYPES[dtype_of(value.type)]
    return onnx.helper.make_tensor_value_info(name, element, tensor_type(value.type).get_shape())


# --- opaque ops -----------------------------------------------------------------------------------------------------


def _inner_names(ops: Sequence[Operation]) -> set[str]:
    """The names that subgraphs define, which no value around them may have."""
    found: set[str] = set()
    for op in ops:
        if isinstance(op, nn.OpaqueOp):
            for node in nodes_in(node_of(op, [""] * len(op.operands), [""] * len(op.results))):
                found.update(name for graph in graphs_in(node) for name in _defined(graph))
    return found


def _defined(graph: onnx.GraphProto) -> set[str]:
    return {
        *(value.name for value in graph.input),
        *(tensor.name for tensor in graph.initializer),
        *(tensor.values.name for tensor in graph.sparse_initializer),
        *(name for node in graph.node for name in node.output),
    }


def _opaque(write: NodeWriter, op: nn.OpaqueOp) -> None:
    """The node of an opaque op; its subgraphs use the names that outer values have now."""
    count = len(op.operands) - len(op.captures.data)
    node = node_of(op, write.names_of(op.operands[:count]), write.names_of(op.results))
    captured = zip(op.captures.data, op.operands[count:], strict=True)
    renamed = {name.data: write.name_of(value) for name, value in captured}
    for inner in graphs_in(node):
        _rename(inner, renamed)
    write.add(op, node)
    if op.domain.data:
        # No inference knows the types of its results.
        inner = [
            value
            for value in op.results
            if not any(isinstance(use.operation, ReturnOp) for use in value.uses)
        ]
        write.graph.value_info.extend(_value_info(value, write.name_of(value)) for value in inner)


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Gives the outer values that a subgraph uses other names, in place."""
    own = _defined(graph)
    names = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        for inner in graphs_in(node):
            _rename(inner, names)
    for value in graph.output:
        value.name = names.get(value.name, value.name)
