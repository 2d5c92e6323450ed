"""Types of the outputs of a node for which the importer has no translation.

ONNX's shape inference looks at a model of the one node, which has the values of small constants too (the k of a TopK,
the repeats of a Tile). Where it knows no rule, help comes from two sides: an operator that ONNX Runtime writes into the
models it saves has the type that standard operators in its place would have (`stand_ins`), and a Loop whose body keeps
the shape of a value keeps it to the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from layout_ir.dialects.nn.windows import window_shape
from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.constants import Constant
from layout_ir.frontends.onnx.function_body import constant_type, type_of
from layout_ir.frontends.onnx.import_error import OnnxImportError, quoted
from layout_ir.frontends.onnx.loop_counts import iterations
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.shape_inference import infer_shapes
from layout_ir.frontends.onnx.stand_ins import NCHWC_DOMAIN, standard_nodes
from layout_ir.frontends.onnx.subgraphs import graphs_of, graphs_within
from layout_ir.frontends.onnx.values import Value, dtype_of, shape_of
from layout_ir.frontends.onnx.window_attributes import window_of

if TYPE_CHECKING:
    import onnx

MOST_KNOWN_ELEMENTS = 4096
"""Elements of a constant that shape inference may look at: shapes, axes, bounds."""

Types = Mapping[str, "onnx.TypeProto"]


def output_types(node: Node, captures: Mapping[str, Value], opsets: Mapping[str, int]) -> Types:
    """The types of the outputs, as far as they can be known, by name; a dim that is not known has no extent.

    `captures` has the outer values of subgraphs. Raises OnnxImportError where the node does not fit its operator.
    """
    import onnx
    import onnx.helper

    if node.op_type == "Loop" and not node.domain:
        _check_loop_inputs(node)
    model = _model_of(node, captures, opsets)
    types = _inferred(model)
    types = {**types, **_stand_in_types(model)}
    if node.op_type == "Loop" and not node.domain:
        types = {**types, **_kept_shapes(model, types)}
    if node.op_type in ("LpPool", "MaxPool") and not node.domain and node.get("ceil_mode", 0):
        types = {name: _with_counted_windows(type, node) for name, type in types.items()}
    for value in model.graph.output:
        # The checker asks for a type, but does not compare it.
        value.type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ()))
    _check(model)
    return types


def _model_of(node: Node, captures: Mapping[str, Value], opsets: Mapping[str, int]) -> onnx.ModelProto:
    """A model of the one node, whose outputs have no types yet; small constants are initializers."""
    import onnx
    import onnx.helper
    import onnx.numpy_helper

    given = zip(node.proto.input, node.given, strict=True)
    values = {name: value for name, value in given if value is not None} | dict(captures)
    graph = onnx.GraphProto(name="node", node=[node.proto])
    for name, value in values.items():
        if isinstance(value, Constant) and value.array.size <= MOST_KNOWN_ELEMENTS:
            graph.initializer.append(onnx.numpy_helper.from_array(value.array, name))
        else:
            number = onnx.helper.np_dtype_to_tensor_dtype(dtype_of(value))
            graph.input.append(onnx.helper.make_tensor_value_info(name, number, shape_of(value)))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.proto.output if name)
    imports = [onnx.helper.make_opsetid(*entry) for entry in opsets.items()]
    return onnx.helper.make_model(graph, opset_imports=imports)


def _check_loop_inputs(node: Node) -> None:
    """Raises OnnxImportError where the trip count or the condition of a Loop is no single number of its type: shape
    inference lets such pass."""
    wanted = (("trip count", "int64"), ("condition", "bool"))
    for (what, dtype), name, value in zip(wanted, node.proto.input, node.given, strict=False):
        if value is None:
            continue
        found, shape = dtype_of(value).name, shape_of(value)
        if (found, prod(shape)) != (dtype, 1):
            raise OnnxImportError(
                f"its {what} {quoted(name)} is {found} of shape {list(shape)}, expected {dtype} of one element"
            )


def _inferred(model: onnx.ModelProto) -> Types:
    """The types of the outputs by ONNX's shape inference. Raises OnnxImportError where inputs do not fit the node."""
    import onnx.shape_inference

    # The last two are exceptions of C++ that nobody has caught.
    failures = onnx.shape_inference.InferenceError, ValueError, RuntimeError
    nodes = model.graph.node
    attempts = [(True, False)]
    if any(map(graphs_of, nodes)):
        attempts.append((True, True))
    if any(node.op_type == "If" and not node.domain for node in nodes):
        # A branch that the condition does not take may well be for other shapes: a decoder that has no cache yet.
        attempts += [(False, False), (False, True)]
    refused: Exception | None = None
    for strict, unstated in attempts:
        try:
            found = infer_shapes(_with_unstated_shapes(model) if unstated else model, strict=strict)
            break
        except failures as error:
            refused = refused or error
    else:
        assert refused is not None
        raise OnnxImportError(f"shape inference fails: {_last_line(refused)}") from refused
    return {value.name: value.type for value in found.graph.output if value.HasField("type")}


