"""Sums of integer weights per output channel: the compensation that kernels for 8-bit integers take beside them.

Such kernels multiply u8 by s8. Where the source is s8 they add 128 to it, and where it has a zero point they leave it
in; what that adds to a result is the sum of the channel's weights times 128 or times the zero point. So behind the
weights lie, per channel, -128 times their sum, or minus their sum, or both.

The weights are read as they lie after the reorder, pads too, which must be zero. In blocked layouts neighbours are
either channels or, 2 or 4 at a time, weights of one channel: a vector of channels is summed at once, in 16 bits for as
long as they hold it. Elsewhere bytes are summed one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.errors import LayoutError

_MOST_LANES = 64
"""Channels that are summed at once, in 16 bits: two or four registers of AVX-512."""

_MOST_TERMS = 127
"""Sums of two bytes that 16 bits hold: 127 * -256 is the first that is not below their least integer."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop over weights: iterations, bytes from one to the next, channels from one to the next."""

    count: int
    stride: int
    channel: int


def emit_channel_sums(layout: Layout, channels: tuple[int, ...], machine: Machine) -> str:
    """LLVM IR of `void sums(ptr weights, ptr shifted, ptr zero)` for weights of 8 bits in `layout`.

    Channels are the indices of the dims `channels`, the last one fastest. i32 are written to `shifted` (-128 times the
    sum) and to `zero` (minus the sum), to either only where it is not null. Raises LayoutError where the layout is not
    a matter of plain memory, or has pads that may hold anything.
    """
    if layout.swizzle is not None or layout.axes:
        raise LayoutError(f"no sums of weights in {layout}, whose addresses are not sums of strides")
    if layout.is_padded and layout.pad != "zero":
        raise LayoutError(f"sums of weights take pads for zero, those of {layout.format} hold {layout.pad}")
    loops = _loops(layout, channels)
    over = sorted((loop for loop in loops if loop.channel), key=lambda loop: -loop.stride)
    within = sorted((loop for loop in loops if not loop.channel), key=lambda loop: -loop.stride)
    run, lanes = 1, 1
    for loop in reversed(within):
        if loop.stride == run and run * loop.count in (2, 4):
            run, within = run * loop.count, [x for x in within if x is not loop]
    for loop in reversed(over):
        if loop.stride == run * lanes and loop.channel == lanes:
            lanes, over = lanes * loop.count, [x for x in over if x is not loop]
    most = next(n for n in range(min(lanes, _MOST_LANES), 0, -1) if lanes % n == 0)
    if most < lanes:
        over.append(_Loop(lanes // most, run * most, most))
    b = Builder()
    _Sums(b, run, most, _merged(within)).emit(over, b.at("%weights", layout.offset), 0)
    body = "\n".join(b.lines)
    head = " ".join(
        filter(None, ("define void @sums(ptr %weights, ptr %shifted, ptr %zero)", machine.attributes))
    )
    return f"{head} {{\nentry:\n{body}\n  ret void\n}}"


def _loops(layout: Layout, channels: tuple[int, ...]) -> list[_Loop]:
    """A loop for every digit of the layout, in no order."""
    found: list[_Loop] = []
    for dim, digits in enumerate(layout.digits):
        weight = (
            prod(layout.padded_shape[later] for later in channels if later > dim) if dim in channels else 0
        )
        found += [_Loop(x.count, x.stride, x.unit * weight) for x in digits if x.count > 1]
    return found


def _merged(loops: list[_Loop]) -> list[_Loop]:
    """Loops over weights of one channel, outermost first: one for each row of equal steps, the last one short."""
    rows: list[_Loop] = []
    for loop in loops:
        if rows and rows[-1].stride == loop.stride * loop.count:
            rows[-1] = _Loop(rows[-1].count * loop.count, loop.stride, 0)
        else:
            rows.append(loop)
    if rows and rows[-1].count > _MOST_TERMS:
        last = rows.pop()
        short = next(n for n in range(_MOST_TERMS, 0, -1) if last.count % n == 0)
        rows += [_Loop(last.count // short, last.stride * short, 0), _Loop(short, last.stride, 0)]
    return rows


@dataclass(frozen=True, slots=True)
class _Sums:
    """Emits the sums of `lanes` channels at a time, `run` weights of each of which are neighbours."""

    b: Builder
    run: int
    lanes: int
    within: list[_Loop]

    def emit(self, over: list[_Loop], weights: str, channel: Value) -> None:
        """The loops `over` channels, from `weights` and `channel` on, and the sums in them."""
        b = self.b
        if over:
            loop, *inner = over
            with b.loop(0, loop.count) as i:
                self.emit(inner, b.at(weights, b.mul(i, loop.stride)), b.add(channel, b.mul(i, loop.channel)))
            return
        sums, vector = self._total(self.within, weights), f"<{self.lanes} x i32>"
        for pointer, factor in (("%shifted", -128), ("%zero", -1)):
            with b.either(b.put(f"icmp ne ptr {pointer}, null")) as otherwise:
                scaled = b.put(f"mul {vector} {sums}, splat (i32 {factor})")
                b.store(vector, scaled, b.at(pointer, b.mul(channel, 4)))
                otherwise()

    def _total(self, loops: list[_Loop], weights: str) -> str:
        """The sums of all iterations of `loops`, as i32."""
        b = self.b
        if not loops:
            return self._wide(self._pairs(weights))
        loop, *inner = loops
        if not inner:
            short = f"<{self._width} x i16>"
            return self._wide(
                b.total(loop.count, short, lambda i: self._pairs(b.at(weights, b.mul(i, loop.stride))))
            )
        return b.total(
            loop.count,
            f"<{self.lanes} x i32>",
            lambda i: self._total(inner, b.at(weights, b.mul(i, loop.stride))),
        )

    @property
    def _width(self) -> int:
        """Lanes of 16 bits that hold sums of two neighbours, or single weights."""
        return self.lanes * max(self.run // 2, 1)

    def _pairs(self, weights: str) -> str:
        """The weights at an address, those of a channel added two by two, as i16."""
        b, short = self.b, f"<{self._width} x i16>"
        if self.run == 1:
            return b.put(f"sext <{self.lanes} x i8> {b.load(f'<{self.lanes} x i8>', weights)} to {short}")
        both = b.load(short, weights)
        low = b.put(f"ashr {short} {b.put(f'shl {short} {both}, splat (i16 8)')}, splat (i16 8)")
        return b.put(f"add {short} {low}, {b.put(f'ashr {short} {both}, splat (i16 8)')}")

    def _wide(self, sums: str) -> str:
        """i16 as one i32 for each channel."""
        b, short, wide = self.b, f"<{self._width} x i16>", f"<{self.lanes} x i32>"
        if self.run < 4:
            return b.put(f"sext {short} {sums} to {wide}")
        both = b.put(f"bitcast {short} {sums} to {wide}")
        low = b.put(f"ashr {wide} {b.put(f'shl {wide} {both}, splat (i32 16)')}, splat (i32 16)")
        return b.put(f"add {wide} {low}, {b.put(f'ashr {wide} {both}, splat (i32 16)')}")
