"""Pad policies: what pads hold, which element types can hold it, and what a conversion makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layout_ir.errors import LayoutError

if TYPE_CHECKING:
    from layout_ir.elements.element_types import ElementType
    from layout_ir.elements.quantization import Conversion

PadPolicy = str | int | float
"""What pads hold: "undef", "zero", "zp" (the quantized zero of the element type), or a number."""

NAMED_POLICIES = ("undef", "zero", "zp")
"""The policies that are words."""


def pad_number(policy: PadPolicy) -> float | None:
    """The number that `policy` promises, or None where it promises none (undef, zp). Integers are exact."""
    if policy == "zero":
        return 0.0
    return None if isinstance(policy, str) else policy


def print_policy(pad: PadPolicy) -> str:
    """The spelling of a pad policy."""
    return pad if isinstance(pad, str) else repr(pad)


def check_pad(pad: PadPolicy, element: ElementType) -> None:
    """Raises LayoutError where a pad of that element type cannot hold what the policy says."""
    if pad == "zp" and element.is_float:
        raise LayoutError(
            f"pad = zp is the quantized zero, which elements of {element.name} do not have: use pad = zero"
        )
    if not isinstance(pad, str) and not element.holds(pad):
        low, high = element.range
        raise LayoutError(
            f"pad = {pad} is no value of element type {element.name}: integers from {low} to {high}"
        )


def pad_after(pad: PadPolicy, conversion: Conversion) -> PadPolicy:
    """The policy `pad` of what `conversion` makes, the zero point in place of `zp` where there is one.

    Raises LayoutError where there are several, or where it is not known before the call.
    """
    zero = conversion.dst_zero
    if pad != "zp" or zero is None:
        return pad
    if isinstance(zero, float):
        return int(zero)
    several = f"one for each index of dim {conversion.dim}: use another policy"
    brought = "which each call brings along: give a number when compiling, or use another policy"
    raise LayoutError(
        "pad = zp writes the zero point of the destination, "
        + (f"of which there is {several}" if isinstance(zero, tuple) else brought)
    )
