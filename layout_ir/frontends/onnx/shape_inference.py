"""ONNX's shape inference, but for what it gets wrong.

An STFT that does not say `onesided` is one-sided, by its definition, and for inference two-sided (onnx 1.22 and 1.23):
every shape behind it would be wrong. So the default is stated before inference looks at the node.

Subgraphs may use a name for a value each, as the branches of a decoder with and without a cache do. Inference keeps the
elements of small integers by name for all of the model, and fails where a name has them twice. So for inference each
value has a name of its own.

The inference of a Slice aborts the process where its input has an extent below 0 (`negative_extents`). So inference
sees it once that is known of its input: part by part (`inference_in_parts`), or in functions and subgraphs by looks at
the whole of them.

The inference of a few operators reads the type of their first input without asking whether there is one, and the
process dies of it. So inference sees such a node only once that type is known.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.functions import called_functions, domain_of, too_large, written_out
from layout_ir.frontends.onnx.import_error import OnnxImportError
from layout_ir.frontends.onnx.inference_in_parts import infer_in_parts
from layout_ir.frontends.onnx.negative_extents import (
    COMPUTING_EXTENTS,
    forget_negative_extents,
    has_negative_extent,
    looks_at_nodes,
    makers_of_negative_extents,
    nodes_with_negative_shapes,
    slices_of_functions,
    values_with_negative_extents,
)
from layout_ir.frontends.onnx.subgraphs import (
    WITH_SUBGRAPHS,
    bodies_of,
    distinguish_values,
    graphs_within,
    names_twice,
    nodes_within,
    rename_values,
)

if TYPE_CHECKING:
    import onnx

    from layout_ir.frontends.onnx.subgraphs import Body

_NEEDS_TYPE = frozenset(("DictVectorizer", "EyeLike", "LabelEncoder", "RegexFullMatch"))
"""The operators whose inference dereferences the type of the first input unseen: of all operators of onnx 1.23, those
on which it crashed among 30,000 nodes that lacked inputs, types and attributes."""

_MOST_NODES = 1 << 20
"""More nodes than this, with the bodies of functions at each of their calls, take it minutes."""

_HIDDEN = "hidden "
"""In front of the operator of a node that inference does not see: an operator that it does not know."""


def infer_shapes(model: onnx.ModelProto, *, strict: bool = False) -> onnx.ModelProto:
    """A copy of `model` with the types of all values that inference finds.

    Raises what ONNX raises for types that contradict each other, and with `strict` for nodes that do not fit their
    operators: InferenceError, ValueError or RuntimeError. And OnnxImportError where functions of the model are not in
    order: one that calls itself, or two of one name.
    """
    import onnx.checker

    # One look at the operator of each node, of which a model may have many.
    operators = {node.op_type for node in model.graph.node}
    nested = not WITH_SUBGRAPHS.isdisjoint(operators)
    if ("STFT" in operators or nested) and any(map(_lacks_default, _nodes(model.graph))):
        given, model = model, type(model)()
        model.CopyFrom(given)
        for node in filter(_lacks_default, _nodes(model.graph)):
            node.CopyFrom(with_defaults(node))
    if model.functions:
        check_calls(model)
    hidden: list[onnx.NodeProto] = []
    is_alone = not nested and not model.functions
    bodies = _bodies(model, is_alone)
    may_slice = "Slice" in operators or not is_alone
    if may_slice and (
        values_with_negative_extents(bodies)
        or nodes_with_negative_shapes(bodies)
        or slices_of_functions(model)
    ):
        given, model = model, type(model)()
        model.CopyFrom(given)
        bodies = _bodies(model, is_alone)
        for value in values_with_negative_extents(bodies):
            forget_negative_extents(value)
        hidden = [*slices_of_functions(model), *nodes_with_negative_shapes(bodies)]
        for node in hidden:
            node.op_type = _HIDDEN + node.op_type
    before: dict[str, str] = {}
    if nested and (own := names_twice(model.graph)):
        given, model = model, type(model)()
        model.CopyFrom(given)
        before = distinguish_values(model.graph, own)
    try:
        is_plain = all(_NEEDS_TYPE.isdisjoint([node.op_type for node in body.node]) for body in bodies)
        look = partial(_infer if is_plain else _without_crash, strict=strict)
        may_compute = may_slice and not (is_alone and COMPUTING_EXTENTS.isdisjoint(operators))
        found = _look_by_look(model, look)[0] if may_compute else look(model)
        if hidden:
            _show_nodes(found)
        if before:
            rename_values(found.graph, before)
        return found
    except onnx.checker.ValidationError as error:
        raise OnnxImportError(f"the model is not valid: {error}") from error


def check_calls(model: onnx.ModelProto) -> None:
    """Raises OnnxImportError where inference, which looks at the body of a function at each call, would see a function
    that calls itself, or more nodes than it can."""
    opsets = {domain_of(entry.domain): entry.version for entry in model.opset_import}
    count, _ = written_out(model.graph.node, called_functions(model, opsets))
    if count > _MOST_NODES:
        raise too_large(count, "nodes", f"shape inference looks at {_MOST_NODES} at most")


def node_of_negative_extent(model: onnx.ModelProto) -> onnx.NodeProto | None:
    """A node of a model with Slices that gives a result with an extent below 0; None where inference tells of none.

    Whoever has not taken care of it, as ONNX Runtime has not, aborts when it infers a Slice of such a result. Raises
    OnnxImportError as `check_calls` does.
    """
    import onnx.checker
    import onnx.inliner

    if model.functions:
        check_calls(model)
        try:
            model = onnx.inliner.inline_local_functions(model)
        except (onnx.checker.ValidationError, RuntimeError, ValueError):
            return None  # functions that are not in order, or call themselves
    bodies = list(graphs_within(model.graph))
    if not any(node.op_type == "Slice" for body in bodies for node in body.node):
        return None
    found = nodes_with_negative_shapes(bodies)
    if not found and looks_at_nodes(model, bodies):
        model = _with_weights_as_inputs(model)
        for value in values_with_negative_extents(list(graphs_within(model.graph))):
            forget_negative_extents(value)
        try:
            _, found = _look_by_look(model, partial(_without_crash, strict=False))
        except (onnx.checker.ValidationError, RuntimeError, ValueError):
            return None  # whoever reads it will say
    return found[0] if found else None


def _with_weights_as_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model without functions, in which initializers are inputs whose numbers make no extents."""
    import onnx
    import onnx.helper

    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    source, graph = model.graph, light.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    graph.sparse_initializer.extend(source.sparse_initializer)
    inputs = {value.name for value in source.input}
    for tensor in source.initializer:
        if tensor.data_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            type = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            graph.input.add(name=tensor.name, type=type)
    return light


