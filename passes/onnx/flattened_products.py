"""Transposes in front of a flattening and a product with constants, done to the constants instead.

A dense layer behind a feature map reads all numbers of an image as one row. In which order they lie in that row is
nothing but the order of the rows of its weights:

    Transpose (n, c, h, w -> n, h, w, c), Reshape (n, h*w*c), MatMul (weights)
    = Reshape (n, c*h*w), MatMul (weights with their rows in the order c, h, w)

No order of the dims of the flattened value says that, and so the choice of orders leaves a Transpose there. Between the
Reshape and the product, and in front of it, may be nodes that work on single elements; their constants of one number
per element of the row are permuted as well. Values in between, which hold the same numbers in another order, get other
names.

Each rewrite takes away one Transpose and adds nothing, which ends. A constant in an external file stays in it, and its
Transpose in the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from layout_ir.passes.onnx.model_constants import constant_tensor
from layout_ir.passes.onnx.model_graph import Graph, Node, transpose_perm
from layout_ir.passes.onnx.names_in_use import drop_constants, unused_constants
from layout_ir.passes.onnx.node_models.same_order import BY_ELEMENT
from layout_ir.passes.onnx.orders import inverse

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

_WEIGHTS = {"Gemm": 1, "MatMul": 1, "MatMulInteger": 1, "QLinearMatMul": 3}
"""Products of rows, with the input that has the weights."""


def may_fold(proto: onnx.GraphProto) -> bool:
    """Whether a Transpose of a graph is flattened at all, of which most have none: tells without shapes."""
    moved: set[str] = set()
    for node in proto.node:
        if node.op_type == "Transpose":
            moved.update(node.output[:])
        elif moved.isdisjoint(node.input[:]):
            continue
        elif node.op_type in ("Flatten", "Reshape"):
            return True
        elif node.op_type in BY_ELEMENT:
            moved.update(node.output)
    return False


def fold_into_weights(graph: Graph) -> bool:
    """Takes Transposes out of a graph whose work its weights can do; returns whether there were any."""
    nodes = graph.nodes_of_model
    if not any(node.op_type in _WEIGHTS for node in nodes):
        return False
    users = _users(graph)
    found = [flattening for node in nodes if (flattening := _flattening(graph, node, users)) is not None]
    for flattening in found:
        flattening.write()
    if found:
        replaced = {name for flattening in found for _, _, name, _ in flattening.constants}
        drop_constants(graph.proto, replaced & unused_constants(graph.proto))
    return bool(found)


_Users = Mapping[str, Sequence[tuple[Node, int]]]
"""The users of each value that nodes alone use, by its name, with the numbers of their inputs."""


def _users(graph: Graph) -> _Users:
    users: dict[str, list[tuple[Node, int]]] = {}
    kept = {value.name for value in graph.proto.output}
    for node in graph.nodes_of_model:
        kept.update(node.captures)
        for number, name in enumerate(node.inputs):
            users.setdefault(name, []).append((node, number))
    return {name: found for name, found in users.items() if name not in kept}


@dataclass
class _Flattening:
    """A Transpose, and what there is between it and the products that do its work."""

    graph: Graph
    users: _Users
    transpose: Node
    digits: tuple[int, ...]
    """The extents that become one row, in the order in which they are flattened."""
    perm: tuple[int, ...]
    """The place in `digits` of each, in the order in which they lie without the Transpose."""
    lead: int
    """How many dims there are in front of those."""
    renamed: dict[str, bool] = field(default_factory=dict[str, bool])
    """The values whose numbers lie in another order afterwards, and whether they are flattened."""
    constants: list[tuple[onnx.NodeProto, int, str, int]] = field(
        default_factory=list["tuple[onnx.NodeProto, int, str, int]"]
    )
    """A node, the number of an input of it, the constant that it reads there, and the axis that is such a row."""
    met: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])
    """Operands that have to be among `renamed`, and flattened or not."""

    @property
    def size(self) -> int:
        """The elements of a row."""
        return prod(self.digits)

    def is_complete(self) -> bool:
        """Finds all that is done with the value; False where that is more than can be done in another order."""
        waiting = [(self.transpose.outputs[0], False)]
        while waiting:
            name, is_row = waiting.pop()
            if name in self.renamed:
                continue
            self.renamed[name] = is_row
            users = self.users.get(name)
            if not users:
                return False
            for node, number in users:
                if node.domain:
                    return False
                if is_row and node.op_type in _WEIGHTS:
                    if number or node.int("transA", 0) or not self._add_weights(node):
                        return False
                elif not is_row and node.op_type in ("Flatten", "Reshape"):
                    if number or not self._is_of_rows(node):
                        return False
                    waiting.append((node.outputs[0], True))
                elif not is_row and node.op_type == "Shape":
                    # Of the dims in front it says what it said.
                    if not 0 <= node.int("start", 0) <= node.int("end", self.lead + 1) <= self.lead:
                        return False
                elif node.op_type in BY_ELEMENT and len(node.outputs) == 1:
                    if not all(
                        self._add_operand(node, k, is_row) for k in range(len(node.inputs)) if k != number
                    ):
                        return False
                    waiting.append((node.outputs[0], is_row))
                else:
                    return False
        return all(self.renamed.get(name) == is_row for name, is_row in self.met)

    def _is_of_rows(self, view: Node) -> bool:
        """Whether a view makes a row of the dims behind the first, without asking for the extent of one of those."""
        source, result = view.shape(0) or (), view.result_shape()
        if not result or result[-1] != self.size:
            return False
        if view.op_type == "Flatten":
            return view.int("axis", 1) % max(len(source), 1) == self.lead
        asked = view.known_ints(1)
        if asked is not None:
            return bool(view.int("allowzero", 0)) or 0 not in asked[self.lead :]
        # A 0 that the run time computes would give such an extent.
        pairs = zip(source[self.lead :], result[self.lead :], strict=False)
        return all(one != other for one, other in pairs)

    def _add_operand(self, node: Node, number: int, is_row: bool) -> bool:
        """Another operand of a node: a value that is permuted as well, or a constant that is one number, or one for
        each element of a row."""
        name, shape = node.inputs[number], node.shape(number)
        if not name or (shape is not None and all(extent == 1 for extent in shape)):
            return True
        if name not in self.graph.constants:
            self.met.append((name, is_row))
            return True
        is_quantized = node.op_type in ("DequantizeLinear", "QuantizeLinear")
        if not is_row or is_quantized or not shape or shape[-1] not in (1, self.size):
            return False
        if shape[-1] == self.size:
            if not self._is_at_hand(name):
                return False
            self.constants.append((node.proto, number, name, len(shape) - 1))
        return True

    def _add_weights(self, node: Node) -> bool:
        number = _WEIGHTS[node.op_type]
        name, axis = node.input(number), node.int("transB", 0)
        maker = self.graph.makers.get(name)
        if maker is not None and maker.op_type == "DequantizeLinear" and not maker.domain:
            scale = maker.shape(1)
            is_along = scale is not None and len(scale) == 1 and maker.int("axis", 1) % 2 != axis
            is_single = scale in ((), (1,))
            if not (is_along or is_single) or maker.int("block_size", 0) or self.graph.uses[name] != 1:
                return False
            node, number, name = maker, 0, maker.input(0)
        shape = self.graph.shape(name)
        if shape is None or len(shape) != 2 or shape[axis] != self.size or not self._is_at_hand(name):
            return False
        self.constants.append((node.proto, number, name, axis))
        return True

    def _is_at_hand(self, name: str) -> bool:
        tensor, pending = self.graph.constants.get(name), self.graph.pending.get(name)
        if tensor is None or pending is not None:
            return pending is not None and pending.weights is not None
        return tensor.data_location != tensor.EXTERNAL

    def write(self) -> None:
        """Writes the nodes without the Transpose, on weights in another order."""
        proto, graph = self.graph.proto, self.graph
        source, moved = self.transpose.inputs[0], self.transpose.outputs[0]
        proto.node.remove(self.transpose.proto)
        names = {name: graph.fresh(f"{name}_permuted") for name in self.renamed if name != moved}
        names[moved] = source
        for node in proto.node:
            for operands in (node.input, node.output):
                for k, name in enumerate(operands):
                    if name in names:
                        operands[k] = names[name]
        # What is said of their shapes holds no more.
        kept = [value for value in proto.value_info if value.name not in names]
        del proto.value_info[:]
        proto.value_info.extend(kept)
        written: dict[tuple[str, int], str] = {}
        for node, number, name, axis in self.constants:
            if (name, axis) not in written:
                written[name, axis] = graph.fresh(f"{name}_permuted")
                array = self._permuted(graph.elements(name), axis)
                proto.initializer.append(constant_tensor(array, written[name, axis]))
            node.input[number] = written[name, axis]

    def _permuted(self, array: NDArray[Any], axis: int) -> NDArray[Any]:
        before, after = array.shape[:axis], array.shape[axis + 1 :]
        order = [*range(axis), *(axis + k for k in self.perm)]
        order += range(axis + len(self.perm), axis + len(self.perm) + len(after))
        return array.reshape(*before, *self.digits, *after).transpose(order).reshape(array.shape)


def _flattening(graph: Graph, node: Node, users: _Users) -> _Flattening | None:
    """A Transpose whose result is flattened for products alone; None for any other node."""
    perm, shape = transpose_perm(node), node.result_shape()
    if perm is None or shape is None:
        return None
    # The dims in front stay where they are.
    lead = next((k for k, d in enumerate(perm) if d != k), len(perm))
    digits = tuple(n for n in shape[lead:] if isinstance(n, int))
    if len(digits) != len(shape) - lead or 0 in digits:
        return None
    order = tuple(place - lead for place in inverse(perm)[lead:])
    found = _Flattening(graph, users, node, digits, order, lead)
    return found if found.is_complete() and found.constants else None
