"""f32 to integers by the conversions and saturating packs of x86: half of the operations that it takes without them.

With masks (AVX-512) there are instructions that narrow one register, each of which is two operations and leaves a
quarter of a line to store.
"""

from __future__ import annotations

from layout_ir.backends.llvm.emission.kernels.rare_lanes import RareLanes
from layout_ir.backends.llvm.emission.llvm_builder import Builder, shuffle
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.machine.x86_features import has_x86_feature
from layout_ir.elements.element_types import bits_of

_CONVERSIONS = {4: "sse2.cvtps2dq", 8: "avx.cvt.ps2dq.256", 16: "avx512.mask.cvtps2dq.512"}
"""Rounding to i32, by f32 in a register."""

_PACKS = {
    "i8": ("packssdw", "packsswb"),
    "ui8": ("packssdw", "packuswb"),
    "i16": ("packssdw",),
    "ui16": ("packusdw",),
}
"""The instructions that make an integer type of i32, one halving after the other."""


def saturates_by_packs(machine: Machine, dst: str, size: int) -> bool:
    """Whether f32 become `dst` by saturating packs, `size` elements at a time: a register of them, or half of one
    where no instruction narrows a single register."""
    least = machine.vector if machine.vector == 64 else machine.vector // 2
    return (
        dst in _PACKS
        and machine.architecture == "x86_64"
        and (dst != "ui16" or has_x86_feature(machine, "sse4.1"))
        and size * bits_of(dst) >= 8 * least
        and size * 4 >= 2 * machine.vector
        and size & (size - 1) == 0
    )


def rounds_to_i32(machine: Machine, size: int) -> bool:
    """Whether `size` f32 are rounded to i32 by whole registers."""
    return machine.architecture == "x86_64" and 4 * size >= machine.vector and size & (size - 1) == 0


def rounded_to_i32(b: Builder, machine: Machine, size: int, y: str) -> list[str]:
    """Registers of i32: `size` f32 rounded to even. NaN, and what is beyond the range, becomes the least i32."""
    each = machine.vector // 4
    more = ", <16 x i32> poison, i16 -1, i32 4" if each == 16 else ""  # all lanes, as the CPU rounds
    return [
        b.put(
            f"call <{each} x i32> @llvm.x86.{_CONVERSIONS[each]}(<{each} x float> "
            f"{shuffle(b, 'float', y, 'poison', size, list(range(first, first + each)))}{more})"
        )
        for first in range(0, size, each)
    ]


def joined_registers(b: Builder, element: str, registers: list[str], size: int) -> str:
    """Registers of `size` elements, a power of two of them, one behind the other."""
    while len(registers) > 1:
        pairs = zip(registers[::2], registers[1::2], strict=True)
        registers = [shuffle(b, element, x, z, size, list(range(2 * size))) for x, z in pairs]
        size *= 2
    return registers[0]


def packed(
    b: Builder, machine: Machine, size: int, y: str, dst: str, *, rare: RareLanes | None = None
) -> str:
    """`size` f32 as `dst`, those beyond the range saturated.

    Above the range of an i32, and for NaN, the conversion gives the least of them, and so does the first pack. Where
    `rare` is given, it is told; otherwise such numbers must not come.
    """
    registers = rounded_to_i32(b, machine, size, y)
    packs = _PACKS[dst]
    each = count = machine.vector // 4
    if rare is not None and len(packs) == 1:
        rare.add_integers(each, "i32", registers)
    for level, pack in enumerate(packs):
        bits = 32 >> level
        name = f"llvm.x86.{_intrinsic(pack, each)}"
        from_, to = f"<{count} x i{bits}>", f"<{2 * count} x i{bits // 2}>"
        # What is alone is packed with itself.
        pairs = zip(registers[::2], registers[1::2] or registers, strict=True)
        registers = [b.put(f"call {to} @{name}({from_} {x}, {from_} {z})") for x, z in pairs]
        count *= 2
        if rare is not None and bits // 2 > bits_of(dst):
            rare.add_integers(count, "i16", registers)
    made = min(size, count)
    if each > 4 or made < count:
        # Packs keep to lanes of 16 bytes: a lane of the result has four elements of each register.
        groups = _groups(each // 4, count // each, made // each)
        places = [4 * group + k for group in groups for k in range(4)]
        registers = [shuffle(b, f"i{bits_of(dst)}", x, "poison", count, places) for x in registers]
    return joined_registers(b, f"i{bits_of(dst)}", registers, made)


def _intrinsic(pack: str, each: int) -> str:
    """What LLVM calls a pack of registers of `each` words."""
    if each == 4:
        return "sse41.packusdw" if pack == "packusdw" else f"sse2.{pack}.128"
    return f"avx2.{pack}" if each == 8 else f"avx512.{pack}.512"


def _groups(lanes: int, width: int, registers: int) -> list[int]:
    """Where the packs of some registers put groups of four elements, of which each of so many lanes has `width`."""
    return [width * lane + register for register in range(registers) for lane in range(lanes)]
