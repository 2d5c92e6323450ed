"""Options of matrix products: which Formats of the operands and the result a library's kernel takes.

strided    every dim at one stride, batches at any, and of the two dims that multiply one at stride 1: row-major,
           transposed, and a part of a larger matrix (heads of an attention layer, say). BLAS and oneDNN take these
           for all three matrices, and copy panels of the right one into the order they like.
panels     the right operand in that order already, (k, n) : [n, k, n:16], where the target has such kernels. A
           constant is brought into it when the program is built, and the copy is saved.
any K      a product sums over K, so K may run in the order in which the left operand happens to lie, if the right
           one is packed the same way. That is what lets a blocked activation be flattened into a fully connected
           layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.factors import BoundFactor, Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.dialects import nn
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.selection.options.conv_kernels import Target
from layout_ir.passes.selection.options.tensor_formats import Candidates, bound, nbytes, row_major, shape_of

_TRIED = 4
"""How many strided Formats of a tensor are in options, row-major first: options are all combinations of three."""


def gemm_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """Strided matrices, a right one in panels, and K in any order that both agree on."""
    assert isinstance(op, nn.GemmOp)
    a, b = op.operands[:2]
    n = shape_of(op.result)[1]
    k = shape_of(a)[0 if op.trans_a else 1]
    rest = tuple(row_major(value) for value in op.operands[2:])
    yield from _products(op, candidates, target, columns=0 if op.trans_b else 1)
    if op.trans_a:
        return
    m = shape_of(op.result)[0]
    for fmt in candidates(a):
        left = bound(fmt, a)
        for panel in (0, target.panel) if target.panel else (0,):
            right = None if left is None else _matching_right(left, n, k, panel, transposed=op.trans_b)
            if right is not None:
                cost = _cost((m, -(-n // panel) * panel if panel else n), k, target)
                cost += 0 if panel else target.rates.stream(nbytes(row_major(b), b))
                yield LayoutOption((fmt, right, *rest), (row_major(op.result),), cost)


def matmul_options(op: Operation, candidates: Candidates, target: Target) -> Iterator[LayoutOption]:
    """Strided matrices, and a right one in panels."""
    yield from _products(op, candidates, target, columns=len(shape_of(op.operands[1])) - 1)


def _products(op: Operation, candidates: Candidates, target: Target, columns: int) -> Iterator[LayoutOption]:
    """Strided matrices, and a right one in panels; `columns` is the dim of the right operand that the result has
    too."""
    a, b, y = op.operands[0], op.operands[1], op.results[0]
    rest = tuple(row_major(value) for value in op.operands[2:])
    shape, right = shape_of(y), shape_of(b)
    k = right[0] if len(right) == 1 else right[2 * len(right) - 3 - columns]
    tried = [_strided(value, candidates) for value in (a, b, y)]
    for left_format, right_format, out in product(*tried):
        cost = _cost(shape, k, target) + target.rates.stream(nbytes(right_format, b))
        yield LayoutOption((left_format, right_format, *rest), (out,), cost)
    if target.panel and len(right) > 1:
        panels = _panels(row_major(b), columns, target.panel)
        width = -(-shape[-1] // target.panel) * target.panel
        for left_format, out in product(tried[0], tried[2]):
            yield LayoutOption((left_format, panels, *rest), (out,), _cost((*shape[:-1], width), k, target))


def _cost(shape: tuple[int, ...], k: int, target: Target) -> int:
    return target.rates.product(2 * prod(shape) * k)


def _strided(value: SSAValue, candidates: Candidates) -> list[Format]:
    """Row-major, and the Formats known for `value` that a strided kernel takes."""
    known = [fmt for fmt in candidates(value) if _is_strided(bound(fmt, value))]
    return list(dict.fromkeys((row_major(value), *known)))[:_TRIED]


def _is_strided(layout: Layout | None) -> bool:
    if layout is None or layout.is_padded or layout.chunk_rank or layout.swizzle is not None:
        return False
    digits = [[digit for digit in own if digit.count > 1] for own in layout.digits]
    inner = [own[0].stride for own in digits[-2:] if own]
    return all(len(own) < 2 for own in digits) and min(inner, default=1) == 1


def _panels(fmt: Format, columns: int, width: int) -> Format:
    """`fmt` in panels of `width` columns, one after the other, batches outermost."""
    order = (*range(fmt.rank - 2), columns, 2 * fmt.rank - 3 - columns)
    return Format(fmt.names, (*(Factor(dim) for dim in order), Factor(columns, width)))


def _matching_right(left: Layout, n: int, k: int, panel: int, *, transposed: bool) -> Format | None:
    """The Format of the right operand whose K runs as that of `left` (M, K) does; None where K is not dense there.

    In panels of so many columns, unless `panel` is 0.
    """
    factors = [f for f in left.factors if f.dim == 1]
    if left.padded_shape[1] != k or left.chunk_rank or len(factors) < 2:
        return None
    running = 1
    for factor in sorted(factors, key=lambda f: f.stride):
        if factor.count > 1 and factor.stride != running:
            return None
        running *= factor.count
    own, other = (1, 0) if transposed else (0, 1)
    names, shape = ("n", "k") if transposed else ("k", "n"), (n, k) if transposed else (k, n)
    width = panel or 1
    inner = (BoundFactor(other, panel, 1),) if panel else ()
    along = tuple(replace(f, dim=own, stride=f.stride * width) for f in factors)
    bound_factors = (BoundFactor(other, -(-n // width), k * width), *along, *inner)
    return Layout(names, shape, bound_factors, (0, 0)).format
