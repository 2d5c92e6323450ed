"""Generics that are named ops: those whose loops read and write what a named op reads and writes.

The table is that of the dialect (`dialects/upstream/linalg_named.py`), which states each named op by the loops of its
dims, windows as sums of loops whose factors are strides and dilations. A generic is that op where its indexing maps are
those of the row for some naming of its loops, and its body is that of the op. A loop of one position may be missing, as
a tap of a 1x1 kernel is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from xdsl.dialects.builtin import DenseIntElementsAttr, ModuleOp, TensorType, i64
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.rewriter import Rewriter

from layout_ir.dialects.upstream.linalg_named import NAMED_OPS, Row, RowOp
from layout_ir.errors import LayoutError


@cache
def _candidates() -> tuple[tuple[type[RowOp], Row], ...]:
    """Products, convolutions and pools of two operands."""
    classes = [op for op in NAMED_OPS if issubclass(op, RowOp)]
    return tuple((op, op.ROW) for op in classes if len(op.ROW.operands) == 3 and "-" not in op.ROW.operands)


def name_generics(module: ModuleOp) -> None:
    """Replaces every generic that is a named op by it, in place."""
    for op in list(module.walk()):
        if isinstance(op, GenericOp) and len(op.results) == 1 and len(op.inputs) == 2:
            for candidate, row in _candidates():
                factors = _matched(op, row)
                new = None if factors is None else _named(op, candidate, row, factors)
                if new is not None:
                    Rewriter.replace_op(op, new)
                    break


def _named(
    op: GenericOp, candidate: type[RowOp], row: Row, factors: tuple[list[int], list[int]]
) -> RowOp | None:
    """The named op; None where its body is another one than that of `op`."""
    windows: dict[str, Any] = {}
    if row.windows:
        windows = {
            name: DenseIntElementsAttr.from_list(TensorType(i64, [len(values)]), values)
            for name, values in zip(("strides", "dilations"), factors, strict=True)
        }
    elif any(factor != 1 for side in factors for factor in side):
        return None
    try:
        new = candidate(list(op.inputs), list(op.outputs), [op.results[0].type], **windows)
    except LayoutError:
        return None  # the body of the row is not defined on these elements: unsigned integers are not floats
    if not _is_same_code(op.body.block, new.body.block):
        new.erase()
        return None
    new.location = op.location
    new.results[0].name_hint = op.results[0].name_hint
    return new


def _matched(op: GenericOp, row: Row) -> tuple[list[int], list[int]] | None:
    """Strides and dilations with which the loops of `op` are those of the row; None where they are not."""
    maps = [list(attr.data.results) for attr in op.indexing_maps.data]
    dims = [[text.split("+") for text in part.split()] for part in row.operands]
    if [len(part) for part in dims] != [len(exprs) for exprs in maps]:
        return None
    loops: dict[str, int | None] = {}
    factors: dict[str, int] = {}
    # The result and the kernel say which loop is which; the windows come last.
    for position in sorted(range(len(dims)), key=lambda k: any(len(names) > 1 for names in dims[k])):
        extents = cast("TensorType[Attribute]", op.operands[position].type).get_shape()
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
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul, lhs=lhs, rhs=AffineConstantExpr(value=factor)):
            inner = _terms(lhs)
            return None if inner is None or factor < 1 else {k: v * factor for k, v in inner.items()}
        case _:
            return None


def _is_same_code(block: Block, other: Block) -> bool:
    """Whether two bodies are the same ops on the same operands; sums and the like in either order."""
    same: dict[SSAValue, SSAValue] = dict(zip(block.args, other.args, strict=True))
    ops, others = list(block.ops), list(other.ops)
    if len(ops) != len(others) or any(a.type != b.type for a, b in same.items()):
        return False
    for a, b in zip(ops, others, strict=True):
        mapped = [same.get(x) for x in a.operands]
        commutes = a.name in _COMMUTATIVE and mapped[::-1] == list(b.operands)
        if a.name != b.name or not (mapped == list(b.operands) or commutes) or _kind(a) != _kind(b):
            return False
        same |= dict(zip(a.results, b.results, strict=True))
    return True


_COMMUTATIVE = {
    f"arith.{name}" for name in ("addf", "addi", "mulf", "muli", "maximumf", "minimumf", "maxsi", "maxui")
}


def _kind(op: Operation) -> list[Attribute]:
    return [result.type for result in op.results]
