"""From two layouts of one shape to the loops that copy between them.

Per dim, both layouts are digit lists. Where their units form one chain of divisors there are loops with constant
strides on both sides, and the union of the two canonical chains is the coarsest choice. Where two units conflict
(8 against 12) no such loop exists; then one loop over a table of offset pairs covers the least common multiple, and
loops with constant strides go on above it.

    8 against 12 on 48:    for i in 0..4 (1, 1), for k in table of 6, for j in 0..2

Everything is per dim and independent of the number of elements. What a compiler makes of it (order, tiles, vector
kernels) is decided elsewhere; `Nest.offsets` says what it means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd, lcm, prod
from operator import index
from typing import TYPE_CHECKING

from layout_ir.algebra.canonical import canonical_digits
from layout_ir.algebra.factors import MEMORY
from layout_ir.algebra.layout import Layout, check_layouts
from layout_ir.algebra.steps import Steps, UnitStride, fit
from layout_ir.argument_checks import checked_integers
from layout_ir.errors import LayoutError, public

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


TABLE_LIMIT = 1 << 16
"""Entries of a table. With an offset of 8 bytes for each side it fills the L2 of a common machine; a
larger one would be read from memory as often as the tensor itself, and takes a second to write down."""


class _TableTooLarge(Exception):
    def __init__(self, entries: int):
        self.entries = entries


@dataclass(frozen=True, slots=True)
class StridedLoop:
    """A loop with constant strides: `count` steps of `unit` indices, each `src` and `dst` elements from the last."""

    unit: int
    count: int
    src: int
    dst: int


@dataclass(frozen=True, slots=True)
class TableLoop:
    """One step of `unit` indices per entry; entry k lies at src[k] and dst[k] elements from the loop's base."""

    unit: int
    src: tuple[int, ...]
    dst: tuple[int, ...]

    @property
    def count(self) -> int:
        """Steps of the loop: the entries of the table."""
        return len(self.src)


@dataclass(frozen=True, slots=True)
class Blocks:
    """A run of `count` full blocks of `unit` indices each, from index `start` on."""

    start: int
    count: int
    unit: int


@public
def peel(extent: int, units: Sequence[int]) -> tuple[Blocks, ...]:
    """[0, extent) as disjoint runs of full blocks, largest first: the mixed-radix expansion of `extent`.

    `units` are those of the loops; at most one run per unit is needed, so that a guard inside a block is never.
    Requires units that divide each other. Ensures disjoint runs that cover [0, extent). Raises LayoutError otherwise.

    >>> peel(17, (1, 8))
    (Blocks(start=0, count=2, unit=8), Blocks(start=16, count=1, unit=1))
    >>> [(run.count, run.unit) for run in peel(50, (1, 4, 32))]
    [(1, 32), (4, 4), (2, 1)]
    """
    (extent,), units = checked_integers("extent", (extent,)), checked_integers("units", units)
    if extent < 0:
        raise LayoutError(f"extent {extent} is negative")
    chain = sorted({1, *units})
    if chain[0] < 1 or any(b % a for a, b in pairwise(chain)):
        raise LayoutError(
            f"units {list(units)} do not divide each other: blocks of one unit would not fill the next"
        )
    runs: list[Blocks] = []
    start = 0
    for unit in reversed(chain):
        count = (extent - start) // unit
        if count:
            runs.append(Blocks(start, count, unit))
            start += count * unit
    return tuple(runs)


@dataclass(frozen=True, slots=True)
class DimNest:
    """The loops over one dim, fine to coarse.

    They run over positions [0, total): the positions [low, low + extent) are elements, the others are pads of the
    destination (none where its policy is undef). The loops together may cover more than `total`; only the outermost
    may have its last block cut short.
    """

    loops: tuple[StridedLoop | TableLoop, ...]
    extent: int
    total: int
    low: int = 0

    @property
    def covered(self) -> int:
        """Positions the loops run over without the cut."""
        return prod(loop.count for loop in self.loops)

    @property
    def units(self) -> tuple[int, ...]:
        """The unit of every loop, fine to coarse."""
        return tuple(loop.unit for loop in self.loops)

    def peel(self) -> tuple[Blocks, ...]:
        """The positions of elements, [0, extent), as runs of full blocks of the loops' units; see `peel`."""
        return peel(self.extent, self.units)


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops for every dim, with the addresses (elements) of position 0 on both sides.

    `src_base` may lie outside the source where the first position is a pad; it is then never read.
    """

    shape: tuple[int, ...]
    dims: tuple[DimNest, ...]
    src_base: int
    dst_base: int

    def offsets(self, dim: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and destination offsets of positions [0, total) of `dim`: what its loops compute."""
        import numpy as np

        nest = self.dims[dim]
        src = np.zeros(1, np.int64)
        dst = np.zeros(1, np.int64)
        for loop in nest.loops:
            if isinstance(loop, TableLoop):
                s, t = np.array(loop.src, np.int64), np.array(loop.dst, np.int64)
            else:
                steps = np.arange(loop.count, dtype=np.int64)
                s, t = steps * loop.src, steps * loop.dst
            src, dst = (s[:, None] + src).ravel(), (t[:, None] + dst).ravel()
        return src[: nest.total], dst[: nest.total]


