"""Inputs to run a model on: random ones that are valid, or a caller's, checked against what the model asks.

Floats are normally distributed, booleans and integers uniformly. An integer may be an index, which must lie within the
extent of what it indexes; so from every operator that indexes, the bound is followed back to the inputs. Other integers
of 32 bits and more are 0 or 1, as masks are; those of up to 16 bits, which hold images and quantized numbers, take
all values. Extents that the model leaves open are those of `shapes`, or typical ones; a symbol has one value
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.errors import LayoutError, shape_text, unforeseen_as_error
from layout_ir.frontends.onnx.import_error import quoted
from layout_ir.frontends.onnx.model import Input, graph_inputs, typical_extent
from layout_ir.frontends.onnx.subgraphs import graphs_of
from layout_ir.passes.onnx.graph_construction import graphs_of_model
from layout_ir.passes.onnx.model_graph import Graph, Node
from layout_ir.passes.onnx.orders import Shape

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

_GATHERING = {
    "Gather", "GatherElements", "GatherND", "ScatterElements", "Scatter", "ScatterND",
    "com.microsoft.GatherBlockQuantized",
}  # fmt: skip
"""Operators that index operand 0 with operand 1, along the dim `axis` or, without one, along several dims."""

_EMBEDDINGS = {
    "com.microsoft.EmbedLayerNormalization": ((0, 2), (1, 4), (8, 3)),
    "com.microsoft.QEmbedLayerNormalization": ((0, 2), (1, 4)),
}
"""Operators with several operands of indices, each into rows of a table."""

_SAME_INTEGERS = {
    "Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Expand", "Tile",
    "Concat", "Gather", "GatherElements", "GatherND", "Pad", "Min", "Max", "Where", "Clip",
}  # fmt: skip
"""Operators whose results hold integers of their operands."""

_SIZES = {
    "Expand": 1, "Tile": 1, "TopK": 1, "OneHot": 1, "ConstantOfShape": 0, "Loop": 0,
    "com.microsoft.GroupQueryAttention": 5,
}  # fmt: skip
"""Operators for which an operand is a size or a count: 1 is one, 0 often is not."""

_COUNTING = {"Add", "ReduceSum", "Sub"}
"""Operators whose results are counts where operand 0 is ones: a mask of tokens, of which there are so many."""


def open_extents(graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """The shapes of all inputs that have one: what `shapes` says, and typical extents where it says nothing.

    A symbol that stands in a shape of `shapes` has that value in other inputs as well.
    """
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [
        value for value in graph.input if value.name not in constants and value.type.HasField("tensor_type")
    ]
    known: dict[str, int] = {}
    for value in inputs:
        dims = value.type.tensor_type.shape.dim
        for dim, extent in zip(dims, shapes.get(value.name, ()), strict=False):
            if dim.dim_param:
                known.setdefault(dim.dim_param, int(extent))
    found = {name: tuple(map(int, shape)) for name, shape in shapes.items()}
    for value in inputs:
        type = value.type.tensor_type
        if value.name in shapes or not type.HasField("shape"):
            continue
        extents: list[int] = []
        for number, dim in enumerate(type.shape.dim):
            extent = typical_extent(dim, number, len(type.shape.dim))
            extents.append(known.setdefault(dim.dim_param, extent) if dim.dim_param else extent)
        found[value.name] = tuple(extents)
    return found


def random_model_inputs(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], seed: int
) -> dict[str, NDArray[Any]]:
    """A random array for each input of a model, by name; `shapes` has the shapes of those with dynamic extents.

    Raises OnnxImportError for inputs that are no tensors of numbers, without a shape, or unlike `shapes`.
    """
    shapes = open_extents(model.graph, shapes)
    inputs = graph_inputs(model.graph, shapes)
    with unforeseen_as_error("the inputs of the model"):
        bounds, sizes = _integer_roles(graphs_of_model(model, None, shapes, {}))
    random = np.random.default_rng(seed)
    arrays: dict[str, NDArray[Any]] = {}
    for each in inputs:
        with unforeseen_as_error(f"input {quoted(each.name)}"):  # it may be too large for the memory there is
            arrays[each.name] = _random(each, random, bounds.get(each.name), each.name in sizes)
    return arrays


def _random(each: Input, random: np.random.Generator, bound: int | None, is_size: bool) -> NDArray[Any]:
    kind, dtype = each.dtype.kind, each.dtype
    if kind == "b":
        return random.integers(0, 2, each.shape).astype(dtype)
    if kind not in "iu":
        if kind == "c":
            return (random.standard_normal(each.shape) + 1j * random.standard_normal(each.shape)).astype(
                dtype
            )
        if dtype.name.startswith(("int", "uint")):  # of ml_dtypes, with 4 bits and less
            return random.integers(0, 2, each.shape).astype(dtype)
        return random.standard_normal(each.shape, np.float32).astype(dtype)
    limits = np.iinfo(dtype)
    if bound is not None:
        low, high = 0, min(max(bound, 1) - 1, limits.max)
    elif is_size:
        low, high = 1, 1
    elif limits.bits <= 16:
        low, high = limits.min, limits.max
    else:
        low, high = 0, 1
    return random.integers(low, high, each.shape, dtype, endpoint=True)


def _integer_roles(graphs: Sequence[Graph]) -> tuple[dict[str, int], set[str]]:
    """How many values each value may have that is an index, from 0 on; and the values that are sizes.

    Names of values are unique in a graph and its subgraphs, so they are looked at as one list of nodes.
    """
    bounds: dict[str, int] = {}
    sizes: set[str] = set()

    def bind(name: str, extent: int | None) -> None:
        if name and extent is not None:
            bounds[name] = min(extent, bounds.get(name, extent))

    # Inner graphs come behind those around them, so that backwards all consumers are met before what they consume.
    for graph in reversed(graphs):
        for node in reversed(graph.nodes):
            key = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            if key in _GATHERING:
                bind(node.input(1), _indexed(node))
            for operand, table in _EMBEDDINGS.get(key, ()):
                bind(node.input(operand), _extent(graph, node.input(table), 0))
            if key in _SIZES:
                sizes.add(node.input(_SIZES[key]))
            if key in _SAME_INTEGERS:
                for name in _integers_of(node):
                    for result in node.outputs:
                        bind(name, bounds.get(result))
                        if result in sizes:
                            sizes.add(name)
            if key in _COUNTING and not sizes.isdisjoint(node.outputs):
                sizes.add(node.input(0))
            _bind_through(node, bind, bounds)
    return bounds, sizes


def _bind_through(node: Node, bind: Callable[[str, int | None], None], bounds: Mapping[str, int]) -> None:
    """Follows bounds of the inputs of subgraphs to the operands that they stand for: those of Loop and Scan."""
    if node.op_type not in ("Loop", "Scan"):
        return
    for inner in graphs_of(node.proto):
        for operand, value in zip(node.inputs, inner.input, strict=False):
            bind(operand, bounds.get(value.name))


def _integers_of(node: Node) -> tuple[str, ...]:
    """The operands whose integers are in the results of a node of `_SAME_INTEGERS`."""
    match node.op_type:
        case "Concat" | "Min" | "Max":
            return node.inputs
        case "Where":
            return node.inputs[1:]
        case _:
            return node.inputs[:1]


def _indexed(node: Node) -> int | None:
    """The extent of the dim that a node indexes, the least of all where it indexes several."""
    shape = _shape(node.graph, node.input(0))
    if shape is None:
        return None
    if node.op_type in ("GatherND", "ScatterND"):
        first = node.int("batch_dims", 0)
        known = [extent for extent in shape[first:] if isinstance(extent, int)]
        return min(known, default=None)
    axis = node.int("gather_axis" if node.domain else "axis", 0)
    extent = shape[axis] if -len(shape) <= axis < len(shape) else None
    return extent if isinstance(extent, int) else None


def _shape(graph: Graph | None, name: str) -> Shape | None:
    """The shape of a value of a graph, or of one around it."""
    while name and graph is not None:
        shape = graph.shape(name)
        if shape is not None:
            return shape
        graph = graph.outer
    return None


def _extent(graph: Graph, name: str, axis: int) -> int | None:
    shape = _shape(graph, name)
    extent = shape[axis] if shape else None
    return extent if isinstance(extent, int) else None


def checked_inputs(model: onnx.ModelProto, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of a caller as the inputs of a model, by name. Raises LayoutError where names, types or shapes differ.

    Elements of a type that NumPy does not have (bf16) may come as their bits, in any type of that size without a sign.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    wanted = [value.name for value in model.graph.input if value.name not in constants]
    missing, unknown = [n for n in wanted if n not in arrays], [n for n in arrays if n not in wanted]
    if missing or unknown:
        wrong = f"lack {_names(missing)}" if missing else f"have {_names(unknown)}"
        raise LayoutError(f"the given inputs {wrong}: the model takes {_names(wanted) or 'none'}")
    inputs = graph_inputs(model.graph, {name: array.shape for name, array in arrays.items()})
    return {each.name: _checked(each, arrays[each.name], model) for each in inputs}


def _checked(each: Input, array: NDArray[Any], model: onnx.ModelProto) -> NDArray[Any]:
    title = f"input {quoted(each.name)}"
    (value,) = (value for value in model.graph.input if value.name == each.name)
    dims = value.type.tensor_type.shape.dim
    fixed = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
    if any(want is not None and want != got for want, got in zip(fixed, array.shape, strict=False)):
        raise LayoutError(
            f"{title} is given as {shape_text(array.shape)}, the model takes {shape_text(fixed)}"
        )
    if array.dtype == each.dtype:
        return array
    if (
        each.dtype.kind not in "biufc"
        and array.dtype.kind in "uV"
        and array.dtype.itemsize == each.dtype.itemsize
    ):
        return array.view(each.dtype)
    raise LayoutError(f"{title} is given as {array.dtype}, the model takes {each.dtype}")


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))
