"""What computed extents count as that shape inference has no number for, where bytes are compared.

Extents of inputs count as agreed (`value_shapes.UNKNOWN_EXTENT`), and what is computed from them as what inference
makes of inputs of that size. It makes nothing of some, as of the windows of a picture, cut by extents that nodes
compute. But a Reshape keeps the number of elements: with (batch, 2, 2, 64, 384) reshaped to (unk__0, 64, 384), `unk__0`
is 4 for a batch of one, wherever the name stands, as in what a product makes of the windows. And the nodes that compute
an extent from those of the inputs can be evaluated for inputs of the agreed size: the shape to which a decoder expands
its mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from layout_ir.passes.onnx.constant_folding import decided_integers
from layout_ir.passes.onnx.inferred_types import inferred_types
from layout_ir.passes.onnx.model_graph import Graph
from layout_ir.passes.onnx.names_in_use import overridable_names
from layout_ir.passes.onnx.orders import Extent, Order, Shape, identity, is_static
from layout_ir.passes.onnx.value_shapes import is_made_up

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


def counted_extents(
    model: onnx.ModelProto,
    graphs: Sequence[Graph],
    integers: Mapping[str, NDArray[Any]],
    stated: Mapping[str, onnx.TypeProto],
) -> Mapping[Extent, int]:
    """What extents of the graphs of a model count as, by name, where those of its inputs are what they count as.

    `integers` and `stated` are what the types of the graphs were inferred with.
    """
    shapes = agreed_shapes(graphs[0])
    # A value has the extents of an input wherever it has their names: there is nothing to find out about those.
    if not shapes or all(each.extents_of_its_own() <= {None} for each in graphs):
        return with_quotients(graphs[0], {})
    overridable = overridable_names(model)
    tables = inferred_types(model, overridable, shapes, integers, stated)
    sized: dict[Graph, Graph] = {}
    counted: dict[Extent, int] = {}
    for each, types in zip(graphs, tables, strict=True):
        outer = sized[each.outer] if each.outer is not None else None
        sized[each] = Graph(
            each.proto,
            each.opsets,
            each.folder,
            types if outer is None else {**outer.types, **types},
            overridable=overridable if outer is None else frozenset(),
            outer=outer,
            taken=each.taken,
            is_alone=each.is_alone,
            functions=each.functions,
        )
        sized[each].pending = each.pending
        decided_integers(sized[each], integers)
        counted = {**named_sizes(each, {name: sized[each].shape(name) for name in types}), **counted}
    return with_quotients(graphs[0], counted)


def agreed_shapes(graph: Graph) -> dict[str, list[int]]:
    """The shapes of the inputs of which not all extents are known, each being what it counts as."""
    inputs = {value.name: graph.shape(value.name) for value in graph.proto.input}
    return {
        name: [graph.counted_extent(n) for n in shape]
        for name, shape in inputs.items()
        if shape and not is_static(shape)
    }


def named_sizes(graph: Graph, shapes: Mapping[str, Shape | None]) -> dict[Extent, int]:
    """What the extents of a graph are, by name, where its values have these `shapes`."""
    found: dict[Extent, int] = {}
    for name, sized in shapes.items():
        shape = graph.shape(name)
        if shape is not None and sized is not None and len(shape) == len(sized):
            for extent, size in zip(shape, sized, strict=True):
                if isinstance(extent, str) and isinstance(size, int):
                    found.setdefault(extent, size)
    return found


def with_quotients(graph: Graph, counted: Mapping[Extent, int]) -> Mapping[Extent, int]:
    """What extents of a graph count as, and those that follow from Reshapes on which no other is open, and from those
    that follow."""
    counted = dict(counted)

    def numbers(shape: Shape) -> list[int | None]:
        stated = graph.input_extents
        return [
            graph.counted_extent(n) if isinstance(n, int) or n in stated else counted.get(n) for n in shape
        ]

    reshapes = list(_reshapes(graph))
    size = -1
    while size != len(counted):
        size = len(counted)
        for source, target in reshapes:
            for whole, other in ((source, target), (target, source)):
                elements, factors = numbers(whole), numbers(other)
                if None in elements or factors.count(None) != 1:
                    continue
                name = other[factors.index(None)]
                total = prod(n for n in elements if n is not None)
                rest = prod(n for n in factors if n is not None)
                if isinstance(name, str) and rest and not total % rest:
                    counted[name] = total // rest
    return counted


def keep_counts(graph: Graph, before: Graph, places: Mapping[str, tuple[str, Order]]) -> None:
    """Has extents that shape inference made up for `graph` count as those that they were `before` it was written.

    `places` says of values that were written which of those before they are, and in which order of dims; others have
    kept their names. Agreed sizes may contradict each other, a mask be as long as the words without those before them:
    then what follows depends on which nodes are looked at, and the same tensor would move more bytes than it did.
    """
    kept: dict[Extent, int] = {}
    for name in graph.types:
        shape = graph.shape(name)
        if shape is None or not any(map(is_made_up, shape)):
            continue
        root, order = places.get(name, (name, identity(len(shape))))
        old = before.shape(root)
        if old is None or not len(old) == len(order) == len(shape):
            continue
        for extent, dim in zip(shape, order, strict=True):
            if is_made_up(extent) and (not is_made_up(old[dim]) or old[dim] in before.counted):
                kept.setdefault(extent, before.counted_extent(old[dim]))
    graph.counted = {**graph.counted, **kept}


def _reshapes(graph: Graph) -> Iterator[tuple[Shape, Shape]]:
    """The shapes of operands and results of Reshapes that are not numbers alone."""
    for node in graph.nodes_of_model:
        if node.op_type == "Reshape" and not node.domain:
            source, target = node.shape(0), node.result_shape(0)
            if source is not None and target is not None and not (is_static(source) and is_static(target)):
                yield source, target
