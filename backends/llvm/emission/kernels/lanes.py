"""Vectors of any number of lanes, and how LLVM IR spells what is done with every one of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.machine.x86_features import has_x86_feature


def literal(value: float, dtype: str) -> str:
    """The number of `dtype` next to `value` as LLVM writes it, which is by the bits of an f64 for both types."""
    if dtype == "f32":
        [value] = struct.unpack(">f", struct.pack(">f", value))
    return f"0x{int.from_bytes(struct.pack('>d', value)):016X}"


def has_halves(machine: Machine) -> bool:
    """Whether f16 to f32 and back are instructions of vectors."""
    return machine.architecture == "aarch64" or (machine.vector >= 32 and has_x86_feature(machine, "f16c"))


@dataclass(slots=True)
class Lanes:
    """Emits operations on vectors of `size` lanes."""

    b: Builder
    machine: Machine
    size: int

    def vector(self, element: str) -> str:
        """The type of a vector of all lanes."""
        return f"<{self.size} x {element}>"

    def splat(self, element: str, value: int | str) -> str:
        """The constant with `value` in every lane, written without its type."""
        return f"splat ({element} {value})"

    def bits(self, verb: str, value: str, constant: int, element: str = "i32") -> str:
        """The binary instruction `verb` of every lane and a constant."""
        return self.b.put(f"{verb} {self.vector(element)} {value}, {self.splat(element, constant)}")

    def compare(self, relation: str, value: str, constant: int, element: str = "i32") -> str:
        """Flags: how every lane compares with a constant."""
        return self.b.put(f"icmp {relation} {self.vector(element)} {value}, {self.splat(element, constant)}")

    def choose(self, flags: str, element: str, yes: str, no: str) -> str:
        """Lanes of `yes` where the flag is set, else of `no`."""
        vector = self.vector(element)
        return self.b.put(f"select {self.vector('i1')} {flags}, {vector} {yes}, {vector} {no}")
