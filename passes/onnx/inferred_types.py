"""The types of all values of a model, by ONNX's shape inference.

It looks at a copy of the graph in which large initializers are inputs, and which says nothing of inner values: a file
may say of them what is not so, and what is rewritten for such a shape would compute something else. What a file says
beyond what can be inferred (of the result of a custom operator) is believed where it contradicts nothing, and so is
what a Transpose then says of its operand. Of a Reshape to extents that are computed, at least the rank is found out,
and an extent that follows from all the others.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import cache, partial
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.function_body import TensorType, constant_type, type_of
from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.made_up_extents import is_made_up
from layout_ir.frontends.onnx.stand_ins import DOMAINS, UNTYPED, standard_nodes
from layout_ir.frontends.onnx.subgraphs import graphs_by_depth, graphs_of, outer_names
from layout_ir.passes.onnx.computed_ranges import write_out_ranges
from layout_ir.passes.onnx.model_constants import node_constants
from layout_ir.passes.onnx.repeated_inference import RepeatedInference, can_repeat
from layout_ir.passes.onnx.reshape_types import ReshapeTypes
from layout_ir.passes.onnx.transposed_operands import operands_of_transposes, ranks_by_perms
from layout_ir.passes.onnx.whole_inference import TensorTypes, WholeInference, type_of_tensor

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

SMALL = 1024
"""Elements of a constant that shape inference and the models of nodes may look at: axes, pads, shapes."""

FLOATS = frozenset((1, 10, 11, 16))
"""FLOAT, FLOAT16, DOUBLE and BFLOAT16, as TensorProto numbers element types."""
_ELEMENTS = ("double_data", "float_data", "int32_data", "raw_data")
"""The fields of a tensor that may have the elements of these."""

BY_TYPES_ALONE = frozenset((
    "Add", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv", "ConvTranspose", "Div", "Erf", "Gelu", "Gemm",
    "GlobalAveragePool", "HardSigmoid", "HardSwish", "Identity", "LayerNormalization", "LeakyRelu", "MatMul", "MaxPool",
    "Mul", "PRelu", "Pow", "Relu", "Sigmoid", "Softmax", "Sqrt", "Sub", "Tanh", "Transpose",
))  # fmt: skip
"""Operators whose results have types for which the elements of no operand matter: those that networks have most."""


class ValueTypes(dict[str, "onnx.TypeProto"]):
    """The types of values by name."""

    claimed: frozenset[str] = frozenset()
    """The values of which more is known than inference finds, because the file says so."""


def inferred_types(
    model: onnx.ModelProto,
    overridable: frozenset[str],
    shapes: Mapping[str, Sequence[int]],
    known: Mapping[str, NDArray[Any]],
    stated: Mapping[str, onnx.TypeProto],
    inner: Sequence[Mapping[str, NDArray[Any]]] = (),
) -> list[ValueTypes]:
    """The types of values by name, as `TypeInference` finds them for what is `known`, and in subgraphs `inner`."""
    return TypeInference(model, overridable, shapes, stated).types(known, inner)


class TypeInference:
    """The inference of the types of a model, which may be asked again as more is known of its values.

    Initializers that are `overridable` are inputs of which the type alone is known; `shapes` are those of inputs, and
    `stated` has types that inference does not find. Nodes have subgraphs only if `is_nested`. The operators to which
    ONNX Runtime fuses convolutions and activations are known besides those of ONNX.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        overridable: frozenset[str],
        shapes: Mapping[str, Sequence[int]],
        stated: Mapping[str, onnx.TypeProto],
        *,
        is_nested: bool = True,
    ):
        self.model = model
        self._overridable = overridable
        self._shapes = shapes
        self._stated = stated
        self._of_runtime = any(
            domain_of(entry.domain).startswith("com.microsoft") for entry in model.opset_import
        )
        graphs_in = graphs_by_depth if is_nested else _alone
        self._claims = list(map(_claims, graphs_in(model.graph)))
        self._claims[0].update(stated)
        self._first: RepeatedInference | None = None
        """What was found first, before anything was believed."""
        self._last: tuple[dict[str, onnx.TypeProto], RepeatedInference, set[str]] | None = None
        """What was believed of the file the last time, what was found with it, and of which values it is known."""
        self._read: frozenset[str] = frozenset()
        """The values that decide which nodes stand for others in the model that was inferred."""

    def types(
        self,
        known: Mapping[str, NDArray[Any]],
        inner: Sequence[Mapping[str, NDArray[Any]]] = (),
        *,
        may_complete: bool = False,
    ) -> list[ValueTypes]:
        """The types of values by name: of the graph, then of its subgraphs, those of one depth before those within
        them. `known` has the elements of values that constants decide, `inner` those of subgraphs, in that order.
        `may_complete` where all extents may have numbers then."""
        last = self._last
        if last is not None and not last[0] and self._goes_on_from(last[1], known):
            # Where nothing was believed, nothing is where more is known.
            inference, first = _with(last[1], known, may_complete), last[0]
            claimed, believed = [set(last[2])], []
        else:
            inference = self._inference(known, inner, may_complete)
            inputs = inference.model.graph.input
            told = [
                {name: type for name, type in said.items() if name in self._stated or not self._shapes}
                for said in self._claims
            ]
            believed = [_more(said, types, inputs) for said, types in zip(told, inference.found, strict=True)]
            claimed = list(map(set[str], believed))
            first = believed[0]
        if last is not None and last[0] and last[0] == first and self._goes_on_from(last[1], known):
            # What followed from it follows again.
            inference, claimed, believed = _with(last[1], known, may_complete), [set(last[2])], []
        elif any(believed) and not any(believed[1:]) and inference.used().isdisjoint(believed[0]):
            # Nothing follows from what is said of results that nobody uses.
            inference.add(believed[0])
            believed = []
        reshapes = ReshapeTypes(inference.nodes, inference.constants, SMALL)
        ranked: list[set[str]] = [set() for _ in inference.nodes]
        while True:
            # What is known of one may be what another follows from.
            believed = believed if any(believed) else reshapes.more(inference.found)
            if not any(believed):
                believed = list(map(ranks_by_perms, inference.nodes, inference.found, ranked))
                for names, said in zip(ranked, believed, strict=True):
                    names.update(said)
            if not any(believed) and any(claimed):
                believed = list(map(operands_of_transposes, inference.nodes, inference.found, claimed))
                for names, said in zip(claimed, believed, strict=True):
                    names.update(said)
            if not any(believed):
                break
            inference.state(believed)
            believed = []
        if isinstance(inference, RepeatedInference) and not self._of_runtime:
            self._last = first, inference, claimed[0]
        found = list(map(ValueTypes, inference.tables()))
        for types, names in zip(found, claimed, strict=True):
            types.claimed = frozenset(names)
        return found

    def _inference(
        self,
        known: Mapping[str, NDArray[Any]],
        inner: Sequence[Mapping[str, NDArray[Any]]],
        may_complete: bool,
    ) -> RepeatedInference | WholeInference:
        """What inference finds before anything is believed."""
        if self._first is not None and self._goes_on_from(self._first, known):
            return _with(self._first, known, may_complete)
        model = self.model
        light = _without_weights(model, self._overridable, self._shapes, known)
        # Half of each look at all nodes is to make their objects, which live as long as somebody has them.
        _nodes = light.graph.node[:]
        # What has no subgraphs is not searched for them again.
        graphs_in = graphs_by_depth if len(self._claims) > 1 else _alone
        # Inference does not know the other name of the default domain.
        for entry in light.opset_import:
            entry.domain = domain_of(entry.domain)
        for graph in graphs_in(light.graph):
            for node in graph.node:
                if node.domain:
                    node.domain = domain_of(node.domain)
            _forget(graph)
            (graph.input if graph is light.graph else graph.value_info).extend(_take_out_of_files(graph))
            _drop_elements(graph)
        self._read = write_out_ranges(light.graph, self._opset())
        own = {(domain_of(function.domain), function.name) for function in model.functions}
        if self._of_runtime:
            for graph in reversed(graphs_by_depth(light.graph)):  # a node is copied with its subgraphs
                _made_standard(graph, own=own)
        lights = graphs_in(light.graph)
        for graph, decided in zip(lights[1:], inner, strict=False):
            _make_known(graph, decided)
        if len(lights) > 1:
            _tell_constants(light.graph, {})
        inference = WholeInference(light, graphs_in)
        # What was found says of which types the operands are, and what follows from these of which the next ones are.
        standard = partial(_made_standard, own=own)
        while self._of_runtime and any([*map(standard, lights, inference.found, self._claims)]):
            inference.infer()
        if len(lights) > 1 or inference.fails or not can_repeat(light):
            return inference
        repeated = RepeatedInference(light, inference.found[0], frozenset(known))
        if not self._of_runtime:
            self._first = repeated.copy()
        return repeated

    def _goes_on_from(self, inference: RepeatedInference, known: Mapping[str, NDArray[Any]]) -> bool:
        """Whether what was found can be what is `known` leads to, once the new constants are told."""
        return known.keys() >= inference.fixed and self._read.isdisjoint(known.keys() - inference.fixed)

    def _opset(self) -> int:
        imports = self.model.opset_import
        return next((entry.version for entry in imports if not domain_of(entry.domain)), 1)


