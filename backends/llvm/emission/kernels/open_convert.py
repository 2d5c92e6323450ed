"""Conversions of runs whose length only the run time knows: many registers at a time, one at a time, by element.

Where elements may be converted twice, the longest of the three that fits does it all, its last piece moved back to
end where the run does. Where they may not, each does what the longer ones leave.
"""

from __future__ import annotations

from layout_ir.backends.llvm.emission.builder import Value
from layout_ir.backends.llvm.emission.kernels.convert import UNROLL, Converter
from layout_ir.backends.llvm.emission.kernels.linear import Range
from layout_ir.backends.llvm.planning.conversion import exactly_once
from layout_ir.dialects.kernel.plan import Copy


def emit_dynamic_conversion(
    converter: Converter, kernel: Copy, src: str, dst: str, channel: Value, range_: Range, *,
    streaming: bool, even: bool,
) -> None:  # fmt: skip
    """Converts `kernel.run` elements in every round of the inner loop; `even` as for `Converter.run`."""
    b, inner, count = converter.b, kernel.inner, kernel.run
    size = converter.run_size(streaming=streaming, even=even)
    sizes = sorted({size * UNROLL, size, 1}, reverse=True)

    def piece(at: Value, number: int, s: str, d: str, channel: Value) -> None:
        s, d = b.at(s, b.mul(at, converter.src.width)), b.at(d, b.mul(at, converter.dst.width))
        first = b.add(channel, b.mul(at, kernel.channel))
        parts = list(converter.parts(number, size))
        converter.moved(parts, s, d, first, kernel.channel, streaming=streaming)

    def longest(sizes: list[int], s: str, d: str, channel: Value, share: Range) -> None:
        number, *shorter = sizes
        if not shorter:
            with b.loop(*share(count)) as i:
                piece(i, 1, s, d, channel)
            return
        with b.either(b.put(f"icmp sge i64 {b.operand(count)}, {number}")) as otherwise:
            with b.loop(*share(b.ceil(count, number))) as i:
                piece(b.min(b.mul(i, number), b.sub(count, number)), number, s, d, channel)
            otherwise()
            longest(shorter, s, d, channel, share)

    def each(s: str, d: str, channel: Value, share: Range) -> None:
        start: Value = 0
        for number in sizes:
            rounds = b.div(b.sub(count, start), number)
            if rounds == 0:
                continue  # a rest that is known to be shorter
            with b.loop(*share(rounds)) as i:
                piece(b.add(start, b.mul(i, number)), number, s, d, channel)
            start = b.add(start, b.mul(rounds, number))

    def run(s: str, d: str, channel: Value, share: Range) -> None:
        if exactly_once(converter.conversion):
            each(s, d, channel, share)
        else:
            longest(sizes, s, d, channel, share)

    if inner.count == 1:
        run(src, dst, channel, range_)
        return
    with b.loop(*range_(inner.count)) as i:
        s, d = b.at(src, b.mul(i, inner.src)), b.at(dst, b.mul(i, inner.dst))
        run(s, d, b.add(channel, b.mul(i, inner.channel)), lambda count: (0, count))
