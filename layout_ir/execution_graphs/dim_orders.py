"""In which order the values of a graph have their dims: the same dims have the same names everywhere.

A model that was converted from channels last has row-major tensors only, and yet two layouts: a convolution reads
N, C, H, W, and the Relu behind the next Transpose N, H, W, C. What ties them together are the nodes between them. A
Transpose makes the dims of its operand in another order; an op that keeps its operand's rank keeps its dims in their
places. Values that are tied together share their dims; each then has a Format in them:

    conv (n, c, h, w) : nchw   Transpose (0, 2, 3, 1)   (n, c, h, w) : nhwc   Relu   (n, c, h, w) : nhwc

The dims are named by a convolution, a pool or a norm, which know what they are, else a, b, c after the value that comes
first. The tie is for names and colours alone: no verdict depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import names_for
from layout_ir.execution_graphs.execution_graph import ExecutionGraph, Node, Value, format_text
from layout_ir.passes.onnx.orders import Order, compose, identity, inverse, is_identity

_CHANNELS_SECOND = frozenset(
    (
        "AveragePool", "BatchNormalization", "Conv", "ConvInteger", "ConvTranspose", "DepthToSpace", "FusedConv",
        "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "LRN",
        "LpPool", "MaxPool", "QLinearAveragePool", "QLinearConv", "QLinearGlobalAveragePool", "SpaceToDepth",
    )
)  # fmt: skip
"""Operators of ONNX whose first operand has the dims N, C and space, in this order."""

_OTHER_DIMS = frozenset(("Einsum", "If", "Loop", "Scan", "Shape", "NonZero", "NonMaxSuppression", "OneHot"))
"""Operators whose results may have the rank of the first operand, and still other dims."""

_ALL_OPERANDS = frozenset(("Concat", "QLinearConcat", "QLinearAdd", "QLinearMul"))
"""Operators besides the elementwise ones all of whose operands have the same dims."""

Key = tuple[int, int]
"""A value: the place of its graph among the graphs, its number there."""


@dataclass(frozen=True)
class NamedLayout:
    """The layout of a value in dims that others share, and the shape of these dims."""

    text: str
    format: Format
    shape: tuple[int | None, ...]


class DimOrders:
    """The values of some graphs, tied by their dims. `same` has pairs of values that are one value in two graphs:
    the second is the first in that order of its dims."""

    def __init__(self, graphs: Sequence[ExecutionGraph], same: Iterable[tuple[Key, Key, Order]] = ()):
        self.graphs = graphs
        self._parents: dict[Key, tuple[Key, Order]] = {}
        for first, second, order in same:
            self._tie(first, second, order)
        for number, graph in enumerate(graphs):
            for source, result, order in _transposed(graph):
                self._tie((number, source), (number, result), order)
        for number, graph in enumerate(graphs):
            for source, result, order in _kept(graph):
                self._tie((number, source), (number, result), order)
        self._origins = self._named_origins()

    def layout(self, graph: int, value: int) -> NamedLayout | None:
        """The layout of a value of that graph; None where the graph does not say it."""
        found = self.graphs[graph].values[value]
        if found.layout is None or found.shape is None:
            return None
        rank = found.layout.rank
        root, order = self._root((graph, value))
        names, base = self._origins.get(root, (_letters(rank), identity(rank)))
        order = compose(inverse(base), order) if len(base) == rank == len(order) else identity(rank)
        factors = tuple(replace(factor, dim=order[factor.dim]) for factor in found.layout.factors)
        format = replace(found.layout, factors=factors, names=names)
        text = found.layout_text if found.layout_text and is_identity(order) else format_name(format)
        return NamedLayout(text, format, tuple(found.shape[k] for k in inverse(order)))

    def _root(self, key: Key) -> tuple[Key, Order]:
        """The value that stands for all that are tied to `key`, and the order in which `key` has its dims."""
        path: list[tuple[Key, Order]] = []
        order = identity(len(self._value(key).shape or ()))
        while key in self._parents:
            above, own = self._parents[key]
            path.append((key, own))
            order, key = compose(own, order), above
        whole: Order | None = None
        for passed, own in reversed(path):
            whole = own if whole is None else compose(whole, own)
            self._parents[passed] = (key, whole)
        return key, order

    def _value(self, key: Key) -> Value:
        return self.graphs[key[0]].values[key[1]]

    def _tie(self, first: Key, second: Key, order: Order) -> None:
        """Says that `second` has the dims of `first` in that order, unless something else was said before."""
        one, other = self._value(first), self._value(second)
        if one.shape is None or other.shape is None or not len(one.shape) == len(other.shape) == len(order):
            return
        (above, a), (below, b) = self._root(first), self._root(second)
        if above != below:
            self._parents[below] = (above, compose(compose(a, order), inverse(b)))

    def _named_origins(self) -> dict[Key, tuple[tuple[str, ...], Order]]:
        """Per root, the names of the dims and the order of the root in which they have these names."""
        found: dict[Key, tuple[tuple[str, ...], Order]] = {}
        for number, graph in enumerate(self.graphs):
            for node in graph.nodes:
                if node.kind in _CHANNELS_SECOND and node.inputs:
                    key = (number, node.inputs[0].value)
                    shape = self._value(key).shape
                    if shape is not None and 3 <= len(shape) <= 5:
                        root, order = self._root(key)
                        found.setdefault(root, (names_for(len(shape)), order))
        for number, graph in enumerate(self.graphs):
            for value, _ in enumerate(graph.values):
                root, order = self._root((number, value))
                if root not in found and order:
                    found[root] = (_letters(len(order)), order)
        return found


def same_values(
    before: ExecutionGraph, after: ExecutionGraph, places: Mapping[str, tuple[str, Order]]
) -> Iterator[tuple[Key, Key, Order]]:
    """The values that two graphs have in common, the first before the second.

    `places` says of values of `after`, by name, which value of `before` each is, and in which order; others are those
    of the same name.
    """
    numbers = {value.name: number for number, value in enumerate(before.values)}
    for number, value in enumerate(after.values):
        name, order = places.get(value.name, (value.name, ()))
        if name in numbers:
            yield (0, numbers[name]), (1, number), order or identity(len(value.shape or ()))


def format_name(format: Format) -> str:
    """The tag of a Format in the names of its dims, or in letters, and its notation where it has no tag."""
    from layout_ir.algebra.tag import name_of

    return name_of(format) or format_text(format)


def _letters(rank: int) -> tuple[str, ...]:
    return tuple("abcdefghijkl"[:rank]) if rank <= 12 else tuple(f"d{k}" for k in range(rank))


def _transposed(graph: ExecutionGraph) -> Iterator[tuple[int, int, Order]]:
    for node in graph.nodes:
        if node.role == "copy" and node.permutation is not None and node.inputs and node.outputs:
            yield node.inputs[0].value, node.outputs[0], node.permutation


def _kept(graph: ExecutionGraph) -> Iterator[tuple[int, int, Order]]:
    """Operands and results of ops that keep dims in their places: the first operand that is no constant, or all."""
    constants = {number for node in graph.nodes if node.role == "constant" for number in node.outputs}
    for node in graph.nodes:
        if not (node.role == "op" or node.kind == "Identity") or node.kind in _OTHER_DIMS or not node.outputs:
            continue
        operands = [operand for operand in node.inputs if operand.value not in constants]
        if not _agree(node):
            del operands[1:]
        for operand in operands:
            shape = graph.values[operand.value].shape
            for result in node.outputs:
                if shape is not None:
                    yield operand.value, result, operand.read_as or identity(len(shape))


def _agree(node: Node) -> bool:
    return node.elementwise or node.kind in _ALL_OPERANDS
