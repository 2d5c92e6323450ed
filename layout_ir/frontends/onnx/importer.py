"""The walk over the graph: each live node becomes constants or ops of the function `@main`.

A node is handled by the first that applies: a translation that takes constants (views, constants: `ops_shapes`),
evaluation where all inputs are constants (`folding`), the translation of its op, and else it is kept as an opaque op
(`untranslated`). So is a node whose translation does not know this use of the op.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, OpResult, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import names_for
from layout_ir.dialects.layout import FormatAttr, ReorderOp
from layout_ir.dialects.nn.model_names import location, name_hint, named, names_at
from layout_ir.dialects.nn.protos import MODEL, header_of
from layout_ir.errors import LayoutError, UnforeseenError
from layout_ir.frontends.onnx import ops_elementwise, ops_layers, ops_norms, ops_resize, ops_shapes
from layout_ir.frontends.onnx.budget import Budget
from layout_ir.frontends.onnx.constants import Constant
from layout_ir.frontends.onnx.folding import fold
from layout_ir.frontends.onnx.functions import Call, domain_of, node_name
from layout_ir.frontends.onnx.import_error import (
    OnnxImportError,
    UnknownTypeError,
    UnsupportedUse,
    is_unknown_type,
    quoted,
    unforeseen_as_import_error,
)
from layout_ir.frontends.onnx.model import Input, Model, graph_inputs
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.ops_quantized import CONVERSIONS, has_negative_scale
from layout_ir.frontends.onnx.signature import check_signature
from layout_ir.frontends.onnx.structured_values import (
    OPERATORS,
    AnyValue,
    Apply,
    StructuredNode,
    StructuredValue,
    is_structured,
)
from layout_ir.frontends.onnx.subgraphs import captured_names, graphs_of, names_defined, used_names
from layout_ir.frontends.onnx.taken_branches import taken_branch
from layout_ir.frontends.onnx.translation import Builder, Translation
from layout_ir.frontends.onnx.untranslated import opaque
from layout_ir.frontends.onnx.values import (
    Value,
    dtype_of,
    element_of,
    has_known_types,
    shape_of,
    tensor_type,
)

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

TRANSLATIONS: dict[str, Translation] = {
    **ops_elementwise.TRANSLATIONS,
    **ops_layers.TRANSLATIONS,
    **ops_norms.TRANSLATIONS,
    **ops_resize.TRANSLATIONS,
    **ops_shapes.TRANSLATIONS,
}
"""The ONNX ops that become ops of `nn` and `layout`, by name, with the domain and a point in front where it is not the
standard's; all others are opaque."""


def import_model(
    model: Model,
    *,
    weights: Mapping[str, NDArray[Any]],
    shapes: Mapping[str, Sequence[int]],
    keep_quantized: bool,
    converts: bool = False,
) -> ModuleOp:
    """The module of a loaded model, as `from_onnx` describes it; with `converts`, as `to_run` does. Raises
    OnnxImportError."""
    return GraphImport(model, weights, keep_quantized, converts).run(shapes)


def import_values(model: Model, *, shapes: Mapping[str, Sequence[int]]) -> Mapping[str, Value]:
    """The values of a loaded model that is to run (`to_run`), by name, for these shapes of its inputs: their types, and
    what is known of them without data.

    Raises OnnxImportError where a node cannot be imported.
    """
    return GraphImport(model, {}, keep_quantized=True, converts=True).all_values(shapes)


