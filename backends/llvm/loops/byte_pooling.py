"""The largest of each window over integers of 8 bits whose channels are last, as machine code.

Of the places that the windows of a tile meet, the largest along all dims but the last are taken first, and those of
each window then. Measured on Zen 3, windows of 3x3 with strides of 2 over 64 channels of 112x112: 34 us, where the
library's kernel takes 237.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value
from layout_ir.backends.llvm.loops.channel_windows import DECLARATIONS, ChannelWindows, Tile
from layout_ir.backends.llvm.loops.loop_calls import argument_row, loop_code, loop_function
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.errors import LayoutError

_SHARED = 1 << 20
"""Elements of all windows from which on threads share a call: some ten microseconds."""

_PLACES = 12
"""Places along the last dim whose largest numbers stay in registers, of two vectors half as many."""


class BytePooling:
    """The code for windows over a source of the element type i8 or ui8: a call has the source and the result."""

    has_indices = False

    def __init__(self, windows: ChannelWindows, dtype: str, *, threads: int = 1) -> None:
        """Raises LayoutError where there are no results, or one window does not fit on the stack."""
        if min(*windows.source, *windows.results) < 1 or not windows.height(1):
            raise LayoutError(f"no code for windows of {windows.source} by channels")
        elements = windows.elements
        self.threads = thread_pool.available(threads) if elements >= _SHARED else 1
        self.code = loop_code(_Emitter(windows, dtype == "i8", host()))
        self.address = self.code.address("loops")

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        return argument_row(2)


@dataclass(frozen=True)
class _Emitter:
    windows: ChannelWindows
    is_signed: bool
    machine: Machine

    def text(self) -> str:
        """The function `loops`."""
        b = Builder()
        source, result = (b.load("ptr", "%arguments", 8 * k) for k in range(2))
        last = self.windows.dims[-1]
        most = max((_PLACES // 2 - last.kernel) // last.step + 1, 1)

        def block(tile: Tile, channel: Value, sizes: tuple[int, ...]) -> None:
            self._block(b, tile, channel, sizes)

        lowest = "-128" if self.is_signed else "0"
        self.windows.emit(b, source, result, 1, lowest, self.windows.height(most), self.machine.vector, block)
        loops = loop_function("loops", b, self.machine)
        return f'target triple = "{self.machine.triple}"\n{DECLARATIONS}\n{loops}\n'

    def _block(self, b: Builder, tile: Tile, channel: Value, sizes: tuple[int, ...]) -> None:
        """The results of channels that begin at `channel`, in vectors of so many."""
        *outer, last = self.windows.dims
        channels, taps = self.windows.channels, range(last.kernel)
        steps = [(dim.kernel, row) for dim, row in zip(outer, tile.rows, strict=True)]
        if 2 * last.kernel > _PLACES:
            # More places than there are registers for are taken one by one, too.
            steps, taps = [*steps, (last.kernel, last.dilation * channels)], range(1)
        places = sorted({k * last.step + tap * last.dilation for k in range(tile.height) for tap in taps})
        # Vectors are of one size.
        size, count = sizes[0], len(sizes)
        kind = f"<{size} x i8>"

        def largest(level: int, at: str, values: list[str]) -> list[str]:
            """The larger, at each place, of `values` and all numbers along the dims that are left."""
            if level < len(steps):
                taken, step = steps[level]
                kinds = [(kind, value) for value in values]
                return b.carried(
                    0,
                    taken,
                    kinds,
                    lambda tap, inside: largest(level + 1, b.at(at, b.mul(step, tap)), inside),
                )
            offsets = [place * channels + v * size for place in places for v in range(count)]
            return [
                self._larger(b, size, value, b.load(kind, at, offset))
                for value, offset in zip(values, offsets, strict=True)
            ]

        lowest = "splat (i8 -128)" if self.is_signed else "zeroinitializer"
        found = largest(0, b.at(tile.at, channel), [lowest] * (len(places) * count))
        of = {place: found[k * count : (k + 1) * count] for k, place in enumerate(places)}
        for k in range(tile.height):
            for v in range(count):
                value, *others = (of[k * last.step + tap * last.dilation][v] for tap in taps)
                for other in others:
                    value = self._larger(b, size, value, other)
                b.store(kind, value, tile.result, b.add(channel, k * channels + v * size))

    def _larger(self, b: Builder, size: int, left: str, right: str) -> str:
        name, kind = "smax" if self.is_signed else "umax", f"<{size} x i8>"
        return b.put(f"call {kind} @llvm.{name}.v{size}i8({kind} {left}, {kind} {right})")
