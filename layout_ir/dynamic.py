"""Layouts whose extents are known at run time only (None in a shape).

Units of a Format are constants; only the count of a dim's top digit and the strides above it depend on extents, and
strides that are not written are running products: constants times products of ceil(D / block). Two such products are
the same for every extent iff they agree where the extents are unrelated, so questions are asked at a few *generic*
shapes and the answers compared. Open extents become distinct primes there, each 1 above a multiple of all blocks: no
block divides them (padding is assumed, as it must be), and ceil(D / 8) is not twice ceil(D / 16) by accident.

    same_map    yes, no, or "if": equal when the dims named have extent 1
    reshape     the Format of the result, if one Format serves every extent
    slice_      the same, for constant starts
    loop_units  the units of the loops of a reorder, per dim

Extents are taken to be 1 at least. Cost is a few bound layouts, whatever the extents will be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import lcm, prod
from typing import Literal

from layout_ir.errors import LayoutError, shape_text
from layout_ir.format import Format
from layout_ir.layout import Layout
from layout_ir.refinement import refine

Extent = int | None
_POINTS = 3
"""Generic shapes asked. Two would tell monomials apart; the third guards against constants that resemble a prime."""


@dataclass(frozen=True, slots=True)
class Same:
    """Whether two formats are the same map for every extent: "yes", "no", or "if" the dims `units` have extent 1."""

    answer: Literal["yes", "no", "if"]
    units: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            self.answer if self.answer != "if" else "if " + " and ".join(f"{name} = 1" for name in self.units)
        )


def _primes(step: int) -> Iterator[int]:
    """Primes that are 1 above a multiple of `step`, ascending."""
    candidate = step
    while True:
        candidate += step
        if all((candidate + 1) % k for k in range(2, int((candidate + 1) ** 0.5) + 1)):
            yield candidate + 1


def _points(shape: Sequence[Extent], *formats: Format) -> list[list[int]]:
    """Generic shapes for `shape`: open extents are distinct primes, other ones in every point."""
    blocks = lcm(2, *(size for format in formats for size in format.blocks()))
    open_dims = [d for d, extent in enumerate(shape) if extent is None]
    primes = _primes(blocks)
    points: list[list[int]] = []
    for _ in range(_POINTS if open_dims else 1):
        stand_ins = {d: next(primes) for d in open_dims}
        points.append([stand_ins[d] if extent is None else extent for d, extent in enumerate(shape)])
    return points


def same_map(left: Format, right: Format, shape: Sequence[Extent]) -> Same:
    """Whether the formats put every element at the same address, whatever the open extents are.

    "no" means: not for unrelated extents, and not by open dims of extent 1 either. Raises LayoutError where a format
    does not bind.
    """
    names = left.names
    open_dims = [d for d, extent in enumerate(shape) if extent is None]
    for count in range(len(open_dims) + 1):
        for units in combinations(open_dims, count):
            asked = [1 if d in units else extent for d, extent in enumerate(shape)]
            if all(left.bind(point).same_map(right.bind(point)) for point in _points(asked, left, right)):
                return Same("yes") if not units else Same("if", tuple(names[d] for d in units))
    return Same("no")


def reshape(format: Format, shape: Sequence[Extent], new_shape: Sequence[Extent]) -> Format:
    """The Format of the tensor seen as `new_shape`, for every value of the open extents.

    One open extent of the result is what is left of the elements; several are those of `shape`, in order. Raises
    LayoutError where no single Format says it.
    """
    opened = [x for x in new_shape if x is None]
    if len(opened) > 1 and len(opened) != sum(x is None for x in shape):
        raise LayoutError(
            f"cannot reshape {shape_text(shape)} into {shape_text(new_shape)}: "
            f"{len(opened)} open extents cannot be told apart"
        )

    def view(layout: Layout) -> Layout:
        return layout.reshape(_resolved(layout, shape, new_shape))

    return _one_format(format, shape, view, f"reshape {shape_text(shape)} into {shape_text(new_shape)}")


def _resolved(layout: Layout, shape: Sequence[Extent], new_shape: Sequence[Extent]) -> list[int]:
    known = prod(x for x in new_shape if x is not None)
    if sum(x is None for x in new_shape) == 1:
        if known == 0 or layout.nelems % known:
            raise LayoutError(
                f"cannot reshape {shape_text(shape)} into {shape_text(new_shape)}: {known} elements need not divide it"
            )
        return [layout.nelems // known if x is None else x for x in new_shape]
    values = iter([x for x, extent in zip(layout.shape, shape, strict=True) if extent is None])
    return [next(values) if x is None else x for x in new_shape]


def slice_(format: Format, shape: Sequence[Extent], starts: Sequence[int], sizes: Sequence[Extent]) -> Format:
    """The Format of the box from `starts` on; a size of None reaches to the end of the dim.

    Raises LayoutError where no single Format says it for every extent.
    """

    def view(layout: Layout) -> Layout:
        ends = [x - a if n is None else n for x, a, n in zip(layout.shape, starts, sizes, strict=True)]
        return layout.slice(starts, ends)

    return _one_format(format, shape, view, f"slice {shape_text(shape)} from {list(starts)} on")


def loop_units(src: Format, dst: Format, shape: Sequence[Extent]) -> tuple[tuple[int, ...], ...]:
    """Per dim, the units of the coarsest loops that serve both formats whatever the open extents are.

    Raises LayoutError where the loops of two extents differ.
    """
    found = {
        tuple(dim.units for dim in refine(src.bind(point), dst.bind(point)).dims)
        for point in _points(shape, src, dst)
    }
    if len(found) > 1:
        raise LayoutError(f"the loops from {src} to {dst} depend on the extents of {shape_text(shape)}")
    return found.pop()


def _one_format(
    format: Format, shape: Sequence[Extent], view: Callable[[Layout], Layout], what: str
) -> Format:
    """The Format that `view` gives at every generic shape; LayoutError where they differ."""
    if len(shape) != format.rank:
        raise LayoutError(
            f"rank mismatch between {format} and shape {shape_text(shape)}: {format.rank} != {len(shape)}"
        )
    found = [view(format.bind(point)).format for point in _points(shape, format)]
    if any(other != found[0] for other in found):
        raise LayoutError(f"cannot {what} in {format}: an open extent would have to be the size of a digit")
    return found[0]