def _with_unstated_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model whose subgraphs state no shapes of what their nodes make: exporters write scalars where a body makes
    vectors of one element, and runtimes go by what it makes."""
    import onnx

    unstated = onnx.ModelProto()
    unstated.CopyFrom(model)
    for node in unstated.graph.node:
        for subgraph in graphs_of(node):
            for graph in graphs_within(subgraph):
                del graph.value_info[:]
                for value in graph.output:
                    value.type.tensor_type.ClearField("shape")
    return unstated


def _check(model: onnx.ModelProto) -> None:
    """Raises OnnxImportError where the attributes, inputs or subgraphs of the node are not those of its operator."""
    import onnx.checker

    try:
        onnx.checker.check_model(model)  # pyright: ignore[reportUnknownMemberType]
    except onnx.checker.ValidationError as error:
        raise OnnxImportError(f"the node is not valid: {_last_line(error)}") from error


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and "Context" not in line]
    return lines[-1].rpartition("]: ")[2] if lines else type(error).__name__


def _with_counted_windows(type: onnx.TypeProto, node: Node) -> onnx.TypeProto:
    """The type of a result of a pool with `ceil_mode`, without a last window that starts in the padding at the end:
    ONNX's inference counts it, and runtimes drop it."""
    import onnx

    kernel = node.required("kernel_shape", (0,))
    try:
        counts = window_shape(shape_of(node.input(0))[2:], kernel, ceil_mode=True, **window_of(node, kernel))
    except LayoutError as error:
        raise OnnxImportError(str(error)) from error
    counted = onnx.TypeProto()
    counted.CopyFrom(type)
    for dim, count in zip(counted.tensor_type.shape.dim[2:], counts, strict=True):
        dim.dim_value = count
    return counted


# --- loops ----------------------------------------------------------------------------------------------------


def _kept_shapes(model: onnx.ModelProto, types: Types) -> Types:
    """Types of the results of a Loop, as far as they follow from what goes into its first iteration.

    ONNX's inference drops the shapes of what is carried, since a body may change them from one iteration to the next,
    and believes what the body states of them. Here a dim is known if it is the same before and behind the body, which
    knows no other dims of what it is given.
    """
    import onnx
    import onnx.helper

    (node,) = model.graph.node
    (body,) = (attribute.g for attribute in node.attribute if attribute.name == "body")
    outer = {value.name: value for value in model.graph.input}
    for tensor in model.graph.initializer:
        outer[tensor.name] = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
    inner = onnx.ModelProto()
    inner.CopyFrom(model)
    inner.graph.CopyFrom(body)
    del inner.graph.value_info[:]
    own = {value.name for value in (*body.input, *body.initializer)}
    inner.graph.input.extend(value for name, value in outer.items() if name not in own)
    carried = list(zip(node.input[2:], inner.graph.input[2:], node.output, body.output[1:], strict=False))
    for name, value, _, _ in carried:
        if name in outer:
            value.type.CopyFrom(outer[name].type)
    for value in inner.graph.output:
        value.ClearField("type")
    while True:
        # Of an input that goes out as it came in, inference says nothing.
        results = {**_inferred(inner), **{value.name: value.type for value in inner.graph.input}}
        changing = [
            (value, common)
            for name, value, _, result in carried
            if name in outer and (common := _common(value.type, results.get(result.name))) != value.type
        ]
        for value, common in changing:
            value.type.CopyFrom(common)
        if not changing:  # which comes, since every round knows less
            break
    kept: dict[str, onnx.TypeProto] = {}
    for name, value, output, _ in carried:
        if name in outer and not (output in types and _is_static(types[output])):
            kept[output] = value.type
    count = iterations(model, body)
    for output, result in zip(
        node.output[len(node.input[2:]) :], body.output[len(body.input) - 1 :], strict=False
    ):
        row = results.get(result.name)
        if row is None or not row.tensor_type.HasField("shape"):
            row = onnx.TypeProto()
            if output not in types or not types[output].tensor_type.shape.dim:
                continue
            row.CopyFrom(types[output])
            del row.tensor_type.shape.dim[0]
        kept[output] = onnx.TypeProto()
        stacked = kept[output].tensor_type
        stacked.elem_type = row.tensor_type.elem_type
        stacked.shape.dim.add()
        stacked.shape.dim.extend(row.tensor_type.shape.dim)
        if count is not None:
            stacked.shape.dim[0].dim_value = count
    return {name: type for name, type in kept.items() if type.tensor_type.HasField("shape")}


def _common(one: onnx.TypeProto, other: onnx.TypeProto | None) -> onnx.TypeProto:
    """What holds for a value that is of the one type or the other, where None is any shape."""
    import onnx

    common = onnx.TypeProto()
    common.CopyFrom(one)
    if other is None or not other.tensor_type.HasField("shape"):
        common.tensor_type.ClearField("shape")
        return common
    dims, others = common.tensor_type.shape.dim, other.tensor_type.shape.dim
    if len(dims) != len(others):
        common.tensor_type.ClearField("shape")
        return common
    for dim, found in zip(dims, others, strict=True):
        if dim != found:
            dim.Clear()
    return common


def _is_static(type: onnx.TypeProto) -> bool:
    tensor = type.tensor_type
    return tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)


# --- operators of ONNX Runtime ----------------------------------------------------------------------------------


def _stand_in_types(model: onnx.ModelProto) -> Types:
    """The types by what stands in for the one node; none where nothing does, nor of values in blocks: a model does not
    say how many channels one has, and what an import gives them is row-major."""
    import onnx
    import onnx.defs
    import onnx.helper

    known = {value.name: type_of(value.type) for value in model.graph.input}
    known |= {tensor.name: constant_type(tensor) for tensor in model.graph.initializer}
    (node,) = model.graph.node
    nodes = standard_nodes(node, known.__getitem__)
    if nodes == [node] or not nodes or node.domain == NCHWC_DOMAIN:
        return {}
    other = onnx.ModelProto()
    other.CopyFrom(model)
    del other.graph.node[:]
    other.graph.node.extend(nodes)
    made = {name for each in nodes for name in each.output}
    del other.graph.output[:]
    other.graph.output.extend(value for value in model.graph.output if value.name in made)
    del other.opset_import[:]
    other.opset_import.append(onnx.helper.make_opsetid("", min(18, onnx.defs.onnx_opset_version())))
    return _inferred(other)
