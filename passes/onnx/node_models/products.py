"""Matrix products: operands swapped, transposed by a flag, and their leading dims in any order."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from layout_ir.passes.onnx.graph_output import NodeWriter, set_attribute
from layout_ir.passes.onnx.model_graph import Node, is_transpose
from layout_ir.passes.onnx.node_models.node_option import (
    COST_PER_BYTE,
    COST_PER_NS,
    MOVED_INSIDE,
    Candidates,
    NodeModel,
    NodeOption,
    TruncatedOptions,
    option_of,
    ranks_of,
)
from layout_ir.passes.onnx.node_models.product_labels import (
    Labels,
    dim_labels,
    found_options,
    fused_products,
    has_swapped,
    is_swapped,
    is_turned_left,
    plain_products,
)
from layout_ir.passes.onnx.orders import Order, identity, is_identity

if TYPE_CHECKING:
    import onnx


class MatMul:
    """The product of stacks of matrices.

    With b for dims of stacks, m rows, n columns and k the dim that is summed over, y[b, m, n] = x[b, m, k] w[b, k, n]
    may be computed as it is, with all b in another order, or as y[b, n, m] = w[b, n, k] x[b, k, m]. Where w is one
    matrix, b and m are alike: any of them may be the one that is a dim of the matrices; so are b and n where x is one.
    """

    def __init__(self, *, packs_constants: bool = False, is_packed: bool = False):
        self.packs_constants = packs_constants
        """Whether the runtime packs a constant matrix w once, so that it is to stay the right operand."""
        self.is_packed = is_packed
        """Whether w counts as a constant, whatever makes it."""
        self.part = 1 if packs_constants else MOVED_INSIDE

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """The options that an order of an operand or of the result leads to."""
        packed = self.is_packed or self.packs(node)
        for labels, option in found_options(node, ins, outs, plain_products):
            if not is_swapped(labels[0], len(labels[2])):
                yield option
            elif not packed:
                yield option._replace(cost=_left_cost(node, option.outs[0], self.part))

    def packs(self, node: Node) -> bool:
        """Whether the runtime packs w once: a constant matrix, where it does that.

        ONNX Runtime packs no stack, not even one of a single matrix: products of 4x256 by 256x768 take it 23 us with
        a constant w, 44 us where that has a third dim, 47 us where it is no constant (1.32).
        """
        return self.packs_constants and len(node.shape(1) or ()) == 2 and is_constant(node, 1)

    def looks_at(self, node: Node) -> Hashable:
        """The ranks, and whether w is packed; of a constant that is not, its size and that of the result."""
        packs = self.packs(node)
        if packs or not is_constant(node, 1, "DequantizeLinear"):
            return ranks_of(node), packs
        return ranks_of(node), packs, node.result_shape(), node.graph.nbytes(node.inputs[1])

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node, its operands swapped where the result is there transposed."""
        proto = writer.copy()
        if has_swapped(node, option):
            proto.input[0], proto.input[1] = proto.input[1], proto.input[0]
        return proto


