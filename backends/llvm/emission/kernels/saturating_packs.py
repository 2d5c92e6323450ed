"""f32 to bytes by the saturating packs of x86: half of the operations that it takes without them.

With masks (AVX-512) there are instructions that narrow one register, each of which is two operations and leaves a
quarter of a line to store.
"""

from __future__ import annotations

from layout_ir.backends.llvm.emission.kernels.rare_lanes import RareLanes
from layout_ir.backends.llvm.emission.llvm_builder import Builder, shuffle
from layout_ir.backends.llvm.machine.machine import Machine

_INSTRUCTIONS = {
    4: ("sse2.cvtps2dq", "sse2.packssdw.128", "sse2.pack{}swb.128"),
    8: ("avx.cvt.ps2dq.256", "avx2.packssdw", "avx2.pack{}swb"),
    16: ("avx512.mask.cvtps2dq.512", "avx512.packssdw.512", "avx512.pack{}swb.512"),
}
"""By f32 in a register: rounding to i32, and the packs of these and of i16."""


def saturates_by_packs(machine: Machine, dst: str, size: int) -> bool:
    """Whether f32 become `dst` by saturating packs, `size` elements at a time."""
    return (
        dst in ("i8", "ui8")
        and machine.architecture == "x86_64"
        and size >= machine.vector
        and size & (size - 1) == 0
    )


def packed(
    b: Builder, machine: Machine, size: int, y: str, *, signed: bool, rare: RareLanes | None = None
) -> str:
    """`size` f32 as i8 or ui8, those beyond the range saturated.

    Above the range of an i32, and for NaN, the conversion gives the least of them, and so the least of the words. Where
    `rare` is given, it is told; otherwise such numbers must not come.
    """
    each, sign = machine.vector // 4, "s" if signed else "u"
    convert, to_words, to_bytes = _INSTRUCTIONS[each]
    more = ", <16 x i32> poison, i16 -1, i32 4" if each == 16 else ""  # all lanes, as the CPU rounds
    registers = [
        b.put(
            f"call <{each} x i32> @llvm.x86.{convert}(<{each} x float> "
            f"{shuffle(b, 'float', y, 'poison', size, list(range(first, first + each)))}{more})"
        )
        for first in range(0, size, each)
    ]
    for count, element, pack in ((each, "i32", to_words), (2 * each, "i16", to_bytes.format(sign))):
        from_, to = f"<{count} x {element}>", f"<{2 * count} x i{int(element[1:]) // 2}>"
        registers = [
            b.put(f"call {to} @llvm.x86.{pack}({from_} {x}, {from_} {z})")
            for x, z in zip(registers[::2], registers[1::2], strict=True)
        ]
        if rare is not None and element == "i32":
            for words in registers:
                rare.add_words(2 * each, words)
    size = 4 * each
    if each > 4:
        # Both packs keep to lanes of 16 bytes: a lane of the result has four elements of each register.
        places = [4 * group + k for group in _groups(each // 4) for k in range(4)]
        registers = [shuffle(b, "i8", x, "poison", size, places) for x in registers]
    while len(registers) > 1:
        pairs = zip(registers[::2], registers[1::2], strict=True)
        registers = [shuffle(b, "i8", x, z, size, list(range(2 * size))) for x, z in pairs]
        size *= 2
    return registers[0]


def _groups(lanes: int) -> list[int]:
    """Where the packs of four registers put groups of four elements: in each of so many lanes one of each register."""
    return [4 * lane + register for register in range(4) for lane in range(lanes)]
