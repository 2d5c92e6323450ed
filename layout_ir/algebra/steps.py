"""Functions along one dim by how they step: addresses of as many indices as there are, in the size of the digits.

A digit list moves by one of few steps from each index to the next, and which one is a question of divisibility. For
digits of units 1, 8, 32 with strides 1, 100, 1000 and a phase of 3, the step onto index p is

    1000 - 7 - 3 * 100 = 693    where 32 divides p + 3
     100 - 7           =  93    elsewhere, where 8 divides p + 3
       1                        elsewhere

So a `Piece` is a list of progressions, each inside the one before (p congruent to `anchor` modulo `apart`), with the
step of those indices that are in no later one. A function is a first value and pieces one behind the other: one for a
layout's dim, several where dims were joined, one per index where nothing better is known. What `fit` and `fit_phased`
ask (where is a step other than this one, are all such indices multiples of that one) is answered per progression by
arithmetic, never index by index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

UnitStride = tuple[int, int]
"""(unit, stride in elements) of a canonical digit; its count is given by the next unit or by the extent."""

Progression = tuple[int, int, int]
"""(anchor, apart, step): the indices congruent to `anchor` modulo `apart`, and how far the function moves onto them."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The steps onto the indices [start, stop). Every index is in the first progression, whose indices are 1 apart.

    Each progression lies inside the one before: its `apart` is a multiple, its anchor is in it.
    """

    start: int
    stop: int
    progressions: tuple[Progression, ...]

    def step(self, index: int) -> int:
        """How far the function moves from index - 1 to `index`."""
        found = 0
        for anchor, apart, step in self.progressions:
            if (index - anchor) % apart:
                break
            found = step
        return found

    def others(self, step: int) -> Iterator[tuple[int, int]]:
        """The indices whose step is another one, as sets: each by its least index and the gcd of their distances."""
        following = (*self.progressions[1:], None)
        for (anchor, apart, own), inner in zip(self.progressions, following, strict=True):
            first = self.start + (anchor - self.start) % apart
            if first >= self.stop:
                return
            if own == step:
                continue
            count = -(-(self.stop - first) // apart)
            if inner is None:
                yield first, apart if count > 1 else 0
                continue
            ratio = inner[1] // apart
            # Of `count` indices every one of `ratio` belongs to the progression inside. Four tell what all do.
            left = [k for k in range(min(count, 4)) if (first + k * apart - inner[0]) % inner[1]]
            if left:
                distance = gcd(*(k - left[0] for k in left))
                if count > 4 and ratio > 2:
                    distance = 1
                yield first + left[0] * apart, distance * apart

    def sampled(self, head: int, unit: int, more: int) -> Piece:
        """The steps onto number k of the indices head, head + unit, ..., each `more` larger; numbers start at 1."""
        start, stop = (-(-(bound - head) // unit) + 1 for bound in (self.start, self.stop))
        progressions: list[Progression] = []
        for anchor, apart, step in self.progressions:
            common = gcd(unit, apart)
            if (anchor - head) % common:
                break
            apart //= common
            k = (anchor - head) // common * pow(unit // common, -1, apart)
            progressions.append(((k + 1) % apart, apart, step + more))
        return Piece(max(start, 1), stop, tuple(progressions))


@dataclass(frozen=True, slots=True)
class Steps:
    """A function on [0, count), less its value at 0: the pieces cover [1, count)."""

    count: int
    pieces: tuple[Piece, ...]

    @staticmethod
    def of_terms(terms: Sequence[UnitStride], count: int, low: int) -> Steps:
        """The function x -> what digits of `terms` (units from 1 on, dividing each other) say of low + x."""
        return Steps.strided(terms, count, low, 1)

    @staticmethod
    def strided(terms: Sequence[UnitStride], count: int, low: int, stride: int) -> Steps:
        """The function x -> what digits say of low + x * stride.

        Raises ValueError where `stride` and a unit that is passed do not divide one another.
        """
        terms = terms or ((1, 0),)
        reached = [low, low + (count - 1) * stride]
        span = abs(stride)
        progressions: list[Progression] = []
        moved = 0  # by a step that carries into no unit above
        inside = 0  # what the digits below add up to at most: what a carry takes back
        carried = 0  # by a carry into the unit below, net
        for k, (unit, value) in enumerate(terms):
            if unit > 1 and reached[0] // unit == reached[1] // unit:
                break
            weight = value - inside - carried
            carried += weight
            if k + 1 < len(terms):
                inside += (terms[k + 1][0] // unit - 1) * value
            if span % unit == 0:
                moved += stride // unit * weight
                progressions = [(0, 1, moved)]
            elif unit % span == 0:
                # Index p is the first beyond a multiple of the unit.
                anchor = -(low // span) if stride > 0 else low // span + 1
                apart = unit // span
                moved += weight if stride > 0 else -weight
                progressions.append((anchor % apart, apart, moved))
            else:
                raise ValueError(f"unit {unit} against a stride of {stride}")
        return Steps(count, (Piece(1, count, tuple(progressions)),) if count > 1 else ())

    @staticmethod
    def of_values(values: Sequence[int]) -> Steps:
        """The function of a list, index by index."""
        steps = [b - a for a, b in pairwise(values)]
        return Steps(len(values), tuple(Piece(p, p + 1, ((0, 1, step),)) for p, step in enumerate(steps, 1)))

    def joined(self, step: int, other: Steps) -> Steps:
        """This function, then `other`, which begins `step` above the last value of this one."""
        moved = tuple(
            Piece(
                piece.start + self.count,
                piece.stop + self.count,
                tuple((anchor + self.count, apart, own) for anchor, apart, own in piece.progressions),
            )
            for piece in other.pieces
        )
        seam = Piece(self.count, self.count + 1, ((0, 1, step),))
        return Steps(self.count + other.count, (*self.pieces, seam, *moved))

    def step(self, index: int) -> int:
        """How far the function moves from index - 1 to `index`."""
        return next(piece.step(index) for piece in self.pieces if piece.start <= index < piece.stop)

    def others(self, step: int) -> list[tuple[int, int]]:
        """The indices whose step is another one, as sets: each by its least index and the gcd of their distances."""
        return [found for piece in self.pieces for found in piece.others(step)]

    def sampled(self, head: int, unit: int, step: int) -> Steps:
        """The function at head, head + unit, ..., behind a first value `unit` steps of `step` and one break before.

        Requires that every index whose step is not `step` is congruent to `head` modulo `unit`.
        """
        count = 1 + max(-(-(self.count - head) // unit), 0)
        pieces = (piece.sampled(head, unit, (unit - 1) * step) for piece in self.pieces)
        return Steps(count, tuple(piece for piece in pieces if piece.start < piece.stop))


def fit(steps: Steps) -> tuple[UnitStride, ...] | None:
    """Canonical digits of the function, or None if no digit list computes it."""
    unit, terms = 1, list[UnitStride]()
    while steps.count > 1:
        stride = steps.step(1)
        terms.append((unit, stride))
        breaks = steps.others(stride)
        if not breaks:
            break
        # The longest linear prefix is exactly one digit: what is left may depend on x div run alone.
        run = min(first for first, _ in breaks)
        if any(first % run or distance % run for first, distance in breaks):
            return None
        steps = steps.sampled(run, run, stride)
        unit *= run
    return tuple(terms)


def fit_phased(steps: Steps) -> tuple[int, tuple[UnitStride, ...]] | None:
    """(low, digits) such that the function is what the digits say of low + x, from low on; None if there are none.

    Low is 0 wherever a digit list without a phase exists. Otherwise the stride inside the finest block is one of the
    first two steps, and the steps that differ from it are a multiple of the block apart. The largest such block is
    the only one to be tried: inside it a smaller one has only the same steps to add.
    """
    terms = fit(steps)
    if terms is not None:
        return 0, terms
    for stride in dict.fromkeys(steps.step(p) for p in range(1, min(steps.count, 3))):
        breaks = steps.others(stride)
        first = min(least for least, _ in breaks)
        unit = gcd(*(distance for _, distance in breaks), *(least - first for least, _ in breaks))
        unit = unit or max(first, steps.count - first)
        if unit < 2:
            continue
        head = (first - 1) % unit + 1
        coarse = fit_phased(steps.sampled(head, unit, stride))
        if coarse is not None:
            low, terms = coarse
            return low * unit + unit - head, ((1, stride), *((u * unit, s) for u, s in terms))
    return None
