"""Who runs the model that goes out: what a move of a tensor costs there, and what its operators can do besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from platform import machine
from typing import TYPE_CHECKING

from layout_ir.errors import LayoutError
from layout_ir.frontends.onnx.functions import domain_of
from layout_ir.frontends.onnx.subgraphs import bodies_of
from layout_ir.passes.onnx.blocked_channels import (
    can_reorder,
    channels_last,
    channels_second,
    has_same_bytes,
    is_blocked,
    padded_channels,
)
from layout_ir.passes.onnx.model_graph import Graph, Node, is_transpose
from layout_ir.passes.onnx.node_models.all_models import MODELS
from layout_ir.passes.onnx.node_models.node_option import MOVED_INSIDE, RUNTIME_NODE, NodeModel
from layout_ir.passes.onnx.node_models.products import FusedMatMul, Gemm, IntegerMatMul, MatMul
from layout_ir.passes.onnx.node_models.quantized_operators import runtime_windows
from layout_ir.passes.onnx.node_models.same_order import SOFTMAXES, Softmax
from layout_ir.passes.onnx.node_models.shapes import Gather
from layout_ir.passes.onnx.orders import Order, Shape, same_memory
from layout_ir.passes.onnx.transpose_speed import ELEMENT_NS, counted_shape, ns_by_element, ns_for_units
from layout_ir.selection.solver.selection_problem import FORBIDDEN

if TYPE_CHECKING:
    import onnx

KIBIBYTE = 1 << 12
"""The cost of reading and writing a kibibyte in another order."""
_FLOAT_BITS = 32
"""Bits of an element that QuantizeLinear takes, mostly."""
SMALL_NODE = 1 << 4
"""The cost of a node that moves next to nothing: a Reshape, a Gather of a shape."""
_NS_OF_SLOWNESS = 1 << 13
"""The nanoseconds that a Transpose takes longer for the dims that it moves, for a cost of 1."""
CHANGED_NODE = 1
"""The cost of a node on other dims than it came with: of equal choices, the one nearest to the model is taken."""


@dataclass(frozen=True)
class Consumer:
    """A runtime, or the standard alone."""

    name: str
    summary: str
    models: Mapping[str, NodeModel]
    """The models of its operators, by name, with the domain in front where that is not ONNX's own."""

    block: int = 0
    """Channels of a block, where it has blocked channels; 0 where it has none."""
    starters: frozenset[str] = frozenset()
    """Operators, named as in `models`, that have blocked results of their own accord."""
    fuses_quantization: bool = False
    """Whether it computes on integers where values are dequantized in front of an operator and quantized behind it."""
    makes_unsigned: bool = False
    """Whether those are unsigned integers, and signed ones are made unsigned where it sees them (unsigned_integers)."""
    joins_quantized: bool = False
    """Whether it runs convolutions and pools between DequantizeLinear and QuantizeLinear with their channels last
    (`joined_units`)."""
    converts_halves: bool = False
    """Whether it computes products of f16 in f32, and casts their operands (`cast_transposes`)."""
    counts_kernel_moves: bool = False
    """Whether it counts what kernels move inside; without, it decides only between choices whose Transposes move as
    much."""
    moves_by_element: bool = False
    """Whether its Transposes take longer where they move elements or short rows by themselves (`transpose_speed`)."""
    weighs_dims: bool = False
    """Whether choices whose Transposes move as much are told apart by that: asked for where some would be slow for dims
    of one element, as to tell them apart takes longer."""
    transpose_kib: int = 1
    """The kibibytes that a Transpose counts as besides those that it reads and writes: of choices that move as many,
    the one with fewest Transposes is taken."""

    def without_kernel_moves(self) -> Consumer:
        """This consumer, to whom it is all the same what kernels move inside."""
        models = {**self.models, **dict.fromkeys(SOFTMAXES, Softmax()), **_kernels(part=MOVED_INSIDE)}
        return replace(self, models=models, counts_kernel_moves=False)

    def counted_bytes(self, graph: Graph, name: str) -> int:
        """The bytes that moving a value of a graph counts as: those that are read and written.

        Twice those of floats inside of what the runtime computes on integers (`Graph.quantized`): with a Transpose in
        between it finds nothing, and computes on floats.
        """
        nbytes = 2 * graph.nbytes(name)
        if not self.fuses_quantization or name not in graph.quantized:
            return nbytes
        return 2 * nbytes * _FLOAT_BITS // graph.element_bits(name)

    def reorder_cost(self, source: Order, target: Order, shape: Shape | None, nbytes: int) -> int:
        """The cost of moving `nbytes` bytes, read and written, from one order of dims to another."""
        if source == target:
            return 0
        if shape is not None and self.is_same_memory(source, target, shape):
            return SMALL_NODE
        steps = self.steps(source, target, shape)
        if len(steps) == 1:
            whole = self.move_cost(source, target, shape, nbytes)
            return min(whole + self.slowness(source, target, shape), FORBIDDEN)
        cost = 0
        for step in steps:
            if shape is not None and self.is_same_memory(source, step, shape):
                cost += SMALL_NODE
            else:
                cost += self.move_cost(source, step, shape, nbytes) + self.slowness(source, step, shape)
            source = step
        return min(cost, FORBIDDEN)

    def transpose_cost(self, nbytes: int) -> int:
        """The cost of a Transpose that reads and writes `nbytes` bytes."""
        return (-(-nbytes // 1024) + self.transpose_kib) * KIBIBYTE

    def slowness(self, source: Order, target: Order, shape: Shape | None) -> int:
        """The cost of the dims that a Transpose moves; much less than that of the bytes."""
        if not self.weighs_dims or shape is None or is_blocked(source) or is_blocked(target):
            return 0
        return ns_by_element(source, target, counted_shape(shape)) // _NS_OF_SLOWNESS

    def is_slow_for_units(self, source: Order, target: Order, shape: Shape | None) -> bool:
        """Whether a Transpose has such a cost, once it is weighed, for where dims of one element lie."""
        if shape is None or is_blocked(source) or is_blocked(target):
            return False
        return ns_for_units(source, target, counted_shape(shape)) >= _NS_OF_SLOWNESS

    def largest_slowness(self, shape: Shape | None) -> int:
        """The most that `slowness` is for tensors of a shape."""
        if not self.weighs_dims or shape is None:
            return 0
        return ELEMENT_NS * prod(counted_shape(shape)) // _NS_OF_SLOWNESS

    def move_cost(self, source: Order, target: Order, shape: Shape | None, nbytes: int) -> int:
        """The cost of the one node that reads and writes `nbytes` bytes: a Transpose, or a reorder of blocks."""
        if not is_blocked(source) and not is_blocked(target):
            return self.transpose_cost(nbytes)
        order = target if is_blocked(target) else source
        if shape is None or (order is target and not can_reorder(order, shape)):
            return FORBIDDEN
        channels, moved = shape[order[1]], nbytes
        if isinstance(channels, int):  # else pads are not known
            moved = nbytes * (channels + padded_channels(channels, self.block)) // (2 * max(channels, 1))
        return -(-moved // 1024) * KIBIBYTE + RUNTIME_NODE

    def is_same_memory(self, source: Order, target: Order, shape: Shape) -> bool:
        """Whether a value has the same bytes in both orders."""
        return has_same_bytes(source, target, shape, self.block)

    def steps(self, source: Order, target: Order, shape: Shape | None) -> list[Order]:
        """The orders that a move goes through, the target last.

        Into blocks and out of them, tensors go with their channels behind the batch, or at the end.
        """
        if is_blocked(source) and is_blocked(target):
            return [channels_second(source), *self.steps(channels_second(source), target, shape)]
        if not is_blocked(source) and not is_blocked(target):
            return [target]
        order, plain = (source, target) if is_blocked(source) else (target, source)
        ports = channels_second(order), channels_last(order)
        if plain in ports:
            return [target]
        return [ports[shape is not None and same_memory(plain, ports[1], shape)], target]

    def starts_blocks(self, node: Node) -> bool:
        """Whether a node may have a blocked result although no blocked value reaches it."""
        return bool(self.starters) and _key(node) in self.starters

    def may_have_blocks(self, model: onnx.ModelProto) -> bool:
        """Whether a model, its subgraphs and functions included, has an operator whose result may be blocked though no
        blocked value reaches it."""
        nodes = (node for body in bodies_of(model) for node in body.node)
        return any(_named(domain_of(node.domain), node.op_type) in self.starters for node in nodes)

    def model_of(self, node: Node) -> NodeModel | None:
        """The model of a node; None where it is known on the dims of the file only."""
        if node.captures or (node.domain, node.op_type) in node.graph.functions:
            return None
        if self.fuses_quantization and node.op_type == "MatMul":
            left, right = (_dequantized(node, number) for number in range(2))
            if left is not None and right is not None:
                is_constant = right.inputs[0] in node.graph.constants
                if is_constant or all(map(node.graph.is_of_bytes, (left.inputs[0], right.inputs[0]))):
                    return _DEQUANTIZED_PRODUCTS[is_constant]
        return self.models.get(_key(node))


def _dequantized(node: Node, number: int) -> Node | None:
    """The DequantizeLinear that gives an operand, as it is or transposed; None where something else does."""
    makers = node.graph.makers
    maker = makers.get(node.input(number))
    while maker is not None and is_transpose(maker):
        maker = makers.get(maker.inputs[0])
    return maker if maker is not None and maker.op_type == "DequantizeLinear" else None


def _key(node: Node) -> str:
    """The name of the operator of a node, with its domain in front where that is not ONNX's own."""
    return _named(node.domain, node.op_type)


def _named(domain: str, kind: str) -> str:
    return f"{domain}.{kind}" if domain else kind


_DEQUANTIZED_PRODUCTS = MatMul(), MatMul(is_packed=True)
"""Of ONNX Runtime's products, only a MatMul becomes one of integers, not one with flags: with computed right operands,
of bytes as the left ones are, and with constant ones."""

_IS_X86 = machine().lower() in ("x86_64", "amd64", "i386", "i686")


def _kernels(part: int) -> dict[str, NodeModel]:
    """The operators of which it matters to ONNX Runtime which dims lie where, one of `part` of what that takes
    counting."""
    return {"Gather": Gather(part=part), **runtime_windows(part=part)}


_RUNTIME = {
    **MODELS,
    "MatMul": FusedMatMul(converts_halves=_IS_X86),
    "MatMulInteger": IntegerMatMul(packs_constants=True),
    "Gemm": Gemm(packs_constants=True),
    **dict.fromkeys(SOFTMAXES, Softmax(part=1)),
    **_kernels(part=1),
}

CONSUMERS = {
    consumer.name: consumer
    for consumer in (
        Consumer("onnx", "any runtime of the ONNX standard", MODELS),
        Consumer(
            "ort-cpu",
            "ONNX Runtime's kernels for CPUs",
            _RUNTIME,
            fuses_quantization=True,
            makes_unsigned=_IS_X86,
            joins_quantized=True,
            converts_halves=_IS_X86,
            counts_kernel_moves=True,
            moves_by_element=True,
        ),
    )
}


BLOCKED = "ort-cpu-blocked"
"""ONNX Runtime with its blocked channels: of the block that it has on this machine, or of 8 or 16, with that behind."""


def consumer_named(name: str) -> Consumer:
    """The consumer of this name. Raises LayoutError where there is none."""
    if name == BLOCKED:
        from layout_ir.passes.selection.options.targets import target_named

        return _blocked(BLOCKED, int(target_named("ort-nchwc").name.removeprefix("ort-nchwc")))
    for block in (8, 16):
        if name == f"{BLOCKED}{block}":
            return _blocked(name, block)
    if not isinstance(name, str) or name not in CONSUMERS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LayoutError(
            f"unknown target {name!r} for an ONNX model that stays one: targets are {', '.join((*CONSUMERS, BLOCKED))}"
        )
    return CONSUMERS[name]


@lru_cache(maxsize=4)
def _blocked(name: str, block: int) -> Consumer:
    from layout_ir.passes.onnx.node_models.blocked_models import STARTERS, with_blocks

    summary = f"ONNX Runtime's kernels for CPUs, those for blocks of {block} channels too"
    return Consumer(
        name,
        summary,
        with_blocks({**_RUNTIME, **_kernels(part=MOVED_INSIDE)}, block),
        block=block,
        starters=STARTERS,
        fuses_quantization=True,
        makes_unsigned=_IS_X86,
        converts_halves=_IS_X86,
        moves_by_element=True,
    )
