"""Tensor descriptors: shape, element type and layout in one value, as oneDNN's memory descriptor has them.

    d = TensorDesc((2, 17, 5, 4), "f32", "nChw8c")      a tag, a format text, a Format, a Layout, or "any"
    d = TensorDesc((2, 3), "f32", strides=(10, 2))      strides in elements
    d = TensorDesc((None, 3), "f32", "nc")              extents that are known at run time only
    TensorDesc()                                        the zero descriptor: an argument that is absent

It can do what the library's descriptor does, and answers by the algebra where the library's rules are known to be
wrong or narrower than needed:

    equality     by address map, pads and pad policy; the library compares fields and misses physically identical
                 layouts (one block against plain, strides of empty tensors, padded dims of extent 1)
    nbytes       reaches from address 0 to the last element, offset included; the library counts whole outermost
                 strides, leaves the offset out, and reports 0 bytes for a scalar broadcast by strides of 0
    strides      negative ones too; two elements must not share an address, but a stride of 0 may broadcast
    submemory    any box; the library wants block-aligned offsets and calls the rest unimplemented. Pads of the parent
                 stay pads only where the box ends at the border; elsewhere neighbours are never taken for padding
    reshape      exactly where a layout exists; the library refuses every blocked dim that takes part, and (3.13.2)
                 answers wrongly where a padded dim of extent 1 is swallowed
    rank         up to 64 dims instead of 12; a scalar (rank 0) is no zero descriptor
    i1           exists, one byte per element

`permute_axes` keeps the library's convention (dim d becomes dim perm[d]); `permute` is NumPy's transpose.

A quantized tensor carries `scale` and `zero_point` (real = (stored - zero_point) * scale); they decide what the pad
policy `zp` writes. Errors are LayoutError; with `allow_empty=True` an operation answers with the zero descriptor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from operator import index

from layout_ir.algebra.binding import check_overlap, strided_layout
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import PadPolicy, check_pad
from layout_ir.algebra.tag import names_for
from layout_ir.argument_checks import check_flags, checked_integers
from layout_ir.elements.element_types import canonical_name, element_type
from layout_ir.elements.quantization import check_quantization
from layout_ir.errors import LayoutError, public_methods

Extent = int | None
"""Elements along a dim; None where only the run time knows."""

Blocked = tuple[tuple[Extent, ...], tuple[tuple[int, int], ...]]
"""Elements between whole blocks of each dim, and size and dim of each inner block, outermost first."""

ANY = "any"
"""The layout that is to be chosen by whoever knows the operation."""

_FIELDS = (
    "shape", "dtype", "format", "scale", "zero_point", "_bound", "_dynamic_strides", "_dynamic_offset", "_dynamic_pad",
)  # fmt: skip


@public_methods
@dataclass(frozen=True, slots=True, init=False, eq=False)
class TensorDesc:
    """What a buffer holds. Immutable; see the module for how to make one and how it differs from oneDNN's.

    `layout` is a tag, a format text, a Format, a bound Layout, "any", or None for row-major. `strides` (elements, one
    per dim, None where known at run time only) take its place. `offset` is the address of position 0 of the padded
    box, the first element where there is no padding; a layout that states another one is a LayoutError. `pad`
    overrides the format's pad policy. Raises LayoutError, or with `allow_empty` becomes the zero descriptor.
    """

    shape: tuple[Extent, ...]
    dtype: str
    """Canonical element type name, empty for the zero descriptor."""
    format: Format | None
    """The Format, or None for `any`, for the zero descriptor, and while strides are unknown."""
    scale: float | None = None
    zero_point: int = 0
    _bound: Layout | None = field(default=None, repr=False)
    _dynamic_strides: tuple[Extent, ...] | None = field(default=None, repr=False)
    _dynamic_offset: int = field(default=0, repr=False)
    _dynamic_pad: PadPolicy | None = field(default=None, repr=False)
    """Offset and pad policy of the layout that dynamic strides become."""

    def __init__(
        self,
        shape: Sequence[Extent] = (),
        dtype: str | None = None,
        layout: Layout | Format | str | None = None,
        *,
        strides: Sequence[Extent] | None = None,
        offset: int = 0,
        pad: PadPolicy | None = None,
        scale: float | None = None,
        zero_point: int = 0,
        allow_empty: bool = False,
    ):
        check_flags(allow_empty=allow_empty)
        values: tuple[object, ...] = ((), "", None, None, 0, None, None, 0, None)
        if dtype is not None or shape or layout is not None or strides is not None:
            try:
                values = _resolved(shape, dtype, layout, strides, offset, pad, scale, zero_point)
            except LayoutError:
                if not allow_empty:
                    raise
        for name, value in zip(_FIELDS, values, strict=True):
            object.__setattr__(self, name, value)

    # What it is -----------------------------------------------------------------------------------------------

    @property
    def is_zero(self) -> bool:
        """Whether this is the zero descriptor: no tensor at all (a tensor without elements is one)."""
        return not self.dtype

    @property
    def is_any(self) -> bool:
        """Whether the layout is still to be chosen."""
        return bool(self.dtype) and self.format is None and self._dynamic_strides is None

    @property
    def is_runtime(self) -> bool:
        """Whether extents or strides are known at run time only."""
        return None in self.shape or self._dynamic_strides is not None

    @property
    def rank(self) -> int:
        """How many dims the tensor has, 0 for a scalar and for the zero descriptor."""
        return len(self.shape)

    @property
    def layout(self) -> Layout:
        """The bound layout. Raises LayoutError for `any`, the zero descriptor and dynamic shapes."""
        if self._bound is None:
            raise LayoutError(f"{self} has no addresses: {self._why_unbound()}")
        return self._bound

    def _why_unbound(self) -> str:
        if self.is_zero:
            return "it is the zero descriptor"
        if self.is_any:
            return "its layout is 'any', choose one with with_layout"
        return "extents or strides are known at run time only, give them with at"

    def at(self, shape: Sequence[int], strides: Sequence[int] | None = None) -> TensorDesc:
        """This descriptor with the extents (and strides) of a call. Raises LayoutError where known ones differ."""
        _check_known("extents", self.shape, shape)
        if self._dynamic_strides is not None:
            if strides is None:
                raise LayoutError(
                    f"{self} has dynamic strides {_text(self._dynamic_strides)}: give strides as well"
                )
            _check_known("strides", self._dynamic_strides, strides)
            return TensorDesc(
                shape,
                self.dtype,
                strides=strides,
                offset=self._dynamic_offset,
                pad=self._dynamic_pad,
                scale=self.scale,
                zero_point=self.zero_point,
            )
        if strides is not None:
            raise LayoutError(f"{self} has no dynamic strides, but strides {tuple(strides)} are given")
        return self.with_layout(self.format or ANY, shape)

    def with_layout(self, layout: Layout | Format | str, shape: Sequence[Extent] | None = None) -> TensorDesc:
        """The same tensor in another layout."""
        return TensorDesc(
            self.shape if shape is None else shape,
            self.dtype,
            layout,
            scale=self.scale,
            zero_point=self.zero_point,
        )

    # Sizes and strides ----------------------------------------------------------------------------------------

    @property
    def padded_shape(self) -> tuple[Extent, ...]:
        """Extents of the padded box; None where only the run time knows."""
        if self._bound is not None:
            return self._bound.padded_shape
        format = self._dynamic_format()
        rests = {f.dim for f in format.all_factors if f.size is None}
        return tuple(
            None if extent is None and dim in rests else padded
            for dim, (extent, padded) in enumerate(
                zip(self.shape, _at_extent_1(format, self.shape).padded_shape, strict=True)
            )
        )

    @property
    def padded_offsets(self) -> tuple[int, ...]:
        """Pads in front of each dim."""
        return self.layout.lo

    @property
    def offset(self) -> int:
        """Address of position 0 of the padded box, in elements. Raises LayoutError where there is no layout."""
        if self._dynamic_strides is not None:
            return self._dynamic_offset
        return self.layout.offset if self.format is None else self.format.offset

    @property
    def strides(self) -> tuple[Extent, ...]:
        """Elements between whole blocks of each dim, None for a dynamic one. Raises LayoutError without a layout."""
        return self._blocked()[0]

    @property
    def inner_blocks(self) -> tuple[int, ...]:
        """Sizes of the inner blocks, outermost first. Raises LayoutError where the layout is no blocked one."""
        return tuple(size for size, _ in self._blocked()[1])

    @property
    def inner_dims(self) -> tuple[int, ...]:
        """The dim of each inner block."""
        return tuple(dim for _, dim in self._blocked()[1])

    def _blocked(self) -> Blocked:
        """The strides, and size and dim of each inner block. Raises LayoutError where the layout is no blocked one."""
        if self._dynamic_strides is not None:
            return self._dynamic_strides, ()
        if self._bound is None:
            return _dynamic_blocked(self._dynamic_format(), self.shape)
        strides = _plain_strides(self._bound)
        return _blocked(self._bound) if strides is None else (strides, ())

    def _dynamic_format(self) -> Format:
        """The Format of a dynamic shape. Raises LayoutError where there is none."""
        if self.format is None:
            raise LayoutError(f"{self} has no numbers: {self._why_unbound()}")
        return self.format

    @property
    def nelems(self) -> int:
        """Elements, pads not counted."""
        return self.layout.nelems

    @property
    def nbytes(self) -> int:
        """Bytes a buffer must have, from address 0 to the last position. 0 for the zero descriptor and `any`."""
        if self.is_zero or self.is_any:
            return 0
        return self.layout.nbytes(self.dtype)

    @property
    def pad_value(self) -> float | None:
        """What pads hold as a number of the element type; None where the policy is undef."""
        if self._dynamic_strides is not None:
            pad = self._dynamic_pad or "undef"
        else:
            pad = self.layout.pad if self.format is None else self.format.pad
        if pad == "undef":
            return None
        return 0 if pad == "zero" else self.zero_point if isinstance(pad, str) else pad

    # Equality -------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Same tensor, same addresses, same pads, same policy. Spelling does not count."""
        if not isinstance(other, TensorDesc):
            return NotImplemented
        if (self.shape, self.dtype, self.scale, self.zero_point) != (
            other.shape, other.dtype, other.scale, other.zero_point,
        ):  # fmt: skip
            return False
        if self._bound is not None and other._bound is not None:
            return self._bound.same_contract(other._bound) or 0 in self.shape
        return (self.format, self._dynamic_strides, self._dynamic_offset, self._dynamic_pad) == (
            other.format, other._dynamic_strides, other._dynamic_offset, other._dynamic_pad,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.scale, self.zero_point))

    def __repr__(self) -> str:
        """An expression that makes an equal descriptor."""
        if self.is_zero:
            return "TensorDesc()"
        given = [repr(self.shape), f'"{self.dtype}"']
        if self._dynamic_strides is None:
            given.append(f'"{self.format or ANY}"')
        else:
            given.append(f"strides={self._dynamic_strides!r}")
            given += [f"offset={self._dynamic_offset}"] if self._dynamic_offset else []
            pad = self._dynamic_pad
            given += (
                [] if pad is None else [f"pad={pad!r}" if pad not in (inf, -inf) else f'pad=float("{pad}")']
            )
        given += [] if self.scale is None else [f"scale={self.scale!r}"]
        given += [f"zero_point={self.zero_point!r}"] if self.zero_point else []
        return f"TensorDesc({', '.join(given)})"

    def __str__(self) -> str:
        if self.is_zero:
            return "the zero descriptor"
        body = str(self.format or ANY)
        if self._dynamic_strides is not None:
            offset = f", offset = {self._dynamic_offset}" if self._dynamic_offset else ""
            pad = f", pad = {self._dynamic_pad}" if self._dynamic_pad is not None else ""
            body = f"strides {_text(self._dynamic_strides)}{offset}{pad}"
        return f"{_text(self.shape) or 'scalar'} {self.dtype} {body}"

    # Views ----------------------------------------------------------------------------------------------------

    def submemory(
        self, shape: Sequence[int], offsets: Sequence[int], *, allow_empty: bool = False
    ) -> TensorDesc:
        """The box of extents `shape` at `offsets`, in the same buffer."""
        return self._view(lambda layout: layout.slice(offsets, shape), allow_empty)

    def reshape(self, shape: Sequence[int], *, allow_empty: bool = False) -> TensorDesc:
        """The same buffer seen as `shape`; elements keep their row-major order."""
        return self._view(lambda layout: layout.reshape(shape), allow_empty)

    def permute(self, order: Sequence[int], *, allow_empty: bool = False) -> TensorDesc:
        """Dim k of the result is dim order[k] (NumPy's transpose)."""
        return self._view(lambda layout: layout.permute(order), allow_empty)

    def permute_axes(self, perm: Sequence[int], *, allow_empty: bool = False) -> TensorDesc:
        """Dim d becomes dim perm[d] of the result (oneDNN's convention, the inverse of `permute`)."""

        def scattered(layout: Layout) -> Layout:
            places = checked_integers("perm", perm)
            if sorted(places) != list(range(layout.rank)):
                raise LayoutError(f"{list(places)} is not a permutation of the {layout.rank} dims of {self}")
            return layout.permute([places.index(d) for d in range(layout.rank)])

        return self._view(scattered, allow_empty)

    def _view(self, view: Callable[[Layout], Layout], allow_empty: bool) -> TensorDesc:
        try:
            layout = view(self.layout)
            return TensorDesc(layout.shape, self.dtype, layout, scale=self.scale, zero_point=self.zero_point)
        except LayoutError:
            if not allow_empty:
                raise
            return TensorDesc()


