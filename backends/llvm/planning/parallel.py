"""Which loop of a step is parallel: whose iterations threads divide among them.

What decides is the destination. Two threads that write every other block of 256 or 512 bytes take its lines from each
other, those too that their processors prefetch: 256 x 14 x 14 in f32 from nchw to nhwc, in the caches of two threads,
moved 40 GB/s where each wrote half of every pixel's channels, and 102 to 144 with half of the pixels each. So of the
loops that divide evenly the one with the longest steps in the destination is parallel, of a tile the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
from layout_ir.symbolic.guarding import unguarded
from layout_ir.symbolic.symint import Size, hint_of

_EVEN = 16
"""Iterations that any small number of threads divide evenly enough."""

_FEW = 4
"""Columns, in blocks, below which the rows of a tile with long rows are divided instead."""

_LONG = 2048
"""Elements of a row of the destination of which parts are long enough for two threads not to write the same lines."""

_RUN = 256
"""Bytes, or elements that are converted, of the smallest part of a run that a thread gets."""


@unguarded
def parallel_loop(loops: Sequence[AnyLoop], kernel: Kernel, threads: int = 1) -> int:
    """The number of the parallel loop, as in `Step.parallel`: the outermost that divides evenly, else the best.

    For an unknown number of threads (1) loops of 16 iterations are even enough.
    """
    counts = [0 if isinstance(loop, VariableBoundLoops) else iterations((loop,)) for loop in loops]
    counts.append(_kernel_iterations(kernel))
    if threads == 1:
        best = max(range(len(counts)), key=lambda k: counts[k])
        return next((k for k, n in enumerate(counts) if n >= _EVEN), best)
    # The iterations of the thread with most of them, as a part of all: 1 / threads where all have the same.
    most = [hint_of(-(-n // threads)) / hint_of(n) if n else 1.0 for n in counts]
    best = min(range(len(counts)), key=lambda k: most[k])
    return next((k for k, part in enumerate(most) if part * threads <= 1 + 1 / _EVEN), best)


def finished(at: Step, loops: tuple[AnyLoop, ...], kernel: Kernel) -> Step:
    """The step of these loops and kernel, from where `at` begins, for an unknown number of threads."""
    return replace(at, loops=loops, kernel=kernel, parallel=parallel_loop(loops, kernel))


def for_threads(step: Step, threads: int) -> Step:
    """`step` with the parallel loop for so many threads."""
    return replace(step, parallel=parallel_loop(step.loops, step.kernel, threads))


@unguarded
def parallel_blocking(tile: Tile) -> int:
    """The parallel one of the schedule's loops: the first over columns, or over rows where columns are few.

    Few are less than four blocks where what a thread writes of a row would be short, else less than sixteen.
    """
    blocks = {axis: _blocks(tile, axis) for axis in ("rows", "cols")}
    few = _FEW if tile.rows.count < _LONG else _EVEN
    axis = "cols" if blocks["cols"] >= min(blocks["rows"], few) else "rows"
    return _first(tile, axis)


def _first(tile: Tile, axis: str) -> int:
    return next(depth for depth, blocking in enumerate(tile.schedule) if blocking.axis == axis)


def _blocks(tile: Tile, axis: str) -> Size:
    count = tile.rows.count if axis == "rows" else tile.cols.count
    return -(-count // tile.schedule[_first(tile, axis)].size)


def _kernel_iterations(kernel: Kernel) -> Size:
    """Iterations of the kernel's own loop that threads may divide."""
    match kernel:
        case Staged():
            return 1
        case Tile():
            return _blocks(kernel, kernel.schedule[parallel_blocking(kernel)].axis)
        case Interleave():
            return -(-kernel.count // kernel.block)
        case Elements():
            return kernel.inner.count
        case Copy() | Fill() | PaddedCopy():
            return kernel.inner.count if kernel.inner.count > 1 else -(-kernel.run // _RUN)
