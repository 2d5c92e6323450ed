"""The physical tensor of a layout, and a reorder as operations on such tensors.

A compiler without layouts knows one kind of tensor: dense and row-major. A value in a layout is handed to it as its
*physical tensor*, one dim per factor, outermost first:

    nchw of 2x17x5x4      2x17x5x4
    nhwc of 2x17x5x4      2x5x4x17
    nChw8c of 2x17x5x4    2x3x5x4x8      the seven pads of the channels are elements of it

Its elements in row-major order are the buffer, address by address. Halos are elements of it too. A layout whose
addresses are not all used, or used twice, has no physical tensor, nor has one with a swizzle, or on other axes than
memory.

A reorder from one physical tensor to another is four kinds of steps, each left out where it changes nothing:

    slice          pads of the source go
    pad            pads of the destination come, holding its policy
    reshape        a dim becomes its digits, or the other way round
    transpose      the digits change places

A dim is sliced and padded where that is a cut of its outermost digit: in the source, or else in the destination. So
nchw to nChw8c is pad, reshape, transpose, and the way back transpose, reshape, slice. Where it is neither (17 channels
from blocks of 8 to blocks of 12), and where the blocks do not divide one another, the dim is made whole in between,
which takes a second transposition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from layout_ir.algebra.pads import PadPolicy
from layout_ir.errors import LayoutError, shape_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layout_ir.algebra.layout import Layout


@dataclass(frozen=True, slots=True)
class PhysicalDim:
    """A dim of a physical tensor: `count` values of (y div `unit`), where y is a position in logical dim `dim`."""

    dim: int
    unit: int
    count: int


@dataclass(frozen=True)
class PhysicalTensor:
    """The tensor that holds a value of logical shape `extents`, dense and row-major, one dim per factor.

    Index x of logical dim d lies at position x + `lo[d]` of its padded extent; all other positions are pads, which hold
    what `pad` says.
    """

    extents: tuple[int, ...]
    dims: tuple[PhysicalDim, ...]
    lo: tuple[int, ...]
    pad: PadPolicy = "undef"

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the physical tensor."""
        return tuple(dim.count for dim in self.dims)

    def padded_extent(self, dim: int) -> int:
        """How many positions logical dim `dim` has, pads included."""
        return prod(place.count for place in self.dims if place.dim == dim)

    def is_padded(self, dim: int) -> bool:
        """Whether logical dim `dim` has pads."""
        return self.padded_extent(dim) != self.extents[dim]

    def places(self, dim: int) -> tuple[int, ...]:
        """The numbers of the physical dims that logical dim `dim` has its digits in, coarse to fine.

        Of a dim of one position, the first of its physical dims, if it has one.
        """
        mine = [k for k, place in enumerate(self.dims) if place.dim == dim]
        digits = [k for k in mine if self.dims[k].count != 1]
        return tuple(sorted(digits, key=lambda k: -self.dims[k].unit) or mine[:1])

    def with_dim(self, dim: int, count: int, low: int) -> PhysicalTensor:
        """The tensor with `count` values in the outermost digit of `dim`, `low` pads in front of its elements."""
        at = self.places(dim)[0]
        dims = (*self.dims[:at], replace(self.dims[at], count=count), *self.dims[at + 1 :])
        return replace(self, dims=dims, lo=(*self.lo[:dim], low, *self.lo[dim + 1 :]))


