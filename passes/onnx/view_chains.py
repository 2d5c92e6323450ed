"""Chains of Transposes and Reshapes made one Reshape, one Transpose, one Reshape.

Blocks of an image that are put back and cut again in another way (windows of a vision transformer) are Transpose,
Reshape, Reshape, Transpose. In digits that both cuts have in common it is a single Transpose, or none. A chain is
replaced where nobody else uses what is inside of it, and where it has two Transposes at least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import cast

from layout_ir.passes.onnx.model_graph import VIEWS, Graph, Node, transpose_perm
from layout_ir.passes.onnx.orders import is_static


def merge_view_chains(graph: Graph) -> None:
    """Replaces the chains of `graph`, where all shapes in them are known."""
    views = [node for node in graph.nodes if node.op_type in VIEWS and not node.domain]
    made = {node.outputs[0] for node in views}
    taken = {node.inputs[0] for node in views}
    cuts = [node for node in views if node.op_type != "Transpose"]
    # Between two Transposes, the first that is none takes the result of one, and another view takes its own.
    if all(node.inputs[0] not in made or node.outputs[0] not in taken for node in cuts):
        return
    uses = Counter([name for node in graph.nodes for name in node.inputs])
    uses.update([name for node in graph.nodes if node.captures for name in node.captures])
    uses.update([value.name for value in graph.proto.output])
    chains: dict[str, list[Node]] = {}
    """The nodes of each chain, by the result of the last one."""
    for node in views:
        if _is_known(node):
            before = chains.pop(node.inputs[0], []) if uses[node.inputs[0]] == 1 else []
            chains[node.outputs[0]] = [*before, node]
    merged: dict[int, list[Node]] = {}
    gone: set[int] = set()
    for found in chains.values():
        part = _between_transposes(found)
        if any(node.op_type != "Transpose" for node in part):
            nodes = _merged(graph, part)
            if nodes is not None:
                merged[id(part[-1])] = nodes
                gone.update(map(id, part))
    if merged:
        graph.nodes = [
            new for node in graph.nodes for new in merged.get(id(node), [] if id(node) in gone else [node])
        ]


def _is_known(node: Node) -> bool:
    if node.op_type == "Transpose" and transpose_perm(node) is None:
        return False
    shapes = node.shape(0), node.result_shape()
    return all(shape is not None and is_static(shape) and 0 not in shape for shape in shapes)


def _between_transposes(chain: Sequence[Node]) -> list[Node]:
    """The chain from its first Transpose to its last."""
    places = [k for k, node in enumerate(chain) if node.op_type == "Transpose"]
    return list(chain[places[0] : places[-1] + 1]) if len(places) > 1 else []


def _merged(graph: Graph, chain: Sequence[Node]) -> list[Node] | None:
    """Reshape, Transpose, Reshape in place of the chain; None where its cuts do not divide one another."""
    digits = Digits(_extents(chain[0].shape(0)))
    for node in chain:
        if node.op_type == "Transpose":
            digits.dims = [digits.dims[d] for d in transpose_perm(node) or ()]
        elif not digits.reshape(_extents(node.result_shape())):
            return None
    sizes, perm = digits.transposition()
    first, last = chain[0], chain[-1]
    names = [first.inputs[0]]
    nodes: list[Node] = []

    def add(op_type: str, shape: Sequence[int], perm: tuple[int, ...] | None = None, title: str = "") -> None:
        import onnx.helper

        name = graph.fresh(f"{last.outputs[0]}_{title}") if title else last.outputs[0]
        inputs = [names[-1]]
        if perm is None:
            inputs.append(graph.add_ints(shape, f"{name}_shape"))
        proto = onnx.helper.make_node(op_type, inputs, [name], graph.fresh(f"{op_type}_{name}"))
        if perm is not None:
            proto.name = last.proto.name
            proto.attribute.append(onnx.helper.make_attribute("perm", perm))
        graph.set_shape(name, tuple(shape), names[-1])
        nodes.append(Node(proto, graph))
        names.append(name)

    if perm != tuple(range(len(perm))):
        add("Reshape", sizes, title="digits")
        add("Transpose", [sizes[k] for k in perm], perm, "transposed")
    add("Reshape", _extents(last.result_shape()))
    return nodes


def _extents(shape: object) -> tuple[int, ...]:
    return cast("tuple[int, ...]", shape)


class Digits:
    """The dims of the value that a chain has come to, each as the digits of the first value that it is made of."""

    def __init__(self, extents: Sequence[int]):
        self.sizes = dict(enumerate(extents))
        self.order = list(self.sizes)
        """All digits, in the order of the first value."""
        self.dims: list[list[int]] = [[digit] for digit in self.sizes]

    def reshape(self, extents: Sequence[int]) -> bool:
        """Joins and cuts the dims; False where a cut falls into a digit that it does not divide, and where there are
        other elements than before: no runtime gets through such a model."""
        rest = [digit for dim in self.dims for digit in dim]
        dims: list[list[int]] = []
        for extent in extents:
            dim: list[int] = []
            wanted = extent
            while wanted > 1:
                if not rest:
                    return False
                digit = rest.pop(0)
                size = self.sizes[digit]
                if size > wanted:
                    if size % wanted:
                        return False
                    rest.insert(0, self._cut(digit, wanted))
                elif wanted % size:
                    return False
                wanted //= self.sizes[digit]
                dim.append(digit)
            dims.append(dim)
        if any(self.sizes[digit] != 1 for digit in rest):
            return False
        self.dims = dims
        return True

    def _cut(self, digit: int, count: int) -> int:
        """Leaves the `count` coarse values to the digit; returns a new one for the fine ones behind it."""
        new = len(self.sizes)
        self.sizes[new] = self.sizes[digit] // count
        self.sizes[digit] = count
        self.order.insert(self.order.index(digit) + 1, new)
        return new

    def transposition(self) -> tuple[list[int], tuple[int, ...]]:
        """The first value in as few digits as possible, their sizes, and their order in the last."""
        final = [digit for dim in self.dims for digit in dim if self.sizes[digit] != 1]
        runs: list[list[int]] = []
        following = dict(pairwise(final))
        for digit in (d for d in self.order if self.sizes[d] != 1):
            if runs and following.get(runs[-1][-1]) == digit:
                runs[-1].append(digit)
            else:
                runs.append([digit])
        firsts = [run[0] for run in runs]
        order = [digit for digit in final if digit in firsts]
        return [prod(self.sizes[d] for d in run) for run in runs], tuple(firsts.index(d) for d in order)
