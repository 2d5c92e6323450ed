"""What computed extents count as that shape inference has no number for, where bytes are compared.

Extents of inputs count as agreed (`value_shapes.UNKNOWN_EXTENT`), and what is computed from them as what inference
makes of inputs of that size. It makes nothing of some, as of the windows of an image, cut by extents that nodes
compute. But a Reshape keeps the number of elements: with (batch, 2, 2, 64, 384) reshaped to (unk__0, 64, 384), `unk__0`
is 4 for a batch of one, wherever the name stands, as in what a product makes of the windows. And the nodes that compute
an extent from those of the inputs can be evaluated for inputs of the agreed size: the shape to which a decoder expands
its mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from layout_ir.frontends.onnx.made_up_extents import is_made_up
from layout_ir.passes.onnx.constant_folding import Evaluation, has_open_results
from layout_ir.passes.onnx.model_graph import Graph, is_transpose
from layout_ir.passes.onnx.node_inference import infer_results
from layout_ir.passes.onnx.orders import Extent, Order, Shape, identity, is_static
from layout_ir.passes.onnx.value_shapes import CACHED_EXTENT, UNKNOWN_EXTENT, type_with_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray


def agreed_extents(graph: Graph) -> dict[Extent, int]:
    """The extents, by name, of the inputs of a model that count otherwise than as unknown ones do: those of their first
    dims as 1, and those along which a Concat appends what the model computes as `CACHED_EXTENT`."""
    inputs = [value.name for value in graph.proto.input if value.name not in graph.constants]
    shapes = [shape for shape in map(graph.shape, inputs) if shape and not is_static(shape)]
    agreed: dict[Extent, int] = {shape[0]: 1 for shape in shapes if isinstance(shape[0], str)}
    if not shapes:
        return agreed
    given = set(inputs)
    """The inputs, and Transposes of them."""
    for node in graph.nodes_of_model:
        if is_transpose(node) and node.inputs[0] in given:
            given.update(node.outputs)
        elif node.op_type == "Concat" and not node.domain:
            caches = [name for name in node.inputs if name in given]
            is_appended = any(name not in given and name not in graph.constants for name in node.inputs)
            shape = graph.shape(caches[0]) if len(caches) == 1 and is_appended else None
            extent = None if shape is None else shape[node.axis(0, len(shape))]
            if isinstance(extent, str):
                agreed[extent] = CACHED_EXTENT
    return agreed


def counted_extents(graphs: Sequence[Graph], integers: Mapping[str, NDArray[Any]]) -> Mapping[Extent, int]:
    """What extents of the graphs of a model count as, by name, where those of its inputs are what they count as.

    `integers` are what the types of the graphs were inferred with.
    """
    stated: dict[Extent, int] = {n: graphs[0].counted_extent(n) for n in graphs[0].input_extents}
    # A value has the extents of an input wherever it has their names: there is nothing to find out about those.
    if not stated or all(each.extents_of_its_own() <= {None} for each in graphs):
        return with_quotients(graphs[0], stated)
    best, fewest = stated, None
    for choice in _choices(stated):
        counted = _counted(graphs, integers, choice)
        contradicted = sum(
            not counted.get(n, 0) for each in graphs for n in each.extents_of_its_own() if n is not None
        )
        if fewest is None or contradicted < fewest:
            best, fewest = counted, contradicted
        if not contradicted:
            break
    return best


def _choices(stated: dict[Extent, int]) -> Iterator[dict[Extent, int]]:
    """What extents of inputs may count as: as `stated`; or else one of them is what the model makes of a cache, as the
    mask of a decoder has, and as long as the cache with what is appended to it."""
    yield stated
    if CACHED_EXTENT in stated.values():
        for name, size in stated.items():
            if size == UNKNOWN_EXTENT:
                yield {**stated, name: CACHED_EXTENT + UNKNOWN_EXTENT}


def _counted(
    graphs: Sequence[Graph], integers: Mapping[str, NDArray[Any]], stated: Mapping[Extent, int]
) -> Mapping[Extent, int]:
    """What extents count as where those of the inputs are as `stated`."""
    counted = dict(stated)
    for each in graphs:
        if any(map(has_open_results, each.nodes)):
            _add_sizes(each, integers, counted)
    return with_quotients(graphs[0], counted)


def _add_sizes(graph: Graph, integers: Mapping[str, NDArray[Any]], counted: dict[Extent, int]) -> None:
    """Adds what the extents of a graph count as that are computed from those which are `counted`.

    Only the nodes are inferred for these sizes whose results have extents that were not met before: what another node
    makes of such a result has its extents by name.
    """
    sized = graph.with_own_types()
    evaluation = Evaluation(sized, {**sized.computed, **integers})
    known: dict[Shape, Shape] = {}
    """Shapes with the numbers that are counted so far, by what they were."""

    def in_numbers(name: str) -> Shape | None:
        shape = graph.shape(name)
        if shape is None:
            return None
        if shape not in known:
            known[shape] = tuple([n if isinstance(n, int) else counted.get(n, n) for n in shape])
        return known[shape]

    made = {name for node in sized.nodes for name in node.outputs}
    read = {name for node in sized.nodes for name in node.inputs}
    for name in (read - made) & graph.types.keys():
        sized.set_type(name, in_numbers(name), graph.element_type(name))
    before = 0
    for number, node in enumerate(sized.nodes):
        for name in filter(None, node.outputs):
            sized.set_type(name, in_numbers(name), graph.element_type(name))
        if not has_open_results(node):
            continue
        evaluation.decide_all(sized.nodes[before : number + 1])
        before = number + 1
        for name in node.inputs:
            type, shape = graph.types.get(name), sized.shape(name)
            if type is not None and shape is not None and shape != graph.shape(name):
                sized.set_known_type(name, type_with_shape(type, shape), shape)
        infer_results(sized, node, evaluation.integers_of(node))
        for name in filter(None, node.outputs):
            # How many dims there are may depend on an extent as well, and is not what its count says.
            if _rank(sized.shape(name)) != _rank(graph.shape(name)):
                sized.set_type(name, in_numbers(name), graph.element_type(name))
        found = named_sizes(graph, {name: sized.shape(name) for name in node.outputs if name})
        if new := {name: size for name, size in found.items() if name not in counted}:
            counted.update(new)
            known.clear()


def _rank(shape: Shape | None) -> int | None:
    return None if shape is None else len(shape)


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
        return [n if isinstance(n, int) else counted.get(n) for n in shape]

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
    kept their names. Agreed sizes may contradict each other, a mask be as long as the tokens without those before them:
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
