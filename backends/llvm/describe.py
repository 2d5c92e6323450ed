"""A plan in sentences, for people who ask why a reorder is as fast as it is (`layout-ir explain-reorder`)."""

from __future__ import annotations

from collections.abc import Iterator

from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.dynamic_shapes import DynamicPlan
from layout_ir.backends.llvm.planning.nontemporal import in_few_streams, streaming_volume
from layout_ir.backends.llvm.runtime.tuning import Choice
from layout_ir.dialects.kernel.plan import (
    AnyLoop,
    Copy,
    Elements,
    Fill,
    Interleave,
    Kernel,
    Loop,
    PaddedCopy,
    Plan,
    Staged,
    Step,
    TableLoop,
    Tile,
)
from layout_ir.elements.element_types import bits_of, element_type
from layout_ir.elements.quantization import Conversion
from layout_ir.symbolic.guarding import size_oblivious
from layout_ir.symbolic.symint import Size

_SIDES = "in the source", "in the destination"


def describe_choice(choice: Choice) -> list[str]:
    """A line that says how a plan was chosen by measuring."""
    if choice.of == 1:
        return ["there is one plan, nothing to measure"]
    rank = "the planner's first" if choice.number == 0 else f"number {choice.number + 1}"
    known = "remembered as the fastest" if choice.remembered else "measured as the fastest"
    return [f"plan chosen among {choice.of}: {rank}, {known}"]


def describe_plan(plan: Plan, machine: Machine, threads: int = 1) -> list[str]:
    """Lines that say what `plan`, made for `threads` on `machine`, does and which choices depend on the machine."""
    caches = ", ".join(map(_size_text, (machine.l1, machine.l2, machine.l3)))
    lines = [
        f"{_element_text(plan)}; the source is {plan.src_bytes} bytes, the destination {plan.dst_bytes}",
        *describe_conversion(plan.conversion),
        f"for {machine.cpu}: registers of {machine.vector} bytes, caches of {caches}",
        _streaming_text(plan, machine, threads),
        *_profile_lines(plan, machine),
    ]
    if not plan.steps:
        return [*lines, "there is nothing to do"]
    if plan.in_place_safe:
        lines.append("every element stays at its place: one buffer may be source and destination")
    number = len(plan.steps)
    lines.append("one step:" if number == 1 else f"{number} steps, in any order:")
    for k, step in enumerate(plan.steps, 1):
        first, *rest = describe_step(step, plan.conversion)
        lines += [f"  {k}. {first}", *(f"     {line}" for line in rest)]
    return lines


@size_oblivious
def describe_dynamic_plan(choice: DynamicPlan) -> list[str]:
    """Lines that say what one plan of a kernel for dynamic shapes does, and which shapes it serves."""
    given = choice.shape_env.guards_text()
    lines = [f"where {', '.join(given)}:" if given else "for all others:"]
    for k, step in enumerate(choice.plan.steps, 1):
        first, *rest = describe_step(step, choice.plan.conversion)
        lines += [f"  {k}. {first}", *(f"     {line}" for line in rest)]
    return lines


def _element_text(plan: Plan) -> str:
    if plan.conversion is None:
        return f"elements of {plan.width} bytes"
    return f"elements of {plan.conversion.src} become {plan.conversion.dst}"


def describe_conversion(conversion: Conversion | None) -> list[str]:
    """How elements lie in a byte, and what becomes of them, step by step."""
    if conversion is None:
        return []
    packed = [
        s
        for s, d in zip(("source", "destination"), (conversion.src, conversion.dst), strict=True)
        if bits_of(d) < 8
    ]
    halves = (
        [f"two elements share a byte: numbers of the {' and the '.join(packed)} count half bytes"]
        if packed
        else []
    )
    return halves + describe_arithmetic(conversion)


def describe_arithmetic(conversion: Conversion) -> list[str]:
    """What becomes of the elements, step by step; nothing where they stay what they are."""
    if conversion.is_identity:
        return []
    dst, lines = conversion.dst, list[str]()
    verbs = {
        "src_zero": "subtract the source's zero point",
        "src_scale": "multiply by the source's scale",
        "dst_scale": "divide by the destination's scale",
        "beta": "add what the destination holds, times beta",
        "dst_zero": "round to the nearest integer and add the destination's zero point",
    }
    for name, value in conversion.parameters.items():
        each, brought = f"one for each index of dim {conversion.dim}", "which each call brings along"
        which = {"tensor": brought, "channel": f"{each}, {brought}"}
        text = which[value] if isinstance(value, str) else each if isinstance(value, tuple) else value
        lines.append(f"  {verbs[name]}, {text}")
    if lines:
        lines.insert(0, f"in {conversion.computes}, each step rounded:")
    if dst == "i1":
        return [*lines, "an element is 1 where that is not 0"]
    element = element_type(dst)
    if element.is_float:
        beyond = "infinity" if element.nonfinite == "ieee" else "NaN"
        if element.is_narrow_float and (conversion.saturate or not element.may_saturate):
            beyond = "the greatest number, infinity too"
        nan = "becomes the greatest number" if element.nonfinite == "none" else "stays NaN"
        return [
            *lines,
            f"rounded to the nearest {dst}, ties to even; too large becomes {beyond}, NaN {nan}",
        ]
    return [
        *lines,
        f"rounded to the nearest integer, ties to even, saturated to the range of {dst}; NaN becomes 0",
    ]


