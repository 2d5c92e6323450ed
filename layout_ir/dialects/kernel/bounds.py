"""Whether a plan stays inside its buffers: what the verifiers of the ops share.

Walking from a micro-kernel outwards, every loop and step adds the range of offsets that its rounds reach. The sum,
with what the micro-kernel touches, must lie inside the buffers, and so must channels inside the lists of numbers.
Offsets and strides must be whole elements and, of stores past the caches, whole stores. That no byte is written twice
is checked where it is cheap: the rounds of a loop must lie at least a run apart, and nothing may write more bytes than
the interval it writes into has.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.kernel.attributes import Digit, Steady

Range = tuple[int, int]
"""Smallest and largest offset, both reached."""

WIDTHS = (1, 2, 4, 8)
"""Bytes that elements may have."""

LINE = 64
"""Bytes of a cache line, and of the widest register."""

SIDES = ("source", "destination")


class Access(NamedTuple):
    """Bytes on one side: `run` together, in all rounds of `loops` (count, stride)."""

    run: int
    loops: tuple[tuple[int, int], ...] = ()

    @property
    def range(self) -> Range:
        """The first byte and the one behind the last, from where the access begins."""
        ranges = [linear(count, stride) for count, stride in self.loops]
        return sum(low for low, _ in ranges), sum(high for _, high in ranges) + self.run

    @property
    def volume(self) -> int:
        return self.run * prod(count for count, _ in self.loops)


class Places:
    """Mixin of loops and steps: what is inside happens in `rounds` places."""

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How often the body runs."""

    @property
    @abstractmethod
    def reach(self) -> tuple[Range, Range, Range]:
        """The offsets of the rounds in the source, in the destination and in channels."""

    @property
    @abstractmethod
    def moves(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Every offset or stride, in the source and in the destination."""

    @property
    def gap(self) -> int | None:
        """The least distance of two rounds in the destination; None where it is not cheap to say."""
        return None


class Accesses:
    """Mixin of micro-kernels."""

    @property
    @abstractmethod
    def reads(self) -> Access | None:
        """What is read; None: nothing, or what steps inside read."""

    @property
    @abstractmethod
    def writes(self) -> Access:
        """What is written."""

    @property
    def element(self) -> int | None:
        """Bytes of the elements that are told apart; None where bytes are moved."""
        return None

    @property
    def channels(self) -> Range:
        """The least and the greatest channel, from that of the step on."""
        return 0, 0

    @property
    def stores(self) -> tuple[int, tuple[int, ...]] | None:
        """Bytes of a store if it may bypass the caches, and how far apart they are; None where none does."""
        return None


class Buffers:
    """Mixin of what provides the buffers of the steps inside: the plan, and a stage for its destination."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int | None, int]:
        """Bytes of the source (None: that of the plan around) and of the destination."""

    @property
    def turns(self) -> Range:
        """The offsets in the source of the times that the buffer is filled."""
        return 0, 0


# Ranges --------------------------------------------------------------------------------------------------------------


def linear(count: int, stride: int) -> Range:
    """The offsets of `count` rounds, `stride` apart."""
    return min(0, (count - 1) * stride), max(0, (count - 1) * stride)


def ragged(levels: Sequence[Digit], start: int, stop: int, side: int) -> Range:
    """The offsets on one side (0 source, 1 destination, 2 channels) of positions [start, stop), not empty."""
    if not levels:
        return 0, 0
    *lower, top = levels
    first, last = start // top.unit, -(-stop // top.unit)
    ranges: list[Range] = []
    inner: Range | None = None
    rounds: Sequence[int] = range(first, last)
    if isinstance(top.move, Steady):
        # Between the first and the last whole round nothing is further out.
        rounds = sorted({*rounds[:2], *rounds[-2:]})
    for k in rounds:
        begin = max(start - k * top.unit, 0)
        end = min(stop - k * top.unit, top.unit)
        whole = (begin, end) == (0, top.unit)
        if not whole or inner is None:
            found = ragged(lower, begin, end, side)
            inner = found if whole else inner
        else:
            found = inner
        offset = top.offset(k)[side]
        ranges.append((found[0] + offset, found[1] + offset))
    return min(low for low, _ in ranges), max(high for _, high in ranges)


# Checks --------------------------------------------------------------------------------------------------------------


def positive(**numbers: int) -> None:
    """Raises VerifyException where one of the named numbers is not at least 1."""
    for name, value in numbers.items():
        if value < 1:
            raise VerifyException(f"{name} is {value}, at least 1 is needed")


def check_width(width: int) -> None:
    """Raises VerifyException where no element has `width` bytes."""
    if width not in WIDTHS:
        raise VerifyException(f"elements have 1, 2, 4 or 8 bytes, not {width}")


def check_levels(levels: Sequence[Digit], stop: int) -> None:
    """Raises VerifyException where `levels` do not number the positions below `stop`."""
    if not levels:
        raise VerifyException("a ragged loop has digits that number its positions")
    unit = 1
    for digit in levels:
        if digit.unit != unit:
            raise VerifyException(
                f"a digit of unit {digit.unit} follows digits that count {unit}: they must be equal"
            )
        unit *= digit.rounds
    if stop > unit:
        raise VerifyException(f"the digits number {unit} positions, the loop ends at {stop}")


def check_access(op: Operation, width: int) -> None:
    """Raises VerifyException where micro-kernel `op`, of a plan of elements of `width` bytes, leaves its buffers."""
    assert isinstance(op, Accesses)
    if op.element is not None:
        check_width(op.element)
        if op.element % width:
            raise VerifyException(f"elements of {op.element} bytes are no whole elements of {width}")
    _check_whole("a micro-kernel", [op.writes, op.reads], width)
    _check_side(op, 0, op.reads)
    low, high = _check_side(op, 1, op.writes)
    if volume(op) > high - low:
        raise VerifyException(
            f"writes {volume(op)} bytes into the {high - low} of [{low}, {high}): some twice"
        )
    for count, stride in op.writes.loops:
        _check_gap(abs(stride) if count > 1 else None, op.writes.run)
    for place in around(op):
        if isinstance(place, Places):
            _check_gap(place.gap, op.writes.run)


def check_places(op: Operation, width: int) -> None:
    """Raises VerifyException where a loop or step does not move by whole elements."""
    assert isinstance(op, Places)
    for stride in (*op.moves[0], *op.moves[1]):
        if stride % width:
            raise VerifyException(f"{stride} bytes are no multiple of the element's {width}")


def check_aligned(op: Operation, side: int, size: int, own: Sequence[int], what: str) -> None:
    """Raises VerifyException where `op` does not get from one place of `side` to the next by multiples of `size`.

    `own` are its own distances. Where the first place is does not matter for stores, the call asks for that.
    """
    distances = list(own)
    for place in around(op):
        if isinstance(place, Places) and (size <= 2 or isinstance(place.parent_op(), Places)):
            distances += place.moves[side]
    for distance in distances:
        if distance % size:
            raise VerifyException(
                f"{what} {distance} apart in the {SIDES[side]}: multiples of {size} are needed"
            )


def check_stores(op: Operation) -> None:
    """Raises VerifyException where stores of `op` past the caches would not be aligned."""
    assert isinstance(op, Accesses)
    if op.stores is None:
        return
    size, distances = op.stores
    if size & (size - 1):
        raise VerifyException(
            f"streams {size} bytes at a time: a power of two, or runs of whole lines, are needed"
        )
    check_aligned(op, 1, min(size, LINE), distances, f"streams {size} bytes at a time,")


def check_channels(op: Operation, channels: int) -> None:
    """Raises VerifyException where `op` has elements of other channels than the first `channels`."""
    assert isinstance(op, Accesses)
    low, high = op.channels
    for place in around(op):
        if isinstance(place, Places):
            low, high = low + place.reach[2][0], high + place.reach[2][1]
    if not 0 <= low <= high < channels:
        raise VerifyException(f"uses channels {low} to {high}, there are {channels}")


def check_filled(steps: Sequence[Operation], size: int, *, whole: bool) -> None:
    """Raises VerifyException where steps write more than `size` bytes, or, with `whole`, not as many."""
    written = sum(volume(op) for step in steps for op in step.walk() if innermost(op, step))
    if written > size or (whole and written != size):
        raise VerifyException(f"the steps write {written} bytes, the destination has {size}")


def innermost(op: Operation, step: Operation) -> bool:
    """Whether `op` is the micro-kernel of `step` itself, not of a stage inside."""
    if not isinstance(op, Accesses):
        return False
    return next(x for x in around(op) if not isinstance(x, Places) or x is step) is step


def volume(op: Operation) -> int:
    """Bytes that micro-kernel `op` writes into its buffer in all rounds of the loops around."""
    assert isinstance(op, Accesses)
    return op.writes.volume * prod(x.rounds for x in around(op) if isinstance(x, Places))


def around(op: Operation) -> Iterator[Operation]:
    """The loops and the step around `op`, then the op that has their destination."""
    outer = op.parent_op()
    while outer is not None:
        yield outer
        if isinstance(outer, Buffers):
            return
        outer = outer.parent_op()


def _check_whole(what: str, accesses: Sequence[Access | None], width: int) -> None:
    for access in accesses:
        for number in () if access is None else (access.run, *(stride for _, stride in access.loops)):
            if number % width:
                raise VerifyException(
                    f"{what} moves {number} bytes, which is no multiple of the element's {width}"
                )


def _check_gap(gap: int | None, run: int) -> None:
    if gap is not None and gap < run:
        raise VerifyException(f"rounds {gap} bytes apart write runs of {run}: some bytes twice")


def _check_side(op: Operation, side: int, access: Access | None) -> Range:
    """The bytes of one side that `op` touches, first and behind last."""
    if access is None:
        return 0, 0
    low, high = access.range
    size: int | None = None
    place: Operation | None = op
    while size is None and (place := place.parent_op()) is not None:
        if isinstance(place, Places):
            below, above = place.reach[side]
            low, high = low + below, high + above
        elif isinstance(place, Buffers):
            size = place.sizes[side]
            if size is None:
                low, high = low + place.turns[0], high + place.turns[1]
    if size is not None and not 0 <= low <= high <= size:
        verb = ("reads", "writes")[side]
        raise VerifyException(f"{verb} bytes [{low}, {high}) of a {SIDES[side]} of {size}")
    return low, high