@public
def refine(src: Layout, dst: Layout) -> Nest:
    """The coarsest loops that copy a tensor from `src` to `dst` and write the pads that `dst` promises.

    Requires equal shapes, strides only (no swizzle, no other axis than memory), and a destination that has an address
    for each element (and for each pad that it promises) alone. Ensures that position y of dim d lies `offsets(d)[.][y]`
    elements from either base, that the loops reach the pads of `dst` exactly where its policy is not undef, and that no
    two neighbouring loops are one. Raises LayoutError otherwise, and where a table would exceed `TABLE_LIMIT`.

    >>> refine(Format.from_tag("ab").bind((2, 17)), Format.from_tag("aB8b").bind((2, 17))).dims[1]
    DimNest(loops=(StridedLoop(unit=1, count=24, src=1, dst=1),), extent=17, total=24, low=0)
    """
    check_layouts(src, dst)
    if src.shape != dst.shape:
        raise LayoutError(f"a reorder keeps the shape: source has {src.shape}, destination has {dst.shape}")
    for side, layout in (("source", src), ("destination", dst)):
        if layout.swizzle is not None:
            raise LayoutError(
                f"the {side} {layout.format} has a swizzle, which a loop nest with strides cannot follow"
            )
        if any(f.axis != MEMORY for f in layout.factors):
            raise LayoutError(f"the {side} {layout.format} has places on other axes than memory")
    alone = dst.is_injective(padded=dst.pad != "undef")
    if not alone:
        keeps = "may keep" if alone is None else "keeps"
        raise LayoutError(f"the destination {dst.format} {keeps} several elements at one address")
    dims: list[DimNest] = []
    src_base, dst_base = src.offset, dst.offset
    for dim in range(src.rank):
        try:
            nest, src_shift, dst_shift = _dim_nest(src, dst, dim)
        except _TableTooLarge as error:
            blocks = " and ".join(
                f"{', '.join(str(d.unit) for d in side.digits[dim][1:]) or '1'}"
                f"{f' behind {side.lo[dim]} pads' if side.lo[dim] else ''} in the {where}"
                for where, side in (("source", src), ("destination", dst))
            )
            raise LayoutError(
                f"dim '{src.names[dim]}' has blocks of {blocks}, which do not fit into one another: "
                f"a table of {error.entries} offsets would be needed, and one has at most {TABLE_LIMIT}"
            ) from error
        dims.append(nest)
        src_base += src_shift
        dst_base += dst_shift
    return Nest(src.shape, tuple(dims), src_base, dst_base)


def _dim_nest(src: Layout, dst: Layout, dim: int) -> tuple[DimNest, int, int]:
    """The loops of one dim, and how far position 0 lies from each side's offset."""
    extent = src.shape[dim]
    fills = dst.pad != "undef"
    if src.lo[dim] == 0 and dst.lo[dim] == 0:
        total = dst.padded_shape[dim] if fills else extent
        a = canonical_digits(src.digits[dim], extent)
        b = canonical_digits(dst.digits[dim], total)
        return DimNest(_common_loops(a, b, total), extent, total), 0, 0
    if extent == 0:
        return DimNest((), 0, 0), 0, 0
    # A phase on either side. Position y of the loops is `at_src` + y in the digits of the source (it may lie before
    # them, where pads are in front; it is then never read) and `at_dst` + y in those of the destination.
    low = dst.lo[dim] if fills else 0
    total = dst.padded_shape[dim] if fills else extent
    at_src, at_dst = src.lo[dim] - low, 0 if fills else dst.lo[dim]
    a, b = (canonical_digits(side.digits[dim], side.padded_shape[dim]) for side in (src, dst))
    shifts = _evaluate(a, at_src), _evaluate(b, at_dst)
    # A phase moves a single stride as a whole.
    if len(a) <= 1 and (len(b) <= 1 or at_dst == 0):
        return DimNest(_common_loops(a, b, total), extent, total, low), *shifts
    # Which digits the window reaches, and where their blocks begin in it, is a question of numbers.
    extent, total, low, at_src, at_dst = map(index, (extent, total, low, at_src, at_dst))
    reached = fit(Steps.of_terms(a, extent, src.lo[dim]))
    if reached is not None and len(reached) <= 1:
        # With pads in front a single stride extends to negative indices.
        step = reached[0][1] if reached else 0
        shifts = _evaluate(a, src.lo[dim]) - low * step, shifts[1]
        a, at_src = ((1, step),), 0
    fitted = [fit(Steps.of_terms(terms, total, at)) for terms, at in ((a, at_src), (b, at_dst))]
    if fitted[0] is not None and fitted[1] is not None:
        return DimNest(_common_loops(fitted[0], fitted[1], total), extent, total, low), *shifts
    return DimNest(_phased_loops(a, at_src, b, at_dst, total), extent, total, low), *shifts


