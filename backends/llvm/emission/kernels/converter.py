"""Elements on their way through registers: loaded, converted, stored. A move is the conversion that is the identity.

In registers an element is an integer of its width (one of 4 bits an i8), so that kernels shuffle vectors of them
without caring what they mean. `conversion_arithmetic` says what a conversion computes, `parameter_lanes`
which parameters go with which lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layout_ir.backends.llvm.emission.kernels.conversion_arithmetic import Arithmetic, lane_type
from layout_ir.backends.llvm.emission.kernels.parameter_lanes import ParameterLanes
from layout_ir.backends.llvm.emission.kernels.rare_lanes import RareLanes
from layout_ir.backends.llvm.emission.kernels.saturating_packs import saturates_by_packs
from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, shuffle
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.elements.element_types import element_type
from layout_ir.elements.quantization import PARAMETERS
from layout_ir.symbolic.symint import Size


@dataclass(frozen=True, slots=True)
class ElementAccess:
    """Loads and stores of elements in memory, as vectors of integers of type `lane`."""

    b: Builder
    lane: str
    width: int
    """The distance of neighbours, in bytes, or in half bytes where two elements share a byte."""
    packed: bool = False
    """Whether elements have 4 bits; pointers to them are twice an address."""
    signed: bool = False
    """Whether a packed element is extended by its sign."""

    def load(self, pointer: str, size: int) -> str:
        """`size` elements; of packed ones a single one, or an even number from a whole byte on."""
        b = self.b
        if not self.packed:
            return b.load(f"<{size} x {self.lane}>", pointer)
        byte, address = self._byte(pointer)
        if size == 1:
            half = b.put(f"lshr i8 {b.load('i8', byte)}, {self._shift(address)}")
            value = b.put(f"insertelement <1 x i8> poison, i8 {b.put(f'and i8 {half}, 15')}, i64 0")
        else:
            pairs = f"<{size // 2} x i8>"
            both = b.load(pairs, byte)
            low = b.put(f"and {pairs} {both}, splat (i8 15)")
            high = b.put(f"lshr {pairs} {both}, splat (i8 4)")
            mask = [k // 2 + (k % 2) * (size // 2) for k in range(size)]
            value = shuffle(b, "i8", low, high, size // 2, mask)
        if not self.signed:
            return value
        vector = f"<{size} x i8>"
        top = b.put(f"shl {vector} {value}, splat (i8 4)")
        return b.put(f"ashr {vector} {top}, splat (i8 4)")

    def store(self, value: str, pointer: str, size: int, *, streaming: bool = False) -> None:
        """As for `load`. A single half byte leaves the other one as it is."""
        b = self.b
        if not self.packed:
            stream = size * self.width if streaming else 0
            b.store(f"<{size} x {self.lane}>", value, pointer, streaming=stream)
            return
        byte, address = self._byte(pointer)
        if size == 1:
            shift = self._shift(address)
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

    def _byte(self, pointer: str) -> tuple[str, str]:
        """The byte that a pointer to half bytes points into, and the pointer as a number."""
        address = self.b.put(f"ptrtoint ptr {pointer} to i64")
        return self.b.put(f"inttoptr i64 {self.b.put(f'lshr i64 {address}, 1')} to ptr"), address

    def _shift(self, address: str) -> str:
        """Bits below a single half byte, as i8."""
        low = self.b.put(f"trunc i64 {address} to i8")
        return self.b.put(f"shl i8 {self.b.put(f'and i8 {low}, 1')}, 2")


class Converter:
    """What becomes of the elements of one plan, or of one kernel that moves elements of a width of its own."""

    def __init__(self, b: Builder, machine: Machine, pair: ElementPair) -> None:
        self.b = b
        self.machine = machine
        self.pair = pair
        conversion = self.conversion = pair.conversion
        if conversion is None:
            self.src = self.dst = ElementAccess(b, f"i{8 * pair.src}", pair.src)
            return
        self.src, self.dst = (
            ElementAccess(b, lane_type(dtype), width, packed, element_type(dtype).is_signed)
            for dtype, width, packed in (
                (conversion.src, pair.src, pair.src_packed),
                (conversion.dst, pair.dst, pair.dst_packed),
            )
        )
        self._parameters = ParameterLanes(b, conversion, {name: f"%{name}" for name in PARAMETERS})

    def convert(
        self,
        value: str,
        channel: Value,
        channels: Sequence[Size],
        held: str = "",
        rare: RareLanes | None = None,
    ) -> str:
        """Elements of the source as elements of the destination.

        Element k belongs to channel `channel` + `channels[k]`. `held` points at what the destination holds, which is
        read where the conversion adds to it. Lanes that `rare` is told may come out wrong.
        """
        conversion, size = self.conversion, len(channels)
        if conversion is None:
            return value
        old = self.dst.load(held, size) if conversion.beta is not None else None
        parameters = self._parameters.lanes(channel, channels)
        return Arithmetic(self.b, self.machine, size, rare).converted(value, conversion, parameters, old)

    @property
    def packed_together(self) -> int:
        """Elements that saturating packs make at a time, a register of them; 0 where they do not."""
        conversion = self.conversion
        if conversion is None or conversion.computes != "f32" or self.pair.dst_packed:
            return 0
        size = self.machine.vector // self.pair.dst
        computed = element_type(conversion.src).is_float or bool(conversion.parameters)
        return size if computed and saturates_by_packs(self.machine, conversion.dst, size) else 0


def move_of(b: Builder, machine: Machine, width: int) -> Converter:
    """The converter that moves elements of `width` bytes as they are."""
    return Converter(b, machine, ElementPair(width, width))
