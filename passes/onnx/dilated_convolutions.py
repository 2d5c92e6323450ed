"""Convolutions over every n-th element, between views that bring those together, made dilated convolutions.

TensorFlow writes a dilated convolution as SpaceToBatchND, a convolution, BatchToSpaceND. In ONNX both are chains of
Reshapes and Transposes, or Transposes and SpaceToDepth:

    (n, c, h*2 + y) -> (y*n, c, h), Conv with a kernel of 3, (y*n, m, g) -> (n, m, g*2 + y)
    = Conv with a kernel of 3 and a dilation of 2

No order of dims undoes them. What they are is read off digits: where digits of the batch that the convolution sees lie
behind those of a spatial dim in the value that came in, the convolution takes the two as one dim, with steps as far as
the digits of the batch are many. What comes in and goes out is laid out anew, by one Reshape, Transpose and Reshape
each, most of which are nothing at all. Nodes that work on single elements may stand in between.

Each rewrite leaves a convolution with a smaller batch, which ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, cast

from layout_ir.passes.onnx.model_constants import constant_tensor
from layout_ir.passes.onnx.model_graph import VIEWS, Graph, Node, transpose_perm
from layout_ir.passes.onnx.names_in_use import drop_unused
from layout_ir.passes.onnx.node_models.same_order import BY_ELEMENT
from layout_ir.passes.onnx.orders import is_static
from layout_ir.passes.onnx.view_chains import Digits

if TYPE_CHECKING:
    import onnx

_VIEWS = frozenset((*VIEWS, "DepthToSpace", "SpaceToDepth"))
_CUTS = frozenset(("DepthToSpace", "Reshape", "SpaceToDepth"))
_KEEPING_CUTS = _VIEWS | BY_ELEMENT


def may_dilate(proto: onnx.GraphProto) -> bool:
    """Whether a graph has views that cut dims in front of a convolution, of which most have none: tells without
    shapes."""
    cut: set[str] = set()
    for node in proto.node:
        if node.op_type in _CUTS:
            cut.update(node.output[:])
        elif cut.isdisjoint(node.input[:1]):
            continue
        elif node.op_type == "Conv":
            return True
        elif node.op_type in _KEEPING_CUTS:
            cut.update(node.output[:])
    return False


def dilate_convolutions(graph: Graph) -> bool:
    """Rewrites the convolutions of a graph; returns whether there were any."""
    found: list[_Convolution] = []
    taken: set[int] = set()
    for node in graph.nodes_of_model:
        if node.op_type == "Conv" and not node.domain:
            convolution = _convolution(graph, node)
            # One behind another waits until the first is what it will be.
            if convolution is not None and taken.isdisjoint(map(id, convolution.nodes)):
                taken.update(map(id, convolution.behind))
                found.append(convolution)
    for convolution in found:
        convolution.write()
    if found:
        drop_unused(graph.proto, [convolution.node.inputs[0] for convolution in found])
    return bool(found)


@dataclass
class _Convolution:
    """A convolution between views, and what it is without them."""

    graph: Graph
    node: Node
    front: list[Node]
    """The views that lead to it, and nodes by element between them, which views may change places with."""
    behind: list[Node]
    """Likewise, those that take what it gives."""
    source: Digits
    """The value that comes in, with the dims of the convolution's input."""
    fine: dict[int, list[int]]
    """The digits of the batch that lie behind those of each spatial dim, by dim."""
    rest: list[int]
    """The other digits of the batch."""
    result: Digits
    """What the dilated convolution gives, with the dims of the value that comes out behind the views."""
    new: list[onnx.NodeProto] = field(default_factory=list["onnx.NodeProto"])

    @property
    def nodes(self) -> list[Node]:
        """All nodes of it."""
        return [*self.front, self.node, *self.behind]

    def write(self) -> None:
        """Puts the dilated convolution into the place of the one that was."""
        graph, proto = self.graph, self.graph.proto
        size = self.source.sizes
        _, channels, *spatial = self.source.dims
        last = self.behind[-1].outputs[0]
        self.source.dims = [self.rest, channels, *(d + self.fine[k] for k, d in enumerate(spatial))]
        shape = [prod(size[d] for d in dim) for dim in self.source.dims]
        name = self._view(self.source, self.front[0].inputs[0], shape, "")
        for node in self.front:
            if node.op_type not in _VIEWS:
                name = self._copy(node, name)
        name = self._dilated(name)
        for node in self.behind:
            if node.op_type not in _VIEWS:
                name = self._copy(node, name)
        self._view(self.result, name, cast("tuple[int, ...]", graph.shape(self.behind[-1].outputs[0])), last)
        self._make_shapes_constant()
        place = list(proto.node).index(self.node.proto)
        for node in (self.node, *self.behind):
            proto.node.remove(node.proto)
        for offset, node in enumerate(self.new):
            proto.node.insert(place + offset, node)

    def _make_shapes_constant(self) -> None:
        """Puts constants into the place of nodes that say the extents of values which go."""
        import numpy as np

        gone = {node.outputs[0] for node in (self.node, *self.behind[:-1])}
        for node in self.graph.nodes_of_model:
            if _is_known_shape(node) and node.inputs[0] in gone:
                shape = np.array(node.given_extents(), np.int64)
                self.graph.proto.initializer.append(constant_tensor(shape, node.outputs[0]))
                self.graph.proto.node.remove(node.proto)

    def _add(self, op_type: str, inputs: Sequence[str], name: str, perm: Sequence[int] | None = None) -> str:
        import onnx.helper

        node = onnx.helper.make_node(op_type, inputs, [name], self.graph.fresh(f"{op_type}_{name}"))
        if perm is not None:
            node.attribute.append(onnx.helper.make_attribute("perm", list(perm)))
        self.new.append(node)
        return name

    def _view(self, digits: Digits, name: str, shape: Sequence[int], last: str) -> str:
        """Adds what lays out a value as its digits say, in a shape; the result has name `last`, if there is one."""
        sizes, perm = digits.transposition()
        title = last or self.node.inputs[0]
        if perm != tuple(range(len(perm))):
            name = self._reshape(name, sizes, self.graph.fresh(f"{title}_digits"))
            name = self._add("Transpose", [name], self.graph.fresh(f"{title}_transposed"), perm)
        return self._reshape(name, shape, last or self.graph.fresh(f"{title}_together"))

    def _reshape(self, name: str, shape: Sequence[int], made: str) -> str:
        import onnx.helper

        extents = onnx.helper.make_tensor(self.graph.fresh(f"{made}_shape"), 7, [len(shape)], list(shape))
        self.graph.proto.initializer.append(extents)
        return self._add("Reshape", [name, extents.name], made)

    def _copy(self, node: Node, source: str) -> str:
        copy = type(node.proto)()
        copy.CopyFrom(node.proto)
        copy.name, copy.output[0] = self.graph.fresh(node.proto.name), self.graph.fresh(node.outputs[0])
        copy.input[0] = source
        self.new.append(copy)
        return copy.output[0]

    def _dilated(self, source: str) -> str:
        import onnx.helper

        result = self._copy(self.node, source)
        copy, rank = self.new[-1], len(self.fine)
        many = [prod(self.source.sizes[d] for d in self.fine[k]) for k in range(rank)]
        dilations = [d * n for d, n in zip(self.node.ints("dilations") or [1] * rank, many, strict=True)]
        pads = [p * n for p, n in zip(self.node.ints("pads") or [0] * 2 * rank, many * 2, strict=True)]
        kept = [attribute for attribute in copy.attribute if attribute.name not in ("dilations", "pads")]
        del copy.attribute[:]
        copy.attribute.extend(kept)
        copy.attribute.append(onnx.helper.make_attribute("dilations", dilations))
        copy.attribute.append(onnx.helper.make_attribute("pads", pads))
        copy.name = self.node.proto.name
        return result


