"""Generics that are named ops: those whose loops read and write what a named op reads and writes.

The table states each named op in the notation of contractions, its windows as sums of loops whose factors are strides
and dilations. A generic is that op where its indexing maps are those of the notation for some naming of its loops, and
its body is the one of the op. A loop of one position may be missing, as a tap of a 1x1 kernel is.

Only generics of one element type: in xDSL, named ops of floats extend no operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntElementsAttr, ModuleOp, TensorType, i64
from xdsl.dialects.linalg.ops import (
    Conv2DNchwFchwOp,
    Conv2DNgchwGfchwOp,
    Conv2DNhwc_FhwcOp,
    Conv2DNhwc_HwcfOp,
    GenericOp,
    MatmulOp,
    PoolingNchwMaxOp,
    YieldOp,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.rewriter import Rewriter


@dataclass(frozen=True, slots=True)
class NamedOp:
    """A named op of linalg: what it reads and writes, and what it does with that."""

    op: type[Operation]
    notation: str
    body: str
    """The names of the ops of the body, which ends in the yield of the last one."""
    has_windows: bool = True

    @property
    def dims(self) -> list[list[list[str]]]:
        """Per operand, the result last, per dim the loops that are added up."""
        sources, target = self.notation.split("->")
        return [
            [text.split("+") for text in part.split()] for part in (*sources.split(","), target)
        ]


_PRODUCT, _MAXIMUM = "arith.mulf arith.addf", "arith.maximumf"

NAMED_OPS = (
    NamedOp(MatmulOp, "m k, k n -> m n", _PRODUCT, has_windows=False),
    NamedOp(Conv2DNchwFchwOp, "n c oh+kh ow+kw, f c kh kw -> n f oh ow", _PRODUCT),
    NamedOp(Conv2DNhwc_HwcfOp, "n oh+kh ow+kw c, kh kw c f -> n oh ow f", _PRODUCT),
    NamedOp(Conv2DNhwc_FhwcOp, "n oh+kh ow+kw c, f kh kw c -> n oh ow f", _PRODUCT),
    NamedOp(Conv2DNgchwGfchwOp, "n g c oh+kh ow+kw, g f c kh kw -> n g f oh ow", _PRODUCT),
    NamedOp(PoolingNchwMaxOp, "n c oh+kh ow+kw, kh kw -> n c oh ow", _MAXIMUM),
)


def name_generics(module: ModuleOp) -> None:
    """Replaces every generic that is a named op by it, in place."""
    for op in list(module.walk()):
        if isinstance(op, GenericOp) and len(op.results) == 1:
            for named in NAMED_OPS:
                factors = _matched(op, named)
                if factors is not None:
                    _replace(op, named, factors)
                    break


def _replace(op: GenericOp, named: NamedOp, factors: tuple[list[int], list[int]]) -> None:
    windows: dict[str, Any] = {}
    if named.has_windows:
        # Strides and dilations are tensors of as many numbers as there are spatial dims.
        windows = {
            name: DenseIntElementsAttr.from_list(TensorType(i64, [len(values)]), values)
            for name, values in zip(("strides", "dilations"), factors, strict=True)
        }
    new = cast(Any, named.op)(list(op.inputs), list(op.outputs), [op.results[0].type], **windows)
    new.location = op.location
    new.results[0].name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, new)


def _matched(op: GenericOp, named: NamedOp) -> tuple[list[int], list[int]] | None:
    """Strides and dilations with which `op` is the named op; None where it is not."""
    elements = {_type(value).element_type for value in op.operands}
    if len(elements) != 1 or _body(op) != named.body:
        return None
    maps = [list(attr.data.results) for attr in op.indexing_maps.data]
    dims = named.dims
    if [len(part) for part in dims] != [len(exprs) for exprs in maps]:
        return None
    loops: dict[str, int | None] = {}
    factors: dict[str, int] = {}
    # The result and the kernel say which loop is which; the windows come last.
    for position in sorted(range(len(dims)), key=lambda k: any(len(names) > 1 for names in dims[k])):
        extents = _type(op.operands[position]).get_shape()
        for names, expr, extent in zip(dims[position], maps[position], extents, strict=True):
            if not _unify(names, expr, extent, loops, factors):
                return None
    bound = [loop for loop in loops.values() if loop is not None]
    if len(set(bound)) != len(bound) or len(bound) != op.indexing_maps.data[0].data.num_dims:
        return None
    windows = [names for part in dims for names in part if len(names) > 1]
    return [factors.get(outer, 1) for outer, _ in windows], [factors.get(tap, 1) for _, tap in windows]


def _unify(
    names: Sequence[str], expr: AffineExpr, extent: int, loops: dict[str, int | None], factors: dict[str, int]
) -> bool:  # fmt: skip
    """Whether `expr` is the sum of the loops `names`; names that are new are bound, windows give factors."""
    terms = _terms(expr)
    if terms is None:
        return False
    if len(names) == 1:
        if any(factor != 1 for factor in terms.values()) or len(terms) > 1 or (not terms and extent != 1):
            return False
        loop = next(iter(terms), None)
        return loops.setdefault(names[0], loop) == loop
    for name in names:
        loop = loops.get(name)
        if loop is not None:
            if loop not in terms:
                return False
            factors[name] = terms.pop(loop)
    return not terms


def _terms(expr: AffineExpr) -> dict[int, int] | None:
    """Loops and their factors; None where it is no sum of loops, or starts elsewhere than at 0."""
    match expr:
        case AffineDimExpr():
            return {expr.position: 1}
        case AffineConstantExpr():
            return {} if expr.value == 0 else None
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add, lhs=lhs, rhs=rhs):
            left, right = _terms(lhs), _terms(rhs)
            if left is None or right is None or left.keys() & right.keys():
                return None
            return left | right
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul, lhs=lhs, rhs=AffineConstantExpr(factor)):
            inner = _terms(lhs)
            return None if inner is None or factor < 1 else {k: v * factor for k, v in inner.items()}
        case _:
            return None


def _body(op: GenericOp) -> str | None:
    """The names of the ops of the body; None where they do not fold the operands into the value so far."""
    *ops, end = op.body.block.ops
    if not ops or not isinstance(end, YieldOp) or list(end.operands) != [ops[-1].results[0]]:
        return None
    args: Sequence[SSAValue] = op.body.block.args
    fold = set(ops[-1].operands)
    if isinstance(ops[0], arith.MulfOp) and len(ops) == 2:
        known = set(ops[0].operands) == set(args[:2]) and fold == {args[-1], ops[0].results[0]}
    else:
        known = len(ops) == 1 and fold == {args[0], args[-1]}
    return " ".join(each.name for each in ops) if known else None


def _type(value: SSAValue) -> TensorType[Attribute]:
    return cast("TensorType[Attribute]", value.type)
