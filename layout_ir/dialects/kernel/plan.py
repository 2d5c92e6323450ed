"""What a compiled reorder does, as a value: steps of loops around micro-kernels, with every choice that was made.

A plan is a list of steps without an order among them (no two write different bytes to one place). A step is a nest of
loops around one micro-kernel. The order of the loops, the kernel, its tile and schedule, the loop that threads share,
prefetches, stores that bypass the caches: all of it is in the value. Emission adds nothing but the spelling, so the
plan is also what compiled code is remembered by.

    width 4 src 802816 dst 802816
    step src 0 dst 0
      for 2 src 401408 dst 401408 parallel
        tile 4 rows 64 by 6272 cols 1568 by 256 schedule <cols 16, rows 16>

**Moves and conversions** are plans of one kind: a move is the conversion that is the identity. A plan without a
`conversion` moves bytes, whatever they are, and a micro-kernel may take several elements for one of more `width`.
With a conversion a step also counts **channels**, of which there is one set of quantization parameters each: `channel`
of a loop or an axis says by how many channels the next iteration or element is further.

**Units.** Offsets, strides and sizes count bytes; on a side whose elements have 4 bits they count half bytes. A run of
a conversion counts elements, for its two sides differ.

Nothing here needs xDSL or NumPy. The planner may build plans with symbolic sizes in place of integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from layout_ir.elements.cache_line import LINE as LINE
from layout_ir.elements.element_types import bits_of
from layout_ir.elements.quantization import Conversion
from layout_ir.symbolic.symint import Size

# Loops ---------------------------------------------------------------------------------------------------------------


def _channel_text(channel: Size) -> str:
    return f" channel {channel}" if channel else ""


@dataclass(frozen=True, slots=True)
class Loop:
    """`count` iterations; the next one is `src` bytes further in the source and `dst` in the destination.

    From iteration `valid` on (0: none) the destination gets pads: only inside of the planner, which makes a
    micro-kernel of such a loop.
    """

    count: Size
    src: Size
    dst: Size
    valid: Size = 0
    channel: Size = 0

    def __str__(self) -> str:
        return f"for {self.count} src {self.src} dst {self.dst}{_channel_text(self.channel)}"


ONCE = Loop(1, 0, 0)


@dataclass(frozen=True, slots=True)
class TableLoop:
    """One iteration per entry, at src[k] and dst[k] bytes; the next one is `channel` channels further."""

    src: tuple[Size, ...]
    dst: tuple[Size, ...]
    channel: Size = 0

    @property
    def count(self) -> int:
        """The number of iterations."""
        return len(self.src)

    def __str__(self) -> str:
        entries = ", ".join(f"{src}:{dst}" for src, dst in zip(self.src, self.dst, strict=True))
        return f"table <{entries}>{_channel_text(self.channel)}"


@dataclass(frozen=True, slots=True)
class Level:
    """One loop of a `VariableBoundLoops`: every iteration of `loop` moves by `unit` positions."""

    unit: int
    loop: Loop | TableLoop

    def __str__(self) -> str:
        return f"{self.unit}: {self.loop}"


@dataclass(frozen=True, slots=True)
class VariableBoundLoops:
    """The positions [start, stop) of one dim, as loops over its digits (`levels`, fine to coarse).

    Position p is iteration p // unit % (next unit // unit) of every level. The bounds of an inner loop depend on the
    iteration of the outer ones: at the ends only some of its iterations are positions of the interval. Used where
    splitting the interval into nests with constant bounds would make too many steps.
    """

    levels: tuple[Level, ...]
    start: Size
    stop: Size

    @property
    def count(self) -> Size:
        """Iterations: one per position."""
        return self.stop - self.start

    def __str__(self) -> str:
        return f"positions {self.start} to {self.stop} <{', '.join(map(str, self.levels))}>"


AnyLoop = Loop | TableLoop | VariableBoundLoops


def iterations(loops: tuple[AnyLoop, ...]) -> Size:
    """How often the body of the nest `loops` runs."""
    return prod(loop.count for loop in loops)


def _inner_text(inner: Loop) -> str:
    return "" if inner == ONCE else f" {inner}"


# Micro-kernels -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copy:
    """`run` bytes (with a conversion: elements) that lie together on both sides, in every iteration of `inner`.

    Within the run the next element is `channel` channels further.
    """

    run: Size
    inner: Loop = ONCE
    streaming: bool = False
    channel: Size = 0

    def __str__(self) -> str:
        return f"copy {self.run}{_channel_text(self.channel)}{_inner_text(self.inner)}{_streaming_text(self)}"


@dataclass(frozen=True, slots=True)
class Axis:
    """`count` elements that lie together on one side and `stride` bytes apart on the other, `channel` channels apart.

    With `fold` only so many of them are `stride` apart, and every `fold` of them begin `outer_stride` bytes behind the
    last: element k is at (k % fold) * stride + (k // fold) * outer_stride.
    """

    count: Size
    stride: Size
    fold: int = 0
    outer_stride: Size = 0
    channel: Size = 0

    def __str__(self) -> str:
        fold = f" fold {self.fold} by {self.outer_stride}" if self.fold else ""
        return f"{self.count} by {self.stride}{fold}{_channel_text(self.channel)}"

    def offset(self, k: int) -> Size:
        """The offset of element `k` on the other side, in bytes."""
        return (
            k % self.fold * self.stride + k // self.fold * self.outer_stride if self.fold else k * self.stride
        )

    @property
    def loops(self) -> tuple[tuple[Size, Size], ...]:
        """(count, stride) of the loops that the axis stands for, the inner one first."""
        if not self.fold:
            return ((self.count, self.stride),)
        return ((self.fold, self.stride), (self.count // self.fold, self.outer_stride))


@dataclass(frozen=True, slots=True)
class Blocking:
    """One loop of a tile's schedule: over blocks of `size` rows or columns (`axis`: "rows", "cols")."""

    axis: str
    size: Size

    def __str__(self) -> str:
        return f"{self.axis} {self.size}"


@dataclass(frozen=True, slots=True)
class Tile:
    """Transposes in registers: `rows` lie together in the destination, `cols` in the source.

    `width` bytes per element (with a conversion: per narrower element, the plan's own width). `schedule` lists the
    loops over blocks, outermost first; the last block of each axis is the tile that registers hold. A tile that would
    reach over the end of its axis is moved back, so that elements are written twice with the same value.
    """

    width: int
    rows: Axis
    cols: Axis
    schedule: tuple[Blocking, ...]
    streaming: bool = False
    valid: Size = 0
    """Rows that the source has, if not all (0): the others are pads that hold the bits `pad`."""
    pad: int = 0
    square: bool = False
    """Whether a tile is square and as wide as a line of the source, and its rows are loaded in whole registers."""
    prefetch_distance: Size = 0
    """Bytes by which prefetches run ahead of the loads in every row, 0 for none."""

    def block(self, axis: str) -> Size:
        """Rows or columns of the tile itself."""
        return next(blocking.size for blocking in reversed(self.schedule) if blocking.axis == axis)

    def __str__(self) -> str:
        schedule = ", ".join(map(str, self.schedule))
        text = f"tile {self.width} rows {self.rows} cols {self.cols} schedule <{schedule}>"
        if self.valid:
            text += f" valid {self.valid} pad {self.pad}"
        text += " square" if self.square else ""
        text += f" prefetch_distance {self.prefetch_distance}" if self.prefetch_distance else ""
        return text + _streaming_text(self)


@dataclass(frozen=True, slots=True)
class Interleave:
    """`ways` runs of `count` elements, `stride` bytes apart, become one run: element 0 of each, then 1, ...

    With `inverse` it is a deinterleave: one run becomes `ways` runs, `stride` apart in the destination. `width` as for
    a tile. Moves `block` elements of every run at a time; a last block that would reach over the end is moved back.
    Every way has its own channel, `channel` channels further than the way before it.
    """

    width: int
    ways: int
    count: Size
    stride: Size
    inverse: bool
    block: int
    streaming: bool = False
    channel: Size = 0

    def __str__(self) -> str:
        verb = "deinterleave" if self.inverse else "interleave"
        text = f"{verb} {self.width} ways {self.ways} of {self.count} by {self.stride}"
        return f"{text}{_channel_text(self.channel)} block {self.block}{_streaming_text(self)}"


@dataclass(frozen=True, slots=True)
class Elements:
    """Single elements of `width` bytes, one per iteration of `inner`; they are moved, not converted."""

    width: int
    inner: Loop
    streaming: bool = False

    def __str__(self) -> str:
        return f"elements {self.width} {self.inner}{_streaming_text(self)}"


@dataclass(frozen=True, slots=True)
class Fill:
    """`run` bytes that lie together in the destination get the pad `value`, the bits of an element of `width` bytes."""

    width: int
    value: int
    run: Size
    inner: Loop = ONCE
    streaming: bool = False

    def __str__(self) -> str:
        text = f"fill {self.run} with {self.value} width {self.width}"
        return f"{text}{_inner_text(self.inner)}{_streaming_text(self)}"


@dataclass(frozen=True, slots=True)
class PaddedCopy:
    """`run` bytes that lie together in the destination: `valid` of the source, then pads.

    The pads hold `value`, the bits of an element of `width` bytes.
    """

    width: int
    value: int
    valid: Size
    run: Size
    inner: Loop = ONCE
    streaming: bool = False

    def __str__(self) -> str:
        text = f"padded_copy {self.valid} of {self.run} with {self.value} width {self.width}"
        return f"{text}{_inner_text(self.inner)}{_streaming_text(self)}"


@dataclass(frozen=True, slots=True)
class Staged:
    """`steps` write `size` bytes, all of them, into a staging buffer, which is then streamed to the destination.

    With `then` the buffer is not streamed: these steps move its elements, which `steps` have converted, to the
    destination. Their `src` counts from where the buffer begins, `dst` from where this step writes.

    For destinations whose lines the steps do not write whole and in order: a store that bypasses the caches costs
    eight times as much where it does not complete a line. The buffer may have several `rows` of `size` bytes, which lie
    `dst_stride` bytes apart in the destination and `row_stride` in the buffer (0 where there is one row and no stride);
    the two agree in where a row begins inside its line. With `iterations`, `src_stride` bytes apart in the source,
    every row is continued so often, each time by `size` bytes; the begun line at its end stays in the buffer for the
    next iteration. `src` of the inner steps counts from where this step reads, `dst` from where the buffer begins.
    """

    size: Size
    steps: tuple[Step, ...]
    streaming: bool = False
    rows: int = 1
    dst_stride: Size = 0
    row_stride: Size = 0
    iterations: Size = 1
    src_stride: Size = 0
    then: tuple[Step, ...] = ()

    @property
    def extent(self) -> Size:
        """Bytes of the buffer."""
        return self.size + (self.rows - 1) * self.row_stride

    def __str__(self) -> str:
        text = f"staged {self.size}"
        if self.row_stride:
            text += f" rows {self.rows} by {self.dst_stride} row_stride {self.row_stride}"
        if self.iterations > 1:
            text += f" iterations {self.iterations} src {self.src_stride}"
        return text + _streaming_text(self)


Kernel = Copy | Tile | Interleave | Elements | Fill | PaddedCopy | Staged


def _streaming_text(kernel: Kernel) -> str:
    return " streaming" if kernel.streaming else ""


# Steps and plans -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """`loops` (outermost first) around `kernel`, from `src` and `dst` bytes on, the first element in channel `channel`.

    `parallel` is the number of the loop whose iterations threads share: one of `loops`, their number for the loop of
    the kernel, -1 for none (every thread does everything, as in the steps of a staging buffer). `prefetch` is the
    number of the loop that prefetches the source of its next iteration, which lies behind that of this one.
    """

    loops: tuple[AnyLoop, ...]
    src: Size
    dst: Size
    kernel: Kernel
    parallel: int = 0
    prefetch: int | None = None
    channel: Size = 0

    def __str__(self) -> str:
        lines = [f"step src {self.src} dst {self.dst}{_channel_text(self.channel)}"]
        for depth, item in enumerate((*self.loops, self.kernel)):
            marks = " parallel" if depth == self.parallel else ""
            marks += " prefetch" if depth == self.prefetch else ""
            lines.append("  " * (depth + 1) + f"{item}{marks}")
        if isinstance(self.kernel, Staged):
            indent = "  " * (len(self.loops) + 1)
            for number, part in enumerate((self.kernel.steps, self.kernel.then)):
                steps = "\n".join(map(str, part)).replace("\n", f"\n{indent}  ")
                if part or not number:
                    lines[-1] += f"{' then' if number else ''} {{\n{indent}  {steps}\n{indent}}}"
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Plan:
    """A reorder of elements of `width` bytes between buffers of at least `src_bytes` and `dst_bytes`.

    With a `conversion`, `width` is that of the narrower elements (1 for those of 4 bits).
    """

    width: int
    src_bytes: Size
    dst_bytes: Size
    steps: tuple[Step, ...]
    conversion: Conversion | None = None

    @property
    def widths(self) -> tuple[int, int]:
        """Bytes of what the buffers of source and destination are made of (of a byte, for two elements of 4 bits)."""
        if self.conversion is None:
            return self.width, self.width
        return -(-bits_of(self.conversion.src) // 8), -(-bits_of(self.conversion.dst) // 8)

    @property
    def elements(self) -> tuple[str | None, str | None]:
        """The types that elements are converted from and to; None where they are moved, whatever they are."""
        return (None, None) if self.conversion is None else (self.conversion.src, self.conversion.dst)

    @property
    def shares_bytes(self) -> bool:
        """Whether two threads might write halves of one byte."""
        return self.conversion is not None and bits_of(self.conversion.dst) < 8

    @property
    def in_place_safe(self) -> bool:
        """Whether every element stays where it is, unconverted, so that one buffer may be source and destination."""
        return all(
            isinstance(step.kernel, Fill) or (self.conversion is None and _stays(step)) for step in self.steps
        )

    def __str__(self) -> str:
        head = f"width {self.width} src {self.src_bytes} dst {self.dst_bytes}"
        if self.conversion is not None:
            head += f" convert <{self.conversion}>"
        return "\n".join([head, *map(str, self.steps)])


def _stays(step: Step) -> bool:
    """Whether `step` writes every element to where it was read."""
    kernel = step.kernel
    if not isinstance(kernel, Copy | Elements | PaddedCopy) or step.src != step.dst:
        return False
    loops: list[Loop | TableLoop] = [kernel.inner]
    for loop in step.loops:
        loops += [level.loop for level in loop.levels] if isinstance(loop, VariableBoundLoops) else [loop]
    return all(loop.src == loop.dst for loop in loops)


def read_volume(kernel: Kernel) -> Size:
    """Bytes of the source that a micro-kernel of a move reads."""
    match kernel:
        case Tile():
            return (kernel.valid or kernel.rows.count) * kernel.cols.count * kernel.width
        case Interleave():
            return kernel.ways * kernel.count * kernel.width
        case Elements():
            return kernel.width * kernel.inner.count
        case Copy():
            return kernel.run * kernel.inner.count
        case PaddedCopy():
            return kernel.valid * kernel.inner.count
        case Fill():
            return 0
        case Staged():
            steps = sum(iterations(step.loops) * read_volume(step.kernel) for step in kernel.steps)
            return kernel.iterations * steps
