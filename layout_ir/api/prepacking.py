"""All weights of a model into the layouts of its kernels, in one native call.

    packed = li.prepack(weights, "OhwI64o4i", dtype="i8", scales=scales, compensation=("s8s8",))

A weight on its own is small: a call for each leaves threads without work at its end, and pays for dispatching them at
its beginning. Here the parts of all weights are one list, which the threads share. Elements are converted on the way,
and where kernels for 8-bit integers take compensation sums (`channel_sums`), those are computed while the weights are
in the cache. They lie behind the weights as oneDNN has them: an i32 for each channel, pads included, first those of
"s8s8", then those of "zero_point".

Of a weight with sums, a task is some of its outermost blocks of channels; of any other, a part of its reorder.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.reshape import reshape
from layout_ir.api.reorder_compilation import quantization_of_sides
from layout_ir.argument_checks import (
    check_flags,
    check_threads,
    checked_integers,
    checked_row,
)
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.arrays.protocols import element_type_of, storage_of
from layout_ir.elements.aligned_arrays import aligned_empty, aligned_zeros
from layout_ir.elements.element_types import bits_of, canonical_name
from layout_ir.elements.quantization import Conversion, conversion_between, sides_of
from layout_ir.errors import LayoutError, public, public_methods
from layout_ir.forking import loading

if TYPE_CHECKING:
    from layout_ir.backends.llvm.runtime.task_list import Task

Compensation = Literal["s8s8", "zero_point"]
COMPENSATIONS: tuple[Compensation, ...] = ("s8s8", "zero_point")
"""The sums that may stand behind weights of i8, in the order in which they do: -128 times the sum of each channel, for
kernels that make a source of s8 one of u8; minus the sum, for sources with a zero point."""

Array = NDArray[Any]

_Sums = tuple[int | None, int | None]
"""Where sums times -128 and times -1 begin, in bytes behind the start of the weight; None for none."""


@dataclass(frozen=True, eq=False)
class WeightPacking:
    """What becomes of one weight.

    `scale` belongs to the side that is quantized, one number or one for each channel (an array, or a list); None is
    none. A pair is the source's, which multiplies as the factors do that oneDNN is given, and the destination's, which
    divides. `channels` are the dims of output channels, which a number for each and the sums need: (0,) of
    (o, i, h, w), (0, 1) of (g, o, i, h, w), (1,) of a matmul's (k, n). `saturate` is that of `compile_reorder`.
    Raises LayoutError for channels that are no dims one behind the other, sums of another kind, and what is of another
    type.
    """

    source: TensorDesc
    destination: TensorDesc
    scale: Any = None
    channels: tuple[int, ...] = ()
    compensation: tuple[Compensation, ...] = ()
    saturate: bool = False

    def __post_init__(self) -> None:
        for name, side in (("source", self.source), ("destination", self.destination)):
            if not isinstance(side, TensorDesc):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise LayoutError(f"{name} of a weight is a TensorDesc, not {side!r}")
        channels = checked_integers("channels of a weight =", self.channels)
        first, shape = min(channels, default=0), self.source.shape
        if channels != tuple(range(first, first + len(channels))) or not 0 <= first <= len(shape) - len(
            channels
        ):
            raise LayoutError(f"channels {channels} are no dims of {shape}, one behind the other")
        for kind in checked_row("compensation of a weight =", self.compensation):
            if not isinstance(kind, str) or kind not in COMPENSATIONS:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise LayoutError(f"unknown compensation {kind!r}: known are {', '.join(COMPENSATIONS)}")
        check_flags(saturate=self.saturate)

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of source and destination, those of the sums included."""
        src, dst = self.source, self.destination
        sums = 4 * len(self.compensation) * self.channel_count if self.compensation else 0
        return src.layout.nbytes(src.dtype), dst.layout.nbytes(dst.dtype) + sums

    @property
    def channel_count(self) -> int:
        """Sums of one kind behind the weights: the product of the padded extents of `channels`."""
        return prod(self.destination.layout.padded_shape[dim] for dim in self.channels)


