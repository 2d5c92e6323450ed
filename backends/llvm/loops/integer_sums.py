"""What loops over products of integers share: two products and their sum by one instruction, and bytes made of sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layout_ir.backends.llvm.emission.kernels.lanes import literal
from layout_ir.backends.llvm.emission.llvm_builder import Builder, shuffle
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.machine.x86_features import has_x86_feature
from layout_ir.dialects.nn.integer_products import Requantization

_INSTRUCTIONS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""The instruction of x86 that multiplies pairs of 16 bits and adds both products, by lanes of 32 bits."""


def bytes_of_result(made: Requantization | None) -> int:
    """Bytes of each result: those of a sum where nothing is made of it."""
    return 4 if made is None else 1


def sums_of_pairs(b: Builder, machine: Machine, lanes: int, left: str, right: str) -> str:
    """Per lane of 32 bits the sum of the products of two numbers of 16 bits."""
    size = 2 * lanes
    instruction = _INSTRUCTIONS.get(lanes)
    has = machine.architecture == "x86_64" if lanes < 16 else has_x86_feature(machine, "avx512bw")
    if instruction is not None and has:
        pair = f"<{size} x i16> {left}, <{size} x i16> {right}"
        return b.put(f"call <{lanes} x i32> @llvm.x86.{instruction}({pair})")
    wide = [b.put(f"sext <{size} x i16> {value} to <{size} x i32>") for value in (left, right)]
    products = b.put(f"mul <{size} x i32> {wide[0]}, {wide[1]}")
    even, odd = (shuffle(b, "i32", products, "poison", size, range(k, size, 2)) for k in (0, 1))
    return b.put(f"add <{lanes} x i32> {even}, {odd}")


def requantized(
    b: Builder, machine: Machine, lanes: int, sums: Sequence[str], columns: Sequence[Sequence[str]],
    made: Requantization,
) -> str:  # fmt: skip
    """Integers of 8 bits for vectors of sums, side by side in one vector, `Requantization`; `columns` are a vector of
    scales and one of addends for each.

    Bounds come before the last rounding, less the zero point, which is added to integers: that is the same, as bounds
    and zero point are integers.
    """
    real = f"<{lanes} x float>"
    bounds = zip(("maxnum", "minnum"), made.step_bounds, strict=True)
    limits = [(name, _number(bound - made.zero_point)) for name, bound in bounds]
    steps = list[str]()
    for each, (scale, addend) in zip(sums, columns, strict=True):
        value = b.put(f"sitofp <{lanes} x i32> {each} to {real}")
        value = b.put(f"fadd {real} {b.put(f'fmul {real} {value}, {scale}')}, {addend}")
        value = b.put(f"fmul {real} {value}, {_number(made.factor)}")
        for name, bound in limits:
            value = b.put(f"call {real} @llvm.{name}.v{lanes}f32({real} {value}, {real} {bound})")
        steps.append(b.put(f"call <{lanes} x i32> @llvm.lrint.v{lanes}i32.v{lanes}f32({real} {value})"))
    if len(steps) == 2 and lanes == 8 and machine.triple.startswith("x86_64"):
        return _packed(b, steps, made)
    parts = [b.put(f"trunc <{lanes} x i32> {each} to <{lanes} x i8>") for each in steps]
    count = lanes * len(parts)
    whole = parts[0]
    if len(parts) == 2:
        pair = f"<{lanes} x i8> {parts[0]}, <{lanes} x i8> {parts[1]}"
        places = ", ".join(f"i32 {k}" for k in range(count))
        whole = b.put(f"shufflevector {pair}, <{count} x i32> <{places}>")
    return b.put(f"add <{count} x i8> {whole}, splat (i8 {made.zero_point})")


def _packed(b: Builder, steps: Sequence[str], made: Requantization) -> str:
    """The sums of two vectors of 8 steps and the zero point as bytes, by instructions of AVX2 that saturate: lanes of
    128 bits are put in order at the end, where they are halves of one register."""
    pair = ", ".join(f"<8 x i32> {each}" for each in steps)
    words = b.put(f"call <16 x i16> @llvm.x86.avx2.packssdw({pair})")
    words = b.put(f"add <16 x i16> {words}, splat (i16 {made.zero_point})")
    halves = [shuffle(b, "i16", words, "poison", 16, range(k, k + 8)) for k in (0, 8)]
    saturated = "packsswb" if made.dtype == "i8" else "packuswb"
    found = b.put(
        f"call <16 x i8> @llvm.x86.sse2.{saturated}.128({', '.join(f'<8 x i16> {each}' for each in halves)})"
    )
    return shuffle(b, "i8", found, "poison", 16, [*range(4), *range(8, 12), *range(4, 8), *range(12, 16)])


def _number(value: float) -> str:
    return f"splat (float {literal(float(np.float32(value)), 'f32')})"