def _resolved(
    shape: Sequence[Extent], dtype: str | None, layout: Layout | Format | str | None,
    strides: Sequence[Extent] | None, offset: int, pad: PadPolicy | None, scale: float | None, zero_point: int,
) -> tuple[object, ...]:  # fmt: skip
    """The fields of a descriptor, in the order of `_FIELDS`, from its arguments. Raises LayoutError."""
    shape, strides = _integers("shape", shape), None if strides is None else _integers("strides", strides)
    if dtype is None:
        raise LayoutError(f"a descriptor of shape {_text(shape)} needs an element type")
    dtype = canonical_name(dtype)
    offset = _integers("offset", (offset,))[0] or 0
    if bad := [x for x in shape if x is not None and x < 0]:
        raise LayoutError(f"extent {bad[0]} of shape {_text(shape)} is negative")
    check_quantization(dtype, scale, zero_point)
    if strides is not None:
        if layout is not None:
            raise LayoutError(
                f"strides {_text(strides)} and layout '{layout}' are both given: one of them says it"
            )
        if len(strides) != len(shape):
            raise LayoutError(
                f"rank mismatch between strides {_text(strides)} and shape {_text(shape)}: "
                f"{len(strides)} != {len(shape)}"
            )
        if None in strides or None in shape:
            if pad is not None:
                check_pad(pad, element_type(dtype))
            return shape, dtype, None, scale, zero_point, None, tuple(strides), offset, pad
        bound = strided_layout([x or 0 for x in shape], [s or 0 for s in strides], offset)
        check_overlap(bound)
    elif isinstance(layout, str) and layout == ANY:
        if offset or pad is not None:
            given = f"offset {offset}" if offset else f"pad = {pad}"
            raise LayoutError(
                f"layout 'any' is still to be chosen, so {given} would be lost: give it with the layout"
            )
        return shape, dtype, None, scale, zero_point, None, None, 0, None
    elif isinstance(layout, Layout):
        bound = layout
        if bound.shape != shape:
            raise LayoutError(
                f"layout {layout} has shape {_text(bound.shape)}, the descriptor has {_text(shape)}"
            )
        if offset:
            bound = _at_offset(bound.format, offset).bind(bound.shape)
    else:
        format = Format.row_major(names_for(len(shape))) if layout is None else Format.of(layout)
        format = _at_offset(format.with_pad(pad) if pad is not None else format, offset)
        if format.rank != len(shape):
            raise LayoutError(
                f"rank mismatch between {format} and shape {_text(shape)}: {format.rank} != {len(shape)}"
            )
        if None in shape:
            format.bind([1 if x is None else x for x in shape])
            check_pad(format.pad, element_type(dtype))
            return shape, dtype, format, scale, zero_point, None, None, 0, None
        bound = format.bind([x or 0 for x in shape])
    if pad is not None:
        bound = replace(bound, pad=pad)
    check_pad(bound.pad, element_type(dtype))
    return shape, dtype, bound.format, scale, zero_point, bound, None, 0, None