def _streaming_text(plan: Plan, machine: Machine, threads: int) -> str:
    most = streaming_volume(machine, threads)
    limit = _size_text(most)
    if any(step.kernel.streaming for step in plan.steps):
        if plan.src_bytes + plan.dst_bytes <= most:
            return "stores bypass the caches: by the profile that takes less time in this order"
        return f"source and destination are more than the {limit} that caches serve well: stores bypass the caches"
    if not machine.streams:
        return "stores go through the caches: this machine has no others"
    volume = plan.src_bytes + plan.dst_bytes
    few = streaming_volume(machine, threads, few_streams=True)
    if plan.conversion is None and most < few and volume <= few and in_few_streams(plan.steps):
        limit = _size_text(few)
        return (
            f"stores go through the caches: up to {limit}, read and written in few sequences, that is faster"
        )
    if volume > most:
        return (
            "stores go through the caches: by the profile that takes less time in this order, or no step writes "
            "whole lines"
        )
    return f"stores go through the caches: up to {limit} of source and destination that is faster"


def _profile_lines(plan: Plan, machine: Machine) -> list[str]:
    """Which facts about the machine's memory decided; nothing where L2 holds everything, for then none did."""
    if plan.src_bytes + plan.dst_bytes <= machine.l2:
        return []
    profile = machine.profile
    (l1_way, l1_ways), (l2_way, l2_ways) = machine.ways
    return [
        (
            f"profile {profile.source}; in ns a line of 64 bytes: {profile.cached_ns:g} through the caches, "
            f"{profile.streamed_ns:g} past them, in memory {profile.memory_ns:g} and {profile.memory_streamed_ns:g}"
        ),
        (
            f"conflicts cost {profile.l1_conflict_ns:g} ns more in L1 ({l1_ways} ways of {_size_text(l1_way)}), "
            f"{profile.l2_conflict_ns:g} in L2 ({l2_ways} ways of {_size_text(l2_way)}), many pages {profile.page_ns:g}"
        ),
    ]


def describe_step(step: Step, conversion: Conversion | None = None) -> list[str]:
    """One line per loop and for the micro-kernel of a step, of a plan with that `conversion`."""
    lines = [f"from byte {step.src} {_SIDES[0]} and {step.dst} {_SIDES[1]}"]
    if isinstance(step.kernel, Fill):
        lines = [f"from byte {step.dst} {_SIDES[1]}"]
    for depth, loop in enumerate(step.loops):
        words = _loop_text(loop, fills=isinstance(step.kernel, Fill))
        lines.append(words + "".join(_marks(step, depth)))
    first, *rest = _kernel_lines(step.kernel, conversion)
    return [*lines, first + "".join(_marks(step, len(step.loops))), *rest]


def _marks(step: Step, depth: int) -> Iterator[str]:
    if depth == step.parallel:
        yield "; threads share these iterations"
    if depth == step.prefetch:
        yield "; prefetches the source of the next iteration"


def _loop_text(loop: AnyLoop, *, fills: bool = False) -> str:
    """A loop; `fills`: its micro-kernel reads no source."""
    if isinstance(loop, Loop):
        where = f"{loop.dst} bytes apart {_SIDES[1]}"
        if not fills:
            where = f"{loop.src} bytes apart {_SIDES[0]}, {where}"
        return f"{loop.count} times, {where}"
    if isinstance(loop, TableLoop):
        return f"at {loop.count} places from a table"
    return (
        f"for positions {loop.start} to {loop.stop - 1} of a dim, in {len(loop.levels)} loops "
        "whose bounds vary"
    )


def _rows_text(kernel: Staged) -> str:
    if not kernel.row_stride:
        return ""
    text = f", {kernel.rows} rows of {kernel.size} bytes to places {kernel.dst_stride} bytes apart"
    if kernel.iterations > 1:
        text += (
            f", continued {kernel.iterations - 1} times with {kernel.src_stride} bytes between in the source"
        )
    return text