def _bodies(model: onnx.ModelProto, is_alone: bool) -> list[Body]:
    """What inference looks at: the graph, its functions and subgraphs; the graph alone where there are no others, which
    is known without a look at all attributes."""
    return [model.graph] if is_alone else list(bodies_of(model))


def needs_type(op_type: str) -> bool:
    """Whether ONNX's inference of an operator would crash the process without the type of its first input."""
    return op_type in _NEEDS_TYPE


def would_abort(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> bool:
    """Whether ONNX's inference of the node, whose inputs are of these `types`, may abort: that of what is in
    its subgraphs, too, of which no types are known."""
    is_slice = node.op_type == "Slice" and not node.domain and bool(node.input)
    if is_slice and node.input[0] in types and has_negative_extent(types[node.input[0]]):
        return True
    return lacks_type(node, types) or any(
        needs_type(inner.op_type) or inner.op_type == "Slice" for inner in nodes_within(node)
    )


def lacks_type(node: onnx.NodeProto, types: Container[str]) -> bool:
    """Whether ONNX's inference of the node would crash the process: it needs a type that is not among `types`, which
    are the names of the values that have one."""
    return node.op_type in _NEEDS_TYPE and not (node.input and node.input[0] and node.input[0] in types)


def _infer(model: onnx.ModelProto, strict: bool) -> onnx.ModelProto:
    import onnx.shape_inference

    return onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=True)