def _at_offset(format: Format, offset: int) -> Format:
    """`format` with the descriptor's offset; 0 says nothing. Raises LayoutError where it states another one."""
    if offset and format.offset not in (0, offset):
        raise LayoutError(
            f"offset {offset} and layout '{format}', which states offset {format.offset}, are both given: "
            "one of them says it"
        )
    return replace(format, offset=offset) if offset else format


def _integers(what: str, numbers: Sequence[Extent]) -> tuple[Extent, ...]:
    try:
        return tuple(None if x is None else index(x) for x in numbers)
    except TypeError:
        raise LayoutError(f"{what} {numbers!r} is no row of integers") from None


def _check_known(what: str, known: Sequence[Extent], given: Sequence[int]) -> None:
    """Raises LayoutError where `given` differs in length from `known`, or in an entry of it that is not None."""
    if len(known) != len(given) or any(a is not None and a != b for a, b in zip(known, given, strict=True)):
        raise LayoutError(f"{what} {_text(given)} do not fit {_text(known)}, where ? is dynamic")


def _plain_strides(layout: Layout) -> tuple[int, ...] | None:
    """One stride per dim, in elements, where every dim is a single factor in memory; else None."""
    if any(len(digits) != 1 or digits[0].axis != "m" for digits in layout.digits):
        return None
    return tuple(digits[0].stride for digits in layout.digits)