def pad_boxes(tensor: PhysicalTensor) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The boxes, each as where it starts and its sizes, that together are the pads of `tensor`; they may overlap.

    Pads of a dim are positions in front of its elements and behind them: in mixed radix, at most one box per digit
    for either end.

    >>> layout = Format.from_tag("nChw8c").bind((2, 17, 5, 4))
    >>> pad_boxes(physical_tensor(layout))
    [((0, 2, 0, 0, 1), (2, 1, 5, 4, 7))]
    """
    boxes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    shape = tensor.shape
    if 0 in shape:
        return []

    def add(fixed: dict[int, int], at: int, low: int, high: int) -> None:
        if low < high:
            starts = tuple(low if k == at else fixed.get(k, 0) for k in range(len(shape)))
            sizes = tuple(high - low if k == at else 1 if k in fixed else n for k, n in enumerate(shape))
            boxes.append((starts, sizes))

    for dim, extent in enumerate(tensor.extents):
        end = tensor.lo[dim] + extent
        front, behind = dict[int, int](), dict[int, int]()
        before, rest = tensor.lo[dim], end
        for number, at in enumerate(tensor.places(dim)):
            unit, count = tensor.dims[at].unit, tensor.dims[at].count
            if before:
                front[at], before = divmod(before, unit)
                add({k: front[k] for k in front if k != at}, at, 0, front[at])
            if rest or not number:
                behind[at], rest = divmod(rest, unit)
                add({k: behind[k] for k in behind if k != at}, at, behind[at] + (rest > 0), count)
    return boxes


def row_major(extents: Sequence[int]) -> PhysicalTensor:
    """The physical tensor of a row-major value without pads: the value itself."""
    dims = tuple(PhysicalDim(dim, 1, extent) for dim, extent in enumerate(extents))
    return PhysicalTensor(tuple(extents), dims, (0,) * len(dims))


def physical_tensor(layout: Layout) -> PhysicalTensor:
    """The physical tensor of `layout`. Raises LayoutError, with the reason, where it has none."""
    if layout.swizzle is not None:
        raise LayoutError(f"{layout} has no physical tensor: it has a swizzle")
    if layout.axes:
        raise LayoutError(
            f"{layout} has no physical tensor: it lies on {', '.join(layout.axes)}, not in memory"
        )
    units = [1] * layout.rank
    dims: list[tuple[int, PhysicalDim]] = []
    for factor in reversed(layout.factors):
        dims.append((factor.stride, PhysicalDim(factor.dim, units[factor.dim], factor.count)))
        units[factor.dim] *= factor.count
    dims.reverse()
    if not _are_dense(dims):
        # Strides may be written in any order; dims of one position lie anywhere.
        dims.sort(key=lambda entry: (entry[1].count > 1, -entry[0]))
    size = prod(dim.count for _, dim in dims)
    if not _are_dense(dims) or layout.offset:
        raise LayoutError(
            f"{layout} has no physical tensor: it does not fill its addresses from 0 on, each once"
        )
    if layout.extent > size:
        raise LayoutError(
            f"{layout} has no physical tensor: its buffer has {layout.extent} elements, {size} of which are used"
        )
    return PhysicalTensor(layout.shape, tuple(dim for _, dim in dims), layout.lo, layout.pad)


def _are_dense(dims: Sequence[tuple[int, PhysicalDim]]) -> bool:
    """Whether the strides are those of a row-major tensor; any are of one without elements."""
    running = 1
    for stride, dim in reversed(dims):
        if dim.count > 1 and stride != running:
            return any(other.count == 0 for _, other in dims)
        running *= dim.count
    return True


# Steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SliceStep:
    """`sizes` elements of each dim, from `starts` on."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PadStep:
    """More elements `before` and `after` those of each dim, holding what `pad` says; anything, where it is undef."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    pad: PadPolicy


@dataclass(frozen=True, slots=True)
class ReshapeStep:
    """The elements in row-major order under another shape."""

    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TransposeStep:
    """Dim k of the result is dim `perm[k]`."""

    perm: tuple[int, ...]


TensorStep = SliceStep | PadStep | ReshapeStep | TransposeStep


def evaluate(steps: Iterable[TensorStep], array: NDArray[Any], pad: Any) -> NDArray[Any]:
    """`array` after `steps`; `pad` is the element that their pads hold."""
    import numpy as np

    for step in steps:
        match step:
            case SliceStep(starts, sizes):
                array = array[tuple(slice(a, a + n) for a, n in zip(starts, sizes, strict=True))]
            case PadStep(before, after):
                array = np.pad(array, list(zip(before, after, strict=True)), constant_values=pad)
            case ReshapeStep(shape):
                array = array.reshape(shape)
            case TransposeStep(perm):
                array = array.transpose(perm)
    return array


class _Steps:
    """A list of steps that grows at its end, and the shape that they make."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self.steps: list[TensorStep] = []

    def slice(self, starts: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        if sizes != self.shape:
            self.steps.append(SliceStep(starts, sizes))
            self.shape = sizes

    def pad(self, before: tuple[int, ...], after: tuple[int, ...], policy: PadPolicy) -> None:
        if any(before) or any(after):
            self.steps.append(PadStep(before, after, policy))
            self.shape = tuple(b + n + a for b, n, a in zip(before, self.shape, after, strict=True))

    def reshape(self, shape: tuple[int, ...]) -> None:
        if self.steps and isinstance(self.steps[-1], ReshapeStep) and shape != self.shape:
            self.steps.pop()
        if shape != self.shape:
            self.steps.append(ReshapeStep(shape))
            self.shape = shape

    def transpose(self, perm: tuple[int, ...]) -> None:
        if perm != tuple(range(len(perm))):
            self.steps.append(TransposeStep(perm))
            self.shape = tuple(self.shape[k] for k in perm)


# Reorders ---------------------------------------------------------------------------------------------------------


class _Fit(NamedTuple):
    """How the pads of one dim change, in positions: how many are cut off, then how many are added, at either end."""

    cut: tuple[int, int]
    add: tuple[int, int]

    def divides(self, unit: int) -> bool:
        return all(number % unit == 0 for number in (*self.cut, *self.add))


def reorder_steps(src: PhysicalTensor, dst: PhysicalTensor) -> list[TensorStep]:
    """The steps that make `dst` of `src`: the same elements, pads as the policy of `dst` says.

    Ensures that pads of `dst` hold its policy whatever the source holds in its pads, unless both have the same policy:
    then those of the source, which hold it already, stay where they can. Raises LayoutError where the shapes differ.

    >>> x, y = (Format.from_tag(tag).bind((2, 17, 5, 4)) for tag in ("nchw", "nChw8c"))
    >>> for step in reorder_steps(physical_tensor(x), physical_tensor(y)):
    ...     print(step)
    PadStep(before=(0, 0, 0, 0), after=(0, 7, 0, 0), pad='zero')
    ReshapeStep(shape=(2, 3, 8, 5, 4))
    TransposeStep(perm=(0, 1, 3, 4, 2))
    """
    if src.extents != dst.extents:
        raise LayoutError(
            f"a reorder keeps the shape: source has {shape_text(src.extents)}, destination {shape_text(dst.extents)}"
        )
    if (src.dims, src.lo) == (dst.dims, dst.lo) and (
        dst.pad == "undef" or repr(src.pad) == repr(dst.pad) or prod(src.shape) == prod(src.extents)
    ):
        return []
    steps = _Steps(src.shape)
    if 0 in (*src.extents, *src.shape, *dst.shape):
        if prod(src.shape) or prod(dst.shape):
            steps.reshape((prod(src.shape),))
            steps.slice((0,), (0,))
            steps.pad((0,), (prod(dst.shape),), dst.pad)
        steps.reshape(dst.shape)
        return steps.steps
    fits = {dim: fit for dim in range(len(src.extents)) if (fit := _fit(src, dst, dim)) is not None}
    at_source = {dim: fit for dim, fit in fits.items() if fit.divides(_outer_unit(src, dim))}
    fits = {dim: fit for dim, fit in fits.items() if dim not in at_source}
    at_destination = {dim: fit for dim, fit in fits.items() if fit.divides(_outer_unit(dst, dim))}
    between = {dim: fit for dim, fit in fits.items() if dim not in at_destination}

    here = _fitted(steps, src, at_source, dst.pad)
    there = dst
    for dim, fit in at_destination.items():
        place = dst.dims[dst.places(dim)[0]]
        count = place.count + (sum(fit.cut) - sum(fit.add)) // place.unit
        there = there.with_dim(dim, count, dst.lo[dim] + fit.cut[0] - fit.add[0])
    whole = set(between) | {
        dim
        for dim in range(len(src.extents))
        if dim not in between and not _divide(_bounds(here, there, dim))
    }
    if whole:
        joined = _joined(here, there, whole)
        _rearrange(steps, here, joined)
        here = _fitted(steps, joined, between, dst.pad)
    _rearrange(steps, here, there)
    _fitted(steps, there, at_destination, dst.pad)
    steps.reshape(dst.shape)
    return steps.steps


def _fit(src: PhysicalTensor, dst: PhysicalTensor, dim: int) -> _Fit | None:
    """How the pads of `dim` change; None where they stay as they are."""
    behind = [side.padded_extent(dim) - side.extents[dim] - side.lo[dim] for side in (src, dst)]
    had, wanted = (src.lo[dim], behind[0]), (dst.lo[dim], behind[1])
    kept = (0, 0)
    if dst.pad == "undef" or repr(src.pad) == repr(dst.pad):
        kept = (min(had[0], wanted[0]), min(had[1], wanted[1]))
    cut, add = (tuple(n - k for n, k in zip(side, kept, strict=True)) for side in (had, wanted))
    return _Fit((cut[0], cut[1]), (add[0], add[1])) if any((*cut, *add)) else None


def _outer_unit(tensor: PhysicalTensor, dim: int) -> int:
    """The unit of the outermost digit of `dim`; beyond every number of pads where the tensor has no dim for it."""
    places = tensor.places(dim)
    return tensor.dims[places[0]].unit if places else 1 << 62


def _fitted(
    steps: _Steps, tensor: PhysicalTensor, fits: dict[int, _Fit], policy: PadPolicy
) -> PhysicalTensor:
    """`tensor` after cutting and adding pads in the outermost digits of the dims of `fits`; adds the steps."""
    rank = len(tensor.dims)
    starts, ends, before, after = ([0] * rank for _ in range(4))
    result = tensor
    for dim, fit in fits.items():
        at = tensor.places(dim)[0]
        unit = tensor.dims[at].unit
        starts[at], ends[at] = (number // unit for number in fit.cut)
        before[at], after[at] = (number // unit for number in fit.add)
        count = tensor.dims[at].count - starts[at] - ends[at] + before[at] + after[at]
        result = result.with_dim(dim, count, tensor.lo[dim] - fit.cut[0] + fit.add[0])
    sizes = tuple(n - a - b for n, a, b in zip(tensor.shape, starts, ends, strict=True))
    steps.slice(tuple(starts), sizes)
    steps.pad(tuple(before), tuple(after), policy)
    return result


def _joined(src: PhysicalTensor, dst: PhysicalTensor, whole: set[int]) -> PhysicalTensor:
    """`src` in the order of `dst`, each dim of `whole` as one physical dim where `dst` has its first, all others in the
    digits of `dst`."""
    dims: list[PhysicalDim] = []
    for place in dst.dims:
        if place.dim not in whole:
            dims.append(place)
        elif all(other.dim != place.dim for other in dims):
            dims.append(PhysicalDim(place.dim, 1, src.padded_extent(place.dim)))
    return replace(src, dims=tuple(dims))


def _bounds(src: PhysicalTensor, dst: PhysicalTensor, dim: int) -> list[int]:
    """The units at which digits of `dim` begin or end in either tensor, ascending."""
    digits = [d for side in (src, dst) for d in side.dims if d.dim == dim and d.count != 1]
    return sorted({1} | {bound for d in digits for bound in (d.unit, d.unit * d.count)})


def _divide(bounds: Sequence[int]) -> bool:
    return all(upper % lower == 0 for lower, upper in pairwise(bounds))


def _rearrange(steps: _Steps, src: PhysicalTensor, dst: PhysicalTensor) -> None:
    """Reshape into the digits that both have in common, transpose, reshape.

    Requires equal padded extents, and units of each dim that divide one another."""
    bounds = [_bounds(src, dst, dim) for dim in range(len(src.extents))]
    first, second = (_digits(side, bounds) for side in (src, dst))
    # Digits of one value lie anywhere. Those that both sides have move along, so that no reshape is needed for them.
    order = [key for key in second if key in set(first)]
    kept = [key for key in first if key in set(second)]
    if [key for key in order if second[key] != 1] != [key for key in kept if first[key] != 1]:
        steps.reshape(tuple(first[key] for key in kept))
        steps.transpose(tuple(kept.index(key) for key in order))
    steps.reshape(dst.shape)


def _digits(tensor: PhysicalTensor, bounds: Sequence[Sequence[int]]) -> dict[tuple[int, int], int]:
    """The digits of a tensor cut at `bounds`, outermost first: (dim, unit) and how many values each has.

    The k-th digit of one value has the unit -k: it is recognized by its turn alone."""
    found: dict[tuple[int, int], int] = {}
    for place in tensor.dims:
        if place.count == 1:
            turn = sum(unit <= 0 for dim, unit in found if dim == place.dim)
            found[place.dim, -turn] = 1
            continue
        end = place.unit * place.count
        inside = [bound for bound in bounds[place.dim] if place.unit <= bound <= end]
        for upper, lower in pairwise(reversed(inside)):
            found[place.dim, lower] = upper // lower
    return found
