"""Times of compiled reorders and copies on this machine, on one thread, as cost models take them.

Every figure is the least of several batches: whatever else the machine does only adds. Buffers are used again and
again, so a size that fits a cache is measured in that cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm import compile_reorder
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime.copy_bandwidth import plain_copy
from layout_ir.backends.llvm.runtime.timing import Limits, race, touched_bytes
from layout_ir.passes.selection.costs.calibration import Calibration, Curve, Point, machine_name

SIDES = (3, 7, 14, 28, 56, 112, 224)
"""Image sides of networks. Sides of powers of two would put all channels into the same lines of a cache."""

SMALLEST, LARGEST = 1 << 11, 1 << 29
"""Bytes of source and destination together, of the first point of a curve, and of the last on any machine."""

_LIMITS = Limits(seconds=0.05, fewest=3, most=7, batch=0.0004)
"""Seven batches, three where each takes long."""


def time_ns(call: Callable[[], object]) -> int:
    """Nanoseconds of one call, at least 1: the least average of a few batches."""
    times = race({"call": call}, lambda _: inf, _LIMITS)
    return max(round(1e9 * times.best("call")), 1)


def reorder_time(source: Layout, destination: Layout, dtype: str) -> int:
    """Nanoseconds of the compiled reorder. Raises LayoutError where there is none."""
    kernel = compile_reorder(source, destination, dtype, threads=1)
    # Arrays take the shorter way into a kernel than addresses do.
    x, y = (
        touched_bytes(layout.nbytes(dtype)).view(f"u{kernel.plan.width}") for layout in (source, destination)
    )
    return time_ns(lambda: kernel(x, y))


def shapes() -> Iterator[tuple[int, int, int, int]]:
    """Shapes of f32 activations from L1 to four times the last cache; each doubles the bytes of the one before."""
    total = SMALLEST
    largest = min(max(4 * host().l3, 1 << 24), LARGEST)
    while total <= largest:
        side = max(s for s in SIDES if s == SIDES[0] or 32 * s * s * 8 <= total)
        yield 1, max(total // (side * side * 8 * 16), 1) * 16, side, side
        total *= 2


def calibrate(progress: Callable[[int, int], None] | None = None) -> Calibration:
    """Measures this machine; takes a few seconds. `progress` is told the steps done and all of them."""
    plain, blocked = Format.from_tag("nchw"), Format.from_tag("nChw8c")
    tiny = (1, 16, 1, 2)
    call = reorder_time(plain.bind(tiny), blocked.bind(tiny), "f32")
    reorders: list[Point] = []
    copies: list[Point] = []
    steps = list(shapes())
    for k, shape in enumerate(steps):
        a, b = plain.bind(shape), blocked.bind(shape)
        size = a.nbytes("f32")
        both = reorder_time(a, b, "f32") + reorder_time(b, a, "f32")
        reorders.append((2 * size, both // 2))
        x, y = touched_bytes(size), touched_bytes(size)
        copy = plain_copy(size)
        copies.append((2 * size, time_ns(lambda copy=copy, x=x, y=y: copy(x, y))))
        if progress is not None:
            progress(k + 1, len(steps))
    return Calibration(machine_name(), call, Curve.through(reorders), Curve.through(copies))
