"""The loops over the indices that several tensors share, however each of them lies.

Where a tensor has the element of an index is a sum with one term per dim (`Layout.offsets`), so a dim is known by the
offsets of its indices in each tensor. Where neighbours are equally far apart, it is a loop with a step per tensor. In
blocked layouts the distance changes at multiples of a block: that is a loop over blocks around one inside of a block,
and what is left behind the last whole block is a part of its own. Where it changes anywhere, the loop has a table.

    c of 20 in blocks of 8, beside c of 20 with stride 1         two parts: 2 x 8 indices, and 4

So nothing here asks what a layout looks like, and broadcast operands (steps of 0), slices, reversed dims, padded and
repeated ones come as they are. The parts of all dims, each with each, are the nests: loops with fixed counts, which may
be nested in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.layout import Layout
from layout_ir.errors import LayoutError

DimOffsets = NDArray[np.int64]
"""The offsets in elements that the indices of one dim add, per tensor."""


@dataclass(frozen=True, slots=True)
class Loop:
    """`count` iterations over a dim, or a part of one, or several that continue each other.

    Of each tensor, how many elements further an iteration is than the one before, or, as a tuple, where each begins.
    """

    count: int
    steps: tuple[int | tuple[int, ...], ...]

    @property
    def has_tables(self) -> bool:
        """Whether a tensor has no fixed step."""
        return any(isinstance(step, tuple) for step in self.steps)

    def step(self, tensor: int) -> int | None:
        """The step of a tensor, None where it is a table."""
        step = self.steps[tensor]
        return None if isinstance(step, tuple) else step


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops, outermost first, and where each tensor begins, in elements."""

    starts: tuple[int, ...]
    loops: tuple[Loop, ...]

    @property
    def iterations(self) -> int:
        """How often the innermost body runs."""
        return int(np.prod([loop.count for loop in self.loops], dtype=np.int64))


def check(layout: Layout) -> None:
    """Raises LayoutError for a layout that loops cannot address."""
    if layout.swizzle is not None:
        raise LayoutError(f"{layout}: no loop has the addresses of a swizzle")
    if layout.axes:
        raise LayoutError(f"{layout} has places on other axes than memory")


def nests(offsets: Sequence[DimOffsets], starts: Sequence[int]) -> Iterator[Nest]:
    """The nests over all indices, none twice; loops in the order of dims. None where a dim is empty."""
    parts = [_parts(each) for each in offsets]
    for chosen in product(*parts):
        begins = np.asarray(starts, np.int64)
        for at, _ in chosen:
            begins = begins + at
        loops = tuple(loop for _, inner in chosen for loop in inner if loop.count > 1)
        yield Nest(tuple(begins.tolist()), loops)


def _parts(offsets: DimOffsets) -> list[tuple[DimOffsets, tuple[Loop, ...]]]:
    """The parts of one dim: where each begins, and its loops."""
    extent = offsets.shape[1]
    if not extent:
        return []
    begin = offsets[:, 0]
    if extent == 1:
        return [(begin, ())]
    differences = np.diff(offsets, axis=1)
    breaks = np.flatnonzero((differences != differences[:, :1]).any(axis=0)) + 1
    if not len(breaks):
        return [(begin, (Loop(extent, tuple(differences[:, 0].tolist())),))]
    block = int(np.gcd.reduce(breaks))
    if block == 1:
        return [(begin, (_table(offsets),))]
    whole = extent // block * block
    inner = Loop(block, tuple(differences[:, 0].tolist()))
    parts = [(at, (*outer, inner)) for at, outer in _parts(offsets[:, :whole:block])]
    if whole < extent:
        parts += _parts(offsets[:, whole:])
    return parts


def _table(offsets: DimOffsets) -> Loop:
    """A loop in which those tensors have tables whose offsets are not equally far apart."""
    steps: list[int | tuple[int, ...]] = []
    for row in offsets - offsets[:, :1]:
        differences = np.diff(row)
        even = bool((differences == differences[0]).all())
        steps.append(int(differences[0]) if even else tuple(row.tolist()))
    return Loop(offsets.shape[1], tuple(steps))


def _continues(outer: Loop, inner: Loop) -> bool:
    if outer.has_tables or inner.has_tables:
        return False
    return all(
        a == b * inner.count for a, b in zip(outer.steps, inner.steps, strict=True) if isinstance(b, int)
    )


def ordered(loops: Sequence[Loop], by: Sequence[int]) -> list[Loop]:
    """Loops by the distance of their iterations in the tensors `by`, the first of which decides first.

    The largest distance is outermost. Two that continue each other in every tensor become one.
    """

    def distance(loop: Loop) -> tuple[int, ...]:
        steps = [loop.step(tensor) for tensor in by]
        return tuple(-(1 << 62) if step is None else -abs(step) for step in steps)

    result: list[Loop] = []
    for loop in sorted(loops, key=distance):
        if result and _continues(result[-1], loop):
            result[-1] = replace(loop, count=result[-1].count * loop.count)
        else:
            result.append(loop)
    return result
