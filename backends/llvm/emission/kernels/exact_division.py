"""Division of f32 by a number that is known when code is made: one multiplication and two fused ones.

With r = 1 / s, rounded to nearest, and q = y * r, rounded, the remainder y - q * s is a number of f32, and
q + remainder * r, rounded once, is the quotient y / s as division rounds it, unless something overflows or underflows
on the way (Brisebarre, Muller, Raina: Accelerating correctly rounded floating-point division when the divisor is known
in advance, IEEE Transactions on Computers 53 (8), 2004). Nothing does where the quotient becomes an integer of at most
16 bits, since what saturates can be cut off before the division.
"""

from __future__ import annotations

from dataclasses import dataclass

from layout_ir.backends.llvm.emission.kernels.lanes import Lanes, literal
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.machine.x86_features import has_x86_feature
from layout_ir.elements.element_types import bits_of, element_type
from layout_ir.elements.quantization import Conversion

_LEAST, _MOST = 2.0**-60, 2.0**60
"""Scales with which every step has its exact exponent while quotients are between 1/4, below which all become 0, and
2^17."""


def has_fused_multiplication(machine: Machine) -> bool:
    """Whether a multiplication and an addition that are rounded once are an instruction."""
    if machine.architecture == "x86_64":
        return machine.vector >= 32 and has_x86_feature(machine, "fma")
    return machine.architecture in ("aarch64", "riscv64")


@dataclass(frozen=True, slots=True)
class Divisor:
    """A scale by which f32 are divided so that they become integers of type `dst`, and the zero point of these."""

    dst: str
    scale: float
    zero_point: float

    @property
    def bounds(self) -> tuple[float, float]:
        """What may be cut off before the division: numbers beyond them saturate, and they do themselves.

        They are a quarter of a step out, so that no rounding takes them to another integer than the bound of the type.
        """
        low, high = element_type(self.dst).range
        return (low - self.zero_point - 0.25) * self.scale, (high - self.zero_point + 0.25) * self.scale

    @property
    def stored_as_zero(self) -> float:
        """A number that becomes 0."""
        return -self.zero_point * self.scale

    def quotient(self, lanes: Lanes, y: str) -> str:
        """`y` / `scale` for a vector of f32 within `bounds`."""
        b, vector, fma = lanes.b, lanes.vector("float"), f"@llvm.fma.v{lanes.size}f32"
        # Rounded to f64 first it is rounded as once: a product of 24 and 25 bits is 1 or differs from it by 2^-48, so
        # that no reciprocal lies next to the middle between two f32.
        reciprocal = lanes.splat("float", literal(1 / self.scale, "f32"))
        divisor = lanes.splat("float", literal(-self.scale, "f32"))
        near = b.put(f"fmul {vector} {y}, {reciprocal}")
        rest = b.put(f"call {vector} {fma}({vector} {near}, {vector} {divisor}, {vector} {y})")
        return b.put(f"call {vector} {fma}({vector} {rest}, {vector} {reciprocal}, {vector} {near})")


def divisor_of(machine: Machine, conversion: Conversion) -> Divisor | None:
    """What the last steps of a conversion divide by in this way; None where they do not.

    They do where numbers that are compiled in make integers of at most 16 bits of f32, and nothing is added to them.
    """
    element, scale = element_type(conversion.dst), conversion.dst_scale
    zero_point = 0.0 if conversion.dst_zero is None else conversion.dst_zero
    is_small = element.kind != "bool" and not element.is_float and bits_of(conversion.dst) <= 16
    if not is_small or conversion.computes != "f32" or conversion.beta is not None:
        return None
    if not isinstance(scale, float) or not isinstance(zero_point, float) or not _LEAST <= scale <= _MOST:
        return None
    return Divisor(conversion.dst, scale, zero_point) if has_fused_multiplication(machine) else None