def _look_by_look(
    model: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> tuple[onnx.ModelProto, list[onnx.NodeProto]]:
    """What `infer` finds where it sees a Slice only once it has found what the Slice cuts, and nodes for whose results
    it has computed an extent below 0 no more; and these nodes."""
    looks = looks_at_nodes(model, _graphs(model))
    if looks is None:
        return infer(model), []
    if model.functions or model.graph.sparse_initializer:
        given, model = model, type(model)()
        model.CopyFrom(given)
        return _at_all_of_it(model, infer)

    inner: list[onnx.NodeProto] = []

    def infer_part(part: onnx.ModelProto) -> onnx.ModelProto:
        # What a node has in its subgraphs may take looks of its own; all others are of one look, and the values that
        # they share with other parts are no results of windows: inference follows no elements through those.
        if WITH_SUBGRAPHS.isdisjoint([node.op_type for node in part.graph.node]):
            return infer(part)
        found, makers = _at_all_of_it(part, infer)
        inner.extend(makers)
        return found

    found, makers = infer_in_parts(model, looks.of_nodes, infer_part)
    return found, makers + inner


def _at_all_of_it(
    model: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> tuple[onnx.ModelProto, list[onnx.NodeProto]]:
    """What `_look_by_look` does, by looks each of which is at the whole model, some of whose nodes have
    other operators meanwhile."""
    looks = looks_at_nodes(model, _graphs(model))
    if looks is None:
        return infer(model), []
    later: list[list[onnx.NodeProto]] = [[] for _ in range(max(look for _, look in looks.of_slices))]
    for node, look in looks.of_slices:
        if look:
            later[look - 1].append(node)
            node.op_type = _HIDDEN + node.op_type
    found = infer(model)
    makers: list[onnx.NodeProto] = []
    for slices in later:
        for node in makers_of_negative_extents(model, found):
            makers.append(node)
            node.op_type = _HIDDEN + node.op_type
        for node in slices:
            node.op_type = node.op_type.removeprefix(_HIDDEN)
        found = infer(model)
    _show_nodes(model)
    _show_nodes(found)
    return found, makers


def _graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    """The graph of a model and the subgraphs that inference looks into."""
    is_nested = not WITH_SUBGRAPHS.isdisjoint([node.op_type for node in model.graph.node])
    return list(graphs_within(model.graph)) if is_nested else [model.graph]


def _without_crash(model: onnx.ModelProto, strict: bool) -> onnx.ModelProto:
    """What ONNX's inference finds of all nodes but those that would crash it.

    A node of the graph itself that needs a type is seen once the others have given its input one; one of a function or
    a subgraph is not seen, nor is one whose input comes from such a node.
    """
    if not any(node.op_type in _NEEDS_TYPE for body in bodies_of(model) for node in body.node):
        return _infer(model, strict)
    given, model = model, type(model)()
    model.CopyFrom(given)
    hidden = [node for body in bodies_of(model) for node in body.node if node.op_type in _NEEDS_TYPE]
    for node in hidden:
        node.op_type = _HIDDEN + node.op_type
    found = _infer(model, strict)
    graph = found.graph
    values = (*graph.input, *graph.value_info, *graph.output)
    typed = {value.name for value in values if value.type.WhichOneof("value")}
    typed.update(tensor.name for tensor in graph.initializer)
    seen = [node for node in model.graph.node if node.op_type.removeprefix(_HIDDEN) in _NEEDS_TYPE]
    for node in seen:
        node.op_type = node.op_type.removeprefix(_HIDDEN)
        if lacks_type(node, typed):
            node.op_type = _HIDDEN + node.op_type
    found = _infer(model, strict)
    _show_nodes(found)
    return found


def _show_nodes(model: onnx.ModelProto) -> None:
    """Gives the nodes that inference was not to see their operators back, in place."""
    for body in bodies_of(model):
        for node in body.node:
            node.op_type = node.op_type.removeprefix(_HIDDEN)


def with_defaults(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node, or a copy whose attributes state the defaults that inference takes for something else."""
    if not _lacks_default(node):
        return node
    stated = type(node)()
    stated.CopyFrom(node)
    stated.attribute.add(name="onesided", type=2, i=1)  # AttributeProto.INT
    return stated


def _lacks_default(node: onnx.NodeProto) -> bool:
    return node.op_type == "STFT" and not any(each.name == "onesided" for each in node.attribute)


def _nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    found = list(graph.node)
    for node in graph.node:
        if node.op_type in WITH_SUBGRAPHS:
            found += nodes_within(node)
    return found
