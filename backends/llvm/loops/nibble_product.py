"""Exact products of a row of bytes with weights of i8, as machine code.

Numbers from 0 to 255 are 16 a + b. The instruction that multiplies bytes (vpmaddubsw) adds two products in 16 bits: of
a or b, at most 15, and any weights, eight such sums still fit, and are added up there before they are widened. That is
four instructions and a half for 32 products, and 32 weights are read at once; widening the weights to 16 bits instead
(`integer_convolution`) is six, of which several rows share two. Measured on Zen 3, one row by 256 x 1024 weights 13.9
us and 17.4 by 16 bits, by 512 x 2048 34 and 46; two rows take as long by either.

Weights lie in panels of columns, of each of which four neighbours along the inner dim lie side by side; what is no
weight is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.backends.llvm.emission.llvm_builder import Builder, Value, spread
from layout_ir.backends.llvm.loops.integer_sums import sums_of_pairs
from layout_ir.backends.llvm.loops.masked_lanes import store_leading
from layout_ir.backends.llvm.machine.machine import Machine

QUAD = 4
"""Numbers along the inner dim that lie side by side."""

_INSTRUCTIONS = {16: "ssse3.pmadd.ub.sw.128", 32: "avx2.pmadd.ub.sw", 64: "avx512.pmaddubs.w.512"}
"""The instruction of x86 that multiplies and adds, by bytes of a register."""

_SUMS = 8
"""Sums of two products that 16 bits hold: 8 * 2 * 15 * 128 is less than 2^15."""


def has_nibble_product(machine: Machine) -> bool:
    """Whether the machine has the instruction."""
    return machine.triple.startswith("x86_64") and machine.vector >= 32


@dataclass(frozen=True)
class NibbleProduct:
    """A row of so many quads by so many columns, in panels of `panel` columns."""

    machine: Machine
    quads: int
    columns: int
    panel: int

    def emit(self, b: Builder, high: str, low: str, weights: str, result: str) -> None:
        """All sums, i32 (columns), of bytes (4 * quads): `high` and `low` are a and b."""
        whole, rest = divmod(self.columns, self.panel)
        for first, panels, columns in ((0, whole, self.panel), (whole, min(rest, 1), rest)):
            if panels:
                with b.loop(first, first + panels) as number:
                    of = b.at(weights, b.mul(number, QUAD * self.quads * self.panel))
                    to = b.at(result, b.mul(number, 4 * self.panel))
                    self._tile(b, (high, low), of, to, columns)

    def _tile(self, b: Builder, halves: tuple[str, str], weights: str, result: str, columns: int) -> None:
        lanes = self.machine.vector // 4
        vectors, vector = -(-columns // lanes), f"<{lanes} x i32>"
        blocks, rest = divmod(self.quads, _SUMS)

        def block(first: Value, count: int, sums: list[str]) -> list[str]:
            """`sums` and the products of so many quads, added up in 16 bits."""
            wide, size = f"<{2 * lanes} x i16>", self.machine.vector
            found = ["zeroinitializer"] * (2 * vectors)
            for k in range(count):
                quad = b.add(first, k)
                numbers = [
                    b.put(
                        f"bitcast {vector} {spread(b, 'i32', self._quad(b, at, quad), lanes)} to <{size} x i8>"
                    )
                    for at in halves
                ]
                row = b.at(weights, b.mul(quad, QUAD * self.panel))
                for v in range(vectors):
                    of = b.put(f"load <{size} x i8>, ptr {b.at(row, v * size)}, align 1")
                    for half, number in enumerate(numbers):
                        pairs = f"<{size} x i8> {number}, <{size} x i8> {of}"
                        product = b.put(f"call {wide} @llvm.x86.{_INSTRUCTIONS[size]}({pairs})")
                        place = 2 * v + half
                        found[place] = b.put(f"add {wide} {found[place]}, {product}")
            made: list[str] = []
            for v, value in enumerate(sums):
                for half, factor in enumerate((16, 1)):
                    each = sums_of_pairs(b, self.machine, lanes, found[2 * v + half], f"splat (i16 {factor})")
                    value = b.put(f"add {vector} {value}, {each}")
                made.append(value)
            return made

        sums = ["zeroinitializer"] * vectors
        if blocks:
            kinds = [(vector, value) for value in sums]
            sums = b.carried(0, blocks, kinds, lambda k, inside: block(b.mul(k, _SUMS), _SUMS, inside))
        if rest:
            sums = block(blocks * _SUMS, rest, sums)
        for v, value in enumerate(sums):
            place = b.at(result, 4 * v * lanes)
            store_leading(b, "i32", value, place, lanes, columns - v * lanes, 4)

    def _quad(self, b: Builder, pointer: str, quad: Value) -> str:
        return b.put(f"load i32, ptr {b.at(pointer, b.mul(quad, QUAD))}, align 1")