def _with(
    inference: RepeatedInference, known: Mapping[str, NDArray[Any]], may_complete: bool
) -> RepeatedInference:
    """What follows where more is `known`, besides what was found."""
    import onnx.numpy_helper

    new = {name: array for name, array in known.items() if name not in inference.fixed}
    again = inference.copy()
    tensors = {name: onnx.numpy_helper.from_array(array, name) for name, array in new.items()}
    again.fix(tensors, may_complete=may_complete)
    return again


def _tell_constants(graph: onnx.GraphProto, outer: Mapping[str, onnx.TensorProto]) -> None:
    """Gives the subgraphs of a graph the small constants that they use from around them, `outer` of which are known:
    inference looks at the elements of a graph's own alone."""
    constants = {**outer, **{tensor.name: tensor for tensor in graph.initializer}}
    constants.update(node_constants(graph.node))
    for node in graph.node:
        for inner in graphs_of(node) if node.attribute else ():
            own = {value.name for value in inner.input}
            _tell_constants(inner, {name: t for name, t in constants.items() if name not in own})
            for name in outer_names(inner):
                if name in constants and prod(constants[name].dims) <= SMALL:
                    inner.initializer.add().CopyFrom(constants[name])
                    inner.initializer[-1].name = name


def _forget(graph: onnx.GraphProto) -> None:
    """Takes out what a graph says of inner values and of the shapes of outputs; what is an output as it came keeps its
    type."""
    inputs = {value.name: value.type for value in graph.input}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    del graph.value_info[:]
    for value in graph.output:
        if value.name in inputs:
            value.type.CopyFrom(inputs[value.name])
        elif value.name in constants:
            value.type.CopyFrom(type_of_tensor(constants[value.name]))
        elif value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")


