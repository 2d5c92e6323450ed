"""The walk over the graph: each live node becomes constants or ops, then the function is closed.

A node is tried in this order: views and constants (`ops_shapes`), evaluation if all its inputs are known, and the
translation of its op. The module exists only when the last node went through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.layout import FormatAttr, ReorderOp
from layout_ir.errors import LayoutError
from layout_ir.format import Format
from layout_ir.frontends.onnx.builder import Builder, location, name_hint
from layout_ir.frontends.onnx.errors import OnnxImportError
from layout_ir.frontends.onnx.folding import fold
from layout_ir.frontends.onnx.model import Model, array_of, graph_inputs
from layout_ir.frontends.onnx.node import Node, node_name, node_title
from layout_ir.frontends.onnx.ops import TRANSLATIONS
from layout_ir.frontends.onnx.values import Constant, Value, element_of, shape_of, tensor_type
from layout_ir.tag import names_for

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


def import_model(
    model: Model, *, weights: Mapping[str, NDArray[Any]], shapes: Mapping[str, Sequence[int]]
) -> ModuleOp:
    """The module of a loaded model. Raises OnnxImportError."""
    return _Import(model, weights).run(shapes)


class _Import:
    def __init__(self, model: Model, weights: Mapping[str, NDArray[Any]]):
        self.model = model
        self.graph = model.graph
        self.weights = weights
        self.initializers = {tensor.name: tensor for tensor in self.graph.initializer}
        self.builder = Builder(Block())
        self.values: dict[str, Value] = {}
        self.nodes = list(enumerate(self.graph.node))
        self.defined_by: dict[str, str] = {}

    def run(self, shapes: Mapping[str, Sequence[int]]) -> ModuleOp:
        inputs = graph_inputs(self.graph, shapes)
        self._check_names([value.name for value in inputs])
        for value in inputs:
            element = element_of(value.dtype, f"input '{value.name}'")
            argument = self.builder.block.insert_arg(
                plain_type(element, value.shape), len(self.builder.block.args)
            )
            argument.name_hint = name_hint(value.name)
            self.values[value.name] = argument
        live, self.uses = self._liveness()
        for number, proto in live:
            self._node(number, proto)
        results = [self._result(value.name) for value in self.graph.output]
        self.builder.block.add_op(ReturnOp(*results))
        _drop_dead(self.builder.block)
        return self._module([value.name for value in inputs], results)

    def _check_names(self, inputs: Sequence[str]) -> None:
        """Every name has one definition, and `weights` names some of them."""
        defined = self.defined_by
        for name in inputs:
            self._define(name, "an input")
        for tensor in self.graph.initializer:
            self._define(tensor.name, "an initializer")
        for number, proto in self.nodes:
            for name in filter(None, proto.output):
                self._define(name, node_title(proto, number))
        for name in self.weights:
            if name not in defined or name in inputs:
                raise OnnxImportError(f"weights names '{name}', which is no constant of the model")

    def _define(self, name: str, by: str) -> None:
        if name in self.defined_by:
            raise OnnxImportError(f"value '{name}' is defined twice: by {self.defined_by[name]} and by {by}")
        self.defined_by[name] = by

    def _liveness(self) -> tuple[list[tuple[int, onnx.NodeProto]], Counter[str]]:
        """Nodes that the outputs depend on, in order, and how often these and the outputs use each value."""
        uses = Counter(value.name for value in self.graph.output)
        live: list[tuple[int, onnx.NodeProto]] = []
        for number, proto in reversed(self.nodes):
            if any(uses[name] for name in proto.output if name):
                live.append((number, proto))
                uses.update(name for name in proto.input if name)
                uses.update(_captured(proto))
        return live[::-1], uses

    def _node(self, number: int, proto: onnx.NodeProto) -> None:
        version = (
            self.model.opset if proto.domain in ("", "ai.onnx") else self.model.opsets.get(proto.domain, 0)
        )
        inputs = [self._value(name, node_title(proto, number)) if name else None for name in proto.input]
        node = Node(proto, number, version, inputs)
        node.owns_input = bool(proto.input) and self.uses[proto.input[0]] == 1
        node.folder = self.model.folder
        self.builder.location = location(node_name(proto))
        try:
            results = self._translate(node)
        except (LayoutError, VerifyException) as error:
            raise OnnxImportError(f"{node.title}: {error}") from error
        for position, name in enumerate(proto.output):
            if position >= len(results):
                if name and self.uses[name]:
                    raise OnnxImportError(
                        f"{node.title}: its output {position} '{name}' is used, "
                        f"but only {len(results)} of its outputs are supported"
                    )
            elif name:
                self._store(name, results[position])

    def _translate(self, node: Node) -> Sequence[Value]:
        proto = node.proto
        translation = TRANSLATIONS.get(proto.op_type) if proto.domain in ("", "ai.onnx") else None
        if translation is None or not translation.takes_constants:
            arrays = fold(node)
            if arrays is not None:
                return [Constant(array, name) for array, name in zip(arrays, proto.output, strict=False)]
        if translation is None:
            domain = proto.domain or "ai.onnx"
            raise OnnxImportError(
                f"op {domain}.{proto.op_type} (opset {node.opset}) is not supported; "
                f"supported are {', '.join(sorted(TRANSLATIONS))}"
            )
        results = translation.translate(self.builder, node)
        node.check_all_read()
        return results if isinstance(results, Sequence) else [results]

    def _value(self, name: str, title: str) -> Value:
        if name not in self.values:
            if name in self.initializers:
                array = array_of(self.initializers[name], self.model.folder, f"initializer '{name}'")
                self._store(name, Constant(array, name))
            elif name in self.defined_by:
                raise OnnxImportError(
                    f"{title} uses '{name}' before {self.defined_by[name]} computes it: "
                    f"the nodes are not in topological order"
                )
            else:
                raise OnnxImportError(f"{title} uses '{name}', which nothing defines")
        return self.values[name]

    def _store(self, name: str, value: Value) -> None:
        if name in self.weights:
            value = _replaced(value, np.asarray(self.weights[name]), name)
        if isinstance(value, SSAValue) and value.name_hint is None:
            value.name_hint = name_hint(name)
        self.values[name] = value

    def _result(self, name: str) -> SSAValue:
        value = self.builder.operand(self._value(name, "the graph"))
        type = tensor_type(value)
        plain = plain_type(type.element_type, type.get_shape())
        self.builder.location = location(name)
        return value if type == plain else self.builder.emit(ReorderOp(value, plain_format(type.get_shape())))

    def _module(self, inputs: Sequence[str], results: Sequence[SSAValue]) -> ModuleOp:
        block = self.builder.block
        function = FuncOp(
            "main",
            (block.arg_types, [result.type for result in results]),
            Region(block),
            arg_attrs=_names(inputs),
            res_attrs=_names([value.name for value in self.graph.output]),
        )
        return ModuleOp([function])


def plain_type(element: Attribute, shape: Sequence[int]) -> TensorType[Attribute]:
    """The type of an input or result: dense and row-major, in so many words."""
    return TensorType(element, shape, FormatAttr(plain_format(shape)))


def plain_format(shape: Sequence[int]) -> Format:
    return Format.row_major(names_for(len(shape)))


def _names(names: Sequence[str]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr([DictionaryAttr({"onnx.name": StringAttr(name)}) for name in names])


def _captured(proto: onnx.NodeProto) -> list[str]:
    """Names that the node's subgraphs use; some are their own, which does no harm."""
    names: list[str] = []
    for attribute in proto.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            for inner in graph.node:
                names += [*inner.input, *_captured(inner)]
    return names


def _replaced(value: Value, array: NDArray[Any], name: str) -> Constant:
    if not isinstance(value, Constant):
        raise OnnxImportError(f"weights names '{name}', which is computed at run time")
    if array.shape != shape_of(value) or array.dtype != value.array.dtype:
        raise OnnxImportError(
            f"weights['{name}'] is {array.dtype} {array.shape}, "
            f"but the value in the model is {value.array.dtype} {value.array.shape}"
        )
    return Constant(array, name)


def _drop_dead(block: Block) -> None:
    for op in reversed(list(block.ops)):
        if op.results and not any(result.uses for result in op.results):
            block.erase_op(op)
