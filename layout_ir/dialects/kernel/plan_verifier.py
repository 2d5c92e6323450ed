"""Whether a plan stays inside its buffers: the check of the value, whoever made it.

A plan may come from a text, and its code is run. So before it is compiled this is certain:

* Every access of every step, in all iterations of the loops around it, lies inside of the source and the destination,
  and every channel among those that there are quantization parameters for. The walk adds, loop by loop, the range of
  offsets that its iterations reach.
* Offsets, strides and runs are whole elements, and stores that bypass the caches are aligned with each other.
* What a micro-kernel holds in registers is no more than registers should hold, and a staging buffer fits the stack.
* No two iterations write one byte where that is cheap to see: they are at least a run apart, and nothing writes more
  bytes than the interval has that it writes into. A staging buffer is filled exactly once; what empties it reads no
  more than it has.

The work is linear in the text of the plan (a table is sorted): nothing runs through the iterations. What is checked has
no symbolic sizes: a plan for dynamic shapes is made here, never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layout_ir.dialects.kernel.micro_kernel_verifier import (
    DEEPEST,
    SIDES,
    PlanError,
    check_micro_kernel,
    check_positive,
    check_streaming,
    check_whole,
    check_width,
)
from layout_ir.dialects.kernel.plan import (
    AnyLoop,
    Copy,
    Interleave,
    Kernel,
    Loop,
    Plan,
    Staged,
    Step,
    TableLoop,
    Tile,
    VariableBoundLoops,
    iterations,
)
from layout_ir.dialects.kernel.plan_accesses import (
    Access,
    PlanElements,
    Range,
    accesses,
    least_gap,
    linear_range,
    loop_moves,
    loop_range,
    range_sum,
)
from layout_ir.symbolic.symint import Size

MOST_POSITIONS = 1 << 62
"""Positions that levels number at most, so that the code's arithmetic on them does not overflow."""


def check_plan(plan: Plan) -> None:
    """Raises PlanError where `plan` does not hold what the head of this module says."""
    check_width(plan.width, plan)
    if min(plan.src_bytes, plan.dst_bytes) < 0:
        raise PlanError(f"buffers of {plan.src_bytes} and {plan.dst_bytes} bytes: 0 is the least", plan)
    elements = PlanElements.of(plan)
    if plan.conversion is not None and plan.width != min(elements.widths):
        raise PlanError(
            f"elements of {plan.conversion} need width {min(elements.widths)}, not {plan.width}", plan
        )
    src, dst = (
        (2 if packed else 1) * size
        for packed, size in zip(elements.packed, (plan.src_bytes, plan.dst_bytes), strict=True)
    )
    _check_steps(plan.steps, elements, _Buffers(src, dst), plan)


@dataclass(frozen=True, slots=True)
class _Buffers:
    """The bytes that steps may use, and from which offsets of the source on they read."""

    src: Size
    dst: Size
    origins: tuple[Range, Range] = ((0, 0), (0, 0))
    """Offsets in the source, and channels, at which a staging buffer is filled."""
    staged: bool = False
    """Whether the source or the destination is a staging buffer."""
    targets: Range = (0, 0)
    """Offsets in the destination at which a staging buffer is emptied."""


def _check_steps(
    steps: Sequence[Step], elements: PlanElements, buffers: _Buffers, node: Plan | Staged
) -> None:
    """Checks every step, and that together they write no more than there is; of a staging buffer, all of it."""
    written = 0
    for step in steps:
        _check_step(step, elements, buffers)
        written += iterations(step.loops) * accesses(step.kernel, elements)[1].volume
    filled = node.rows * node.size if isinstance(node, Staged) else buffers.dst
    if written > filled or (buffers.staged and written != filled):
        raise PlanError(f"the steps write {written} bytes, the destination has {filled}", node)


