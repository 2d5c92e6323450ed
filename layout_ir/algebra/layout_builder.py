"""A bound layout with one dim changed, which is what views are made of.

A *chain* is the factors of one dim, coarse to fine. Each function gives a new Layout or chain and leaves the old alone;
none checks that the result is what its caller promised, which is for the views to see to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from layout_ir.algebra.canonical import position_value
from layout_ir.algebra.factors import MEMORY, BoundFactor
from layout_ir.algebra.steps import Steps, UnitStride, fit_phased

if TYPE_CHECKING:
    from layout_ir.algebra.layout import Layout


def on_axes(layout: Layout, dim: int) -> bool:
    """Whether `dim` has digits on other axes than memory."""
    return any(d.axis != MEMORY and d.count > 1 for d in layout.digits[dim])


def with_low(layout: Layout, dim: int, low: int) -> Layout:
    """`layout` with `low` pads in front of `dim`: index 0 is position `low` of its digits."""
    return replace(layout, lo=tuple(low if d == dim else old for d, old in enumerate(layout.lo)))


def with_top(layout: Layout, dim: int, count: int) -> Layout:
    """`layout` with `count` values in the most significant digit of `dim`."""
    factors = list(layout.factors)
    at = next(k for k, f in enumerate(factors) if f.dim == dim)
    factors[at] = replace(factors[at], count=count)
    return replace(layout, factors=tuple(factors), chunk_rank=min(layout.chunk_rank, len(factors) - at - 1))


def with_terms(layout: Layout, dim: int, terms: Sequence[UnitStride]) -> Layout:
    """`layout` with the digits of `dim` replaced by canonical `terms`, in memory order by falling stride."""
    chains = chains_of(layout)
    chains[dim] = counted(terms, layout.shape[dim], dim)
    return replace(layout, factors=ordered(chains), chunk_rank=0)


def with_steps(layout: Layout, dim: int, first: int, steps: Steps) -> Layout | None:
    """`layout` with addresses along `dim` that begin at `first` and go on by `steps`; None: no digits.

    `first` is relative to the layout's offset. The extent of `dim` becomes the number of indices of `steps`. Pads along
    `dim` may appear (digits that are cut short), so the caller decides on the policy.
    """
    found = fit_phased(steps)
    if found is None:
        return None
    low, terms = found
    shape = tuple(steps.count if d == dim else extent for d, extent in enumerate(layout.shape))
    chains = chains_of(layout)
    chains[dim] = counted(terms, low + steps.count, dim)
    result = with_low(replace(layout, shape=shape, factors=ordered(chains), chunk_rank=0), dim, low)
    return replace(result, offset=layout.offset + first - position_value(result, dim, low))


def counted(terms: Sequence[UnitStride], extent: int, dim: int) -> list[BoundFactor]:
    """The chain of `dim`, `extent` indices whose canonical digits are `terms`; without any, one factor of stride 0."""
    if not terms:
        return [BoundFactor(dim, extent, 0 if extent != 1 else 1)]
    units = [unit for unit, _ in terms]
    counts = [b // a for a, b in pairwise(units)] + [-(-extent // units[-1])]
    return [BoundFactor(dim, n, s) for n, (_, s) in zip(counts, terms, strict=True)][::-1]


def chains_of(layout: Layout) -> list[list[BoundFactor]]:
    """The chain of each dim."""
    chains: list[list[BoundFactor]] = [[] for _ in layout.shape]
    for factor in layout.factors:
        chains[factor.dim].append(factor)
    return chains


def ordered(chains: list[list[BoundFactor]]) -> tuple[BoundFactor, ...]:
    """All factors by falling stride, as far as the significance inside each dim allows."""
    rest = [list(chain) for chain in chains]
    result: list[BoundFactor] = []
    while any(rest):
        heads = [chain for chain in rest if chain]
        best = max(heads, key=lambda chain: abs(chain[0].stride))
        result.append(best.pop(0))
    return tuple(result)
