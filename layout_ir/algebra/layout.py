"""A Format bound to a shape: where every element is, and what the other addresses are.

A Layout holds the factors of its Format with their counts and strides filled in, outermost first. Seen per dim
they are *digits*: digit (unit, count, stride) of dim d takes (y div unit) mod count and contributes that many
strides, where y = x + lo is the index shifted by the pads in front. So

    address(x) = offset + sum over dims d of f_d(x_d),       f_d(x) = sum over digits of ((x + lo) div u mod n) * s

Units of a dim divide each other, fine to coarse, which is what the canonical form rests on: two such functions
agree on [0, X) iff their digits do after dropping digits that never move (u >= X) and merging digits that continue
each other (s = (u / u') s'). Three levels of sameness follow, each implying the one before:

    same_map        every element at the same address          a read-only cast is free
    same_store      and the same pads and trailing bytes       a reorder moves nothing
    same_contract   and the same pad policy                    a reorder does nothing

All strides and offsets count elements. Chunks (right of the bar) lie one behind the other unless a chunk table says
otherwise; `chunk_size` is how many elements each holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from layout_ir.algebra import reshape, views
from layout_ir.algebra.address_formula import address_formula, chunk_formulas
from layout_ir.algebra.cached_property import cached_property, hashed_once
from layout_ir.algebra.canonical import (
    address_of_position,
    box_key,
    map_key,
    overlaps,
    same_swizzled_map,
    swizzled,
)
from layout_ir.algebra.factors import MEMORY, BoundFactor, Digit, Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.inverse import positions_at
from layout_ir.algebra.pads import PadPolicy
from layout_ir.argument_checks import check_flags, checked_dim, checked_integers
from layout_ir.elements.element_types import bits_of
from layout_ir.errors import LayoutError, public_methods

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from layout_ir.algebra.address_formula import Syntax


@dataclass(frozen=True, slots=True)
class Index:
    """An address that holds the element of logical index `index`."""

    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pad:
    """An address inside the padded box that no index reaches. `position` is where in the padded box."""

    position: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hole:
    """An address between or beyond elements that belongs to no position of the padded box: `HOLE` is the one value."""

    def __repr__(self) -> str:
        return "HOLE"

    def __reduce__(self) -> str:
        return "HOLE"  # copies and what is unpickled are the one value


HOLE = Hole()


@public_methods
@hashed_once
@dataclass(frozen=True)
class Layout:
    """The layout of one tensor. Made by `Format.bind` and by the view operations.

    `shape` are the logical extents; `factors` run outermost first; `chunk_rank` counts the factors right of the
    bar; `lo` has one entry per dim. `offset` is the address of position 0 of the padded box. `size` is what the
    Format asked the buffer to hold at least.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    factors: tuple[BoundFactor, ...]
    lo: tuple[int, ...]
    chunk_rank: int = 0
    pad: PadPolicy = "undef"
    offset: int = 0
    size: int | None = None
    swizzle: tuple[int, int, int] | None = None

    # Structure ------------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """How many dims the tensor has."""
        return len(self.shape)

    @property
    def nelems(self) -> int:
        """Number of elements, pads not counted."""
        return prod(self.shape)

    @cached_property
    def digits(self) -> tuple[tuple[Digit, ...], ...]:
        """Per dim, its digits fine to coarse."""
        units = [1] * self.rank
        result: list[list[Digit]] = [[] for _ in self.shape]
        for factor in reversed(self.factors):
            result[factor.dim].append(Digit(units[factor.dim], factor.count, factor.stride, factor.axis))
            units[factor.dim] *= factor.count
        return tuple(tuple(digits) for digits in result)

    @cached_property
    def padded_shape(self) -> tuple[int, ...]:
        """Extents of the padded box, in elements per dim."""
        extents = [1] * self.rank
        for factor in self.factors:
            extents[factor.dim] *= factor.count
        return tuple(extents)

    @property
    def is_padded(self) -> bool:
        """Whether the padded box is larger than the tensor."""
        return self.padded_shape != self.shape

    def padded_dims(self) -> tuple[int, ...]:
        """Numbers of the dims that carry padding."""
        return tuple(d for d, (x, p) in enumerate(zip(self.shape, self.padded_shape, strict=True)) if x != p)

    @property
    def chunk_size(self) -> int:
        """Elements per chunk; 0 where memory is not chunked."""
        return (
            prod(f.count for f in self.factors[len(self.factors) - self.chunk_rank :])
            if self.chunk_rank
            else 0
        )

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The axes other than memory on which elements are placed, sorted."""
        return tuple(sorted({f.axis for f in self.factors if f.axis != MEMORY and f.count > 1}))

    @cached_property
    def format(self) -> Format:
        """The Format that binds to this layout at this shape, in canonical spelling."""
        return format_of(self)

    def __repr__(self) -> str:
        """An expression that makes a Layout of the same contract (`same_contract`)."""
        return f'Format.parse("{self.format}").bind({self.shape!r})'

    def __str__(self) -> str:
        """The notation of the Format, and the shape."""
        return f"{self.format} of {'x'.join(map(str, self.shape)) or 'a scalar'}"

    # Addresses ------------------------------------------------------------------------------------------------

    def address(self, index: Sequence[int]) -> int:
        """Element offset of logical index `index`. Raises LayoutError outside the shape."""
        index = self._checked_index(index)
        return address_of_position(self, [x + low for x, low in zip(index, self.lo, strict=True)])

    def _checked_index(self, index: Sequence[int]) -> tuple[int, ...]:
        """A logical index as integers of Python. Raises LayoutError outside the shape."""
        index = checked_integers("index", index)
        if len(index) != self.rank:
            raise LayoutError(
                f"rank mismatch between index {index} and shape {self.shape}: {len(index)} != {self.rank}"
            )
        for dim, (x, extent) in enumerate(zip(index, self.shape, strict=True)):
            if not 0 <= x < extent:
                raise LayoutError(
                    f"index {index} is outside shape {self.shape}: dim {dim} has {extent} elements"
                )
        return index

    def position_address(self, position: Sequence[int]) -> int:
        """Element offset of a position of the padded box, pads included. Raises LayoutError outside of the box."""
        position = checked_integers("position", position)
        if len(position) != self.rank:
            raise LayoutError(
                f"rank mismatch between position {position} and shape {self.shape}: {len(position)} != {self.rank}"
            )
        for dim, (y, extent) in enumerate(zip(position, self.padded_shape, strict=True)):
            if not 0 <= y < extent:
                raise LayoutError(
                    f"position {position} is outside the padded box {self.padded_shape}: dim {dim} has {extent} of them"
                )
        return address_of_position(self, position)

    def addresses(self, *, padded: bool = False) -> NDArray[np.int64]:
        """Element offsets of all indices: int64 array of shape `shape` (`padded_shape` with `padded`)."""
        import numpy as np

        check_flags(padded=padded)
        total = np.full((1,) * self.rank, self.offset, dtype=np.int64)
        for dim in range(self.rank):
            offsets = self.offsets(dim, padded=padded)
            total = total + offsets.reshape((-1,) + (1,) * (self.rank - 1 - dim))
        return swizzled(self, total)

    def pad_addresses(self) -> NDArray[np.int64]:
        """Element offsets of all pads, each position of the padded box once: one-dimensional int64 array."""
        import numpy as np

        found = [np.empty(0, np.int64)]
        for at in self.padded_dims():
            # Dims before `at` inside the tensor, `at` in its pads, dims behind anywhere: the pads, without overlap.
            total = np.full(1, self.offset, np.int64)
            for dim in range(self.rank):
                offsets = self.offsets(dim, padded=dim >= at)
                if dim == at:
                    offsets = np.delete(offsets, slice(self.lo[dim], self.lo[dim] + self.shape[dim]))
                total = (total[:, None] + offsets).ravel()
            found.append(swizzled(self, total))
        return np.concatenate(found)

    def offsets(self, dim: int, *, padded: bool = False) -> NDArray[np.int64]:
        """f_dim at every index of the dim (every position, with `padded`): int64, elements.

        Raises LayoutError where there is no such dim."""
        import numpy as np

        check_flags(padded=padded)
        dim = checked_dim(dim, self.shape)
        start, extent = (0, self.padded_shape[dim]) if padded else (self.lo[dim], self.shape[dim])
        stop = start + extent
        y = np.arange(start, stop, dtype=np.int64)
        total = np.zeros_like(y)
        for digit in self.digits[dim]:
            if digit.axis == MEMORY:
                # Divisions take most of the time, and dims have millions of indices.
                above = y if digit.unit == 1 else y // digit.unit
                total += (above if stop <= digit.unit * digit.count else above % digit.count) * digit.stride
        return total

    def chunk_address(self, index: Sequence[int]) -> tuple[int, int]:
        """(chunk number, element offset inside the chunk) of logical index `index`."""
        if not self.chunk_rank:
            raise LayoutError(f"layout {self} has no chunks: its format has no bar")
        return divmod(self.address(index), self.chunk_size)

    def expression(
        self, names: Sequence[str] | None = None, syntax: Syntax = "c", *, result: str = "address"
    ) -> str:
        """The address of an element as a formula over its index, in elements, simplified for this shape.

            >>> Format.from_tag("nChw8c").bind((2, 17, 5, 4)).expression()
            'n * 480 + c / 8 * 160 + h * 32 + w * 8 + c % 8'

        `names` are the indices, one per dim: names, or expressions such as `oh * 2 + kh` (None: the names of the dims).
        `syntax` is "c", "python", "affine" (the right side of an MLIR affine map) or "llvm": instructions on i64, one a
        line, of which the last defines `%result`. In C the indices have a type that holds the address; in "llvm" they
        are i64. What is said of an index outside the shape is undefined.

        Raises LayoutError where names and dims differ in number, and for an unknown syntax.
        """
        return address_formula(self, names, syntax, result)

    def chunk_expression(
        self, names: Sequence[str] | None = None, syntax: Syntax = "c", *, result: str = "address"
    ) -> tuple[str, str]:
        """The two formulas of `chunk_address`: the number of the chunk, and the element offset inside it.

        The arguments are those of `expression`; in "llvm" the two define `%result.chunk` and `%result.inside`. With a
        table of chunks an element is at `table[chunk] + inside`. Raises LayoutError where the layout has no chunks,
        and as `expression` does.
        """
        return chunk_formulas(self, names, syntax, result)

    def place(self, index: Sequence[int]) -> dict[str, int]:
        """Per named axis, the place of logical index `index` on it (memory not included).

        Raises LayoutError outside the shape.
        """
        index = self._checked_index(index)
        places: dict[str, int] = {}
        for x, low, digits in zip(index, self.lo, self.digits, strict=True):
            for digit in digits:
                if digit.axis != MEMORY:
                    step = (x + low) // digit.unit % digit.count * digit.stride
                    places[digit.axis] = places.get(digit.axis, 0) + step
        return places

    def inverse(self, address: int) -> Index | Pad | Hole:
        """What lies at `address` (elements): an index, a pad, or a hole.

        Where several indices share the address (broadcast), the first in row-major order of the digits is given.
        """
        (address,) = checked_integers("address", (address,))
        target = swizzled(self, address)  # the XOR swizzle is its own inverse
        fallback: Pad | Hole = HOLE
        for position in positions_at(self, target - self.offset):
            index = tuple(y - low for y, low in zip(position, self.lo, strict=True))
            if all(0 <= x < extent for x, extent in zip(index, self.shape, strict=True)):
                return Index(index)
            fallback = Pad(position)
        return fallback

    # Size -----------------------------------------------------------------------------------------------------

    @cached_property
    def span(self) -> int:
        """Elements from the first to the last address of the padded box, both included; 0 if it is empty."""
        if 0 in self.padded_shape:
            return 0
        return 1 + sum((f.count - 1) * abs(f.stride) for f in self.factors if f.axis == MEMORY)

    @cached_property
    def first_address(self) -> int:
        """Lowest address of the padded box, in elements (below `offset` where strides are negative)."""
        return self.offset + sum((f.count - 1) * min(f.stride, 0) for f in self.factors if f.axis == MEMORY)

    @cached_property
    def extent(self) -> int:
        """Elements a buffer that starts at address 0 must hold."""
        reach = self.first_address + self.span if self.span else 0
        if self.swizzle is not None and reach:
            bits, base, shift = self.swizzle
            window = 1 << (base + shift + bits)
            reach = -(-reach // window) * window
        return max(reach, self.size or 0)

    def nbytes(self, dtype: str | int) -> int:
        """Bytes of the buffer for elements of `dtype` (a name such as "f32", or bits per element)."""
        return -(-self.extent * bits_of(dtype) // 8)

    def is_dense(self) -> bool:
        """Whether the padded box fills an interval of addresses, each address once."""
        running = 1
        strides = sorted((abs(f.stride), f.count) for f in self.factors if f.count > 1 and f.axis == MEMORY)
        for stride, count in strides:
            if stride != running:
                return False
            running *= count
        return True

    def is_injective(self, *, padded: bool = True) -> bool | None:
        """Whether no two positions of the padded box (no two elements, without `padded`) share an address.

        None: not decided, because the strides are not nested and there is too much to enumerate.
        """
        check_flags(padded=padded)
        shared = overlaps(self, padded=padded)
        return None if shared is None else not shared

    def is_contiguous(self, order: Format | str | None = None) -> bool:
        """Whether the elements lie as the dense layout of `order` (a tag or Format; None: row-major) has them.

        May hold for several orders at once: dims of size 1 lie nowhere.
        """
        other = Format.row_major(self.names) if order is None else Format.of(order)
        dense = other.bind(self.shape)
        return self.without_offset.same_map(dense.without_offset)

    @cached_property
    def without_offset(self) -> Layout:
        """The layout of the same elements in a buffer of their own, with position 0 of the padded box at address 0."""
        return replace(self, offset=0) if self.offset else self

    # Sameness -------------------------------------------------------------------------------------------------

    @cached_property
    def canonical(self) -> tuple[object, ...]:
        """A key of the address map: two layouts of one shape have equal keys iff every element has one address.

        Where their swizzles differ, equal keys are sufficient, not necessary; `same_map` decides.
        """
        return map_key(self)

    def same_map(self, other: Layout) -> bool:
        """Whether every element has the same address in both. Raises LayoutError if the shapes differ.

        Layouts whose different swizzles reach beyond bit 10 of the address, or with extents beyond 2^16, may count as
        different though they are the same: comparing them would take long.
        """
        check_layouts(other)
        if self.shape != other.shape:
            raise LayoutError(
                f"layouts of different shapes cannot be the same map: {self.shape} != {other.shape}"
            )
        if 0 in self.shape or self.canonical == other.canonical:
            return True
        if self.swizzle == other.swizzle:
            return False
        return same_swizzled_map(self, other)

    def same_store(self, other: Layout) -> bool:
        """`same_map`, and pads and trailing elements are the same too."""
        return self.same_map(other) and box_key(self) == box_key(other)

    def same_contract(self, other: Layout) -> bool:
        """`same_store`, and pads hold the same. A tensor without pads fulfils every policy."""
        return self.same_store(other) and (self.pad == other.pad or not self.is_padded)

    # Views ----------------------------------------------------------------------------------------------------

    def permute(self, order: Sequence[int]) -> Layout:
        """The layout of the transposed tensor: its dim k is dim `order[k]` of this one (as numpy.transpose)."""
        return views.permute(self, checked_integers("order", order))

    def reshape(self, shape: Sequence[int], *, keep_pads: bool = False) -> Layout:
        """The layout of the same buffer seen as `shape`. Raises LayoutError where no layout says that."""
        check_flags(keep_pads=keep_pads)
        return reshape.reshape(self, checked_integers("shape", shape), keep_pads=keep_pads)

    def merge_dims(self, dim: int, count: int) -> Layout:
        """Dims [dim, dim + count) as one. Raises LayoutError where no layout says that."""
        dim, count = checked_integers("dim and count", (dim, count))
        return reshape.merge_dims(self, dim, count)

    def split_dim(self, dim: int, extents: Sequence[int]) -> Layout:
        """`dim` as several dims of `extents`, in row-major order. Raises LayoutError where no layout says that."""
        return reshape.split_dim(self, dim, checked_integers("extents", extents))

    def slice(
        self, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None
    ) -> Layout:
        """The layout of `sizes` indices per dim from `starts` on, `steps` apart (None: 1), in the same buffer."""
        starts, sizes = checked_integers("starts", starts), checked_integers("sizes", sizes)
        return views.slice_(self, starts, sizes, None if steps is None else checked_integers("steps", steps))

    def broadcast(self, shape: Sequence[int]) -> Layout:
        """The layout of the tensor broadcast to `shape` (as numpy.broadcast_to)."""
        return views.broadcast(self, checked_integers("shape", shape))


def check_layouts(*layouts: object) -> None:
    """Raises LayoutError where one is no Layout: a Format has no shape until it is bound to one."""
    for layout in layouts:
        if isinstance(layout, Format):
            raise LayoutError(f"a Layout is needed, and {layout} is a Format: bind it to a shape")
        if not isinstance(layout, Layout):
            raise LayoutError(f"a Layout is needed, not {layout!r}")


def format_of(layout: Layout) -> Format:
    """The Format that binds to `layout` at its shape, in canonical spelling.

    Sizes are left out where they are the rest of the dim, strides where they are the running product."""
    rests = list(layout.padded_shape)
    heads: dict[int, int] = {}
    for k, factor in enumerate(layout.factors):
        heads.setdefault(factor.dim, k)
    bar = len(layout.factors) - layout.chunk_rank
    chunk = layout.chunk_size or 1
    running: dict[tuple[str, bool], int] = {}
    result: list[Factor] = []
    for k, factor in reversed(list(enumerate(layout.factors))):
        dim, inside = factor.dim, k >= bar
        scale = chunk if layout.chunk_rank and not inside and factor.axis == MEMORY else 1
        stride, implicit = factor.stride // scale, running.get((factor.axis, inside), 1)
        running[factor.axis, inside] = (stride if factor.count > 1 else implicit) * max(factor.count, 1)
        block = rests[dim] // factor.count if heads[dim] == k and factor.count else 0
        is_rest = (
            heads[dim] == k
            and not inside
            and (factor.count == 0 or -(-(layout.shape[dim] + layout.lo[dim]) // block) == factor.count)
        )
        shown = None if stride == implicit or factor.count <= 1 else stride
        result.append(Factor(dim, None if is_rest else factor.count, shown, factor.axis))
    result.reverse()
    return Format(
        layout.names,
        tuple(result[:bar]),
        tuple(result[bar:]),
        layout.pad,
        layout.offset,
        layout.lo,
        layout.size,
        layout.swizzle,
    )