def _inner_step_lines(step: Step, conversion: Conversion | None = None) -> list[str]:
    first, *rest = describe_step(step, conversion)
    return [f"  {first}", *(f"    {line}" for line in rest)]


def _kernel_lines(kernel: Kernel, conversion: Conversion | None = None) -> list[str]:
    """What a micro-kernel of a plan with that `conversion` moves, then what it consists of."""
    if isinstance(kernel, Staged):
        size = _size_text(kernel.extent)
        flushed = "move its elements" if kernel.then else "stream it"
        lines = [
            f"fill a staging buffer of {size}, then {flushed} to the destination{_rows_text(kernel)}; into it:"
        ]
        for step in kernel.steps:
            lines += _inner_step_lines(step, conversion)
        if kernel.then:
            lines.append("out of it:")
        for step in kernel.then:
            lines += _inner_step_lines(step)
        return lines
    if isinstance(kernel, Tile):
        return _tile_lines(kernel, conversion)
    if isinstance(kernel, Copy) and conversion is not None:
        return [f"convert {kernel.run} elements in order{_inner_text(kernel.inner)}{_stream_text(kernel)}"]
    if isinstance(kernel, Copy):
        return [f"copy {kernel.run} bytes{_inner_text(kernel.inner)}{_stream_text(kernel)}"]
    if isinstance(kernel, Fill):
        value = f"{kernel.value:#0{2 + 2 * kernel.width}x}"
        return [
            f"fill {kernel.run} bytes of pads with {value}{_inner_text(kernel.inner, fills=True)}{_stream_text(kernel)}"
        ]
    if isinstance(kernel, PaddedCopy):
        value = f"{kernel.value:#0{2 + 2 * kernel.width}x}"
        what = (
            f"copy {kernel.valid} bytes and {kernel.run - kernel.valid} bytes of pads of {value} behind them"
        )
        return [f"{what}{_inner_text(kernel.inner)}{_stream_text(kernel)}"]
    if isinstance(kernel, Elements):
        return [f"move one element of {kernel.width} bytes, {_loop_text(kernel.inner)}"]
    return [_interleave_text(kernel, conversion)]


def _tile_lines(tile: Tile, conversion: Conversion | None) -> list[str]:
    rows, cols = tile.rows, tile.cols
    count = f"{rows.count} rows of {cols.count} elements"
    if conversion is not None:  # where sides of 4-bit elements do not count bytes
        unit, verb = "", f"convert and transpose {count} in registers, at the narrower width"
    else:
        unit, verb = " bytes", f"transpose {count} of {tile.width} bytes in registers"
    lines = [
        f"{verb}, tiles of {tile.block('rows')} x {tile.block('cols')}{_stream_text(tile)}",
        f"rows are {rows.stride}{unit} apart {_SIDES[0]}, columns {cols.stride} {_SIDES[1]}",
        "order: " + ", ".join(f"{blocking.axis} by {blocking.size}" for blocking in tile.schedule),
    ]
    if conversion is None:
        lines += _move_lines(tile)
    if tile.prefetch_distance:
        lines.append(f"every row is prefetched {tile.prefetch_distance} bytes ahead")
    return lines


def _move_lines(tile: Tile) -> Iterator[str]:
    """What only a tile of a move may have."""
    if tile.valid:
        yield f"only {tile.valid} of the rows are in the source, the others become pads of {tile.pad:#x}"
    if tile.cols.fold:
        yield f"every {tile.cols.fold} columns begin {tile.cols.outer_stride} bytes behind the last {tile.cols.fold}"
    if tile.square:
        yield "rows are loaded in whole registers, line by line of the source"


def _interleave_text(kernel: Interleave, conversion: Conversion | None) -> str:
    unit, convert = (f" of {kernel.width} bytes", "") if conversion is None else ("", " and convert")
    apart = f"{kernel.stride} bytes apart" if conversion is None else f"{kernel.stride} apart"
    ways = f"{kernel.ways} runs of {kernel.count} elements{unit}, {apart}"
    verb = f"deinterleave one run into {ways}" if kernel.inverse else f"interleave {ways}, into one run"
    return f"{verb}, {kernel.block} elements of each at a time{',' if convert else ''}{convert}{_stream_text(kernel)}"


def _inner_text(loop: Loop, *, fills: bool = False) -> str:
    return "" if loop.count == 1 else f", {_loop_text(loop, fills=fills)}"


def _stream_text(kernel: Kernel) -> str:
    return ", stores bypass the caches" if kernel.streaming else ""


def _size_text(count: Size) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} bytes"
