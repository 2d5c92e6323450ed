"""Lanes of one element type in memory, and the numbers that go with them.

A side of 4-bit elements is addressed in half bytes: its pointers hold twice the address, and only its loads and stores
know. Parameters with a number per channel are vectors in memory, constant ones or those that a call brings along;
`Channels` makes lanes of them, however the channels run over the lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layout_ir.backends.llvm.emission.builder import Builder, Value, shuffle
from layout_ir.backends.llvm.emission.kernels.numbers import lane, literal
from layout_ir.elements.element_types import bits_of, element_type
from layout_ir.elements.quantization import Conversion
from layout_ir.symbolic.symint import Size


@dataclass(frozen=True, slots=True)
class Side:
    """Loads and stores of lanes of `dtype` in memory."""

    b: Builder
    dtype: str

    @property
    def packed(self) -> bool:
        return bits_of(self.dtype) < 8

    @property
    def width(self) -> int:
        """From element to element, in bytes (half bytes where packed)."""
        return max(bits_of(self.dtype) // 8, 1)

    def _byte(self, pointer: str) -> tuple[str, str]:
        """The byte that a half-byte pointer points into, and its number."""
        number = self.b.put(f"ptrtoint ptr {pointer} to i64")
        return self.b.put(f"inttoptr i64 {self.b.put(f'lshr i64 {number}, 1')} to ptr"), number

    def _shift(self, number: str) -> str:
        """Bits below a single half byte, as i8."""
        low = self.b.put(f"trunc i64 {number} to i8")
        return self.b.put(f"shl i8 {self.b.put(f'and i8 {low}, 1')}, 2")

    def load(self, pointer: str, size: int) -> str:
        """`size` lanes; of packed elements one, or an even number from a whole byte on."""
        b = self.b
        if not self.packed:
            return b.load(f"<{size} x {lane(self.dtype)}>", pointer)
        byte, number = self._byte(pointer)
        if size == 1:
            half = b.put(f"lshr i8 {b.load('i8', byte)}, {self._shift(number)}")
            value = b.put(f"insertelement <1 x i8> poison, i8 {b.put(f'and i8 {half}, 15')}, i64 0")
        else:
            pairs = f"<{size // 2} x i8>"
            both = b.load(pairs, byte)
            low = b.put(f"and {pairs} {both}, splat (i8 15)")
            high = b.put(f"lshr {pairs} {both}, splat (i8 4)")
            mask = [k // 2 + (k % 2) * (size // 2) for k in range(size)]
            value = shuffle(b, "i8", low, high, size // 2, mask)
        if not element_type(self.dtype).is_signed:
            return value
        vector = f"<{size} x i8>"
        top = b.put(f"shl {vector} {value}, splat (i8 4)")
        return b.put(f"ashr {vector} {top}, splat (i8 4)")

    def store(self, value: str, pointer: str, size: int, *, streaming: bool = False) -> None:
        """As for `load`. A single half byte leaves the other one as it is."""
        b = self.b
        if not self.packed:
            stream = size * self.width if streaming else 0
            b.store(f"<{size} x {lane(self.dtype)}>", value, pointer, streaming=stream)
            return
        byte, number = self._byte(pointer)
        if size == 1:
            shift = self._shift(number)
            half = b.put(f"and i8 {b.put(f'extractelement <1 x i8> {value}, i64 0')}, 15")
            kept = b.put(f"and i8 {b.load('i8', byte)}, {b.put(f'lshr i8 -16, {shift}')}")
            b.store("i8", b.put(f"or i8 {kept}, {b.put(f'shl i8 {half}, {shift}')}"), byte)
            return
        pairs = f"<{size // 2} x i8>"
        low = shuffle(b, "i8", value, "poison", size, list(range(0, size, 2)))
        high = shuffle(b, "i8", value, "poison", size, list(range(1, size, 2)))
        low = b.put(f"and {pairs} {low}, splat (i8 15)")
        high = b.put(f"shl {pairs} {high}, splat (i8 4)")
        b.store(pairs, b.put(f"or {pairs} {low}, {high}"), byte)


class Channels:
    """The parameters of a conversion as vectors of the type it computes in."""

    def __init__(self, b: Builder, conversion: Conversion, pointers: Mapping[str, str]) -> None:
        self.b = b
        self.conversion = conversion
        self.element = "float" if conversion.computes == "f32" else "double"
        self.width = 4 if conversion.computes == "f32" else 8
        self.pointers = {**pointers, **self._constants()}
        """Where the parameters with a number per channel, and those that a call brings along, lie."""

    def _constants(self) -> dict[str, str]:
        return {
            name: self.b.numbers(value, self.element)
            for name, value in self.conversion.parameters.items()
            if isinstance(value, tuple)
        }

    def lanes(self, channel: Value, offsets: Sequence[Size]) -> dict[str, str]:
        """Every parameter for lanes whose channels are `channel` plus their offset."""
        found: dict[str, str] = {}
        for name, value in self.conversion.parameters.items():
            if isinstance(value, float):
                found[name] = f"splat ({self.element} {literal(value, self.conversion.computes)})"
            elif value == "tensor":
                found[name] = self._vector(self.pointers[name], [0] * len(offsets))
            else:
                base = self.b.at(self.pointers[name], self.b.mul(channel, self.width))
                found[name] = self._vector(base, offsets)
        return found

    def _vector(self, base: str, offsets: Sequence[Size]) -> str:
        """Entries at `offsets`: groups of equal lanes are one load each, groups of neighbours another."""
        b, size = self.b, len(offsets)
        made: dict[tuple[Size, ...], str] = {}
        step = next((n for n in (size, 16, 8, 4, 2) if size % n == 0 and self._simple(offsets, n)), 1)
        vectors: list[str] = []
        for at in range(0, size, step):
            group = tuple(offsets[at : at + step])
            if group not in made:
                made[group] = self._group(base, group)
            vectors.append(made[group])
        while len(vectors) > 1:
            if len(vectors) % 2:
                return self._inserted(base, offsets)
            mask = list(range(2 * step))
            vectors = [
                shuffle(b, self.element, low, high, step, mask)
                for low, high in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            step *= 2
        return vectors[0]

    def _simple(self, offsets: Sequence[Size], size: int) -> bool:
        groups = [offsets[at : at + size] for at in range(0, len(offsets), size)]
        return all(len(set(g)) == 1 or list(g) == list(range(g[0], g[0] + size)) for g in groups)

    def _group(self, base: str, offsets: Sequence[Size]) -> str:
        b, size = self.b, len(offsets)
        pointer = b.at(base, offsets[0] * self.width)
        if len(set(offsets)) > 1:
            return b.load(f"<{size} x {self.element}>", pointer)
        one = b.put(
            f"insertelement <{size} x {self.element}> poison, {self.element} {b.load(self.element, pointer)}, i64 0"
        )
        return one if size == 1 else shuffle(b, self.element, one, "poison", size, [0] * size)

    def _inserted(self, base: str, offsets: Sequence[Size]) -> str:
        vector = "poison"
        for k, offset in enumerate(offsets):
            value = self.b.load(self.element, self.b.at(base, offset * self.width))
            vector = self.b.put(
                f"insertelement <{len(offsets)} x {self.element}> {vector}, {self.element} {value}, i64 {k}"
            )
        return vector
