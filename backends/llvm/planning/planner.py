"""From two layouts to a plan: which elements are moved or converted by which loops, and which pads are filled.

Elements and pads are handled apart. The elements of every dim are an interval of positions; split into domains, the
product over the dims gives nests with constant bounds, and `schedule` picks loops and kernel for each. Where that
product is too large, dims that do not take part in the innermost runs keep loops with variable bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import NamedTuple

from layout_ir.algebra.canonical import canonical_digits
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.refinement import Nest, StridedLoop, refine
from layout_ir.algebra.refinement import TableLoop as RefinedTableLoop
from layout_ir.backends.llvm.machine.machine import LINE, Machine
from layout_ir.backends.llvm.planning.access_cost import steps_cost, without_idle_prefetches
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.index_splitting import (
    Domain,
    IndexSet,
    not_split,
    single_position,
    split,
)
from layout_ir.backends.llvm.planning.loop_blocking import bands_of_rows, other_orders
from layout_ir.backends.llvm.planning.multistride import gain_by_parts, multistrided
from layout_ir.backends.llvm.planning.nontemporal import (
    streamed,
    streamed_in_order,
    streaming_limit,
    streaming_volume,
)
from layout_ir.backends.llvm.planning.out_of_cache import out_of_cache
from layout_ir.backends.llvm.planning.parallel import for_threads
from layout_ir.backends.llvm.planning.schedule import element_steps, fill_step
from layout_ir.backends.llvm.planning.staging import copied_tiles, staged_copies, staged_tiles
from layout_ir.backends.llvm.planning.streamed_tiles import streamed_orders
from layout_ir.backends.llvm.planning.tiles import in_cache
from layout_ir.backends.llvm.planning.variants import variants
from layout_ir.dialects.kernel.plan import Level, Loop, Plan, Step, TableLoop, Tile
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError
from layout_ir.symbolic.guarding import size_oblivious, unguarded
from layout_ir.symbolic.symint import Size, SymInt

# Code grows with every domain, about 2 ms of compilation each; a nest with variable bounds runs at half the speed.
_MAX_DOMAINS = 16

_SAME = 0.001
"""The part of a cost by which two are no different."""

_TIE = 0.02
"""The relative difference of expected times up to which neither of two plans is known to be the faster."""

_CLEARLY = 0.1
"""What another order of lines that are streamed must save: what the rules give was the best where it was measured."""


def candidates(
    src: Layout, dst: Layout, pair: ElementPair, pad: int, machine: Machine, threads: int = 1
) -> list[Plan]:
    """The plans that `make_plan` chooses among, its choice first, and their variants; for those who measure.

    Raises LayoutError where `make_plan` does.
    """
    work = _work(src, dst, pair, pad, machine, 0)
    chosen = _planned(work, src, dst, pair, machine, threads, None)
    first, other = (
        _planned(work, src, dst, pair, machine, threads, stream) for stream in (None, not streams(chosen))
    )
    plans = [first, *variants(first, machine), other]
    if not isinstance(work.volume, SymInt) and machine.l1 < work.volume <= machine.l2:
        plain = [in_cache(step, machine) for step in work.steps]
        orders = [
            [*plain[:k], *parts, *plain[k + 1 :]]
            for k, step in enumerate(work.steps)
            for parts in _reordered_in_cache(step, pair, machine)
        ]
        plans += [replace(first, steps=tuple(_for_threads(steps, threads))) for steps in orders]
    if not isinstance(work.volume, SymInt) and work.volume > machine.l2:
        plain = [out_of_cache(step, pair, machine) for step in work.steps]
        # One step at a time: most plans have one that takes most of the time.
        orders = [
            [*plain[:k], *parts, *plain[k + 1 :]]
            for k, step in enumerate(plain)
            for parts in [[step], *reordered(step, pair, machine)]
        ]
        if machine.streams:
            past = streamed(work.steps, pair, machine)
            orders += [past, *(streamed_in_order(x, pair) for x in orders)]
            orders += [
                [*plain[:k], *parts, *plain[k + 1 :]]
                for k, step in enumerate(plain)
                for parts in _streamed_over_buffer(step, pair, machine)
            ]
            if pair.conversion is None:
                orders += [
                    [*past[:k], *parts, *past[k + 1 :]]
                    for k, step in enumerate(past)
                    for parts in streamed_orders(step, machine)
                ]
        plans += [replace(first, steps=tuple(_for_threads(steps, threads))) for steps in orders]
    return list(dict.fromkeys(plans))


def streams(plan: Plan) -> bool:
    """Whether a step of the plan bypasses the caches."""
    return any(step.kernel.streaming for step in plan.steps)


def make_plan(
    src: Layout, dst: Layout, pair: ElementPair, pad: int, machine: Machine, threads: int = 1, *,
    stream: bool | None = None, volume: int = 0,
) -> Plan:  # fmt: skip
    """The plan that moves or converts the elements of `src` to `dst`; pads get the bits `pad`.

    At most `threads` divide a call. `stream` says whether stores bypass the caches where they can (None: as the volume
    and the number of threads suggest). `volume` is how many bytes are read and written before any of them again, where
    that is more than the reorder itself does: the caches then hold what it moves as little as that of a large one.

    Raises LayoutError where `refine` does, where a layout has addresses below 0, or where the conversion has channels
    along a dim that is not there or has another extent.
    """
    return _planned(_work(src, dst, pair, pad, machine, volume), src, dst, pair, machine, threads, stream)


class _Work(NamedTuple):
    """What is to be done, before orders and stores are chosen."""

    steps: list[Step]
    """The steps that move elements, and those that fill pads."""
    moving: list[Step]
    """The steps of these that move elements."""
    volume: Size
    """Bytes read and written before any of them again."""


def _work(src: Layout, dst: Layout, pair: ElementPair, pad: int, machine: Machine, volume: int) -> _Work:
    nest = size_oblivious(refine)(src, dst)
    check_addresses(src, dst)
    if pair.conversion is not None:
        _check_channels(src, pair.conversion)
    elements = prod(src.shape)
    fused = _fusible(nest, pair) if elements else None
    found = _element_steps(nest, pair, pad, machine, fused) if elements else []
    if found is None:
        fused = None
        found = _element_steps(nest, pair, pad, machine, None) or []
    steps = list(found)
    if dst.pad != "undef":
        for domain in pad_domains(dst, pair.dst, *(fused or (None, 1))):
            steps.append(fill_step(domain.shifted(0, dst.offset * pair.dst), pair.dst, pad))
    written = elements if dst.pad == "undef" else prod(dst.padded_shape)
    own = pair.src_bytes(elements) + pair.dst_bytes(written)
    return _Work(steps, found, max(own, volume) if volume else own)


def _planned(
    work: _Work, src: Layout, dst: Layout, pair: ElementPair, machine: Machine, threads: int,
    stream: bool | None,
) -> Plan:  # fmt: skip
    steps = _scheduled(work, pair, machine, threads, stream)
    if not isinstance(work.volume, SymInt) and _exceeds_caches(work.volume, machine, threads):
        steps = [part for step in steps for part in multistrided(step, pair, machine)]
    steps = _for_threads(steps, threads)
    sizes = pair.src_bytes(src.extent), pair.dst_bytes(dst.extent)
    width = pair.src if pair.conversion is None else pair.narrower
    return Plan(width, *sizes, tuple(steps), pair.conversion)


def _exceeds_caches(volume: int, machine: Machine, threads: int) -> bool:
    """Whether a reorder that reads and writes so many bytes, even in few sequences, finds few of them in a cache."""
    return volume > min(streaming_volume(machine, threads, few_streams=True), machine.l3)


def _for_threads(steps: Sequence[Step], threads: int) -> list[Step]:
    return [for_threads(step, threads) for step in steps] if threads > 1 else list(steps)


def _scheduled(
    work: _Work, pair: ElementPair, machine: Machine, threads: int, stream: bool | None
) -> list[Step]:
    """The steps in the orders, and with the stores, that are expected to take the least time."""
    steps, volume = work.steps, work.volume
    may_stream = machine.streams and stream is not False
    by_volume = may_stream and (stream or volume > streaming_limit(work.moving, pair, machine, threads))
    if isinstance(volume, SymInt):
        # What costs less is no guard that a symbolic volume could have: it goes by the volume alone.
        if by_volume:
            return streamed(steps, pair, machine)
        if volume > machine.l2:
            return [out_of_cache(step, pair, machine) for step in steps]
        return [in_cache(step, machine) for step in steps]
    if not (by_volume or volume > machine.l2):
        return _scheduled_in_l2(steps, volume, pair, machine, threads)

    may_be_cut = _exceeds_caches(volume, machine, threads)

    def cost(steps: Sequence[Step]) -> float:
        parts = [steps_cost([step], volume, pair, machine, threads) for step in steps]
        gains = [gain_by_parts(step, pair, machine) if may_be_cut else 1.0 for step in steps]
        return sum(part / gain for part, gain in zip(parts, gains, strict=True))

    through = [out_of_cache(step, pair, machine) for step in steps]
    orders = [[[step], *reordered(step, pair, machine)] for step in through]
    cached = [part for options in orders for part in _cheapest(options, cost)]
    if not may_stream:
        return cached
    in_order = [_streamed_in_orders(options, pair, machine) for options in orders]
    if by_volume:
        for step, options in zip(through, in_order, strict=True):
            options += _streamed_over_buffer(step, pair, machine)
    past = _streamed_in_best_order(streamed(steps, pair, machine), pair, machine, cost)
    other = [part for options in in_order for part in _cheapest(options, cost)]
    if any(step.kernel.streaming for step in other):
        past = _cheapest([past, other], cost)
    if stream:
        return past
    # In memory streams save what no price of jumps is sure enough to outweigh.
    is_sure = volume > machine.l3 and any(step.kernel.streaming for step in past)
    tie = _CLEARLY if is_sure else _TIE
    return _cheapest([past, cached], cost, tie) if by_volume else _cheapest([cached, past], cost)


def _scheduled_in_l2(
    steps: Sequence[Step], volume: int, pair: ElementPair, machine: Machine, threads: int
) -> list[Step]:
    """The steps for a source and destination that L2 holds, which streams would only send out of it."""
    plain = [in_cache(step, machine) for step in steps]
    if volume <= machine.l1:
        return plain
    cost = partial(steps_cost, volume=volume, pair=pair, machine=machine, threads=threads)
    return [
        part
        for fast, step in zip(plain, steps, strict=True)
        for part in _cheapest([[fast], *_reordered_in_cache(step, pair, machine)], cost, _CLEARLY)
    ]


def _streamed_in_orders(
    options: Sequence[Sequence[Step]], pair: ElementPair, machine: Machine
) -> list[list[Step]]:
    """Options that bypass the caches, each in its order, where the stores can."""
    return [
        [without_idle_prefetches(step, pair, machine) for step in streamed_in_order(option, pair)]
        for option in options
    ]


def _streamed_in_best_order(
    steps: Sequence[Step], pair: ElementPair, machine: Machine, cost: Callable[[list[Step]], float]
) -> list[Step]:
    """`steps`, which bypass the caches, each in the order of its lines that the profile makes clearly the best."""
    plain = [without_idle_prefetches(step, pair, machine) for step in steps]
    if pair.conversion is not None:
        return plain
    return [
        part
        for step in plain
        for part in _cheapest([[step], *streamed_orders(step, machine)], cost, _CLEARLY)
    ]


def _cheapest(
    options: Sequence[list[Step]], cost: Callable[[list[Step]], float], tie: float = _TIE
) -> list[Step]:
    """The option that costs the least, of several about as cheap the first; and the first of all, unless another one
    costs less by more than `tie` of it."""
    costs = [cost(option) for option in options]
    least = min(costs)
    if least >= (1 - tie) * costs[0]:
        return options[0]
    most = (1 + _SAME) * least
    return next(option for option, its in zip(options, costs, strict=True) if its <= most)


def reordered(step: Step, pair: ElementPair, machine: Machine) -> Iterator[list[Step]]:
    """Steps that do what `step` does, with stores through the caches, in orders that the profile may prefer."""
    yield from other_orders(step, pair)
    if pair.conversion is None:
        yield from bands_of_rows(step, machine)
        yield from copied_tiles(step, machine)
        staged = staged_tiles(step)
        if staged is not None:
            yield staged


def _streamed_over_buffer(step: Step, pair: ElementPair, machine: Machine) -> Iterator[list[Step]]:
    """Steps that do what `step` does, a copy, in blocks over a buffer that is streamed."""
    staged = staged_copies(step, machine) if pair.conversion is None else None
    if staged is not None:
        yield streamed_in_order(staged, pair)


def _reordered_in_cache(step: Step, pair: ElementPair, machine: Machine) -> Iterator[list[Step]]:
    """Steps in other orders, for what L2 holds: lines that are written by turns to one set come back in time there."""
    yield from other_orders(in_cache(step, machine), pair)
    if pair.conversion is None:
        # Narrow elements in blocks of rows, so that L1 holds the lines of which parts are read by turns.
        blocked = replace(out_of_cache(step, pair, machine), prefetch=None)
        tile = blocked.kernel
        if isinstance(tile, Tile) and tile.width < 4 and tile.cols.count % tile.block("cols") == 0:
            yield [blocked]
        yield from bands_of_rows(step, machine)
        yield from copied_tiles(step, machine)


def check_addresses(src: Layout, dst: Layout) -> None:
    """Raises LayoutError where a layout has addresses below 0, which lie before the buffer."""
    for side, layout in (("source", src), ("destination", dst)):
        if layout.span and layout.first_address < 0:
            raise LayoutError(
                f"the {side} {layout.format} begins {-layout.first_address} elements below address 0"
            )


def _check_channels(src: Layout, conversion: Conversion) -> None:
    dim = conversion.dim
    if dim is None:
        return
    if not 0 <= dim < src.rank:
        raise LayoutError(
            f"channels along dim {dim} of a tensor of rank {src.rank}: dims are 0 to {src.rank - 1}"
        )
    if src.shape[dim] != conversion.channels:
        raise LayoutError(
            f"dim {dim} has extent {src.shape[dim]}, but there are {conversion.channels} channels"
        )


# Elements ------------------------------------------------------------------------------------------------------------


def _element_steps(
    nest: Nest, pair: ElementPair, pad: int, machine: Machine, fused: tuple[int, int] | None
) -> list[Step] | None:
    """The steps for the elements, with the pads behind those of dim `fused` where they share its last block.

    None where no kernel writes those pads along.
    """
    sets = index_sets(nest, pair)
    parts = [split(positions) for positions in sets]
    if fused is not None:
        dim, block = fused
        levels, _, stop = sets[dim]
        begin = stop - stop % block
        corner = single_position(levels, begin)
        inner = levels[0].loop
        if prod(map(len, parts)) > _MAX_DOMAINS or not isinstance(inner, Loop):
            return None
        row = Loop(block, inner.src, inner.dst, valid=stop % block)
        parts[dim] = [*split(IndexSet(levels, 0, begin)), Domain(corner.src, corner.dst, (row,))]
    steps: list[Step] = []
    for domain in product_domains(sets, parts):
        found = element_steps(in_buffers(domain, nest, pair), pair, machine, pad)
        if found is None:
            return None
        steps += found
    return steps


def index_sets(nest: Nest, pair: ElementPair) -> list[IndexSet]:
    """Per dim, the positions of its elements."""
    channels = None if pair.conversion is None else pair.conversion.dim
    return [
        IndexSet(
            tuple(_level(loop, pair, has_channels=number == channels) for loop in dim.loops),
            dim.low,
            dim.low + dim.extent,
        )
        for number, dim in enumerate(nest.dims)
    ]


def _level(loop: StridedLoop | RefinedTableLoop, pair: ElementPair, *, has_channels: bool) -> Level:
    channel = loop.unit if has_channels else 0
    if isinstance(loop, RefinedTableLoop):
        src, dst = (
            tuple(x * width for x in side) for side, width in ((loop.src, pair.src), (loop.dst, pair.dst))
        )
        return Level(loop.unit, TableLoop(src, dst, channel))
    return Level(loop.unit, Loop(loop.count, loop.src * pair.src, loop.dst * pair.dst, channel=channel))


def in_buffers(domain: Domain, nest: Nest, pair: ElementPair) -> Domain:
    """A domain of `index_sets`, counted from where the buffers begin and from the first channel."""
    dim = None if pair.conversion is None else pair.conversion.dim
    channel = 0 if dim is None else -nest.dims[dim].low
    return domain.shifted(nest.src_base * pair.src, nest.dst_base * pair.dst, channel)


@unguarded
def product_domains(sets: Sequence[IndexSet], parts: list[list[Domain]]) -> list[Domain]:
    """Domains of the cross product of the index sets, each split into its `parts`, kept few."""
    order = sorted(range(len(sets)), key=lambda d: _smallest_step(sets[d].levels), reverse=True)
    for dim in order:
        if prod(map(len, parts)) <= _MAX_DOMAINS:
            break
        if len(parts[dim]) > 1:
            parts[dim] = not_split(sets[dim])
    return [
        Domain(
            sum(part.src for part in parts_of_dims),
            sum(part.dst for part in parts_of_dims),
            tuple(loop for part in parts_of_dims for loop in part.loops),
            sum(part.channel for part in parts_of_dims),
        )
        for parts_of_dims in product(*parts)
    ]


def _smallest_step(levels: Sequence[Level]) -> Size:
    """The smallest step of a dim on either side: dims with small ones form the innermost runs."""
    steps = [
        abs(x)
        for level in levels
        if isinstance(level.loop, Loop)
        for x in (level.loop.src, level.loop.dst)
        if x
    ]
    return min(steps, default=1 << 62)


# Pads ----------------------------------------------------------------------------------------------------------------


def _fusible(nest: Nest, pair: ElementPair) -> tuple[int, int] | None:
    """The dim whose last block is partly pads and lies together in the destination, within a line; and the block.

    Its elements belong to one level of the source: they, too, lie together or evenly apart. Only moves write pads so.
    """
    if pair.conversion is not None:
        return None
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
            fits = 0 < dim.extent % block <= inner.count and block * pair.dst <= LINE
            if whole and fits:
                return number, block
    return None


def pad_domains(
    dst: Layout,
    width: int,
    fused: int | None = None,
    block: int = 1,
    parts: Callable[[IndexSet], list[Domain]] = split,
) -> list[Domain]:
    """Domains of all positions of the padded box that hold no element and are not in the last `block` of dim `fused`.

    Per dim, pads along it times elements of the dims before it times everything of those behind it. `width` is the
    distance of neighbours, `parts` makes domains of the positions of a dim.
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
    result: list[Domain] = []
    # The fused dim comes last, so that what was written with its last block is no other dim's business.
    order = sorted(range(dst.rank), key=lambda d: d == fused)
    for place, dim in enumerate(order):
        low, padded = dst.lo[dim], dst.padded_shape[dim]
        stop = low + dst.shape[dim]
        if dim == fused:
            stop = -(-stop // block) * block
        for start, end in ((0, low), (stop, padded)):
            if start == end:
                continue
            sets = {d: IndexSet(levels[d], dst.lo[d], dst.lo[d] + dst.shape[d]) for d in order[:place]}
            sets[dim] = IndexSet(levels[dim], start, end)
            sets |= {d: IndexSet(levels[d], 0, dst.padded_shape[d]) for d in order[place + 1 :]}
            by_dim = [sets[d] for d in range(dst.rank)]
            result += product_domains(by_dim, [parts(positions) for positions in by_dim])
    return result