def _check_step(step: Step, elements: PlanElements, buffers: _Buffers) -> None:
    kernel = step.kernel
    if len(step.loops) > DEEPEST:
        raise PlanError(f"{len(step.loops)} loops are nested: {DEEPEST} are the most", step)
    for loop in step.loops:
        _check_loop(loop, elements)
    _check_marks(step, buffers)
    check_whole([step.src, step.dst], elements, step)
    check_micro_kernel(step, elements, is_staged=buffers.staged)
    reads, writes = accesses(kernel, elements)
    for access in (reads, writes):
        if not isinstance(access, Access):
            continue
        numbers = access.run, *(stride for _, stride in access.loops)
        for number in numbers:
            if number % elements.width:
                raise PlanError(
                    f"a micro-kernel moves {number} bytes, which is no multiple of the element's {elements.width}",
                    kernel,
                )
    src, dst, channel = (
        range_sum(loop_range(loop, side) for loop in step.loops) for side in ("src", "dst", "channel")
    )
    origins = (
        range_sum((buffers.origins[0], (step.src, step.src), src)),
        range_sum((buffers.origins[1], (step.channel, step.channel), channel)),
    )
    if reads is not None:
        _check_inside(range_sum((origins[0], reads.range)), buffers.src, 0, kernel)
    low, high = range_sum((buffers.targets, (step.dst, step.dst), dst, writes.range))
    _check_inside((low, high), buffers.dst, 1, kernel)
    written = iterations(step.loops) * writes.volume
    if written > high - low - (buffers.targets[1] - buffers.targets[0]):
        raise PlanError(
            f"writes {written} bytes into the {high - low} of [{low}, {high}): some twice", kernel
        )
    gaps = [abs(stride) if count > 1 else None for count, stride in writes.loops]
    for gap in (*gaps, *map(least_gap, step.loops)):
        if gap is not None and gap < writes.run:
            raise PlanError(
                f"iterations {gap} bytes apart write runs of {writes.run}: some bytes twice", kernel
            )
    _check_channels(kernel, origins[1], elements)
    if kernel.streaming:
        check_streaming(step, elements)
    if isinstance(kernel, Staged):
        turns = linear_range(kernel.iterations, kernel.src_stride)
        inner = _Buffers(
            buffers.src, kernel.extent, (range_sum((origins[0], turns)), origins[1]), staged=True
        )
        _check_steps(kernel.steps, elements, inner, kernel)
        for part in kernel.then:
            out = _Buffers(
                kernel.size, buffers.dst, targets=range_sum(((step.dst, step.dst), dst)), staged=True
            )
            _check_step(part, elements.of_destination, out)


def _check_loop(loop: AnyLoop, elements: PlanElements) -> None:
    match loop:
        case Loop():
            check_positive(loop, count=loop.count)
            if loop.valid:
                raise PlanError(f"'{loop}' carries pads: only the rows of a tile do", loop)
        case TableLoop():
            check_positive(loop, count=loop.count)
            if len(loop.src) != len(loop.dst):
                raise PlanError(
                    f"a table of {len(loop.src)} offsets of the source and {len(loop.dst)} others", loop
                )
        case VariableBoundLoops():
            check_positive(loop, positions=loop.count)
            if loop.start < 0:
                raise PlanError(f"positions begin at {loop.start}, which is less than 0", loop)
            _check_levels(loop)
    for moves in loop_moves(loop):
        check_whole(moves, elements, loop)


def _check_levels(loop: VariableBoundLoops) -> None:
    """Raises PlanError where the levels do not number the positions below `stop`."""
    if not 0 < len(loop.levels) <= DEEPEST:
        raise PlanError(
            f"positions have 1 to {DEEPEST} levels that number them, not {len(loop.levels)}", loop
        )
    unit = 1
    for level in loop.levels:
        check_positive(loop, count=level.loop.count)
        if level.unit != unit:
            raise PlanError(
                f"a level of unit {level.unit} follows levels that count {unit}: they must be equal", loop
            )
        unit *= level.loop.count
    if loop.stop > unit:
        raise PlanError(f"the levels number {unit} positions, the loop ends at {loop.stop}", loop)
    if unit > MOST_POSITIONS:
        raise PlanError(f"the levels number {unit} positions: 2^62 are the most", loop)


def _check_marks(step: Step, buffers: _Buffers) -> None:
    """Raises PlanError where a loop that cannot is shared by threads, or prefetches."""
    count = len(step.loops)
    if not -1 <= step.parallel <= count or not 0 <= (step.prefetch or 0) < max(count, 1):
        raise PlanError(
            f"loop {step.parallel} is parallel and loop {step.prefetch} prefetches, of {count} that are counted from 0 "
            "and the micro-kernel's own behind them",
            step,
        )
    if buffers.staged and step.parallel >= 0:
        raise PlanError("no loop inside of a staging buffer is shared by threads", step)
    parallel = step.loops[step.parallel] if 0 <= step.parallel < count else None
    if isinstance(parallel, VariableBoundLoops):
        raise PlanError("only a loop with constant bounds is shared by threads", parallel)
    if step.prefetch is not None:
        loop = step.loops[step.prefetch] if count else None
        if not isinstance(loop, Loop):
            raise PlanError("only a loop with a constant stride prefetches", loop or step)


def _check_inside(touched: Range, size: Size, side: int, kernel: Kernel) -> None:
    low, high = touched
    if not 0 <= low <= high <= size:
        verb = ("reads", "writes")[side]
        raise PlanError(f"{verb} bytes [{low}, {high}) of a {SIDES[side]} of {size}", kernel)


def _check_channels(kernel: Kernel, around: Range, elements: PlanElements) -> None:
    """Raises PlanError where the elements of `kernel` have other channels than there are."""
    own: list[Range] = []
    match kernel:
        case Copy():
            own = [
                linear_range(kernel.run, kernel.channel),
                linear_range(kernel.inner.count, kernel.inner.channel),
            ]
        case Tile():
            own = [linear_range(axis.count, axis.channel) for axis in (kernel.rows, kernel.cols)]
        case Interleave():
            own = [linear_range(kernel.ways, kernel.channel)]
        case _:
            pass
    low, high = range_sum((around, *own))
    if not 0 <= low <= high < max(elements.channels, 1):
        raise PlanError(f"uses channels {low} to {high}, there are {elements.channels}", kernel)