def _take_out_of_files(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Takes the constants out of a graph whose elements are in files, which inference does not read; returns their
    names and types."""
    import onnx

    types, found = TensorTypes(), list[onnx.ValueInfoProto]()
    for tensor in [tensor for tensor in graph.initializer if tensor.data_location]:
        found.append(onnx.ValueInfoProto(name=tensor.name, type=types.of(tensor)))
        graph.initializer.remove(tensor)
    for node in [node for node in graph.node if node.op_type == "Constant" and not domain_of(node.domain)]:
        for tensor in [a.t for a in node.attribute if a.name == "value" and a.t.data_location]:
            found.append(onnx.ValueInfoProto(name=node.output[0], type=types.of(tensor)))
            graph.node.remove(node)
    return found


def _drop_elements(graph: onnx.GraphProto) -> None:
    """Takes the elements out of the large floats of a graph: no type follows from these, and they would be written and
    read again with each inference. Of the graph of a model, those among its initializers are inputs already."""
    tensors = [*graph.initializer]
    for node in graph.node:
        if node.op_type == "Constant" and not domain_of(node.domain):
            tensors += [attribute.t for attribute in node.attribute if attribute.name == "value"]
    for tensor in tensors:
        if tensor.data_type in FLOATS and prod(tensor.dims[:]) > SMALL:
            for name in _ELEMENTS:
                tensor.ClearField(name)
            tensor.data_location = tensor.EXTERNAL


def _more(
    said: Mapping[str, onnx.TypeProto],
    found: Mapping[str, onnx.TypeProto],
    inputs: Sequence[onnx.ValueInfoProto],
) -> dict[str, onnx.TypeProto]:
    """The types that say more than what was found (`_adds`), in a model with these inputs."""
    named = {
        dim.dim_param
        for value in inputs
        for dim in (value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ())
    }
    known: dict[tuple[bytes, bytes], bool] = {}
    result: dict[str, onnx.TypeProto] = {}
    for name, type in said.items():
        other = found.get(name)
        if other is not None:
            if type == other and other.WhichOneof("value"):
                continue
            # Values of a network have few types.
            pair = type.SerializeToString(), other.SerializeToString()
            if pair not in known:
                known[pair] = _adds(type, other, named)
            if not known[pair]:
                continue
        result[name] = type
    return result


def _made_standard(
    graph: onnx.GraphProto,
    types: Mapping[str, onnx.TypeProto] = MappingProxyType({}),
    claims: Mapping[str, onnx.TypeProto] = MappingProxyType({}),
    *,
    own: Container[tuple[str, str]],
) -> bool:
    """Puts standard nodes in the place of those of ONNX Runtime for which they stand in (`standard_nodes`), as far as
    `types` say what decides, or `claims` at least a rank; returns whether there are any. `own` are the functions of the
    model."""

    @cache
    def constants() -> dict[str, onnx.TensorProto]:
        return {tensor.name: tensor for tensor in graph.initializer}

    def known_type(name: str) -> TensorType:
        if name in constants():
            return constant_type(constants()[name])
        if name in types and types[name].tensor_type.HasField("shape"):
            return type_of(types[name])
        if name in claims:
            return TensorType(0, (None,) * len(type_of(claims[name]).extents))
        raise KeyError(name)

    nodes: list[onnx.NodeProto] = []
    is_changed = False
    for node in graph.node:
        found = None
        if is_of_runtime(node, own):
            found = standard_nodes(node, known_type)
        if not found or found == [node]:
            nodes.append(node)
        else:
            nodes += found
            is_changed = True
    if is_changed:
        del graph.node[:]
        graph.node.extend(nodes)
    return is_changed


def is_of_runtime(node: onnx.NodeProto, own: Container[tuple[str, str]]) -> bool:
    """Whether standard nodes may stand in for a node; `own` are the functions of the model."""
    is_named = node.domain in DOMAINS or node.op_type in UNTYPED
    return is_named and (node.domain, node.op_type) not in own


def _without_weights(
    model: onnx.ModelProto,
    overridable: frozenset[str],
    shapes: Mapping[str, Sequence[int]],
    known: Mapping[str, NDArray[Any]],
) -> onnx.ModelProto:
    """A copy of the model in which large initializers are inputs, and what is `known` is an initializer."""
    import onnx
    import onnx.helper

    light = onnx.ModelProto(ir_version=max(model.ir_version, 4), opset_import=model.opset_import)
    light.functions.extend(model.functions)
    source, graph = model.graph, light.graph
    graph.name = source.name
    graph.node.extend(source.node)
    _make_known(graph, known)
    graph.output.extend(source.output)
    constants = {t.name for t in source.initializer} - overridable
    for value in source.input:
        if value.name not in constants:
            graph.input.append(value)
            if value.name in shapes:
                _fix_shape(graph.input[-1], shapes[value.name])
            _name_extents(graph.input[-1])
    types = TensorTypes()
    for tensor in source.initializer:
        if tensor.name in overridable:
            continue
        if prod(tensor.dims[:]) > SMALL or tensor.data_location:
            graph.input.add(name=tensor.name, type=types.of(tensor))
        else:
            graph.initializer.append(tensor)
    for sparse in source.sparse_initializer:
        name, element = sparse.values.name, sparse.values.data_type
        graph.input.append(onnx.helper.make_tensor_value_info(name, element, list(sparse.dims)))
    return light


def _make_known(graph: onnx.GraphProto, known: Mapping[str, NDArray[Any]]) -> None:
    """Puts initializers in the place of the nodes that give what is `known`."""
    import onnx.numpy_helper

    if not known:
        return
    places = [k for k, n in enumerate(graph.node) if len(n.output) == 1 and n.output[0] in known]
    for place in reversed(places):
        del graph.node[place]
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in known.items())


def _fix_shape(value: onnx.ValueInfoProto, shape: Sequence[int]) -> None:
    dims = value.type.tensor_type.shape
    del dims.dim[:]
    for extent in shape:
        dims.dim.add().dim_value = extent


def _name_extents(value: onnx.ValueInfoProto) -> None:
    """Gives extents of an input a name that have neither number nor name: wherever they come, they are the same."""
    for number, dim in enumerate(
        value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()
    ):
        if not dim.WhichOneof("value") or (dim.dim_param == "" and not dim.HasField("dim_value")):
            dim.dim_param = f"dim {number} of {value.name}"


def _alone(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    return [graph]


def _claims(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """What a graph says itself of inner values and outputs."""
    # Of an output, the one has what is known of it, the other what callers are told.
    values = (*graph.output, *graph.value_info)
    return {value.name: value.type for value in values if value.HasField("type")}


def _adds(said: onnx.TypeProto, found: onnx.TypeProto, named: set[str]) -> bool:
    """Whether a type says more than the one that was inferred, and nothing else; `named` are the names of extents."""
    if not found.WhichOneof("value"):
        return True
    if not (said.HasField("tensor_type") and found.HasField("tensor_type")):
        return False
    mine, theirs = said.tensor_type, found.tensor_type
    if theirs.elem_type not in (0, mine.elem_type) or not mine.HasField("shape"):
        return False
    if not theirs.HasField("shape"):
        return True
    pairs = list(zip(mine.shape.dim, theirs.shape.dim, strict=False))
    if len(mine.shape.dim) != len(theirs.shape.dim):
        return False
    if any(
        a.HasField("dim_value") and b.HasField("dim_value") and a.dim_value != b.dim_value for a, b in pairs
    ):
        return False
    return any(_is_known(a, named) and not _is_known(b, named) for a, b in pairs)


def _is_known(dim: onnx.TensorShapeProto.Dimension, named: set[str]) -> bool:
    """Whether an extent is a number or has a name that an input has: inference makes names of its own (unk__0)."""
    return dim.HasField("dim_value") or (
        bool(dim.dim_param) and (dim.dim_param in named or not is_made_up(dim.dim_param))
    )
