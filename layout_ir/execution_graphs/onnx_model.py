"""ONNX models, as written by an exporter or by ONNX Runtime after its optimizations, as an `ExecutionGraph`.

All values of the standard operators are row-major, so a copy is a Transpose. ONNX Runtime's own operators add more: in
its domain com.microsoft.nchwc tensors lie in blocks of channels, with a ReorderInput and a ReorderOutput at the
borders, and a FusedMatMul may read an operand with its dims in another order. A model that it wrote has no shapes in
it, so they are inferred: each operator of its own gets standard operators that have the same type. Nodes of subgraphs
are nodes like others; the node that runs a subgraph makes the inputs of the body and reads its results.

The block of channels (8 or 16) depends on the machine and is in no attribute; it is the larger of the two that divides
the channels of all blocked weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from typing import TYPE_CHECKING, Any

from layout_ir.algebra.format import Format
from layout_ir.execution_graphs.execution_graph import (
    ExecutionGraph,
    Extents,
    Node,
    Operand,
    Value,
    dtype_named,
    row_major,
)
from layout_ir.frontends.onnx.function_body import TensorType, Types
from layout_ir.frontends.onnx.shape_inference import infer_shapes
from layout_ir.frontends.onnx.stand_ins import NCHWC_DOMAIN, standard_nodes
from layout_ir.notations import NOTATIONS

if TYPE_CHECKING:
    import onnx

_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")
"""Operators that give the elements another shape, in the order they have in memory."""

_FLAGS = ("transA", "transB", "transBatchA", "transBatchB")
"""Attributes of a FusedMatMul that are layouts of its operands."""

_SMALL = 4096
"""Elements of a constant that shape inference may look at: shapes, axes, repeats."""


def read_onnx(source: str | onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> ExecutionGraph:
    """The graph of an ONNX model, given as such or by its path; `shapes` gives shapes of dynamic inputs, by name.

    Raises OnnxImportError (a LayoutError) where the file is no valid ONNX model.
    """
    from layout_ir.frontends.onnx.import_error import unforeseen_as_import_error

    with unforeseen_as_import_error("the model"):
        return _read(source, shapes)


def _read(source: str | onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> ExecutionGraph:
    from layout_ir.frontends.onnx.model import load

    loaded = load(source)
    nodes = [call.proto for call in loaded.calls]
    versions = {domain: version for call in loaded.calls for domain, version in call.opsets.items()}
    types = _Types(loaded.graph, nodes, versions, shapes)
    own = sorted({node.domain for node in nodes if node.domain.startswith("com.microsoft")})
    reader = _Reader(types, _block(loaded.graph, nodes))
    reader.graph.source = f"ONNX model as ONNX Runtime writes it ({', '.join(own)})" if own else "ONNX model"
    reader.read(loaded.graph, nodes)
    return reader.graph


class _Reader:
    """Builds the graph, node by node."""

    def __init__(self, types: _Types, block: int):
        from layout_ir.frontends.onnx.ops_elementwise import TRANSLATIONS

        self.graph = ExecutionGraph("")
        self._elementwise = TRANSLATIONS.keys()
        self._types = types
        self._blocked = f"NCHWc/{block}"
        self._scopes: list[dict[str, int]] = [{}]

    def read(self, graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
        """Adds the whole model."""
        constants = {tensor.name for tensor in graph.initializer}
        for value in graph.input:
            if value.name not in constants:
                self.graph.add_node(Node(value.name, "input", "input", [], [self._define(value.name)]))
        self._body(graph, nodes)
        for value in graph.output:
            self.graph.add_node(Node(value.name, "output", "output", self._operands([value.name])))

    def _body(self, graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
        for tensor in graph.initializer:
            self.graph.add_node(Node(tensor.name, "constant", "constant", [], [self._define(tensor.name)]))
        for node in nodes:
            self._node(node)

    def _define(self, name: str, layout: str | None = None) -> int:
        shape, dtype = self._types.of(name)
        if layout is None:
            value = Value(name, shape, dtype, row_major(0 if shape is None else len(shape)))
        else:
            format = NOTATIONS["onnxruntime"].parse(layout)
            assert isinstance(format, Format)
            value = Value(name, shape, dtype, format, layout)
        self._scopes[-1][name] = number = self.graph.add_value(value)
        return number

    def _operands(self, names: Iterable[str]) -> list[Operand]:
        result: list[Operand] = []
        for slot, name in enumerate(names):
            for scope in reversed(self._scopes):
                if name in scope:
                    result.append(Operand(str(slot), scope[name]))
                    break
        return result

    def _node(self, node: onnx.NodeProto) -> None:
        from layout_ir.frontends.onnx.functions import node_name
        from layout_ir.frontends.onnx.subgraphs import graphs_of

        standard = node.domain in ("", "ai.onnx")
        attributes = {attribute.name: attribute for attribute in node.attribute}
        made = Node(node_name(node), node.op_type, "op", self._operands(node.input))
        made.attributes = " ".join(
            sorted(_attribute_text(attribute) for attribute in node.attribute if attribute.name not in _FLAGS)
        )
        made.elementwise = standard and node.op_type in self._elementwise
        layout = None
        if standard and node.op_type == "Constant":
            made.role = "constant"
        elif standard and node.op_type in _VIEWS:
            made.role = "view"
        elif standard and node.op_type == "Transpose":
            made.role, made.is_portable = "copy", True
            made.permutation = self._order(node, attributes)
        elif node.domain == NCHWC_DOMAIN:
            layout = self._blocked if node.op_type != "ReorderOutput" else None
            if node.op_type in ("ReorderInput", "ReorderOutput"):
                made.role = "copy"
                made.permutation = _channels_order(node.op_type, bool(_int(attributes.get("channels_last"))))
        elif node.op_type == "FusedMatMul":
            made.inputs = [self._flagged(operand, attributes) for operand in made.inputs]
        elif any(self.graph.values[operand.value].layout_text for operand in made.inputs):
            layout = self._blocked  # its elementwise operators take blocks as they are
        for body in graphs_of(node):
            self._scopes.append({})
            made.outputs += [self._define(value.name) for value in body.input]
            self._body(body, body.node)
            made.inputs += self._operands(value.name for value in body.output)
            self._scopes.pop()
        made.outputs[:0] = [self._define(name, layout) for name in node.output if name]
        self.graph.add_node(made)

    def _order(
        self, node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]
    ) -> tuple[int, ...] | None:
        """The permutation of a Transpose: what it states, else all dims reversed."""
        if "perm" in attributes:
            order = tuple(attributes["perm"].ints)
            return order if sorted(order) == list(range(len(order))) else None
        shape, _ = self._types.of(node.input[0])
        return None if shape is None else tuple(reversed(range(len(shape))))

    def _flagged(self, operand: Operand, attributes: Mapping[str, onnx.AttributeProto]) -> Operand:
        """An operand of a FusedMatMul: its flags say in which order the dims are read."""
        from layout_ir.frontends.onnx.stand_ins import fused_operand_order

        shape = self.graph.values[operand.value].shape
        side = {"0": "A", "1": "B"}.get(operand.slot, "")
        flags = [bool(_int(attributes.get(f"{flag}{side}"))) for flag in ("trans", "transBatch")]
        if shape is None or not side or not any(flags):
            return operand
        return Operand(operand.slot, operand.value, fused_operand_order(len(shape), flags[0], flags[1]))


def _int(attribute: onnx.AttributeProto | None) -> int:
    return 0 if attribute is None else attribute.i


def _attribute_text(attribute: onnx.AttributeProto) -> str:
    """A short attribute as text; of a tensor or a subgraph only the name."""
    value: object = ""
    match attribute.type:
        case attribute.INT:
            value = attribute.i
        case attribute.FLOAT:
            value = attribute.f
        case attribute.STRING:
            value = attribute.s.decode("utf-8", "replace")
        case _:
            value = [*attribute.ints, *attribute.floats] or ""
    return f"{attribute.name}={value}"


def _channels_order(op_type: str, channels_last: bool) -> tuple[int, ...]:
    """The dims of the result of a reorder: N, C, H, W on the blocked side, and on the other side where they say so."""
    if not channels_last:
        return (0, 1, 2, 3)
    return (0, 3, 1, 2) if op_type == "ReorderInput" else (0, 2, 3, 1)


def _block(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> int:
    """The block of channels: 8 where an output channel count of blocked weights is no multiple of 16."""
    dims = {tensor.name: tensor.dims for tensor in graph.initializer}
    weights = [node.input[1] for node in nodes if node.domain == NCHWC_DOMAIN and len(node.input) > 1]
    return 16 if gcd(0, *(dims[name][0] for name in weights if dims.get(name))) % 16 == 0 else 8


class _Types:
    """Shapes and element types of all values, by name, as far as shape inference finds them.

    A body and the graph around it have no names in common, by the rules of ONNX.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        nodes: Sequence[onnx.NodeProto],
        versions: Mapping[str, int],
        shapes: Mapping[str, Sequence[int]],
    ):
        from layout_ir.frontends.onnx.model import graph_inputs

        self._known: dict[str, tuple[Extents | None, int]] = {}
        if shapes:
            graph_inputs(
                graph, shapes
            )  # whose errors about names, ranks and other dynamic inputs are good ones
        model = _skeleton(graph, versions, shapes)
        # A stand-in may depend on a type that only the stand-ins before it bring to light.
        resolved = -1
        while True:
            del model.graph.node[:]
            missing = False
            for node in nodes:
                stand_ins = _stand_ins(node, self._type)
                missing |= stand_ins is None
                model.graph.node.extend(stand_ins or [])
            self._infer(model)
            before, resolved = resolved, sum(shape is not None for shape, _ in self._known.values())
            if not missing or resolved == before:
                break

    def of(self, name: str) -> tuple[Extents | None, str | None]:
        """Shape and element type of a value, each None where it is not known."""
        shape, element = self._known.get(name, (None, 0))
        return shape, _element(element)

    def _type(self, name: str) -> TensorType:
        shape, element = self._known.get(name, (None, 0))
        if shape is None:
            raise KeyError(name)
        return TensorType(element, shape)

    def _infer(self, model: onnx.ModelProto) -> None:
        import onnx.shape_inference

        try:
            found = infer_shapes(model).graph
        except (
            onnx.shape_inference.InferenceError,
            ValueError,
        ):  # a value that says another type than it has
            found = model.graph
        self._take(found)

    def _take(self, graph: onnx.GraphProto) -> None:
        from layout_ir.frontends.onnx.subgraphs import graphs_of

        for value in (*graph.input, *graph.value_info, *graph.output):
            if value.type.WhichOneof("value") == "tensor_type":
                tensor = value.type.tensor_type
                shape = (
                    tuple(
                        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None
                        for d in tensor.shape.dim
                    )
                    if tensor.HasField("shape")
                    else None
                )
                if shape is not None or value.name not in self._known:
                    self._known[value.name] = shape, tensor.elem_type
        for tensor in graph.initializer:
            self._known[tensor.name] = tuple(tensor.dims), tensor.data_type
        for node in graph.node:
            for body in graphs_of(node):
                self._take(body)


