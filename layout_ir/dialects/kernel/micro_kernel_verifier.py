"""Whether the numbers of a micro-kernel fit together, and whether the plan around it can have it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from layout_ir.dialects.kernel.plan import (
    LINE,
    AnyLoop,
    Axis,
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    PaddedCopy,
    Plan,
    Staged,
    Step,
    Tile,
)
from layout_ir.dialects.kernel.plan_accesses import PlanElements, loop_moves
from layout_ir.errors import LayoutError
from layout_ir.symbolic.symint import Size

LONGEST = 256
"""Rows, columns, ways or elements that the registers of one iteration hold at most."""

LARGEST = 1 << 20
"""Bytes of a staging buffer, which is on the stack, at most."""

DEEPEST = 64
"""Loops around a micro-kernel, levels of a dim, blockings of a tile at most: code for each is nested."""

FARTHEST = 1 << 32
"""Bytes by which prefetches run ahead at most."""

SIDES = ("source", "destination")

Node = Plan | Step | AnyLoop | Kernel


class PlanError(LayoutError):
    """What is wrong with a plan; `node` is the part that it is about."""

    def __init__(self, message: str, node: Node | None = None):
        super().__init__(message)
        self.node = node


def check_micro_kernel(step: Step, elements: PlanElements, *, is_staged: bool) -> None:
    """Raises PlanError where the numbers of the micro-kernel do not fit together, or the plan cannot have it.

    `is_staged`: whether the step fills or empties a staging buffer.
    """
    kernel = step.kernel
    if elements.conversion is not None:
        if not isinstance(kernel, Copy | Tile | Interleave | Fill) and not (
            isinstance(kernel, Staged) and kernel.then
        ):
            raise PlanError("moves elements, but the plan converts them", kernel)
        if kernel.streaming and elements.packed[1]:
            raise PlanError("halves of bytes are not streamed", kernel)
    if not isinstance(kernel, Copy | Staged):
        check_width(kernel.width, kernel)
        if kernel.width % elements.width:
            raise PlanError(
                f"elements of {kernel.width} bytes are no whole elements of {elements.width}", kernel
            )
        wanted = elements.widths[1] if isinstance(kernel, Fill) else elements.width
        if elements.conversion is not None and kernel.width != wanted:
            raise PlanError(f"the elements have width {wanted}, not {kernel.width}", kernel)
    if isinstance(kernel, Copy | Elements | Fill | PaddedCopy):
        check_positive(kernel, count=kernel.inner.count)
        if kernel.inner.valid:
            raise PlanError(f"'{kernel.inner}' carries pads: only the rows of a tile do", kernel)
    match kernel:
        case Copy():
            check_positive(kernel, run=kernel.run)
        case Elements():
            pass
        case Fill():
            check_positive(kernel, run=kernel.run)
            _check_pads(kernel, kernel.value, kernel.width, run=kernel.run)
            if elements.packed[1] and kernel.value >= 16:
                raise PlanError(f"{kernel.value} are no bits of a pad of half a byte", kernel)
        case PaddedCopy():
            if not 0 < kernel.valid < kernel.run:
                raise PlanError(f"{kernel.valid} bytes are valid of a run of {kernel.run}", kernel)
            _check_pads(kernel, kernel.value, kernel.width, run=kernel.run, valid=kernel.valid)
            _check_registers(kernel, "elements", kernel.run // kernel.width)
        case Tile():
            _check_tile(step, kernel, elements)
        case Interleave():
            _check_interleave(kernel, elements)
        case Staged():
            _check_staged(kernel, elements, is_staged=is_staged)
            check_whole([kernel.src_stride], elements, kernel)


def _check_pads(kernel: Kernel, value: int, width: int, **sizes: Size) -> None:
    """Raises PlanError where one of the named sizes is no whole number of pads, or `value` no pad of `width` bytes."""
    for name, size in sizes.items():
        if size % width:
            raise PlanError(f"{name} is {size}, no multiple of the pad's {width} bytes", kernel)
    if not 0 <= value < 1 << 8 * width:
        raise PlanError(f"{value} are no bits of a pad of {width} bytes", kernel)


def _check_tile(step: Step, tile: Tile, elements: PlanElements) -> None:
    rows, cols = tile.rows, tile.cols
    check_positive(tile, rows=rows.count, cols=cols.count)
    if not 0 <= tile.prefetch_distance <= FARTHEST:
        raise PlanError(f"prefetches run 0 to {FARTHEST} bytes ahead, not {tile.prefetch_distance}", tile)
    if rows.fold:
        raise PlanError("rows are not folded, only columns", tile)
    if cols.fold < 0 or (cols.fold and cols.count % cols.fold):
        raise PlanError(f"{cols.count} columns are no whole folds of {cols.fold}", tile)
    if not 0 <= tile.valid < rows.count:
        raise PlanError(f"{tile.valid} rows are valid of {rows.count}", tile)
    _check_pads(tile, tile.pad, tile.width)
    high, wide = (_check_schedule(tile, name, axis) for name, axis in (("rows", rows), ("cols", cols)))
    if tile.valid and high != rows.count:
        raise PlanError(f"rows that are pads need a tile of all {rows.count} rows, not of {high}", tile)
    if elements.conversion is not None and (cols.fold or tile.valid or tile.square):
        raise PlanError("where elements convert, tiles have no folds, no pads and are not square", tile)
    if tile.square:
        least, most = 16 // tile.width, LINE // tile.width
        if high != wide or index(high).bit_count() != 1 or not least <= high <= most:
            raise PlanError(
                f"a square tile has a power of two of rows and columns, {least} to {most}: not {high} x {wide}",
                tile,
            )
        if tile.valid:
            raise PlanError("a square tile has no rows that are pads", tile)
    if elements.once:
        _check_once(step, tile, elements)


def _check_schedule(tile: Tile, name: str, axis: Axis) -> Size:
    """Rows or columns of the tile itself, the last block of the axis. Raises PlanError where there is none."""
    sizes = [blocking.size for blocking in tile.schedule if blocking.axis == name]
    if len(tile.schedule) > DEEPEST:
        raise PlanError(f"a schedule of {len(tile.schedule)} loops: {DEEPEST} are the most", tile)
    if not sizes or not 0 < sizes[-1] <= axis.count:
        shown = sizes[-1] if sizes else "no"
        raise PlanError(f"the last block of {name} is the tile, of 1 to {axis.count}, not {shown}", tile)
    if min(sizes) < 1:
        raise PlanError(f"blocks of {min(sizes)} {name}, at least 1 is needed", tile)
    _check_registers(tile, name, sizes[-1])
    return sizes[-1]


def _check_once(step: Step, tile: Tile, elements: PlanElements) -> None:
    """Raises PlanError where a tile would be moved back over another, or begin or end inside a byte."""
    counts = {"rows": tile.rows.count, "cols": tile.cols.count}
    sizes = [*((blocking.axis, blocking.size) for blocking in tile.schedule), *counts.items()]
    for axis, size in sizes:
        if size % tile.block(axis):
            raise PlanError(
                f"{size} {axis} are no whole tiles of {tile.block(axis)}, and no element may be converted twice",
                tile,
            )
    strides = tile.rows.stride, tile.cols.stride
    for side, axis in enumerate(("cols", "rows")):
        if not elements.packed[side]:
            continue
        if tile.block(axis) % 2:
            raise PlanError(f"a tile of {tile.block(axis)} {axis} is no whole number of bytes", tile)
        begins = (step.src, step.dst)[side]
        _check_aligned(step, side, 2, (begins, strides[side]), "tiles of halves of bytes are")


def _check_interleave(kernel: Interleave, elements: PlanElements) -> None:
    check_positive(kernel, ways=kernel.ways, count=kernel.count)
    if not 0 < kernel.block <= kernel.count:
        raise PlanError(f"a block of {kernel.block} elements does not fit ways of {kernel.count}", kernel)
    _check_registers(kernel, "ways", kernel.ways)
    _check_registers(kernel, "elements of a way", kernel.block)
    if elements.once:
        raise PlanError(
            "ways are interleaved where elements may be converted twice: not with beta or 4 bits", kernel
        )


def _check_staged(kernel: Staged, elements: PlanElements, *, is_staged: bool) -> None:
    if is_staged:
        raise PlanError("there is one staging buffer: it is not filled from another", kernel)
    check_positive(kernel, rows=kernel.rows, iterations=kernel.iterations)
    size, stride = kernel.size, kernel.row_stride
    if size < LINE:
        raise PlanError(f"a staging buffer of {size} bytes is less than a line of {LINE}", kernel)
    if kernel.then and (stride or kernel.streaming or any(elements.packed)):
        raise PlanError(
            "a staging buffer whose elements other steps move has one row, is not streamed, and holds whole bytes",
            kernel,
        )
    if not stride and (kernel.rows > 1 or kernel.iterations > 1):
        raise PlanError("rows of a staging buffer need a row stride", kernel)
    if stride and (stride < size or (stride - kernel.dst_stride) % LINE):
        raise PlanError(
            f"rows of {size} bytes, {kernel.dst_stride} apart, have row stride {stride} in the buffer: "
            f"at least their size is needed, and the same rest by {LINE}",
            kernel,
        )
    if kernel.iterations > 1:
        if size % LINE:
            raise PlanError(f"rows are continued by whole lines of {LINE}, not by {size} bytes", kernel)
        if stride < size + LINE:
            raise PlanError(
                f"rows that are continued have row stride {stride}: {size} and a line of {LINE} are needed",
                kernel,
            )
    if kernel.extent > LARGEST:
        raise PlanError(
            f"a staging buffer of {kernel.extent} bytes on the stack: {LARGEST} are the most", kernel
        )


# Stores that bypass the caches ---------------------------------------------------------------------------------------


def check_streaming(step: Step, elements: PlanElements) -> None:
    """Raises PlanError where the stores of the micro-kernel past the caches would not be aligned."""
    found = _stores(step.kernel, elements)
    if found is None:
        return
    size, distances = found
    if index(size).bit_count() != 1:
        raise PlanError(
            f"streams {size} bytes at a time: a power of two, or runs of whole lines, are needed", step.kernel
        )
    _check_aligned(step, 1, min(size, LINE), distances, f"streams {size} bytes at a time,")


def _stores(kernel: Kernel, elements: PlanElements) -> tuple[Size, tuple[Size, ...]] | None:
    """Bytes of a store that may bypass the caches, and how far apart the stores are; None where none does."""
    dst = None if elements.conversion is None else elements.widths[1]
    match kernel:
        case Copy():
            size = kernel.run * (dst or 1)
            return (LINE if size % LINE == 0 else size, (kernel.inner.dst,)) if size >= 16 else None
        case PaddedCopy():
            return (kernel.run, (kernel.inner.dst,)) if kernel.run >= 16 else None
        case Tile():
            # One for every column, from where its rows begin: the schedule says where that is.
            width, fold = dst or kernel.width, (kernel.cols.outer_stride,) if kernel.cols.fold else ()
            blocks = [blocking.size * width for blocking in kernel.schedule if blocking.axis == "rows"]
            return blocks[-1], (kernel.rows.count * width, *blocks, kernel.cols.stride, *fold)
        case Interleave():
            width, stride = dst or kernel.width, kernel.stride if kernel.inverse else 0
            return kernel.block * width, (kernel.count * width, stride)
        case Elements() | Fill() | Staged():
            return None


def _check_aligned(step: Step, side: int, size: Size, own: Sequence[Size], what: str) -> None:
    """Raises PlanError where `step` does not get from one place of `side` to the next by multiples of `size`.

    `own` are the distances of its micro-kernel. Where the first place is does not matter for stores, the call asks for
    that.
    """
    for distance in (*own, *(move for loop in step.loops for move in loop_moves(loop)[side])):
        if distance % size:
            raise PlanError(
                f"{what} {distance} apart in the {SIDES[side]}: multiples of {size} are needed", step.kernel
            )


# Numbers -------------------------------------------------------------------------------------------------------------


def check_positive(node: Node, **numbers: Size) -> None:
    """Raises PlanError where one of the named numbers is less than 1."""
    for name, value in numbers.items():
        if value < 1:
            raise PlanError(f"{name} is {value}, at least 1 is needed", node)


def check_width(width: int, node: Node) -> None:
    """Raises PlanError where elements of `width` bytes are none that code is made for."""
    if width not in (1, 2, 4, 8):
        raise PlanError(f"elements have 1, 2, 4 or 8 bytes, not {width}", node)


def check_whole(numbers: Sequence[Size], elements: PlanElements, node: Node) -> None:
    """Raises PlanError where one of the numbers, in bytes, is no multiple of an element."""
    for number in numbers:
        if number % elements.width:
            raise PlanError(f"{number} bytes are no multiple of the element's {elements.width}", node)


def _check_registers(node: Node, what: str, count: Size) -> None:
    if count > LONGEST:
        raise PlanError(f"{count} {what} are moved at once: {LONGEST} are the most", node)
