"""An op as loops: per tensor a map from loops to dims, loops that are parallel or reductions, and a scalar body.

    linalg.matmul   loops m, n parallel, k reduction   A (m, k)  B (k, n)  C (m, n)   acc + a * b
    arith.addf      loops i, j parallel                a (i, j)  b (i, j)  r (i, j)   a + b
    tosa.add        loops i, j parallel                a (i, 0)  b (i, j)  r (i, j)   a + b

A dim is one of three things: a loop (dim k of the tensor is loop i), fixed (a constant, as in broadcasts), or a window
(an expression of several loops, as in convolutions). linalg says all this in its indexing maps. Elementwise ops of
arith, math and tosa get identity and broadcast maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from xdsl.dialects import arith, math, tosa
from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, FloatAttr, IntegerAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import BroadcastOp, ReduceOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from layout_ir.dialects.layout import is_number, is_tensor
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.dialects.upstream.arith_ops import known_as
from layout_ir.foreign.rescale import rescale_body
from layout_ir.foreign.scalar import (
    CASTS,
    COMPARISONS,
    FUNCTIONS,
    Value,
    apply,
    evaluate,
    rounded_to,
)

Body = Callable[[Sequence[Value], Sequence[Value]], list[Value]]
"""(one scalar per operand, the loop indices or none where unknown) -> one scalar per result.

