"""Lanes that a conversion may get wrong at first, because they are rare: NaN, and what is far beyond the range.

Half of the operations that make bytes or bf16 of f32 are there for such lanes alone. So a kernel converts some
registers without them, looks once at all of these, and where there was such a lane, converts them again with all that
it takes.

Measured on a Zen 4 without AVX-512, GB/s of both sides in L2 and L3, in full and in this way: f32 to i8 55 and 58, 76
and 75; f32 to bf16 33 and 34, 62 and 61; nchw in f32 to nhwc in bf16 34 and 34, 42 and 42, in i8 35 and 28, 62 and 48.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from layout_ir.backends.llvm.emission.llvm_builder import Builder, shuffle

_LEAST = {"i16": -(2**15), "i32": -(2**31)}
"""The least integer of a type."""


@dataclass(slots=True)
class RareLanes:
    """What tells, of some registers that were converted together, whether a rare lane was among them."""

    b: Builder
    _least: dict[tuple[int, str], str] = field(default_factory=dict[tuple[int, str], str], init=False)
    """The least of the integers that were added, lane by lane, by number of lanes and type."""
    _unordered: dict[int, str] = field(default_factory=dict[int, str], init=False)
    """Flags of the lanes in which some number was NaN, by number of lanes."""

    def add_integers(self, size: int, element: str, registers: Sequence[str]) -> None:
        """`size` lanes of i16 or i32, of which the least that there is says that the lane is rare."""
        vector = f"<{size} x {element}>"
        for integers in registers:
            others = self._least.get((size, element))
            least = integers
            if others is not None:
                name = f"llvm.smin.v{size}{element}"
                least = self.b.put(f"call {vector} @{name}({vector} {integers}, {vector} {others})")
            self._least[size, element] = least

    def add_floats(self, size: int, y: str) -> None:
        """`size` lanes of f32, an even number, of which NaN are rare: two halves are compared with each other."""
        half = size // 2
        low, high = (
            shuffle(self.b, "float", y, "poison", size, range(first, first + half)) for first in (0, half)
        )
        flags = self.b.put(f"fcmp uno <{half} x float> {low}, {high}")
        others = self._unordered.get(half)
        if others is not None:
            flags = self.b.put(f"or <{half} x i1> {flags}, {others}")
        self._unordered[half] = flags

    def any(self) -> str | None:
        """A flag, i1: whether any lane was rare. None where none can have been."""
        found: str | None = None
        least = [
            (size, self.b.put(f"icmp eq <{size} x {element}> {numbers}, splat ({element} {_LEAST[element]})"))
            for (size, element), numbers in self._least.items()
        ]
        for size, flags in (*least, *self._unordered.items()):
            # Lanes that nobody stores, of rows beyond the last one, may hold anything.
            flags = self.b.put(f"freeze <{size} x i1> {flags}")
            flag = self.b.put(f"call i1 @llvm.vector.reduce.or.v{size}i1(<{size} x i1> {flags})")
            found = flag if found is None else self.b.put(f"or i1 {found}, {flag}")
        return found


def emit_conversions(b: Builder, emit: Callable[[RareLanes | None], None], *, exactly_once: bool) -> None:
    """The code of `emit`, which converts and stores, and where there was a rare lane, once more in full.

    With `exactly_once`, as where the destination is read as well, it is in full at first.
    """
    rare = None if exactly_once else RareLanes(b)
    emit(rare)
    found = None if rare is None else rare.any()
    if found is not None:
        with b.when(found):
            emit(None)