def _convolution(graph: Graph, node: Node) -> _Convolution | None:
    """A convolution over every n-th element; None for another one."""
    shapes = node.shape(0), node.result_shape()
    if (
        any(shape is None or not is_static(shape) or 0 in shape for shape in shapes)
        or len(shapes[0] or ()) < 3
    ):
        return None
    if node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    front = _in_front(graph, node)
    if not _cuts(front):
        return None
    behind = _behind(graph, node)
    if not _cuts(behind):
        return None
    views = [each for each in front if each.op_type in _VIEWS]
    source = Digits(cast("tuple[int, ...]", views[0].shape(0)))
    if not all(_follow(source, view) for view in views):
        return None
    batch, _, *spatial = source.dims
    fine: dict[int, list[int]] = {}
    for k, own in enumerate(spatial):
        digits: list[int] = []
        # The digits of a dim lie side by side, and then those of the batch that are to join them.
        run = [d for d in own if source.sizes[d] != 1]
        while run:
            place = source.order.index(run[-1]) + 1
            following = next((d for d in source.order[place:] if source.sizes[d] != 1), None)
            if following is None or following not in batch:
                break
            digits.append(following)
            run.append(following)
        fine[k] = digits
    strides = node.ints("strides") or (1,) * len(spatial)
    if not any(fine.values()) or any(fine[k] and strides[k] != 1 for k in fine):
        return None
    rest = [d for d in batch if all(d not in digits for digits in fine.values())]
    result = _result(source, fine, rest, cast("tuple[int, ...]", shapes[1]), behind)
    return None if result is None else _Convolution(graph, node, front, behind, source, fine, rest, result)


def _cuts(chain: Sequence[Node]) -> bool:
    """Whether nodes change the shape of a value."""
    return any(node.op_type in _CUTS for node in chain)