def _left_cost(node: Node, result: Order, part: int) -> int:
    """The cost of a constant w on the left, where the result lies in this order; 0 where w is none.

    A runtime packs it once where it is on the right, and all of x is one operand then. On the left, each matrix of the
    stack is a product of its own, which w is read and packed for. In ONNX Runtime 1.32, a Swin and a SegFormer took
    1.11 and 1.05 times as long with such products as with Transposes. `part` is MOVED_INSIDE, or 1 for that runtime.
    """
    if not is_constant(node, 1, "DequantizeLinear"):
        return 0
    graph, w = node.graph, node.shape(1) or ()
    stack = prod(graph.counted_extent((node.result_shape() or ())[d]) for d in result[:-2])
    own = prod(graph.counted_extent(extent) for extent in w[:-2])
    cost = 2 * graph.nbytes(node.inputs[1]) * max(stack // max(own, 1), 1) * COST_PER_BYTE
    return -(-cost // part)


def is_constant(node: Node, number: int, *through: str) -> bool:
    """Whether an operand is a constant, or what Transposes, and nodes of operators `through`, make of one."""
    constants, makers, name = node.graph.constants, node.graph.makers, node.inputs[number]
    while name not in constants:
        maker = makers.get(name)
        if maker is None or not (is_transpose(maker) or maker.op_type in through):
            return False
        name = maker.inputs[0]
    return True


def _has_constant(node: Node) -> bool:
    """Whether an operand is a constant, or what Transposes make of one."""
    return is_constant(node, 0) or is_constant(node, 1)


class IntegerMatMul(MatMul):
    """MatMulInteger: as MatMul, where each operand has one zero point or none, which goes where the operand goes.

    Operands are swapped where w is unsigned. The kernel to which ONNX Runtime fuses the scaling of such a product has
    unsigned left operands only, and a model with others cannot be loaded (1.32).
    """

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """The options of MatMul."""
        is_unsigned = node.graph.element_type(node.input(1)) == _UINT8
        if all(not node.input(k) or node.shape(k) in ((), (1,)) for k in (2, 3)):
            for option in super().options(node, ins, outs):
                if is_unsigned or not has_swapped(node, option):
                    yield option

    def looks_at(self, node: Node) -> Hashable:
        """What MatMul looks at, the type of w, and the shapes of the zero points."""
        w = node.graph.element_type(node.input(1))
        return super().looks_at(node), w, node.shape(2), node.shape(3)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node, its zero points swapped with its operands."""
        proto = super().write(node, option, writer)
        if has_swapped(node, option):
            zero_points = [*writer.inputs[2:], "", ""][:2]
            if any(zero_points):
                del proto.input[2:]
                proto.input.extend(zero_points[::-1] if zero_points[0] else [zero_points[1]])
        return proto


class MatMulOrGemm(MatMul):
    """MatMul, and Gemm where the stacks are of one matrix each: its operands may be there transposed, one by one.

    Beside a constant, the views around a Gemm part the product from the addend behind it, to which runtimes join it:
    encoders of 16 to 65 tokens of 64 numbers took 15 to 25 % longer in ONNX Runtime 1.32. So there it is for matrices
    alone.
    """

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """The options of MatMul, and those of Gemm in the orders that are there."""
        yield from super().options(node, ins, outs)
        if not self._is_of_matrices(node):
            return
        tensors = [(node.shape(0), ins[0]), (node.shape(1), ins[1]), (node.result_shape(), outs[0])]
        more = sum(len(shape or ()) > 2 for shape, _ in tensors)
        cost = _ANOTHER_OPERATOR if _has_constant(node) else 0
        if more and cost:
            return
        sides: list[list[Order]] = []
        for shape, known in tensors:
            plain = identity(len(shape or ()))
            sides.append([order for order in (plain, _turned(plain)) if order == plain or order in known])
        plain_ins, plain_outs = node.plain_orders
        for left, right, result in product(*sides):
            flags = [not is_identity(order) for order in (left, right, result)]
            if any(flags) and not all(flags):  # MatMul does these itself
                own = cost + (_left_cost(node, result, self.part) if flags[2] else 0)
                yield NodeOption((left, right, *plain_ins[2:]), (result, *plain_outs[1:]), more, own)

    @staticmethod
    def _is_of_matrices(node: Node) -> bool:
        """Whether the operands are matrices, or stacks of one, and Gemm is there for them: without an addend since
        opset 11."""
        for shape in (node.result_shape(), node.shape(0), node.shape(1)):
            if shape is None or len(shape) < 2 or shape[:-2].count(1) < len(shape) - 2:
                return False
        return node.opset >= 11 and node.graph.element_type(node.input(0)) in (_FLOAT, _DOUBLE)

    def looks_at(self, node: Node) -> Hashable:
        """What MatMul looks at, and of matrices, which may be a Gemm, whether one operand is a constant."""
        return super().looks_at(node), _has_constant(node) if self._is_of_matrices(node) else None

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The MatMul; or a Gemm, of operands that lose their dims of one element, and with those of its result."""
        orders = option.ins[0], option.ins[1], option.outs[0]
        plain = [identity(len(order)) for order in orders]
        flags = [order != own for order, own in zip(orders, plain, strict=True)]
        is_turned = all(order in (own, _turned(own)) for order, own in zip(orders, plain, strict=True))
        if all(flags) or not any(flags) or not is_turned or not self._is_of_matrices(node):
            return super().write(node, option, writer)
        matrices = [
            self._without_stack(writer, name, len(order) - 2)
            for name, order in zip(writer.inputs[:2], orders, strict=False)
        ]
        trans = flags[:2]
        if flags[2]:
            matrices.reverse()
            trans = [not flags[1], not flags[0]]
        proto = writer.copy()
        proto.op_type = "Gemm"
        del proto.input[:]
        proto.input.extend(matrices)
        for name, flag in zip(("transA", "transB"), trans, strict=True):
            if flag:
                set_attribute(proto, name, 1)
        stack = len(orders[2]) - 2
        if not stack:
            return proto
        proto.output[0] = writer.out.fresh(f"{writer.outputs[0]}_matrix")
        writer.out.nodes.append(proto)
        writer.out.add_view("Unsqueeze", proto.output[0], writer.outputs[0], range(stack), node.opset)
        return writer.out.nodes.pop()

    @staticmethod
    def _without_stack(writer: NodeWriter, name: str, stack: int) -> str:
        if not stack:
            return name
        matrix = writer.out.fresh(f"{name}_matrix")
        return writer.out.add_view("Squeeze", name, matrix, range(stack), writer.node.opset)


_ANOTHER_OPERATOR = COST_PER_BYTE * 16
"""The cost of a Gemm for a MatMul by a constant: more than that of having the constant in another order."""


def _turned(order: Order) -> Order:
    return (*order[:-2], order[-1], order[-2])


class FusedMatMul(MatMul):
    """ONNX Runtime's product of stacks: each operand may be there transposed, or with its rows in front of the stack.

    It is for single precision, where a constant matrix w stays the right operand, without flags: only that is packed
    once (products of 49x96 by 96x288 to 196x384 by 384x1536 in ONNX Runtime 1.31 took 12 to 46 % longer with w on the
    left).
    Half precision is there where the runtime has no products of it, and converts what it takes to single precision.
    Double precision is not: ONNX Runtime 1.25 has no such kernel, 1.32 has.
    """

    def __init__(self, *, converts_halves: bool):
        super().__init__(packs_constants=True)
        self.flagged = (_FLOAT, _HALF) if converts_halves else (_FLOAT,)
        """The types of elements for which there are products with flags."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """The options of MatMul, and those with flags."""
        element = node.graph.element_type(node.input(0))
        packs = self.packs(node)
        if element == _HALF and packs:
            for labels, option in found_options(node, ins, outs, plain_products):
                yield self._with_half(node, labels, option)
        else:
            yield from super().options(node, ins, outs)
        if element not in self.flagged:
            return
        for labels, option in found_options(node, ins, outs, fused_products):
            turned = _turned_left_cost(node, *labels)
            if not packs:
                yield option._replace(cost=turned)
            elif is_turned_left(*labels):
                # Of few columns, moving x takes longer than the product: 9216x32 by 32x1 101 us, and 166 us turned, of
                # which a Transpose takes as long. A part of that leaves x to the flag, but not for a little of x.
                yield option._replace(cost=max(turned // 4, self._part(node, 10)))
            elif element == _HALF and _is_right(labels[0], labels[2]):
                yield self._with_half(node, labels, option)

    def _with_half(self, node: Node, labels: tuple[Labels, Labels, Labels], option: NodeOption) -> NodeOption:
        """An option with a constant w of half precision, at the cost of having it on the left."""
        if not _is_right(labels[0], labels[2]):
            return option
        return option._replace(cost=self._part(node, 20) + _left_cost(node, option.outs[0], 1))

    def looks_at(self, node: Node) -> Hashable:
        """What MatMul looks at, the element type as far as it matters, and what the product takes."""
        key = super().looks_at(node)
        element = node.graph.element_type(node.input(0))
        if element not in (*self.flagged, _HALF) or node.result_shape() is None:
            return key, 0
        if not self.packs(node):
            return key, element, *(node.graph.nbytes(name) for name in node.inputs[:2])
        graph = node.graph
        counted = [
            graph.counted_extent(extent)
            for name in (node.outputs[0], node.inputs[1])
            for extent in graph.shape(name) or ()
        ]
        return key, element, graph.nbytes(node.inputs[0]), *counted

    @staticmethod
    def _part(node: Node, divisor: int) -> int:
        """The cost of a part of the product: of what it takes longer in another way, w being packed.

        With x there transposed by a flag, a tenth: products of 64x64 by 64x64 to 196x384 by 384x1536 took 5 to 12 %
        longer in ONNX Runtime 1.31. With w on the left, in half precision, a twentieth: products of 16x256 by 256x768
        and 128x768 by 768x768, for which x and the result are converted each time, took 3 to 5 % longer in 1.32.
        """
        graph, result = node.graph, node.outputs[0]
        depth = graph.counted_extent((node.shape(1) or (1,))[-2:][0])
        products = 8 * graph.nbytes(result) // graph.element_bits(result) * depth
        return 2 * products * COST_PER_NS // (divisor * _OPERATIONS_PER_NS)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with its flags; a MatMul where it needs none."""
        proto = writer.copy()
        x, w, y = node.shape(0) or (), node.shape(1) or (), node.result_shape() or ()
        tables = dim_labels(len(x), len(w), len(y), len(y))
        k = len(y)
        left, right, result = (
            tuple(table[d] for d in order)
            for table, order in zip(tables, (*option.ins[:2], option.outs[0]), strict=True)
        )
        rows, columns = result[-2:]
        if columns in left:
            proto.input[0], proto.input[1] = proto.input[1], proto.input[0]
            left, right = right, left
        flags = {
            "transA": left[-1] == rows,
            "transB": right[-1] == k,
            "transBatchA": len(left) > 2 and left[0] in (rows, k),
            "transBatchB": len(right) > 2 and right[0] in (columns, k),
        }
        if any(flags.values()):
            proto.op_type, proto.domain = "FusedMatMul", "com.microsoft"
            for name, flag in flags.items():
                set_attribute(proto, name, int(flag))
        return proto


def _turned_left_cost(node: Node, x: Labels, w: Labels, y: Labels) -> int:
    """The cost of a left operand, of stacks or of what is no constant, that is there transposed: that of moving it.

    The kernel moves it by parts. In ONNX Runtime 1.32 a product of 1x1000 by 1000x64 for each of 12 heads took 0.16 ms,
    and with its operands swapped, both transposed by flags, 0.56 ms, where a Transpose of the 3 MB takes 0.2; 12 of
    128x64 by 64x64 took 156 us, and 233 us with the left ones transposed. The right one is there transposed for
    nothing: it is packed either way.
    """
    rows, columns = y[-2:]
    is_swapped = columns in x
    left, name = (w, node.inputs[1]) if is_swapped else (x, node.inputs[0])
    return 2 * node.graph.nbytes(name) * COST_PER_BYTE if left[-1] == rows else 0


def _is_right(x: Labels, y: Labels) -> bool:
    """Whether x is the right operand of a product, whose columns are among its dims then."""
    return y[-1] in x


class Gemm:
    """A product of two matrices, each of which may be there transposed, and so may the result."""

    def __init__(self, *, packs_constants: bool = False):
        self.packs_constants = packs_constants
        """Whether the runtime packs a constant matrix w once, so that it is to stay the right operand."""
        self.part = 1 if packs_constants else MOVED_INSIDE

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Iterator[NodeOption]:
        """All eight; the addend of a transposed result is a matrix, a vector that is made one, or a scalar."""
        if node.shape(0) is None or node.shape(1) is None or node.result_shape() is None:
            return
        addend = node.shape(2)
        if node.input(2) and addend is None:
            return
        plain, turned = (0, 1), (1, 0)
        packed = self.packs_constants and node.input(1) in node.graph.constants
        for x in (plain, turned):
            for w in (plain, turned):
                for y in (plain,) if packed else (plain, turned):
                    extra = {2: y} if addend is not None and len(addend) == 2 else {}
                    if all(o in c for o, c in ((x, ins[0]), (w, ins[1]), (y, outs[0]))) or _is_new(
                        x, w, y, ins, outs
                    ):
                        ones = int(
                            y == turned
                            and self._is_vector(node)
                            and node.input(2) not in node.graph.constants
                        )
                        cost = _left_cost(node, y, self.part) if y == turned else 0
                        yield option_of(node, {0: x, 1: w, **extra}, {0: y}, ones, cost=cost)

    @staticmethod
    def _is_vector(node: Node) -> bool:
        shape = node.shape(2)
        return shape is not None and len(shape) == 1 and shape != (1,)

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with its flags, its operands swapped where the result is there transposed."""
        proto = writer.copy()
        flags = [
            bool(node.int(name, 0)) != (not is_identity(order))
            for name, order in (("transA", option.ins[0]), ("transB", option.ins[1]))
        ]
        if not is_identity(option.outs[0]):
            flags = [not flags[1], not flags[0]]
            proto.input[0], proto.input[1] = proto.input[1], proto.input[0]
            if self._is_vector(node):
                proto.input[2] = writer.with_ones(2, [1])
        for name, flag in zip(("transA", "transB"), flags, strict=True):
            if flag or name in node.attributes:
                set_attribute(proto, name, int(flag))
        return proto


def _is_new(x: Order, w: Order, y: Order, ins: Candidates, outs: Candidates) -> bool:
    """Whether one of the orders is there, and the others those of the model: what a single Transpose asks for."""
    there = [o in c for o, c in ((x, ins[0]), (w, ins[1]), (y, outs[0]))]
    return any(ok and not is_identity(o) for ok, o in zip(there, (x, w, y), strict=True)) and all(
        ok or is_identity(o) for ok, o in zip(there, (x, w, y), strict=True)
    )


_OPERATIONS_PER_NS = 80
"""Floating-point operations that a product takes a nanosecond for, on one core."""

_FLOAT, _UINT8, _HALF, _DOUBLE = 1, 2, 10, 11
"""Single precision, unsigned bytes, half and double precision, as TensorProto numbers element types."""

_MOST = 256
"""Combinations of orders of the tensors of an Einsum that are options."""


class Einsum:
    """Its equation says the dims of every tensor: each in any order of its own."""

    def options(self, node: Node, ins: Candidates, outs: Candidates) -> Sequence[NodeOption]:
        """Every order of every tensor with every other; beyond `_MOST`, with the orders of the model of all others."""
        if self._terms(node) is None:
            return ()
        tensors = [*ins, outs[0]]
        if prod(map(len, tensors)) <= _MOST:
            return [NodeOption(tuple(orders[:-1]), (orders[-1],)) for orders in product(*tensors)]
        alone = [option_of(node, {k: order}, {}) for k, orders in enumerate(ins) for order in orders]
        return TruncatedOptions((*alone, *(option_of(node, {}, {0: order}) for order in outs[0])))

    @staticmethod
    def _terms(node: Node) -> list[str] | None:
        """The letters of each operand and then of the result; None for an equation with an ellipsis."""
        equation = re.sub(r"\s", "", node.text("equation", ""))
        if "." in equation:
            return None
        left, arrow, right = equation.partition("->")
        terms = left.split(",")
        if not arrow:
            letters = "".join(terms)
            right = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        shapes = [*(node.shape(k) for k in range(len(node.inputs))), node.result_shape()]
        fits = len(terms) == len(node.inputs) and all(
            shape is not None and len(shape) == len(term)
            for shape, term in zip(shapes, (*terms, right), strict=True)
        )
        return [*terms, right] if fits else None

    def write(self, node: Node, option: NodeOption, writer: NodeWriter) -> onnx.NodeProto:
        """The node with the letters of each tensor in its order."""
        proto, terms = writer.copy(), self._terms(node)
        if terms is not None and not all(map(is_identity, (*option.ins, *option.outs))):
            orders = (*option.ins, *option.outs)
            new = ["".join(term[d] for d in order) for term, order in zip(terms, orders, strict=True)]
            set_attribute(proto, "equation", f"{','.join(new[:-1])}->{new[-1]}")
        return proto


PRODUCTS: dict[str, NodeModel] = {
    "Einsum": Einsum(),
    "Gemm": Gemm(),
    "MatMul": MatMulOrGemm(),
    "MatMulInteger": IntegerMatMul(),
}
