"""What a compiled reorder does, as a value that can be printed and compared.

A plan is a list of steps without order among them (no two write different bytes to one place). A step is a nest of
loops around one micro-kernel; every choice is in it: the order of the loops, the kernel, its tile and schedule.
All strides and offsets count bytes. Emission adds nothing but the spelling.

    step src+0 dst+0 split 0
      for 2: src+802816 dst+802816
        tile f4 rows 64 by 12544, cols 3136 by 256: cols/16 rows/16
"""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.backends.llvm.planning.loops import ONCE, Item, Loop, Ragged, channel_text, rounds
from layout_ir.elements.element_types import bits_of
from layout_ir.elements.quantization import Conversion


@dataclass(frozen=True, slots=True)
class Copy:
    """`run` bytes that lie together on both sides, for `count` rounds of the innermost loop."""

    run: int
    inner: Loop = ONCE
    streaming: bool = False

    def __str__(self) -> str:
        text = f"copy {self.run}" + (" streaming" if self.streaming else "")
        return text if self.inner.count == 1 else f"{text} ({self.inner})"


@dataclass(frozen=True, slots=True)
class Axis:
    """`count` elements that lie together on one side and `stride` bytes apart on the other.

    With `fold` only as many of them are `stride` apart; every `fold` of them begin `far` bytes behind the last:
    element k is at (k % fold) * stride + (k // fold) * far.
    """

    count: int
    stride: int
    fold: int = 0
    far: int = 0

    def __str__(self) -> str:
        text = f"{self.count} by {self.stride}"
        return f"{text} fold {self.fold} by {self.far}" if self.fold else text

    def place(self, k: int) -> int:
        """Where element `k` is on the other side, in bytes."""
        return k % self.fold * self.stride + k // self.fold * self.far if self.fold else k * self.stride

    @property
    def loops(self) -> tuple[tuple[int, int], ...]:
        """(count, stride) of the loops that it stands for."""
        if not self.fold:
            return ((self.count, self.stride),)
        return ((self.fold, self.stride), (self.count // self.fold, self.far))


@dataclass(frozen=True, slots=True)
class Cut:
    """One loop of a tile's schedule: `rows` or `cols` in blocks of `size`."""

    axis: str
    size: int

    def __str__(self) -> str:
        return f"{self.axis}/{self.size}"


@dataclass(frozen=True, slots=True)
class Tile:
    """Transposes in registers: `rows` lie together in the destination, `cols` in the source.

    `width` bytes per element. The last cut of each axis is the tile; a tile that would reach over the end is moved
    back, so that elements are written twice with the same value.
    """

    width: int
    rows: Axis
    cols: Axis
    cuts: tuple[Cut, ...]
    streaming: bool = False
    valid: int = 0
    """Rows that the source has, if not all (0): the others are pads that hold `pad`."""
    pad: int = 0
    whole: bool = False
    """Whether a tile is square and as wide as a line of the source, and its rows are loaded in whole registers."""
    reach: int = 0
    """Bytes by which prefetches run ahead of the loads in every row, 0 for none."""

    def __str__(self) -> str:
        shape = f"rows {self.rows}, cols {self.cols}"
        text = f"tile {self.width} {shape}: {' '.join(map(str, self.cuts))}"
        if self.valid:
            text += f" valid {self.valid} pad {self.pad:#x}"
        text += f" reach {self.reach}" if self.reach else ""
        return text + (" whole" if self.whole else "") + (" streaming" if self.streaming else "")


@dataclass(frozen=True, slots=True)
class Weave:
    """`strands` runs of `count` elements, `stride` bytes apart, woven into one run: element 0 of each, then 1, ...

    With `splits` the other way round. Moves `block` elements of every strand at a time.
    """

    width: int
    strands: int
    count: int
    stride: int
    splits: bool
    block: int
    streaming: bool = False

    def __str__(self) -> str:
        verb = "split" if self.splits else "weave"
        text = f"{verb} {self.width} strands {self.strands} of {self.count} by {self.stride}"
        return f"{text}: block {self.block}" + (" streaming" if self.streaming else "")


@dataclass(frozen=True, slots=True)
class Elements:
    """Single elements of `width` bytes, one after the other."""

    width: int
    inner: Loop
    streaming: bool = False

    def __str__(self) -> str:
        return f"elements {self.width} ({self.inner})"


@dataclass(frozen=True, slots=True)
class Fill:
    """`run` bytes that lie together in the destination get the pad value of `width` bytes."""

    width: int
    value: int
    run: int
    inner: Loop = ONCE
    streaming: bool = False

    def __str__(self) -> str:
        text = f"fill {self.run} with {self.value:#0{2 + 2 * self.width}x}"
        return text if self.inner.count == 1 else f"{text} ({self.inner})"


@dataclass(frozen=True, slots=True)
class Padded:
    """`run` bytes that lie together in the destination: `valid` of the source, then pads of `width` bytes."""

    width: int
    value: int
    valid: int
    run: int
    inner: Loop = ONCE
    streaming: bool = False

    def __str__(self) -> str:
        text = f"copy {self.valid} padded to {self.run} with {self.value:#0{2 + 2 * self.width}x}"
        text += " streaming" if self.streaming else ""
        return text if self.inner.count == 1 else f"{text} ({self.inner})"


@dataclass(frozen=True, slots=True)
class Staged:
    """`steps` write `size` bytes, all of them, into a small buffer, which is then streamed to the destination.

    For destinations whose lines the steps do not write whole and in order: a store that bypasses the caches costs
    eight times as much where it does not complete a line. There may be `runs` of `size` bytes each, `stride` bytes
    apart in the destination and `pitch` in the buffer; the two agree in where a run begins inside its line. With
    `along` rounds, `step` bytes apart in the source, every run is continued so often, each time by `size` bytes; the
    begun line at its end stays in the buffer for the next round.
    """

    size: int
    steps: tuple[Step, ...]
    streaming: bool = False
    runs: int = 1
    stride: int = 0
    pitch: int = 0
    along: int = 1
    step: int = 0

    @property
    def extent(self) -> int:
        """Bytes of the buffer."""
        return self.size + (self.runs - 1) * self.pitch

    def __str__(self) -> str:
        inner = "\n".join(map(str, self.steps)).replace("\n", "\n  ")
        runs = f" runs {self.runs} by {self.stride} pitch {self.pitch}" if self.pitch else ""
        runs += f" along {self.along} src{self.step:+}" if self.along > 1 else ""
        return f"staged {self.size}{runs}\n  {inner}"


# Kernels of plans that convert: a side of 4-bit elements counts half bytes where others count bytes.


@dataclass(frozen=True, slots=True)
class Strip:
    """`count` elements that lie together on one side and `stride` apart on the other; channels `channel` apart."""

    count: int
    stride: int
    channel: int = 0

    def __str__(self) -> str:
        return f"{self.count} by {self.stride}{channel_text(self.channel)}"


@dataclass(frozen=True, slots=True)
class ConvertRun:
    """`count` elements that lie together on both sides, for every round of `inner`; channels `channel` apart."""

    count: int
    inner: Loop = ONCE
    channel: int = 0
    streaming: bool = False

    def __str__(self) -> str:
        text = f"convert {self.count}{channel_text(self.channel)}" + (" streaming" if self.streaming else "")
        return text if self.inner.count == 1 else f"{text} ({self.inner})"


@dataclass(frozen=True, slots=True)
class ConvertTile:
    """Converts and transposes in registers, at the narrower of the two widths; `Tile` says what the numbers are."""

    rows: Strip
    cols: Strip
    cuts: tuple[Cut, ...]
    streaming: bool = False
    reach: int = 0
    """Bytes by which prefetches run ahead of the loads in every row, 0 for none."""

    def __str__(self) -> str:
        text = f"convert tile rows {self.rows}, cols {self.cols}: {' '.join(map(str, self.cuts))}"
        text += f" reach {self.reach}" if self.reach else ""
        return text + (" streaming" if self.streaming else "")


@dataclass(frozen=True, slots=True)
class ConvertWeave:
    """Converts and interleaves: `strands` are what one side has apart (`stride`) and the other side together.

    With `splits` the strands are the destination's. Along a strand the channel stays, one strand is `channel` later.
    """

    strands: Strip
    count: int
    splits: bool
    block: int
    streaming: bool = False

    def __str__(self) -> str:
        text = f"convert {'split' if self.splits else 'weave'} strands {self.strands} of {self.count}"
        return f"{text}: block {self.block}" + (" streaming" if self.streaming else "")


Kernel = Copy | Tile | Weave | Elements | Fill | Padded | Staged | ConvertRun | ConvertTile | ConvertWeave


@dataclass(frozen=True, slots=True)
class Step:
    """`loops` (outermost first) around `kernel`, from `src` and `dst` bytes on.

    `split` numbers the loop that threads share: a loop of `loops`, or their number for the kernel's outermost.
    """

    loops: tuple[Item, ...]
    src: int
    dst: int
    kernel: Kernel
    split: int = 0
    ahead: int | None = None
    """The loop that asks for the source of its next round, which lies right behind that of this one."""
    channel: int = 0
    """The channel of the first element."""

    def __str__(self) -> str:
        ahead = "" if self.ahead is None else f" ahead {self.ahead}"
        lines = [f"step src+{self.src} dst+{self.dst} split {self.split}{ahead}{channel_text(self.channel)}"]
        for depth, item in enumerate((*self.loops, self.kernel)):
            indent = "  " * (depth + 1)
            lines.append(indent + str(item).replace("\n", "\n" + indent))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Plan:
    """A reorder of elements of `width` bytes between buffers of at least `src_bytes` and `dst_bytes`.

    With a `conversion`, `width` is that of the narrower elements (1 for those of 4 bits).
    """

    width: int
    src_bytes: int
    dst_bytes: int
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
    def keeps_places(self) -> bool:
        """Whether every element stays where it is, so that one buffer may be source and destination."""
        return all(isinstance(step.kernel, Fill) or _keeps(step) for step in self.steps)

    def __str__(self) -> str:
        head = f"plan width {self.width} src {self.src_bytes} dst {self.dst_bytes}"
        if self.conversion is not None:
            head += f" convert {self.conversion}"
        return "\n".join([head, *map(str, self.steps)])


def _keeps(step: Step) -> bool:
    kernel = step.kernel
    if not isinstance(kernel, Copy | Elements | Fill | Padded) or step.src != step.dst:
        return False
    items = [*step.loops, kernel.inner]
    moves = [level.move for x in items if isinstance(x, Ragged) for level in x.levels]
    return all(x.src == x.dst for x in [*moves, *(x for x in items if not isinstance(x, Ragged))])


def read_volume(kernel: Kernel) -> int:
    """Bytes of the source that a micro-kernel reads."""
    match kernel:
        case Tile():
            return (kernel.valid or kernel.rows.count) * kernel.cols.count * kernel.width
        case Weave():
            return kernel.strands * kernel.count * kernel.width
        case Elements():
            return kernel.width * kernel.inner.count
        case Copy():
            return kernel.run * kernel.inner.count
        case Padded():
            return kernel.valid * kernel.inner.count
        case Fill() | ConvertRun() | ConvertTile() | ConvertWeave():
            return 0  # which is what the latter ask ahead for: they have reasons of their own
        case Staged():
            return kernel.along * sum(rounds(step.loops) * read_volume(step.kernel) for step in kernel.steps)
