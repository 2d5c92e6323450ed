"""Which rounds of a step threads share.

What decides is the destination. Two threads that write every other block of 256 or 512 bytes take its lines from each
other, those too that their processors ask for ahead: 256 x 14 x 14 in f32 from nchw to nhwc, in the caches of two
threads, moved 40 GB/s where each wrote half of every pixel's channels, and 102 to 144 with half of the pixels each.
So of the loops that split evenly the one with the longest steps in the destination is shared, of a tile the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layout_ir.backends.llvm.symbolic.guarding import unguarded
from layout_ir.dialects.kernel.plan import (
    AnyLoop,
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    PaddedCopy,
    Staged,
    Step,
    Tile,
    VariableBoundLoops,
    iterations,
)

_EVEN = 16
"""Rounds that any small number of threads share evenly enough."""

_FEW = 4

_LONG = 2048
"""Elements of a row of the destination whose parts are far enough from each other."""

_RUN = 256
"""Bytes, or elements that are converted, of one long run that a thread does not go below."""


@unguarded
def split_of(items: Sequence[AnyLoop], kernel: Kernel, threads: int = 1) -> int:
    """The loop that threads share, as `Step.split` numbers it: the outermost that splits evenly, else the best.

    For an unknown number of threads (1) loops of 16 rounds are even enough.
    """
    counts = [0 if isinstance(item, VariableBoundLoops) else iterations((item,)) for item in items]
    counts.append(_kernel_rounds(kernel))
    if threads == 1:
        best = max(range(len(counts)), key=lambda k: counts[k])
        return next((k for k, n in enumerate(counts) if n >= _EVEN), best)
    # The rounds of whoever has most, as a part of all: 1 / threads where all have the same.
    most = [-(-n // threads) / n if n else 1.0 for n in counts]
    best = min(range(len(counts)), key=lambda k: most[k])
    return next((k for k, part in enumerate(most) if part * threads <= 1 + 1 / _EVEN), best)


def shared_by(step: Step, threads: int) -> Step:
    """`step` for so many threads."""
    return replace(step, parallel=split_of(step.loops, step.kernel, threads))


@unguarded
def parallel_blocking(tile: Tile) -> int:
    """The cut of the schedule whose rounds are shared: the first of the columns, of the rows where columns are few.

    Few are less than four rounds where what a thread writes of a row would be short, else less than sixteen.
    """
    numbers = {axis: _rounds(tile, axis) for axis in ("rows", "cols")}
    few = _FEW if tile.rows.count < _LONG else _EVEN
    axis = "cols" if numbers["cols"] >= min(numbers["rows"], few) else "rows"
    return _first(tile, axis)


def _first(tile: Tile, axis: str) -> int:
    return next(depth for depth, cut in enumerate(tile.schedule) if cut.axis == axis)


def _rounds(tile: Tile, axis: str) -> int:
    count = tile.rows.count if axis == "rows" else tile.cols.count
    return -(-count // tile.schedule[_first(tile, axis)].size)


def _kernel_rounds(kernel: Kernel) -> int:
    """Rounds of the kernel that threads may share."""
    match kernel:
        case Staged():
            return 1
        case Tile():
            return _rounds(kernel, kernel.schedule[parallel_blocking(kernel)].axis)
        case Interleave():
            return -(-kernel.count // kernel.block)
        case Elements():
            return kernel.inner.count
        case Copy() | Fill() | PaddedCopy():
            return kernel.inner.count if kernel.inner.count > 1 else -(-kernel.run // _RUN)
