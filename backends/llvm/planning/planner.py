"""From two layouts to a plan: which boxes are moved, which pads are filled.

Elements and pads are moved apart. The elements of every dim are an interval of positions; cut into boxes, the
product over the dims gives nests with constant bounds, and `selection` picks loops and kernel for each. Where that
product is too large, dims that do not take part in the innermost runs keep loops with varying bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from layout_ir.algebra.canonical import canonical_digits
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.refinement import Nest, StridedLoop, refine
from layout_ir.algebra.refinement import TableLoop as RefinedTableLoop
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.index_splitting import Box, corner_of, cut, ragged
from layout_ir.backends.llvm.planning.nontemporal import in_few_streams, streamed, streaming_volume
from layout_ir.backends.llvm.planning.out_of_cache import from_far
from layout_ir.backends.llvm.planning.parallel import shared_by
from layout_ir.backends.llvm.planning.schedule import fill_step, from_near, move_step
from layout_ir.backends.llvm.planning.variants import variants
from layout_ir.dialects.kernel.plan import Level, Loop, Plan, Step, TableLoop
from layout_ir.errors import LayoutError
from layout_ir.symbolic.guarding import size_oblivious, unguarded
from layout_ir.symbolic.symint import Size, SymInt

# Code grows with every box, about 2 ms of compilation each; a nest with varying bounds runs at half the speed.
_MAX_BOXES = 16

Span = tuple[tuple[Level, ...], int, int]
"""Levels of a dim, fine to coarse, and the positions [start, stop) that are meant."""


def candidates(
    src: Layout, dst: Layout, width: int, pad: int, machine: Machine, threads: int = 1
) -> list[Plan]:
    """A handful of plans that do what `make_plan`'s does, which is the first; for those who measure.

    Raises LayoutError where `make_plan` does.
    """
    first = make_plan(src, dst, width, pad, machine, threads)
    other = make_plan(src, dst, width, pad, machine, threads, stream=not streams(first))
    return list(dict.fromkeys([first, *variants(first), other]))


def streams(plan: Plan) -> bool:
    """Whether a step bypasses the caches."""
    return any(step.kernel.streaming for step in plan.steps)


def make_plan(
    src: Layout, dst: Layout, width: int, pad: int, machine: Machine, threads: int = 1, *,
    stream: bool | None = None,
) -> Plan:  # fmt: skip
    """The plan that copies elements of `width` bytes from `src` to `dst`; pads get the bytes of `pad`.

    `threads` share a call at most. `stream` says whether stores bypass the caches where they can (None: as the volume
    and the number of threads suggest).

    Raises LayoutError where `refine` does, and where a layout has addresses below 0.
    """
    nest = size_oblivious(refine)(src, dst)
    check_addresses(src, dst)
    volume = width * prod(src.shape)
    fused = _fusible(nest, dst, width) if volume else None
    moves = _moves(nest, width, pad, machine, fused) if volume else []
    if moves is None:
        fused = None
        moves = _moves(nest, width, pad, machine, None) or []
    steps = list(moves)
    if dst.pad != "undef":
        for box in pad_boxes(dst, width, *(fused or (None, 1))):
            steps.append(fill_step(_shift(box, 0, dst.offset * width), width, pad))
    written = volume if dst.pad == "undef" else width * prod(dst.padded_shape)
    if stream is None:
        limit = streaming_volume(machine, threads, few_streams=in_few_streams(moves))
        stream = machine.streams and volume + written > limit
    if stream and machine.streams:
        steps = streamed(steps, machine)
    elif volume + written > machine.l2:
        steps = [from_far(step, machine) for step in steps]
    else:
        steps = [from_near(step, machine) for step in steps]
    if threads > 1:
        steps = [shared_by(step, threads) for step in steps]
    return Plan(width, src.extent * width, dst.extent * width, tuple(steps))


def check_addresses(src: Layout, dst: Layout) -> None:
    """Raises LayoutError where a layout has addresses below 0, which lie before the buffer."""
    for side, layout in (("source", src), ("destination", dst)):
        if layout.span and layout.first_address < 0:
            raise LayoutError(
                f"the {side} {layout.format} begins {-layout.first_address} elements below address 0"
            )


def _moves(
    nest: Nest, width: int, pad: int, machine: Machine, fused: tuple[int, int] | None
) -> list[Step] | None:
    """The steps that move the elements, with the pads behind dim `fused` where they share its last block.

    None where no kernel writes those pads along.
    """
    spans = dim_spans(nest, width)
    parts = [cut(*span) for span in spans]
    if fused is not None:
        dim, block = fused
        levels, _, stop = spans[dim]
        begin = stop - stop % block
        corner = corner_of(levels, begin)
        inner = levels[0].loop
        if prod(map(len, parts)) > _MAX_BOXES or not isinstance(inner, Loop):
            return None
        row = Loop(block, inner.src, inner.dst, valid=stop % block)
        parts[dim] = [*cut(levels, 0, begin), Box(corner.src, corner.dst, (row,))]
    steps: list[Step] = []
    for box in product_boxes(spans, parts):
        step = move_step(_shift(box, nest.src_base * width, nest.dst_base * width), width, machine, pad)
        if step is None:
            return None
        steps.append(step)
    return steps


def dim_spans(nest: Nest, width: int) -> list[Span]:
    """Per dim, its levels and the positions of elements."""
    return [
        (tuple(_level(loop, width) for loop in dim.loops), dim.low, dim.low + dim.extent) for dim in nest.dims
    ]


def _fusible(nest: Nest, dst: Layout, width: int) -> tuple[int, int] | None:
    """The dim whose last block is partly pads and lies together in the destination, within a line; and the block.

    Its elements are one digit of the source: they, too, lie together or evenly apart.
    """
    for number, dim in enumerate(nest.dims):
        if dim.low or dim.total == dim.extent or not dim.loops or not dim.extent:
            continue
        inner = dim.loops[0]
        if isinstance(inner, RefinedTableLoop) or isinstance(inner.count, SymInt) or inner.dst != 1:
            continue
        blocks = [inner.count]
        if inner.src == 1:
            # Blocks of the source may make up a longer one of the destination.
            for loop in dim.loops[1:]:
                if (
                    isinstance(loop, RefinedTableLoop)
                    or isinstance(loop.count, SymInt)
                    or loop.dst != blocks[-1]
                ):
                    break
                blocks.append(blocks[-1] * loop.count)
        for block in reversed(blocks):
            whole = -(-dim.extent // block) * block <= dim.total and block & (block - 1) == 0
            fits = 0 < dim.extent % block <= inner.count and block * width <= 64
            if whole and fits:
                return number, block
    return None


def _shift(box: Box, src: int, dst: int) -> Box:
    return Box(box.src + src, box.dst + dst, box.items)


def _level(loop: StridedLoop | RefinedTableLoop, width: int) -> Level:
    if isinstance(loop, RefinedTableLoop):
        return Level(
            loop.unit, TableLoop(tuple(s * width for s in loop.src), tuple(d * width for d in loop.dst))
        )
    return Level(loop.unit, Loop(loop.count, loop.src * width, loop.dst * width))


@unguarded
def product_boxes(spans: Sequence[Span], parts: list[list[Box]]) -> list[Box]:
    """Boxes of the cross product of the spans, each cut into its `parts`, kept few."""
    order = sorted(range(len(spans)), key=lambda d: _nearness(spans[d][0]), reverse=True)
    for dim in order:
        if prod(map(len, parts)) <= _MAX_BOXES:
            break
        if len(parts[dim]) > 1:
            parts[dim] = ragged(*spans[dim])
    return [
        Box(
            sum(b.src for b in boxes),
            sum(b.dst for b in boxes),
            tuple(item for b in boxes for item in b.items),
            sum(b.channel for b in boxes),
        )
        for boxes in product(*parts)
    ]


def _nearness(levels: Sequence[Level]) -> Size:
    """The smallest step of a dim on either side: dims with small ones form the innermost runs."""
    steps = [
        abs(x)
        for level in levels
        if isinstance(level.loop, Loop)
        for x in (level.loop.src, level.loop.dst)
        if x
    ]
    return min(steps, default=1 << 62)


def pad_boxes(
    dst: Layout,
    width: int,
    fused: int | None = None,
    block: int = 1,
    parts: Callable[[Sequence[Level], int, int], list[Box]] = cut,
) -> list[Box]:
    """Boxes of all positions of the padded box that hold no element and are not in the last `block` of dim `fused`.

    Per dim, pads along it times elements of the dims before it times everything of those behind it. `parts` makes
    boxes of the positions of a dim.
    """
    if 0 in dst.padded_shape:
        return []
    levels: list[tuple[Level, ...]] = []
    for dim, padded in enumerate(dst.padded_shape):
        terms = size_oblivious(canonical_digits)(dst.digits[dim], padded)
        units = [unit for unit, _ in terms] + [padded]
        levels.append(
            tuple(
                Level(unit, Loop(-(-above // unit), 0, stride * width))
                for (unit, stride), above in zip(terms, units[1:], strict=True)
            )
        )
    result: list[Box] = []
    # The fused dim comes last, so that what was written with its last block is no other dim's business.
    order = sorted(range(dst.rank), key=lambda d: d == fused)
    for place, dim in enumerate(order):
        low, padded = dst.lo[dim], dst.padded_shape[dim]
        stop = low + dst.shape[dim]
        if dim == fused:
            stop = -(-stop // block) * block
        for interval in ((0, low), (stop, padded)):
            if interval[0] == interval[1]:
                continue
            spans: list[Span] = [()] * dst.rank  # type: ignore[list-item]
            for d in order[:place]:
                spans[d] = levels[d], dst.lo[d], dst.lo[d] + dst.shape[d]
            spans[dim] = levels[dim], *interval
            for d in order[place + 1 :]:
                spans[d] = levels[d], 0, dst.padded_shape[d]
            result += product_boxes(spans, [parts(*span) for span in spans])
    return result