@public_methods
class Prepack:
    """A compiled list of weights: `prepack(sources, destinations)`; see `compile_prepack`."""

    def __init__(self, packings: Sequence[WeightPacking], threads: int) -> None:
        with loading:
            from layout_ir.backends.llvm.runtime.profile_file import measured_once
            from layout_ir.backends.llvm.runtime.task_list import TaskList

        self.packings = tuple(packings)
        volume = 0
        for number, packing in enumerate(self.packings):
            with _naming(number):
                if not isinstance(packing, WeightPacking):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise LayoutError(f"a WeightPacking is needed, not {packing!r}")
                volume += sum(
                    desc.layout.nbytes(desc.dtype) for desc in (packing.source, packing.destination)
                )
        measured_once(volume)
        self._tasks = TaskList(
            [
                task
                for k, packing in enumerate(self.packings)
                for task in _tasks_of(k, packing, threads, volume)
            ],
            threads,
        )
        self._sizes = [packing.sizes for packing in self.packings]

    @property
    def nbytes(self) -> int:
        """Bytes of all sources and destinations."""
        return sum(map(sum, self._sizes))

    def __call__(self, sources: Sequence[Array], destinations: Sequence[Array]) -> None:
        """Packs `sources`, the buffers of the weights in their order, into `destinations`.

        All are contiguous NumPy arrays of the elements of their side, at least as long as `WeightPacking.sizes`; no
        destination overlaps another buffer. Raises LayoutError for what does not fit, before anything is written.
        """
        if not len(sources) == len(destinations) == len(self.packings):
            raise LayoutError(
                f"{len(sources)} sources and {len(destinations)} destinations for {len(self.packings)} weights"
            )
        places: tuple[list[int], list[int]] = [], []
        for k, pair in enumerate(zip(sources, destinations, strict=True)):
            for writes, array in enumerate(pair):
                places[writes].append(self._address(k, array, writes=bool(writes)))
        self._check_apart(*places)
        self._tasks.run(*places)

    def _address(self, number: int, array: Array, *, writes: bool) -> int:
        """Where a buffer begins. Raises LayoutError where it does not fit."""
        packing, size = self.packings[number], self._sizes[number][writes]
        side, desc = ("destination", packing.destination) if writes else ("source", packing.source)
        name = f"{side} {number}"
        if not isinstance(array, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(f"{name} is of type {type(array).__name__}, expected a NumPy array")
        if array.itemsize != storage_of(desc.dtype).itemsize or array.dtype.hasobject:
            raise LayoutError(f"{name} has elements of {array.dtype}, expected those of {desc.dtype}")
        if not array.dtype.isnative:
            raise LayoutError(f"{name} is in the other byte order ({array.dtype}): convert it first")
        if not array.flags.c_contiguous:
            raise LayoutError(f"{name} is not contiguous: strides {array.strides}")
        if array.nbytes < size:
            raise LayoutError(f"{name} has {array.nbytes} bytes, expected {size}")
        if writes and not array.flags.writeable:
            raise LayoutError(f"{name} is read-only")
        return int(array.ctypes.data)

    def _check_apart(self, sources: list[int], destinations: list[int]) -> None:
        """Raises LayoutError where a destination overlaps another buffer. Sources may be shared."""
        spans = [
            (start, start + sizes[writes], writes, number)
            for writes, starts in enumerate((sources, destinations))
            for number, (start, sizes) in enumerate(zip(starts, self._sizes, strict=True))
            if sizes[writes]
        ]
        reached = written = (0, "")  # where all buffers, and where the destinations, have ended so far
        for start, stop, writes, number in sorted(spans):
            name = f"{('source', 'destination')[writes]} {number}"
            before = reached if writes else written
            if start < before[0]:
                raise LayoutError(f"{before[1]} and {name} overlap: packing needs buffers of their own")
            reached = max(reached, (stop, name))
            written = max(written, (stop, name)) if writes else written


def _tasks_of(number: int, packing: WeightPacking, threads: int, volume: int) -> list[Task]:
    """The tasks of weight `number` of a list that reads and writes `volume` bytes.

    Raises LayoutError, which names the weight.
    """
    with _naming(number):
        source, destination, channels = packing.source, packing.destination, packing.channels
        src, dst = source.layout, destination.layout
        if source.shape != destination.shape:
            raise LayoutError(
                f"packing keeps the shape: source has {source.shape}, destination has {destination.shape}"
            )
        if packing.compensation and not channels:
            raise LayoutError("compensation sums need the dims of the channels: give channels")
        if not src.nelems:
            if packing.compensation:
                raise LayoutError(f"compensation sums of a weight without elements, {source.shape}")
            return []
        start, size = dst.nbytes(destination.dtype), 4 * packing.channel_count
        at = {
            name: start + k * size
            for k, name in enumerate(x for x in COMPENSATIONS if x in packing.compensation)
        }
        return _tasks(number, packing, (at.get("s8s8"), at.get("zero_point")), threads, volume)


def _tasks(number: int, packing: WeightPacking, sums: _Sums, threads: int, volume: int) -> list[Task]:
    """The tasks of a weight, or of a part of weight `number`, whose sums begin so many bytes behind its start."""
    with loading:
        from layout_ir.backends.llvm.runtime.weight_tasks import weight_tasks

    src, dst, channels = packing.source.layout, packing.destination.layout, packing.channels
    scales = sides_of(packing.scale, packing.source.dtype, packing.destination.dtype, "scale")
    # Numbers per channel belong to one dim, so the channels of all groups are made one.
    several = [dim for dim in channels if src.shape[dim] != 1]
    if len(several) > 1 and any(x is not None and np.ndim(x) == 1 for x in scales):
        first, count = channels[0], len(channels)
        shape = *dst.shape[:first], prod(dst.shape[first : first + count]), *dst.shape[first + count :]
        try:
            src, dst = src.merge_dims(first, count), reshape(dst, shape, keep_pads=True)
        except LayoutError as error:
            return _tasks_of_each(number, packing, scales, sums, error, threads, volume)
        channels = several = channels[:1]
    conversion, values = _conversion(packing, src, next(iter((*several, *channels)), None))
    return list(weight_tasks(number, src, dst, conversion, values, channels, sums, threads, volume))


def _tasks_of_each(
    number: int, packing: WeightPacking, scales: tuple[Any, Any], sums: _Sums, reason: LayoutError, threads: int,
    volume: int,
) -> list[Task]:  # fmt: skip
    """The tasks of each index of the first dim of channels, as of a weight of its own: no layout says, for a `reason`,
    that the dims of the channels are one. Raises LayoutError where that dim has pads, which are in none of them, and
    where two indices share a byte."""
    from layout_ir.backends.llvm.runtime.weight_tasks import piece

    source, destination = packing.source, packing.destination
    dim, *rest = packing.channels
    extents = source.layout.shape
    count = prod(extents[each] for each in rest)
    behind = 4 * prod(destination.layout.padded_shape[each] for each in rest)
    for x in scales:
        if np.ndim(x) == 1 and len(x) != count * extents[dim]:
            raise LayoutError(f"{len(x)} scales, expected {count * extents[dim]}, one for each channel")
    tasks: list[Task] = []
    for k in range(extents[dim]):
        pieces = [piece(side.layout, dim, k, 1) for side in (source, destination)]
        bits = bits_of(source.dtype), bits_of(destination.dtype)
        whole = [found for found, b in zip(pieces, bits, strict=True) if found and found[1] * b % 8 == 0]
        if len(whole) < 2 or destination.layout.padded_shape[dim] != destination.layout.shape[dim]:
            raise LayoutError(
                f"numbers for each channel of dims {packing.channels} need them to be one, with the pads that are "
                f"written, or dim {dim} to be without, each index in bytes of its own: {reason}"
            ) from reason
        (src, src_at), (dst, dst_at) = whole
        part = replace(
            packing,
            source=TensorDesc(src.shape, source.dtype, src, scale=source.scale, zero_point=source.zero_point),
            destination=TensorDesc(
                dst.shape, destination.dtype, dst, scale=destination.scale, zero_point=destination.zero_point
            ),
            scale=tuple([x[k * count : (k + 1) * count] if np.ndim(x) == 1 else x for x in scales]),
            channels=tuple(rest),
        )
        shifted, zero = (None if at is None else at + k * behind for at in sums)
        tasks += [
            replace(
                task,
                src=task.src + src_at * bits[0] // 8,
                dst=task.dst + dst_at * bits[1] // 8,
            )
            for task in _tasks(number, part, (shifted, zero), threads, volume)
        ]
    return tasks


def _conversion(packing: WeightPacking, src: Layout, dim: int | None) -> tuple[Conversion, dict[str, Array]]:
    """What becomes of the elements of `src`, whose channels are `dim`, and its runtime parameters: all numbers, so that
    equal weights are one kernel."""
    sides = packing.source, packing.destination
    scale, zero_point = quantization_of_sides(*sides, packing.scale, None)
    dtypes = packing.source.dtype, packing.destination.dtype
    scales = tuple(
        None if x is None else np.asarray(x, np.float64) for x in sides_of(scale, *dtypes, "scale")
    )
    conversion, values = conversion_between(
        *dtypes, scale=scales, zero_point=zero_point, dim=dim, channels=0 if dim is None else src.shape[dim],
        saturate=packing.saturate,
    )  # fmt: skip
    number = np.float32 if conversion.computes == "f32" else np.float64
    return conversion, {name: np.ascontiguousarray(x, number) for name, x in values.items()}


@contextmanager
def _naming(number: int) -> Generator[None]:
    """What is raised inside names the weight."""
    try:
        yield
    except LayoutError as error:
        raise LayoutError(f"weight {number}: {error}") from error


@public
def compile_prepack(packings: Sequence[WeightPacking], *, threads: int | None = None) -> Prepack:
    """A callable that packs weights: all that `packings` say, in one call, on up to `threads` threads (None: as many
    as there are CPUs to run on). It may be called any number of times, from any number of threads.

    Raises LayoutError, which names the weight, where descriptors disagree, where no kernel moves the layouts, where
    sums are asked for of other elements than i8 or of pads that may not be zero, and where numbers do not fit.
    """
    with loading:
        from layout_ir.backends.llvm.runtime.thread_pool import cpus

    if threads is not None:
        check_threads(threads)
    return Prepack(packings, threads or cpus())


@public
def prepack(
    weights: Sequence[Array],
    formats: Format | str | Sequence[Format | str],
    *,
    dtype: str | None = None,
    source_dtype: str | None = None,
    scales: Sequence[Any] | None = None,
    channels: int | Sequence[int] = 0,
    compensation: Sequence[Compensation] = (),
    out: Sequence[Array] | None = None,
    threads: int | None = None,
) -> list[Array]:
    """`weights`, NumPy arrays in the order of their dims, each in its format: a row of stored elements for each.

    `formats` is one for each weight, or one for all. `dtype` names the elements of the results (those of the weights
    without it), `source_dtype` those of arrays for which NumPy has no type. `scales` has for each weight None, a
    number, or one for each of its output channels, which are the dims `channels` of every weight. With `compensation`,
    i8 weights are followed by sums of each channel (`COMPENSATIONS`), as bytes of the same array. `out` are arrays to
    write to, else there are new ones; `threads` share the whole list (None: as many as there are CPUs to run on).

    Weights that are not contiguous are copied first. Raises LayoutError, which names the weight, for what does not fit.
    """
    count = len(weights)
    each = [formats] * count if isinstance(formats, Format | str) else list(formats)
    given = [None] * count if scales is None else list(scales)
    for what, found in (("formats", each), ("scales", given), ("out", weights if out is None else out)):
        if len(found) != count:
            raise LayoutError(f"{what} has {len(found)} entries, expected {count}, one for each weight")
    dims = (index(channels),) if isinstance(channels, SupportsIndex) else tuple(channels)
    arrays = [np.ascontiguousarray(weight) for weight in weights]
    packings: list[WeightPacking] = []
    for number, (array, fmt, scale) in enumerate(zip(arrays, each, given, strict=True)):
        with _naming(number):
            name = element_type_of(array.dtype).name if source_dtype is None else canonical_name(source_dtype)
            if bits_of(name) < 8:
                raise LayoutError(
                    f"elements of {name} share bytes, and those of an array of {array.dtype} do not: give them as i8 "
                    f"or f32 with dtype = {name!r}, or the buffer to compile_prepack"
                )
            packings.append(
                WeightPacking(
                    TensorDesc(array.shape, name),
                    TensorDesc(array.shape, name if dtype is None else dtype, Format.of(fmt)),
                    scale, dims, tuple(compensation),
                )
            )  # fmt: skip
    prepared = compile_prepack(packings, threads=threads)
    results = [_fresh(packing) for packing in packings] if out is None else list(out)
    prepared(arrays, results)
    return results


def _fresh(packing: WeightPacking) -> Array:
    """A row for the destination; zeros where something in it is not written."""
    layout, kind = packing.destination.layout, storage_of(packing.destination.dtype)
    written = layout.is_dense() and (not layout.is_padded or layout.pad != "undef")
    size = -(-packing.sizes[1] // kind.itemsize)
    return aligned_empty((size,), kind) if written else aligned_zeros((size,), kind)