def _blocked(layout: Layout) -> Blocked:
    # A notation is loaded when blocks are asked for, not with every descriptor.
    from layout_ir.notations.onednn import BlockingDesc

    desc = BlockingDesc.of(layout)
    return desc.strides, tuple(zip(desc.inner_blks, desc.inner_idxs, strict=True))


def _at_extent_1(format: Format, shape: Sequence[Extent]) -> Layout:
    """The layout at the least extents, which has the strides and blocks that do not follow from dynamic ones."""
    return format.bind([1 if extent is None else extent for extent in shape])


def _dynamic_blocked(format: Format, shape: Sequence[Extent]) -> Blocked:
    """The strides (None where they follow from a dynamic extent) and inner blocks that all extents have in common.

    The one count that follows from an extent is the rest of its dim. A stride that is not written is the product of the
    counts behind it (`binding.bind`), so it follows from a dynamic extent where the rest of that dim is among them. Of
    every dim, the coarsest factor has the stride between whole blocks; the others are the blocks, if they are a tile.
    Raises LayoutError where they are none.
    """
    from layout_ir.notations.onednn import dense_tile

    is_dynamic: dict[tuple[str, bool], bool] = {}  # the running product of an axis on a side of the bar
    coarsest: dict[int, tuple[Extent, int]] = {}
    inner: list[tuple[int, int, int]] = []
    factors = zip(format.all_factors, _at_extent_1(format, shape).factors, strict=True)
    for k, (factor, bound) in reversed(list(enumerate(factors))):
        dim, product = factor.dim, (factor.axis, k >= len(format.factors))
        follows = factor.stride is None and is_dynamic.get(product, False)
        is_dynamic[product] = follows or (factor.size is None and shape[dim] is None)
        if dim in coarsest:
            stride, size = coarsest[dim]
            if stride is None:
                raise LayoutError(
                    f"{format} of shape {_text(shape)} has no inner blocks of one size: a block of "
                    f"{size} of '{format.names[dim]}' lies outside of a dynamic extent"
                )
            if size != 1:
                inner.append((stride, size, dim))
        coarsest[dim] = None if follows else bound.stride, bound.count
    tile = dense_tile(inner[::-1])
    if tile is None:
        raise LayoutError(
            f"{format} of shape {_text(shape)} is no blocked layout: its blocks are no dense tile"
        )
    return tuple(coarsest[dim][0] for dim in range(format.rank)), tuple(tile)


def _text(numbers: Sequence[Extent]) -> str:
    return "x".join("?" if x is None else str(x) for x in numbers)