def _phased_loops(
    a: tuple[UnitStride, ...], at_a: int, b: tuple[UnitStride, ...], at_b: int, total: int
) -> tuple[StridedLoop | TableLoop, ...]:
    """Loops over [0, total) where position y is at_a + y in the digits `a` and at_b + y in `b`.

    A table holds one period, above which both sides are digits; all positions, where there is no such period. Inside
    the entries of the table both sides have a single stride.
    """
    sides = ((a, at_a), (b, at_b))
    inner = gcd(*(number for terms, at in sides for unit, _ in terms[1:] for number in (unit, at)))
    rounds = sorted({lcm(u, v) for u, _ in a for v, _ in b})
    for outer in (unit for unit in rounds if unit % inner == 0 and inner < unit < total):
        above = [_above(terms, at, outer, -(-total // outer)) for terms, at in sides]
        if above[0] is not None and above[1] is not None:
            coarse = _common_loops(above[0], above[1], -(-total // outer))
            break
    else:
        outer, coarse = -(-total // inner) * inner, ()
    entries = outer // inner
    if entries > TABLE_LIMIT:
        raise _TableTooLarge(entries)
    src, dst = (
        tuple(_evaluate(terms, at + k * inner) - _evaluate(terms, at) for k in range(entries))
        for terms, at in sides
    )
    fine = (StridedLoop(1, inner, *(_evaluate(terms, at + 1) - _evaluate(terms, at) for terms, at in sides)),)
    return (
        *(fine if inner > 1 else ()),
        TableLoop(inner, src, dst),
        *(replace(loop, unit=loop.unit * outer) for loop in coarse),
    )


def _above(terms: tuple[UnitStride, ...], at: int, unit: int, count: int) -> tuple[UnitStride, ...] | None:
    """The digits of k -> what `terms` say of at + k * unit, if nothing carries inside a block of `unit`; else None."""
    if any(u % unit or at % unit for u, _ in terms if unit % u):
        return None
    return fit(Steps.strided(terms, count, at, unit))


def _common_loops(
    a: tuple[UnitStride, ...], b: tuple[UnitStride, ...], total: int
) -> tuple[StridedLoop | TableLoop, ...]:
    """Loops over [0, total) that are linear in both digit lists, with tables where units conflict."""
    if total <= 1:
        return ()
    units_a, units_b = [u for u, _ in a], [u for u, _ in b]
    loops: list[StridedLoop | TableLoop] = []
    unit = 1
    while unit < total:
        above = [next((u for u in units if u > unit), None) for units in (units_a, units_b)]
        known = sorted(u for u in above if u is not None)
        if not known:
            loops.append(_linear(a, b, unit, -(-total // unit)))
            break
        if len(known) == 1 or known[1] % known[0] == 0:
            step = known[0]
            loops.append(_linear(a, b, unit, step // unit))
            unit = step
            continue
        inner = gcd(*known)
        if inner > unit:
            loops.append(_linear(a, b, unit, inner // unit))
        outer = lcm(*known)
        # Units inside the table's reach that do not divide it would conflict again one level up.
        while clash := [u for u in (*units_a, *units_b) if u < total and outer % u and u % outer]:
            outer = lcm(outer, clash[0])
        entries = min(outer, -(-total // inner) * inner) // inner
        if entries > TABLE_LIMIT:
            raise _TableTooLarge(int(entries))
        steps = [k * inner for k in range(entries)]
        loops.append(
            TableLoop(inner, tuple(_evaluate(a, x) for x in steps), tuple(_evaluate(b, x) for x in steps))
        )
        unit = outer
    return tuple(loops)


def _linear(a: tuple[UnitStride, ...], b: tuple[UnitStride, ...], unit: int, count: int) -> StridedLoop:
    return StridedLoop(unit, count, _evaluate_step(a, unit), _evaluate_step(b, unit))


def _evaluate_step(terms: tuple[UnitStride, ...], unit: int) -> int:
    """How far one step of `unit` moves, inside the digit that holds it."""
    best = 0
    for u, stride in terms:
        if u <= unit:
            best = stride * (unit // u)
    return best


def _evaluate(terms: tuple[UnitStride, ...], x: int) -> int:
    """The function of canonical digits at x."""
    total = 0
    for k, (unit, stride) in enumerate(terms):
        digit = x // unit
        if k + 1 < len(terms):
            digit %= terms[k + 1][0] // unit
        total += digit * stride
    return total