class GraphImport:
    """The values of a graph that have been imported, and the ops that compute them."""

    def __init__(
        self,
        model: Model,
        weights: Mapping[str, NDArray[Any]],
        keep_quantized: bool,
        converts: bool,
        constants: Mapping[str, NDArray[Any]] | None = None,
    ):
        self.model = model
        self.translations = {**TRANSLATIONS, **CONVERSIONS} if converts else TRANSLATIONS
        self.keep_quantized = keep_quantized
        self.graph = model.graph
        self.weights = weights
        self.initializers = {tensor.name: tensor for tensor in self.graph.initializer}
        self.constants = constants or {}
        self.builder = Builder(Block())
        self.values: dict[str, Value] = {}
        self.structured: dict[str, StructuredValue] = {}
        """The values that are no tensors, by name."""
        self.budget = Budget()
        self._walked = Counter[str]()
        """How often the nodes that were translated use a value."""
        self.defined_by: dict[str, str] = {}
        self.stated: dict[str, onnx.TypeProto] = {}

    def run(self, shapes: Mapping[str, Sequence[int]]) -> ModuleOp:
        """The module of all outputs. Raises OnnxImportError."""
        inputs = self._inputs(shapes)
        self._all_nodes()
        return self._function(inputs, [value.name for value in self.graph.output])

    def all_values(self, shapes: Mapping[str, Sequence[int]]) -> Mapping[str, Value]:
        """The values of all nodes that outputs need, by name. Raises OnnxImportError."""
        self._inputs(shapes)
        self._all_nodes()
        return self.values

    def _all_nodes(self) -> None:
        """Translates the nodes. Raises OnnxImportError, which says all that cannot be imported."""
        self.uses = Counter(value.name for value in self.graph.output)
        obstacles, *_ = self._nodes(self._live(self.model.calls))
        if obstacles:
            error = obstacles[0][1] if len(obstacles) == 1 else _summary(obstacles)
            if all(is_unknown_type(each) for _, each in obstacles) and len(obstacles) > 1:
                raise error from obstacles[0][1]
            raise error

    def _inputs(self, shapes: Mapping[str, Sequence[int]]) -> Sequence[Input]:
        """The inputs, as arguments of the function."""
        inputs = graph_inputs(self.graph, shapes)
        self._check_names([value.name for value in inputs])
        for value in inputs:
            with foreseen_as_import_error(f"input {quoted(value.name)}"):
                type = plain_type(element_of(value.dtype, f"input {quoted(value.name)}"), value.shape)
            argument = self.builder.block.insert_arg(type, len(self.builder.block.args))
            argument.name_hint = name_hint(value.name)
            self.values[value.name] = argument
        if not _reshaped(self.graph, shapes):
            self.stated = {value.name: value.type for value in (*self.graph.value_info, *self.graph.output)}
        return inputs

    def _function(self, inputs: Sequence[Input], outputs: Sequence[str]) -> ModuleOp:
        """The module of all that the outputs need."""
        results: list[SSAValue] = []
        for name in outputs:
            with foreseen_as_import_error(f"output {quoted(name)}"):
                results.append(self._result(name))
        self.builder.block.add_op(ReturnOp(*results))
        _drop_dead(self.builder.block)
        return self._module([value.name for value in inputs], outputs, results)

    def _check_names(self, inputs: Sequence[str]) -> None:
        """Raises OnnxImportError where a name is defined twice, or `weights` names no constant."""
        defined = self.defined_by
        for name in inputs:
            self._define(name, "an input")
        for tensor in self.graph.initializer:
            self._define(tensor.name, "an initializer")
        for name in self.constants:
            self._define(name, "a constant that is given")
        for call in self.model.calls:
            for name in filter(None, call.proto.output):
                self._define(name, call.title)
        for name in self.weights:
            if name not in defined or name in inputs:
                raise OnnxImportError(f"weights names {quoted(name)}, which is no constant of the model")

    def _define(self, name: str, by: str) -> None:
        if name in self.defined_by:
            raise OnnxImportError(
                f"value {quoted(name)} is defined twice: by {self.defined_by[name]} and by {by}"
            )
        self.defined_by[name] = by

    @cached_property
    def taken(self) -> set[str]:
        """The names of values in the graph and its subgraphs."""
        graphs = (graph for call in self.model.calls for graph in graphs_of(call.proto))
        return {*self.defined_by, *(name for graph in graphs for name in names_defined(graph))}

    def _live(self, calls: Sequence[Call]) -> list[Call]:
        """The nodes that give what is used, in order; what they use is used as well from now on."""
        live: list[Call] = []
        for call in reversed(calls):
            if any(self.uses[name] for name in call.proto.output if name):
                live.append(call)
                self.uses.update(used_names(call.proto))
        return live[::-1]

    def _nodes(
        self, calls: Sequence[Call], unknown: Collection[str] = ()
    ) -> tuple[list[tuple[Call, OnnxImportError]], set[str], list[Call]]:
        """Translates the nodes: all that cannot be imported, not the first one alone, and the values that are missing
        then, as those that are `unknown`; and the nodes with those of branches that are taken in place of their If."""
        obstacles: list[tuple[Call, OnnxImportError]] = []
        missing = set(unknown)
        walked: list[Call] = []
        waiting = deque(calls)
        while waiting:
            call = waiting.popleft()
            if missing.isdisjoint(used_names(call.proto)):
                try:
                    with unforeseen_as_import_error(call.title):
                        branch = self._taken_branch(call)
                        if branch is not None:
                            waiting.extendleft(reversed(branch))
                            continue
                        self._node(call)
                        self._release(call)
                except OnnxImportError as error:
                    if isinstance(error, UnforeseenError):
                        raise
                    obstacles.append((call, error))
                    missing.update(filter(None, call.proto.output))
            else:
                missing.update(filter(None, call.proto.output))
            walked.append(call)
        return obstacles, missing, walked

    def _release(self, call: Call) -> None:
        """Forgets initializers that a node was the last to use and that no op has, as those that were transposed: what
        came of them is there beside them. One that is asked for all the same is read again."""
        for name in used_names(call.proto):
            self._walked[name] += 1
            if self._walked[name] >= self.uses[name] and name in self.initializers:
                value = self.values.get(name)
                if isinstance(value, Constant) and value.result is None:
                    del self.values[name]

    def _node(self, call: Call) -> None:
        proto = call.proto
        inputs = [self._any_value(name, call.title) if name else None for name in proto.input]
        tensors = [None if is_structured(value) else value for value in inputs]
        node = Node(call, tensors, self.budget, self.model.folder)
        node.users = self.uses
        self.builder.location = location(node_name(proto))
        is_on_structured = any(map(is_structured, inputs))
        with foreseen_as_import_error(node.title):
            node.check_attributes()
            if (
                not node.domain
                and node.op_type in OPERATORS
                and (is_on_structured or node.op_type != "Identity")
            ):
                results: Sequence[AnyValue | None] = [StructuredNode(node, inputs, self._apply(call)).value()]
            elif is_on_structured:
                (first, *_) = filter(is_structured, inputs)
                raise UnknownTypeError(f"one of its inputs is {first}; only tensors are supported")
            else:
                results = self._translate(node)
        _name_results(results, proto.output)
        for name, value in zip(proto.output, results, strict=False):
            if not name or value is None:
                continue
            if is_structured(value):
                self.structured[name] = value
            else:
                self._store(name, value)

    def _apply(self, call: Call) -> Apply:
        """What translates nodes of standard operators that a node stands for."""
        import onnx.helper

        def apply(op_type: str, inputs: Sequence[Value], count: int, **attributes: Any) -> list[Value]:
            names = [f"{call.proto.output[0]}_{number}" for number in range(count)]
            proto = onnx.helper.make_node(
                op_type, [f"input_{k}" for k in range(len(inputs))], names, **attributes
            )
            node = Node(replace(call, proto=proto), inputs, self.budget, self.model.folder)
            return [value for value in self._translate(node) if value is not None]

        return apply

    def _taken_branch(self, call: Call) -> list[Call] | None:
        """The nodes of the branch that an If with a constant condition takes, those that are used; None for all else.

        Exporters write such an If where a shape decides. Raises OnnxImportError where the branch is missing or
        has another number of results.
        """
        proto = call.proto
        if proto.op_type != "If" or domain_of(proto.domain) or not proto.input or not proto.input[0]:
            return None
        condition = self._value(proto.input[0], call.title)
        if not isinstance(condition, Constant) or condition.array.size != 1:
            return None
        branch = taken_branch(call, bool(condition.array.all()), self.taken)
        for tensor in branch.graph.initializer:
            self.initializers[tensor.name] = tensor
            self._define(tensor.name, f"an initializer of the {branch.name} of {call.title}")
        results = set(proto.output)
        for inner in branch.calls:
            for name in inner.proto.output:
                if name in results:
                    results.remove(name)  # the If itself was said to give it
                elif name:
                    self._define(name, inner.title)
        self.uses.subtract(used_names(call.proto))
        return self._live(branch.calls)

    def _opaque(self, node: Node) -> Sequence[Value | None]:
        try:
            captures = {name: self._value(name, node.title) for name in captured_names(node.proto)}
            return opaque(self.builder, node, captures, self.stated)
        except LayoutError as error:
            if isinstance(error, UnforeseenError):
                raise
            why = f"; {node.not_folded}" if node.not_folded else ""
            name = f"{node.domain or 'ai.onnx'}.{node.op_type} (opset {node.opset})"
            raise OnnxImportError(
                f"op {name} has no translation, and cannot be kept as it is: {error}{why}"
            ) from error

    def _translate(self, node: Node) -> Sequence[Value | None]:
        translation = self.translations.get(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
        kept = self.keep_quantized and node.op_type == "DequantizeLinear" and has_known_types(node.given)
        # Multiplied by their signs at every call, weights would cost more than they save.
        kept = kept and (translation is None or not has_negative_scale(node))
        if not kept and (translation is None or not translation.takes_constants):
            arrays = fold(node)
            if arrays is not None:
                return [Constant(array, name) for array, name in zip(arrays, node.proto.output, strict=False)]
        if translation is None:
            return self._opaque(node)
        last = self.builder.block.last_op
        try:
            results = translation.translate(self.builder, node)
            node.check_all_read()
            results = results if isinstance(results, Sequence) else [results]
            self._check_outputs(node, results)
            return results
        except UnsupportedUse as error:
            self.builder.take_back(last)
            return self._kept(node, error)
        except (LayoutError, VerifyException) as error:
            if node.not_folded is None or isinstance(error, UnforeseenError):
                raise
            raise OnnxImportError(f"{error}; {node.not_folded}") from error

    def _check_outputs(self, node: Node, results: Sequence[Value | None]) -> None:
        """Raises UnsupportedUse where an output is used that the translation does not give."""
        for position, name in enumerate(node.proto.output):
            if name and self.uses[name] and (position >= len(results) or results[position] is None):
                given = [number for number, value in enumerate(results) if value is not None]
                raise UnsupportedUse(
                    f"its output {position} {quoted(name)} is used, but only {len(given)} of its outputs are supported"
                )

    def _kept(self, node: Node, error: UnsupportedUse) -> Sequence[Value | None]:
        """The results of the opaque op for a node whose translation does not know this use of it.

        Raises OnnxImportError with both reasons where the node is not valid, or cannot be kept either.
        """
        try:
            check_signature(node, [None if value is None else dtype_of(value) for value in node.given])
            return self._opaque(node)
        except OnnxImportError as other:
            if isinstance(other, UnforeseenError):
                raise
            why = f"; {node.not_folded}" if node.not_folded and node.not_folded not in str(other) else ""
            raise OnnxImportError(f"{error}{why}; and as it is: {other}") from other

    def _any_value(self, name: str, title: str) -> AnyValue:
        return self.structured[name] if name in self.structured else self._value(name, title)

    def _value(self, name: str, title: str) -> Value:
        if name not in self.values:
            if name in self.structured:
                raise UnknownTypeError(f"{title} uses {quoted(name)}, {self.structured[name]}: no tensor")
            if name in self.initializers:
                array = self.model.array_of(self.initializers[name], f"initializer {quoted(name)}")
                self.budget.grow(array.nbytes)
                self._store(name, Constant(array, name))
            elif name in self.constants:
                self._store(name, Constant(self.constants[name], name))
            elif name in self.defined_by:
                raise OnnxImportError(
                    f"{title} uses {quoted(name)} before {self.defined_by[name]} computes it: "
                    f"the nodes are not in topological order"
                )
            else:
                raise OnnxImportError(f"{title} uses {quoted(name)}, which nothing defines")
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

    def _module(self, inputs: Sequence[str], outputs: Sequence[str], results: Sequence[SSAValue]) -> ModuleOp:
        block = self.builder.block
        function = FuncOp(
            "main",
            (block.arg_types, [result.type for result in results]),
            Region(block),
            arg_attrs=named(inputs),
            res_attrs=named(outputs),
        )
        return ModuleOp([function], {MODEL: header_of(self.model.proto)})


@contextmanager
def foreseen_as_import_error(subject: str) -> Generator[None]:
    """Raises a LayoutError or VerifyException of the body as an OnnxImportError about `subject`."""
    try:
        yield
    except UnforeseenError:
        raise
    except (LayoutError, VerifyException) as error:
        raise OnnxImportError(f"{subject}: {error}") from error


def plain_type(element: Attribute, shape: Sequence[int]) -> TensorType[Attribute]:
    """The type of an input or result, with the row-major format as its encoding."""
    return TensorType(element, shape, FormatAttr(plain_format(shape)))


def plain_format(shape: Sequence[int]) -> Format:
    """The row-major format of a tensor of this rank."""
    return Format.row_major(names_for(len(shape)))


def _summary(obstacles: Sequence[tuple[Call, OnnxImportError]]) -> OnnxImportError:
    """One error about many nodes: each kind of obstacle once, with the number of its nodes and the first of them."""
    kinds: dict[str, list[tuple[Call, OnnxImportError]]] = {}
    for call, error in obstacles:
        reason = str(error).removeprefix(f"{call.title}: ")
        kinds.setdefault(call.proto.op_type + re.sub(r"'[^']*'|\d+", "", reason), []).append((call, error))
    counted = sorted(kinds.values(), key=len, reverse=True)
    lines = [
        f"{len(found)} x {quoted(found[0][0].proto.op_type)[1:-1]}, the first is {found[0][1]}"
        for found in counted
    ]
    return OnnxImportError(f"{len(obstacles)} nodes cannot be imported: {'; '.join(lines)}")


def _reshaped(graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether `shapes` gives an input another extent than it has in the model: then no shape in there holds."""
    return any(
        dim.HasField("dim_value") and dim.dim_value != extent
        for value in graph.input
        for dim, extent in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False)
    )


def _name_results(results: Sequence[AnyValue | None], names: Sequence[str]) -> None:
    """Writes the names of the outputs of a node into the locations of the ops that make them, for the first time."""
    found = {value: name for value, name in zip(results, names, strict=False) if isinstance(value, OpResult)}
    for op in {value.op: None for value in found}:
        if all(result.name_hint is None for result in op.results):
            (node, *_) = names_at(op)
            op.location = location(node, [found.get(result, "") for result in op.results])


def _replaced(value: Value, array: NDArray[Any], name: str) -> Constant:
    if not isinstance(value, Constant):
        raise OnnxImportError(f"weights names {quoted(name)}, which is computed at run time")
    if array.shape != shape_of(value) or array.dtype != value.array.dtype:
        raise OnnxImportError(
            f"weights[{quoted(name)}] is {array.dtype} {array.shape}, "
            f"but the value in the model is {value.array.dtype} {value.array.shape}"
        )
    return Constant(array, name)


def _drop_dead(block: Block) -> None:
    for op in reversed(list(block.ops)):
        if op.results and not any(result.uses for result in op.results):
            block.erase_op(op)