The body of a reduction without an initial operand takes the accumulator as its last scalar. Raises scalar.Trap where
the body would end the program.
"""


@dataclass(frozen=True, eq=False, slots=True)
class Structured:
    """`op` as loops. `maps` has one indexing map per operand (of a scalar: no dims), `result_maps` one per result.

    `init[k]` is the operand whose elements result k starts from (destination-passing style), None where there is none.
    `one_type`: the verifier of the op asks for exactly one type of all tensors, but for the i1 of comparisons.
    """

    op: Operation
    maps: tuple[tuple[AffineExpr, ...], ...]
    result_maps: tuple[tuple[AffineExpr, ...], ...]
    reductions: frozenset[int]
    body: Body
    init: tuple[int | None, ...]
    one_type: bool = False
    block: Block | None = None
    """The scalar body as ops, without arguments for results that start from no operand; None where it is a function."""
    function: type[Operation] | None = None
    """The scalar op that the body consists of; None where there is a block, or for a copy."""
    extents: dict[int, int] = field(default_factory=dict[int, int])
    tensors: list[tuple[tuple[AffineExpr, ...], SSAValue]] = field(init=False)
    """Tensor operands, then results, each with its map."""

    def __post_init__(self) -> None:
        operands = zip(self.maps, self.op.operands, strict=True)
        tensors = [(m, v) for m, v in operands if is_tensor(v.type)] + self.results()
        object.__setattr__(self, "tensors", tensors)
        for exprs, value in (*zip(self.maps, self.op.operands, strict=True), *self.results()):
            for expr, extent in zip(exprs, shape(value), strict=True):
                if isinstance(expr, AffineDimExpr):
                    self.extents[expr.position] = extent

    def results(self) -> list[tuple[tuple[AffineExpr, ...], SSAValue]]:
        """The results, each with its map."""
        return list(zip(self.result_maps, self.op.results, strict=True))

    @property
    def is_copy(self) -> bool:
        """Whether the body yields its first argument, and does nothing else."""
        if self.block is None:
            return self.function is None
        (last, *others) = reversed(list(self.block.ops))
        return not others and list(last.operands) == [self.block.args[0]]

    @property
    def transposes(self) -> bool:
        """Whether it is a transposition, by whatever op: a copy of its one input with the dims in another order, or in
        the same."""
        inputs = [k for k in range(len(self.maps)) if k not in self.init]
        if inputs != [0] or len(self.result_maps) != 1 or self.reductions or not self.is_copy:
            return False
        source, target = (list(map(loop_of, exprs)) for exprs in (self.maps[0], self.result_maps[0]))
        loops = set(source)
        return None not in loops and loops == set(target) and len(loops) == len(source) == len(target)


def shape(value: SSAValue) -> tuple[int, ...]:
    """The extents of a tensor; () for a scalar."""
    return tensor_type(value.type).get_shape() if is_tensor(value.type) else ()


def element(value: SSAValue) -> Attribute:
    """The type of one element, or that of a scalar itself."""
    return tensor_type(value.type).element_type if is_tensor(value.type) else value.type


def loop_of(expr: AffineExpr) -> int | None:
    """The loop that a dim is, or None where it is fixed or a window."""
    return expr.position if isinstance(expr, AffineDimExpr) else None


def is_window(expr: AffineExpr) -> bool:
    """Whether a dim is read at a sum of several loops, as the spatial dims of a convolution are."""
    return not isinstance(expr, AffineDimExpr | AffineConstantExpr)


def structured(op: Operation) -> Structured | None:
    """`op` as loops; None where it is none of the ops described above, or works on memrefs."""
    if not op.results or not all(is_tensor(result.type) for result in op.results):
        return None
    if isinstance(op, LinalgStructuredOperation):
        return _linalg(op)
    if isinstance(op, BroadcastOp | ReduceOp):
        return _named(op)
    if isinstance(op, ELEMENTWISE):
        return _elementwise(op)
    return _tosa(op)


def _linalg(op: LinalgStructuredOperation) -> Structured | None:
    maps = tuple(tuple(attr.data.results) for attr in op.get_indexing_maps())
    iterators = [attr.data for attr in op.get_iterator_types()]
    first = len(op.inputs)
    if len(op.results) != len(maps) - first:
        return None
    init = tuple(range(first, len(maps)))
    reductions = frozenset(k for k, iterator in enumerate(iterators) if iterator is not IteratorType.PARALLEL)
    block = op.body.block
    run = partial(_run, block)
    return Structured(op, maps, maps[first:], reductions, run, init, block=block)


def _run(block: Block, args: Sequence[Value], index: Sequence[Value]) -> list[Value]:
    return evaluate(block, args, index=index)


def _named(op: BroadcastOp | ReduceOp) -> Structured:
    """linalg.broadcast and linalg.reduce, which have dimensions in place of indexing maps."""
    dims = set(op.dimensions.get_values())
    rank = len(shape(op.operands[1] if isinstance(op, BroadcastOp) else op.operands[0]))
    whole = tuple(AffineExpr.dimension(d) for d in range(rank))
    part = tuple(AffineExpr.dimension(d) for d in range(rank) if d not in dims)
    if isinstance(op, BroadcastOp):
        return Structured(op, (part, whole), (whole,), frozenset(), lambda a, i: [a[0]], (1,))
    block = op.region.block
    # The body of linalg.reduce takes (element, accumulator).
    return Structured(op, (whole, part), (part,), frozenset(dims), partial(_run, block), (1,), block=block)


ELEMENTWISE: tuple[type[Operation], ...] = (
    *FUNCTIONS,
    *CASTS,
    *COMPARISONS,
    arith.CeilDivUIOp,
    arith.SelectOp,
)
"""Ops of arith and math, which take tensors as well as scalars."""


def _elementwise(op: Operation) -> Structured | None:
    """An op of arith or math on whole tensors."""
    identity = tuple(AffineExpr.dimension(d) for d in range(len(shape(op.results[0]))))
    maps = tuple(identity if is_tensor(value.type) else () for value in op.operands)
    one_type = not isinstance(op, CASTS)
    return Structured(
        op,
        maps,
        (identity,),
        frozenset(),
        lambda a, i: [apply(op, a)],
        (None,),
        one_type,
        function=known_as(op),
    )


# tosa ----------------------------------------------------------------------------------------------------------------

_TOSA: dict[str, type[Operation] | tuple[type[Operation] | None, type[Operation] | None]] = {
    "tosa.abs": (math.AbsFOp, math.AbsIOp),
    "tosa.add": (arith.AddfOp, arith.AddiOp),
    "tosa.bitwise_and": (None, arith.AndIOp),
    "tosa.bitwise_or": (None, arith.OrIOp),
    "tosa.bitwise_xor": (None, arith.XOrIOp),
    "tosa.ceil": (math.CeilOp, None),
    "tosa.cos": (math.CosOp, None),
    "tosa.erf": (math.ErfOp, None),
    "tosa.exp": (math.ExpOp, None),
    "tosa.floor": (math.FloorOp, None),
    "tosa.intdiv": (None, arith.DivSIOp),
    "tosa.log": (math.LogOp, None),
    "tosa.logical_and": (None, arith.AndIOp),
    "tosa.logical_or": (None, arith.OrIOp),
    "tosa.logical_xor": (None, arith.XOrIOp),
    "tosa.maximum": (arith.MaximumfOp, arith.MaxSIOp),
    "tosa.minimum": (arith.MinimumfOp, arith.MinSIOp),
    "tosa.pow": (math.PowFOp, None),
    "tosa.rsqrt": (math.RsqrtOp, None),
    "tosa.sin": (math.SinOp, None),
    "tosa.sub": (arith.SubfOp, arith.SubiOp),
    "tosa.tanh": (math.TanhOp, None),
    "tosa.reduce_sum": (arith.AddfOp, arith.AddiOp),
    "tosa.reduce_product": (arith.MulfOp, arith.MuliOp),
    "tosa.reduce_max": (arith.MaximumfOp, arith.MaxSIOp),
    "tosa.reduce_min": (arith.MinimumfOp, arith.MinSIOp),
}
"""The scalar op (of floats, of integers) that a tosa op applies to each element, or reduces a dim with; None where
it does not take such elements."""

TOSA_STRUCTURED = frozenset(_TOSA) | {"tosa.rescale", "tosa.transpose"}
"""The ops of tosa that are loops, by name; those that xDSL has classes for are among them by their class."""

_START: dict[str, float] = {
    "tosa.reduce_sum": 0.0,
    "tosa.reduce_product": 1.0,
    "tosa.reduce_max": float("-inf"),
    "tosa.reduce_min": float("inf"),
}
"""The initial value of a tosa reduction; an infinity stands for the bound of an integer type."""


def initial_value(op: Operation) -> float | None:
    """The initial value of the reduction `op`, where it is not an operand; infinite for the bound of the type."""
    return _START.get(op.name)


def _tosa(op: Operation) -> Structured | None:
    if op.name == "tosa.transpose":
        return _transpose(op)
    if op.name == "tosa.rescale":
        return _rescale(op)
    known = _tosa_function(op)
    if known is None:
        return None
    function, body = known
    rank = len(shape(op.results[0]))
    loops = tuple(AffineExpr.dimension(d) for d in range(rank))
    if isinstance(op, tosa.ReductionOperation):
        axis = op.axis.value.data
        result = tuple(AffineExpr.constant(0) if d == axis else loop for d, loop in enumerate(loops))
        return Structured(op, (loops,), (result,), frozenset({axis}), body, (None,), function=function)
    maps: list[tuple[AffineExpr, ...]] = []
    for value in op.operands:
        extents = shape(value)
        if len(extents) != rank:  # the shift of tosa.mul
            maps.append(tuple(AffineExpr.constant(0) for _ in extents))
            continue
        wanted = shape(op.results[0])
        maps.append(
            tuple(
                loop if mine == all_ else AffineExpr.constant(0)
                for loop, mine, all_ in zip(loops, extents, wanted, strict=True)
            )
        )
    return Structured(op, tuple(maps), (loops,), frozenset(), body, (None,), function=function)


def _transpose(op: Operation) -> Structured | None:
    """tosa.transpose: dim d of the result is dim perms[d] of the operand."""
    perms = op.properties.get("perms")
    if not isinstance(perms, DenseArrayBase):
        return None
    order: tuple[int, ...] = perms.get_values()  # pyright: ignore
    rank = len(shape(op.results[0]))
    if sorted(order) != list(range(rank)) or len(shape(op.operands[0])) != rank:
        return None
    whole = tuple(AffineExpr.dimension(d) for d in range(rank))
    source = tuple(AffineExpr.dimension(order.index(d)) for d in range(rank))
    return Structured(op, (source,), (whole,), frozenset(), lambda a, i: [a[0]], (None,))


def _rescale(op: Operation) -> Structured | None:
    """tosa.rescale per channel: the last dim chooses multiplier and shift."""
    block = rescale_body(op)
    if block is None:
        return None
    loops = tuple(AffineExpr.dimension(d) for d in range(len(shape(op.results[0]))))
    channel, alone = (loops[-1],), (AffineExpr.constant(0),)
    maps = (loops, channel, channel, alone, alone)
    return Structured(op, maps, (loops,), frozenset(), partial(_run, block), (None,), block=block)


def _tosa_function(op: Operation) -> tuple[type[Operation], Body] | None:
    """The scalar op that a tosa op applies, and the body that does; of a reduction, to (element, accumulator)."""
    if not is_tensor(op.results[0].type):
        return None
    element = tensor_type(op.results[0].type).element_type
    floating = isinstance(element, AnyFloat)
    mode = op.properties.get("nan_mode")
    if not is_number(element) or (isinstance(mode, tosa.NanModeAttr) and mode.data is tosa.NanMode.IGNORE):
        return None
    if isinstance(op, tosa.ClampOp):
        low, high = (_number(op.min_val), _number(op.max_val))
        least, most = (arith.MaximumfOp, arith.MinimumfOp) if floating else (arith.MaxSIOp, arith.MinSIOp)
        return least, lambda a, i: _calls(
            a[0], lambda x: FUNCTIONS[most](FUNCTIONS[least](x, low), high), element
        )
    if isinstance(op, tosa.ReciprocalOp) and floating:
        return arith.DivfOp, lambda a, i: _calls(a[0], lambda x: 1 / x, element)
    if isinstance(op, tosa.MulOp):
        # With a shift, integers are scaled and rounded; only plain products are known here.
        if not floating:
            return None
        return arith.MulfOp, lambda a, i: _scalar(arith.MulfOp, a[:2], element)
    entry = _TOSA.get(op.name)
    function = entry if entry is None or isinstance(entry, type) else entry[0 if floating else 1]
    if function is None:
        return None
    return function, lambda a, i: _scalar(function, a, element)


def _number(attribute: Attribute) -> float:
    assert isinstance(attribute, IntegerAttr | FloatAttr)
    return attribute.value.data


def _calls(x: Value, function: Callable[[Value], Value], element: Attribute) -> list[Value]:
    if x is None:
        return [None]
    with np.errstate(all="ignore"):
        return [rounded_to(function(x), element)]


def _scalar(function: type[Operation], args: Sequence[Value], element: Attribute) -> list[Value]:
    if any(arg is None for arg in args):
        return [None]
    with np.errstate(all="ignore"):
        return [rounded_to(FUNCTIONS[function](*args), element)]
