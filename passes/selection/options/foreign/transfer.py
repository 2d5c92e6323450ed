"""A Format of one tensor, seen through the loops of an op, as a Format of another tensor.

Dims that are the same loop keep their order and blocks: a transposed map transposes the factors, a map that lacks a
loop (a broadcast, a reduction) leaves its factors out. What only the other tensor has takes the place of what it
lacks, first for first, so that the result of a product lies as its left operand does; what is left over goes outermost.
Of a dim with fewer elements than a block of the one whose place it takes, no such block is made: the one image of a
convolution is not laid in blocks of eight because its channels of weights are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.errors import LayoutError

Map = tuple[AffineExpr, ...]


def _keys(exprs: Map, reductions: frozenset[int]) -> list[int | None]:
    """Per dim the loop it is known by: of a window, its parallel loop (where the window starts)."""
    keys: list[int | None] = []
    for expr in exprs:
        loops = sorted(expr.used_dims() - reductions) or sorted(expr.used_dims())
        keys.append(loops[0] if loops else None)
    return keys


def transfer(
    fmt: Format,
    source: Map,
    target: Map,
    reductions: frozenset[int],
    names: Sequence[str],
    extents: Sequence[int],
) -> Format | None:
    """`fmt`, a shape-free Format of a tensor with map `source`, for one with map `target` and `extents`; None where
    there is no such Format."""
    ours, theirs = _keys(source, reductions), _keys(target, reductions)
    where = {loop: dim for dim, loop in enumerate(theirs) if loop is not None}
    missing = [d for d, loop in enumerate(theirs) if loop not in ours and not _is_fixed(target[d])]
    dropped = [d for d, loop in enumerate(ours) if loop not in where and not _is_fixed(source[d])]
    partner = dict(zip(dropped, missing, strict=False))

    def moved(factors: Sequence[Factor]) -> Iterator[Factor]:
        for factor in factors:
            loop = ours[factor.dim]
            dim = where[loop] if loop in where else partner.get(factor.dim)
            if dim is not None and (loop in where or factor.size is None or factor.size <= extents[dim]):
                yield replace(factor, dim=dim)

    inner = tuple(moved(fmt.factors))
    chunk = tuple(moved(fmt.chunk_factors))
    placed = {factor.dim for factor in (*inner, *chunk) if factor.size is None}
    rest = tuple(Factor(dim) for dim in range(len(target)) if dim not in placed)
    try:
        return Format(tuple(names), (*rest, *inner), chunk, fmt.pad)
    except LayoutError:
        return None


def _is_fixed(expr: AffineExpr) -> bool:
    return isinstance(expr, AffineConstantExpr)
