"""Layouts taken apart into what foreign notations are made of, and put together again.

There are four such forms: one stride per dim (`strided`, `from_strides`), the factors of each dim as pairs of count and
stride (`layout_of`), the dims of the array that memory is (`physical_dims`, `format_of_physical`), and rests with dense
blocks inside (`blocked`). Taking apart looks at canonical digits, never at names: which notation can say a layout
depends on where its elements are, and many blocked formats are plain strided tensors at the shape at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from layout_ir.algebra.canonical import canonical_digits, dim_key
from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import PadPolicy
from layout_ir.algebra.tag import names_for
from layout_ir.errors import LayoutError

Chain = Sequence[tuple[int, int]]
"""The factors of one dim, coarse to fine: (count, stride in elements)."""


def strided(layout: Layout, who: str) -> tuple[tuple[int, ...], int]:
    """One stride per dim, in elements, and the address of the first element.

    Raises LayoutError, in the name of notation `who`, where a dim has more than one canonical digit. A dim of extent
    1 lies nowhere; it keeps the stride that its format wrote, because some systems read intentions into it.
    """
    strides: list[int] = []
    for dim, extent in enumerate(layout.shape):
        terms: tuple[object, ...] = canonical_digits(layout.digits[dim], layout.padded_shape[dim])
        if len(terms) > 1:
            terms = dim_key(layout, dim)
        if len(terms) > 1:
            raise LayoutError(
                f"{who} cannot say {layout}: it has one stride per dim, but dim '{layout.names[dim]}' of extent "
                f"{extent} {'has a phase' if terms[0] == 'phase' else f'has the digits (unit, stride) {terms}'}"
            )
        if extent > 1 and terms:
            strides.append(terms[0][1])  # type: ignore[index]
        else:
            strides.append(layout.digits[dim][0].stride if layout.digits[dim] else 1)
    first = layout.offset if 0 in layout.shape else layout.address((0,) * layout.rank)
    return tuple(strides), first


def layout_of(
    shape: Sequence[int], chains: Sequence[Chain], *, offset: int = 0, lo: Sequence[int] = (),
    pad: PadPolicy = "undef", names: Sequence[str] | None = None, size: int | None = None,
    swizzle: tuple[int, int, int] | None = None,
) -> Layout:  # fmt: skip
    """The Layout whose dims have the factors `chains`, all of them in memory order by falling stride.

    Raises LayoutError where the factors of a dim hold less than its extent.
    """
    names = tuple(names) if names is not None else names_for(len(shape))
    low = tuple(lo) or (0,) * len(shape)
    rest = [list(chain) or [(1, 1)] for chain in chains]
    factors: list[Factor] = []
    heads = [True] * len(rest)
    while any(rest):
        # Of equal strides a digit of one value comes last: it adds nothing to the running product of the others.
        dim = min(
            (d for d in range(len(rest)) if rest[d]), key=lambda d: (-abs(rest[d][0][1]), rest[d][0][0] == 1)
        )
        count, stride = rest[dim].pop(0)
        if count < 0:
            raise LayoutError(f"a digit of dim {dim} has {count} values: counts are not negative")
        block = prod(n for n, _ in rest[dim])
        is_rest = heads[dim] and block > 0 and -(-(shape[dim] + low[dim]) // block) == count
        factors.append(Factor(dim, None if is_rest else count, stride))
        heads[dim] = False
    # Strides of single values are kept as given: they move nothing, but some systems read intentions into them.
    return Format(names, tuple(factors), (), pad, offset, tuple(lo), size, swizzle).bind(shape)


def from_strides(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Layout:
    """The Layout of a plain strided tensor; strides and offset in elements."""
    if len(shape) != len(strides):
        raise LayoutError(
            f"rank mismatch between shape {tuple(shape)} and strides {tuple(strides)}: {len(shape)} != {len(strides)}"
        )
    return layout_of(shape, [[(n, s)] for n, s in zip(shape, strides, strict=True)], offset=offset)


@dataclass(frozen=True, slots=True)
class PhysicalDim:
    """A dim of the array that memory is: `size` values (None: the rest) of logical dim `dim` in steps of `unit`."""

    dim: int
    unit: int
    size: int | None


def format_of_physical(
    names: Sequence[str], physical: Sequence[PhysicalDim], pad: PadPolicy = "undef"
) -> Format:
    """The dense Format whose physical dims, outermost first, are `physical`.

    Of each logical dim, the units must follow from the sizes: 1, then the product of the finer sizes.

    Where the memory order of a dim's digits contradicts their significance explicit strides are needed; that works
    for the digits right of every rest, whose strides are constants. Raises LayoutError where units do not divide
    each other, and where a stride would depend on the shape.
    """
    names = tuple(names)
    physical = [p for p in physical if p.size != 1]
    chains: list[list[PhysicalDim]] = []
    for dim in range(len(names)):
        chain = sorted((p for p in physical if p.dim == dim), key=lambda p: p.unit)
        unit = 1
        for at, part in enumerate(chain):
            if part.unit != unit or (part.size is None and at != len(chain) - 1):
                raise LayoutError(
                    f"the digits of dim '{names[dim]}' do not make up its index: one starts at unit {part.unit} where "
                    f"{unit} is needed"
                )
            unit *= part.size or 1
        chains.append(chain[::-1])
    strides: dict[PhysicalDim, int | None] = {}
    running: int | None = 1
    for part in reversed(physical):
        strides[part] = running
        running = None if running is None or part.size is None else running * part.size
    position = {part: at for at, part in enumerate(physical)}
    rest = [list(chain) for chain in chains]
    order: list[PhysicalDim] = []
    while any(rest):
        order.append(min((chain[0] for chain in rest if chain), key=lambda p: position[p]))
        rest[order[-1].dim].pop(0)
    factors: list[Factor] = []
    inner = len(physical)
    for part in reversed(order):
        explicit = position[part] != inner - 1
        inner = position[part]
        if explicit and strides[part] is None:
            raise LayoutError(
                f"the digits of dim '{names[part.dim]}' lie in memory against their significance, at strides that "
                "depend on the shape: give a shape"
            )
        factors.append(Factor(part.dim, part.size, strides[part] if explicit else None))
    missing = [Factor(dim) for dim, chain in enumerate(chains) if not chain]
    return Format(names, (*missing, *reversed(factors)), pad=pad)


def physical_dims(subject: Format | Layout) -> tuple[PhysicalDim, ...] | None:
    """The physical dims, outermost first, of a dense layout or format; None where strides leave holes or overlap.

    Of a Layout canonical digits of the padded box are taken, so that a factor of one value says nothing; of a
    Format its factors.
    """
    if isinstance(subject, Format):
        if any(f.stride is not None for f in subject.factors):
            return None
        units = [1] * subject.rank
        result: list[PhysicalDim] = []
        for factor in reversed(subject.all_factors):
            result.append(PhysicalDim(factor.dim, units[factor.dim], factor.size))
            units[factor.dim] *= factor.size or 1
        return tuple(reversed(result))
    if 0 in subject.padded_shape:
        return None
    found: list[tuple[int, PhysicalDim]] = []
    for dim, (digits, extent) in enumerate(zip(subject.digits, subject.padded_shape, strict=True)):
        terms = canonical_digits(digits, extent)
        for at, (unit, stride) in enumerate(terms):
            above = terms[at + 1][0] if at + 1 < len(terms) else extent
            found.append((stride, PhysicalDim(dim, unit, above // unit)))
    found.sort(key=lambda entry: -entry[0])
    running = 1
    for stride, part in reversed(found):
        if stride != running:
            return None
        running *= part.size or 1
    return tuple(part for _, part in found)


def blocked(subject: Format | Layout, who: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The dims in memory order of their rests, and the inner blocks (dim, size) in memory order.

    That is the class of layouts of tags: dense, one rest per dim, all rests outside of all blocks, and in each dim
    memory order is order of significance. The factors are taken as they stand where they have this form; otherwise
    canonical digits are. Raises LayoutError with the reason, in the name of notation `who`.
    """
    written = subject.format if isinstance(subject, Layout) else subject
    outer = [f.dim for f in written.all_factors[: written.rank] if f.size is None]
    rest = written.all_factors[written.rank :]
    if (
        len(outer) == written.rank
        and all(f.stride is None for f in written.factors)
        and all(f.size for f in rest)
    ):
        return outer, [(f.dim, f.size or 0) for f in rest]
    physical = physical_dims(subject)
    if physical is None:
        raise LayoutError(
            f"{who} cannot say {subject}: it is dense by definition, and this has strides of its own"
        )
    top = {p.dim: p for p in sorted(physical, key=lambda p: p.unit)}
    if isinstance(subject, Format) and (fixed := [p for p in top.values() if p.size is not None]):
        name = subject.names[fixed[0].dim]
        raise LayoutError(f"{who} cannot say {subject}: dim '{name}' has a fixed capacity and no rest")
    tops = [top[p.dim] is p for p in physical]
    if tops != sorted(tops, reverse=True):
        raise LayoutError(
            f"{who} cannot say {subject}: the rests of dims come first there, and here a block lies further out"
        )
    inner = [p for p in physical if top[p.dim] is not p]
    for at, part in enumerate(inner):
        if any(other.dim == part.dim and other.unit > part.unit for other in inner[at + 1 :]):
            name = subject.names[part.dim]
            raise LayoutError(
                f"{who} cannot say {subject}: the blocks of dim '{name}' lie against their significance"
            )
    absent = [dim for dim in range(subject.rank) if dim not in top]
    return [*absent, *(p.dim for p in physical if top[p.dim] is p)], [(p.dim, p.size or 0) for p in inner]
