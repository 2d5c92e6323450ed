"""Windows over tensors of bytes whose channels are last, of which each channel is computed by itself, as loops.

Channels are the lanes, and a tile of some neighbouring results is computed at once, block by block of their channels:
what was read for a place serves all windows of the tile that meet it. Where a window leaves the source, what all
windows of the tile cover is copied to the stack first, with a border around it, and the same code runs on the copy: few
tiles do, and nothing has to be padded in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from layout_ir.backends.llvm.emission.iteration import partition
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value
from layout_ir.dialects.nn.tensor_types import Shape

_STACK = 256 << 10
"""Bytes of the stack that a copy of windows may take."""

DECLARATIONS = "declare ptr @memcpy(ptr, ptr, i64)\ndeclare ptr @memset(ptr, i32, i64)"
"""What a module with such loops declares."""


@dataclass(frozen=True, slots=True)
class Dim:
    """A spatial dim: its extents, and the window along it. `stride` is in bytes of the source."""

    extent: int
    results: int
    stride: int
    kernel: int
    step: int
    dilation: int
    before: int

    def span(self, windows: int = 1) -> int:
        """Places that so many neighbouring windows cover."""
        return (windows - 1) * self.step + (self.kernel - 1) * self.dilation + 1

    @property
    def is_padded(self) -> bool:
        """Whether a window leaves the source."""
        return self.before > 0 or self.span(self.results) > self.extent + self.before


@dataclass(frozen=True, slots=True)
class Tile:
    """Some neighbouring results, and where their windows lie: the address of the first place, and bytes from one row
    of each dim but the last to the next."""

    at: str
    rows: Sequence[Value]
    result: str
    height: int


Block = Callable[[Tile, Value, tuple[int, ...]], None]
"""Emits the results of a tile for channels that begin at some channel, in vectors of so many lanes."""


@dataclass(frozen=True, slots=True)
class ChannelWindows:
    """Windows over a source (N, *spatial, C), with pads before each dim, and as many results as `results` says."""

    source: Shape
    kernel: Shape
    strides: Shape
    dilations: Shape
    before: Shape
    results: Shape

    @property
    def channels(self) -> int:
        """Channels, of the source and the result."""
        return self.source[-1]

    @property
    def dims(self) -> list[Dim]:
        """The spatial dims, two at least."""
        made = [
            Dim(
                self.source[k + 1],
                self.results[k],
                prod(self.source[k + 2 :]),
                kernel,
                self.strides[k],
                self.dilations[k],
                self.before[k],
            )
            for k, kernel in enumerate(self.kernel)
        ]
        return made if len(made) > 1 else [Dim(1, 1, prod(self.source[1:]), 1, 1, 1, 0), *made]

    @property
    def elements(self) -> int:
        """Elements of all windows."""
        return self.source[0] * self.channels * prod(self.results) * prod(self.kernel)

    def _copied(self, height: int) -> int:
        """Bytes of a copy of so many windows; 0 where none ever leaves the source."""
        *outer, last = self.dims
        if not any(dim.is_padded for dim in self.dims):
            return 0
        return prod(dim.kernel for dim in outer) * last.span(height) * self.channels

    def height(self, most: int) -> int:
        """Results of a tile, `most` of them or fewer, so that their windows fit on the stack; 0 where none does."""
        return next((n for n in range(min(most, self.results[-1]), 0, -1) if self._copied(n) <= _STACK), 0)

    def emit(
        self,
        b: Builder,
        source: str,
        result: str,
        width: int,
        border: str,
        height: int,
        lanes: int,
        block: Block,
    ) -> None:
        """All results of `width` bytes each, in tiles of up to `height`, by blocks of one or two vectors of `lanes`
        channels; `border`, an i8, is what is outside of the source."""
        *outer, last = self.dims
        tiles = -(-last.results // height)
        size, larger = divmod(last.results, tiles)
        copied = self._copied(size + (larger > 0))
        copy = b.put(f"alloca [{copied} x i8], align 64") if copied else source
        low, high = partition(b, parallel=True)(self.source[0] * prod(dim.results for dim in outer))
        with b.loop(low, high) as row:
            image, places = self._places(b, row, outer)
            at = b.at(source, b.mul(image, prod(self.source[1:])))
            to = b.at(result, b.mul(row, last.results * self.channels * width))
            first = 0
            for each, count in ((size + 1, larger), (size, tiles - larger)):
                if not count:
                    continue
                with b.loop(0, count) as number:
                    x = b.add(b.mul(number, each), first)
                    begins = [*places, b.sub(b.mul(x, last.step), last.before)]
                    of, rows = self._window(b, at, begins, each, copy, border)
                    tile = Tile(of, rows, b.at(to, b.mul(x, self.channels * width)), each)
                    self._blocks(b, tile, lanes, block)
                first += each * count

    def _places(self, b: Builder, row: Value, outer: Sequence[Dim]) -> tuple[Value, list[Value]]:
        """The image of a row of results, and where its windows begin along each dim but the last."""
        places = list[Value]()
        for dim in reversed(outer):
            quotient = b.div(row, dim.results)
            place = b.sub(row, b.mul(quotient, dim.results))
            places.insert(0, b.sub(b.mul(place, dim.step), dim.before))
            row = quotient
        return row, places

    def _window(
        self, b: Builder, source: str, begins: list[Value], height: int, copy: str, border: str
    ) -> tuple[str, Sequence[Value]]:
        """Where windows lie that begin there, in the source or in a copy, as `Tile` has it."""
        outer = self.dims[:-1]
        inside: str | None = None
        spans = [*(dim.span() for dim in outer), self.dims[-1].span(height)]
        for dim, begin, span in zip(self.dims, begins, spans, strict=True):
            if dim.is_padded:
                # As unsigned numbers: what begins before 0 is larger than all.
                flag = b.compare("ule", begin, dim.extent - span) if dim.extent >= span else "false"
                inside = flag if inside is None else b.put(f"and i1 {inside}, {flag}")
        at = source
        for dim, begin in zip(self.dims, begins, strict=True):
            at = b.at(at, b.mul(begin, dim.stride))
        rows = [dim.dilation * dim.stride for dim in outer]
        if inside is None:
            return at, rows
        with b.either(inside) as otherwise:
            otherwise()
            self._copy(b, source, begins, height, copy, border)
        bytes_ = self.dims[-1].span(height) * self.channels
        copied = [prod(dim.kernel for dim in outer[k + 1 :]) * bytes_ for k in range(len(outer))]
        moved = [b.select(inside, *pair) for pair in zip(rows, copied, strict=True)]
        return b.select(inside, at, copy, "ptr"), moved

    def _copy(
        self, b: Builder, source: str, begins: list[Value], height: int, copy: str, border: str
    ) -> None:
        """Copies the rows of windows that begin there, with the border outside of the source."""
        *outer, last = self.dims
        span = last.span(height)
        low = b.min(b.max(begins[-1], 0), last.extent)
        high = b.max(b.min(b.add(begins[-1], span), last.extent), low)
        run = b.mul(b.sub(high, low), self.channels)
        into = b.mul(b.sub(low, begins[-1]), self.channels)
        wide = b.put(f"zext i8 {border} to i32")

        def rows(level: int, number: Value, from_: str, inside: str | None) -> None:
            if level < len(outer):
                dim = outer[level]
                with b.loop(0, dim.kernel) as tap:
                    place = b.add(begins[level], b.mul(tap, dim.dilation))
                    flag = inside
                    if dim.is_padded:
                        flag = b.compare("ult", place, dim.extent)
                        flag = flag if inside is None else b.put(f"and i1 {flag}, {inside}")
                    below = b.at(from_, b.mul(place, dim.stride))
                    rows(level + 1, b.add(b.mul(number, dim.kernel), tap), below, flag)
                return
            to = b.at(copy, b.mul(number, span * self.channels))
            b.put(f"call ptr @memset(ptr {to}, i32 {wide}, i64 {span * self.channels})")
            count = run if inside is None else b.select(inside, run, 0)
            begin = b.at(from_, b.mul(low, self.channels))
            begin = begin if inside is None else b.select(inside, begin, source, "ptr")
            b.put(f"call ptr @memcpy(ptr {b.at(to, into)}, ptr {begin}, i64 {b.operand(count)})")

        rows(0, 0, source, None)

    def _blocks(self, b: Builder, tile: Tile, lanes: int, block: Block) -> None:
        """A tile, block by block of its channels."""
        count = self.channels // (2 * lanes)
        if count:
            with b.loop(0, count) as number:
                block(tile, b.mul(number, 2 * lanes), (lanes, lanes))
        for channel, sizes in self._last_blocks(lanes):
            block(tile, channel, sizes)

    def _last_blocks(self, lanes: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Where the blocks behind those of two whole vectors begin, and their vectors: they have channels of the block
        before as well, where there are as many."""
        channels = self.channels
        begin = channels - channels % (2 * lanes)
        while begin < channels:
            rest = channels - begin
            sizes = (lanes,) * 2 if rest > lanes and channels >= 2 * lanes else (min(lanes, channels),)
            first = min(begin, channels - sum(sizes))
            yield first, sizes
            begin = first + sum(sizes)
