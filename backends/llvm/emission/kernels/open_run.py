"""Runs whose length only the run time knows: long ones in blocks, short ones in lanes, the shortest by element.

In each of the three the last piece is moved back to end where the run does.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import cast

from layout_ir.backends.llvm.emission.builder import Builder, Value
from layout_ir.backends.llvm.emission.kernels.linear import Range, fill_piece, move_piece
from layout_ir.backends.llvm.machine.machine import LANE
from layout_ir.dialects.kernel.plan import Copy, Fill
from layout_ir.symbolic.symint import SymInt

_BLOCK = 256


def emit_dynamic_run(
    b: Builder, kernel: Copy | Fill, src: str, dst: str, vector: int, range_: Range, streaming: bool
) -> None:
    """Copies or fills `kernel.run` bytes in every round of the inner loop."""
    run, inner = cast(SymInt, kernel.run), kernel.inner
    least = gcd(8, *(factor for _, factor in run.terms)) if isinstance(kernel, Copy) else kernel.width

    def piece(s: str, d: str, size: int) -> Callable[[Value], None]:
        if isinstance(kernel, Fill):
            fill = kernel
            return lambda at: fill_piece(b, fill, b.at(d, at), size, vector)
        stream = streaming and size == _BLOCK
        return lambda at: move_piece(b, b.at(s, at), b.at(d, at), size, vector, stream)

    def body(s: str, d: str, share: Range) -> None:
        def pieces(size: int) -> None:
            with b.loop(*share(b.ceil(kernel.run, size))) as i:
                piece(s, d, size)(b.min(b.mul(i, size), b.sub(kernel.run, size)))

        with b.either(b.put(f"icmp sge i64 {b.operand(run)}, {_BLOCK}")) as shorter:
            pieces(_BLOCK)
            shorter()
            with b.either(b.put(f"icmp sge i64 {b.operand(run)}, {LANE}")) as shortest:
                pieces(LANE)
                shortest()
                pieces(least)

    if not isinstance(inner.count, SymInt) and inner.count == 1:
        body(src, dst, range_)
        return
    with b.loop(*range_(inner.count)) as i:
        body(b.at(src, b.mul(i, inner.src)), b.at(dst, b.mul(i, inner.dst)), lambda count: (0, count))