def _result(
    source: Digits, fine: dict[int, list[int]], rest: list[int], shape: Sequence[int], behind: Sequence[Node]
) -> Digits | None:
    """The digits of what a dilated convolution gives, after the views behind it; None where these do not put the digits
    of the batch behind those of the dims that they were taken from.

    `shape` is that of what the convolution gave.
    """
    size = source.sizes
    sizes = [[size[d] for d in rest], [shape[1]]]
    sizes += [[n, *(size[d] for d in fine[k])] for k, n in enumerate(shape[2:])]
    digits, dims = _cut(sizes)
    places = dict(zip(rest, dims[0], strict=True))
    for k, own in fine.items():
        places.update(zip(own, dims[2 + k][1:], strict=True))
    digits.dims = [[places[d] for d in source.dims[0]], dims[1], *([dim[0]] for dim in dims[2:])]
    if not all(_follow(digits, node) for node in behind if node.op_type in _VIEWS):
        return None
    final = [d for dim in digits.dims for d in dim if digits.sizes[d] != 1]
    pairs = set(pairwise(final))
    runs = ([d for d in dim if digits.sizes[d] != 1] for dim in dims[2:])
    return digits if all(pairs.issuperset(pairwise(run)) for run in runs) else None


def _in_front(graph: Graph, node: Node) -> list[Node]:
    """The views in front of a node, and between them nodes by element."""
    found: list[Node] = []
    name = node.inputs[0]
    while (maker := graph.makers.get(name)) is not None and _is_link(maker):
        found.append(maker)
        name = maker.inputs[0]
    return _to_the_last_view(found)[::-1]


def _behind(graph: Graph, node: Node) -> list[Node]:
    """The views behind a node, and between them nodes by element: those whose operand nobody else reads."""
    found: list[Node] = []
    results = {value.name for value in graph.proto.output}
    name = node.outputs[0]
    while name not in results:
        takers = [user for user in graph.users.get(name, ()) if not _is_known_shape(user)]
        if len(takers) != 1 or takers[0].inputs[0] != name or not _is_link(takers[0]):
            break
        found.append(takers[0])
        name = takers[0].outputs[0]
    return _to_the_last_view(found)


def _is_known_shape(node: Node) -> bool:
    """Whether a node says the extents of a value of which all are known."""
    shape = node.given_extents() if node.op_type == "Shape" and not node.domain else None
    return shape is not None and is_static(shape)


def _to_the_last_view(chain: list[Node]) -> list[Node]:
    places = [k for k, node in enumerate(chain) if node.op_type in _VIEWS]
    return chain[: places[-1] + 1] if places else []


def _is_link(node: Node) -> bool:
    """Whether a node is a view of known shapes, or works on single elements of its first operand alone."""
    shapes = node.shape(0), node.result_shape()
    if node.domain or len(node.outputs) != 1 or any(s is None or not is_static(s) or 0 in s for s in shapes):
        return False
    if node.op_type in _VIEWS:
        return node.op_type != "Transpose" or transpose_perm(node) is not None
    others = [node.shape(k) for k, name in enumerate(node.inputs) if k and name]
    is_single = all(shape is not None and all(n == 1 for n in shape) for shape in others)
    return node.op_type in BY_ELEMENT and is_single and shapes[0] == shapes[1]


def _follow(digits: Digits, node: Node) -> bool:
    """Has digits go through a view; False where a cut falls into a digit that it does not divide."""
    result = cast("tuple[int, ...]", node.result_shape())
    if node.op_type == "Transpose":
        digits.dims = [digits.dims[d] for d in transpose_perm(node) or ()]
        return True
    if node.op_type not in ("DepthToSpace", "SpaceToDepth"):
        return digits.reshape(result)
    n, c, h, w = cast("tuple[int, ...]", node.shape(0))
    block = node.int("blocksize", 1)
    if node.op_type == "SpaceToDepth":
        if not digits.reshape((n, c, h // block, block, w // block, block)):
            return False
        order = (0, 3, 5, 1, 2, 4)
    else:
        depth = c // block**2
        is_depth_first = node.text("mode", "DCR") == "DCR"
        cut = (n, block, block, depth, h, w) if is_depth_first else (n, depth, block, block, h, w)
        if not digits.reshape(cut):
            return False
        order = (0, 3, 4, 1, 5, 2) if is_depth_first else (0, 1, 4, 2, 5, 3)
    digits.dims = [digits.dims[d] for d in order]
    return digits.reshape(result)


def _cut(sizes: Sequence[Sequence[int]]) -> tuple[Digits, list[list[int]]]:
    """A value whose dims have digits of these sizes, and which digits each dim has."""
    digits = Digits([n for dim in sizes for n in dim])
    numbers = iter(range(sum(map(len, sizes))))
    return digits, [[next(numbers) for _ in dim] for dim in sizes]
