"""Types of the values of a model, all of which are inferred as often as more is stated of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from layout_ir.frontends.onnx.shape_inference import infer_shapes

if TYPE_CHECKING:
    import onnx


class WholeInference:
    """The types of the values of a model, which are inferred anew as more is stated of them."""

    def __init__(self, model: onnx.ModelProto, graphs_in: Callable[[onnx.GraphProto], list[onnx.GraphProto]]):
        """`graphs_in` lists the graphs of the model, given the first of them."""
        self.model = model
        self._graphs_in = graphs_in
        self._graphs = graphs_in(model.graph)
        self.infer()

    def infer(self) -> None:
        """Infers the types of all values; none are found of a model in which inference ends with an error."""
        import onnx.shape_inference

        model = self.model
        self.fails = False
        try:
            model = infer_shapes(model)
        except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
            self.fails = True
        self.found = [_types_in(graph) for graph in self._graphs_in(model.graph)]
        """The types of values by name, graph by graph."""

    @property
    def nodes(self) -> list[list[onnx.NodeProto]]:
        """The nodes, graph by graph."""
        return [graph.node[:] for graph in self._graphs]

    @property
    def constants(self) -> list[dict[str, onnx.TensorProto]]:
        """The constants by name, graph by graph."""
        return [{tensor.name: tensor for tensor in graph.initializer} for graph in self._graphs]

    def used(self) -> set[str]:
        """The values that nodes of the graphs use, and the results of all but the first."""
        used = {name for graph in self._graphs for node in graph.node for name in node.input[:]}
        return used.union(value.name for graph in self._graphs[1:] for value in graph.output)

    def add(self, types: Mapping[str, onnx.TypeProto]) -> None:
        """States types of values of the first graph that nobody uses."""
        state_types(self._graphs[0], types)
        self.found[0].update({name: merged(self.found[0].get(name), said) for name, said in types.items()})

    def state(self, types: Sequence[Mapping[str, onnx.TypeProto]]) -> None:
        """States types of values, graph by graph, and infers all."""
        for graph, said in zip(self._graphs, types, strict=True):
            state_types(graph, said)
        self.infer()

    def tables(self) -> list[dict[str, onnx.TypeProto]]:
        """The types of values by name, graph by graph."""
        return self.found


def _types_in(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """The types of values that a graph says, by name."""
    types = TensorTypes()
    constants = {tensor.name: types.of(tensor) for tensor in graph.initializer}
    values = (*graph.value_info, *graph.output, *graph.input)
    return constants | {v.name: v.type for v in values if v.HasField("type")}


def merged(found: onnx.TypeProto | None, said: onnx.TypeProto) -> onnx.TypeProto:
    """What is said of a value, with the numbers that were found for extents, as inference would have it."""
    merged = type(said)()
    merged.CopyFrom(said)
    if found is not None and found.tensor_type.HasField("shape"):
        for own, other in zip(merged.tensor_type.shape.dim, found.tensor_type.shape.dim, strict=True):
            if other.HasField("dim_value"):
                own.dim_value = other.dim_value
            elif other.dim_param and not own.WhichOneof("value"):
                own.dim_param = other.dim_param
    return merged


def state_types(graph: onnx.GraphProto, types: Mapping[str, onnx.TypeProto]) -> None:
    """Lets a graph say these types of its values; of an input, where it says no shape itself."""
    shapeless = [value for value in graph.input if not value.type.tensor_type.HasField("shape")]
    boundary = {value.name for value in (*shapeless, *graph.output)}
    for value in (*shapeless, *graph.output):
        if value.name in types:
            value.type.CopyFrom(types[value.name])
    for name, type in types.items():
        if name not in boundary:
            graph.value_info.add(name=name, type=type)


class TensorTypes:
    """The types of tensors; those that are alike have one object."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], onnx.TypeProto] = {}

    def of(self, tensor: onnx.TensorProto) -> onnx.TypeProto:
        """The type of a tensor, which is not to be changed."""
        key = tensor.data_type, *tensor.dims[:]
        if key not in self._known:
            self._known[key] = type_of_tensor(tensor)
        return self._known[key]


def type_of_tensor(tensor: onnx.TensorProto) -> onnx.TypeProto:
    """The type of a tensor."""
    import onnx

    type = onnx.TypeProto()
    type.tensor_type.elem_type = tensor.data_type
    shape = type.tensor_type.shape
    shape.SetInParent()
    for extent in tensor.dims:
        shape.dim.add().dim_value = extent
    return type