def _element(number: int) -> str | None:
    import onnx

    known: Any = onnx.TensorProto.DataType
    return dtype_named(known.Name(number).lower()) if number in known.values() else None


def _skeleton(
    graph: onnx.GraphProto, versions: Mapping[str, int], shapes: Mapping[str, Sequence[int]]
) -> onnx.ModelProto:
    """A model with the inputs and outputs of `graph` and without nodes; large constants are inputs, so that no weight
    is copied."""
    import onnx
    import onnx.helper

    model = onnx.ModelProto(ir_version=8)
    model.graph.name = "shapes"
    for domain, version in {"": 17, **versions}.items():
        model.opset_import.append(onnx.helper.make_opsetid(domain, version))
    for tensor in graph.initializer:
        size = 1
        for extent in tensor.dims:
            size *= extent
        if size <= _SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL:
            model.graph.initializer.append(tensor)
        else:
            model.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    constants = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name in constants:
            continue
        given = model.graph.input.add()
        given.CopyFrom(value)
        if value.name in shapes:
            element = value.type.tensor_type.elem_type
            given.CopyFrom(onnx.helper.make_tensor_value_info(value.name, element, shapes[value.name]))
    if not shapes:
        # With other shapes of inputs, what the file says of the values behind them holds no more.
        model.graph.output.extend(graph.output)
        model.graph.value_info.extend(graph.value_info)
    else:
        model.graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in graph.output)
    return model


def _stand_ins(node: onnx.NodeProto, types: Types) -> list[onnx.NodeProto] | None:
    """Standard nodes whose last gives output 0 of `node` its type; None where a type they need is not known yet."""
    import onnx.helper

    if node.domain == NCHWC_DOMAIN and node.op_type == "ReorderInput":
        # The channels that it reads: those of a last block that is not whole are no elements.
        last = any(attribute.name == "channels_last" and attribute.i for attribute in node.attribute)
        perm = _channels_order(node.op_type, last)
        return [onnx.helper.make_node("Transpose", [node.input[0]], [node.output[0]], perm=perm)]
    return standard_nodes(node, types)
