"""What the numbers of an element type are: its range, and how a scale and a zero point map integers to reals.

real = (stored - zero_point) * scale. The zero point is what the pad policy `zp` writes.
"""

from __future__ import annotations

from math import inf

from layout_ir.dtypes import bits_of
from layout_ir.errors import LayoutError
from layout_ir.format import PadPolicy


def check_quantization(dtype: str, scale: float | None, zero_point: int) -> None:
    """Raises LayoutError where `dtype` cannot be quantized like that."""
    if scale is not None and not 0 < scale < inf:
        raise LayoutError(f"scale {scale} is not a positive number")
    if zero_point and "f" in dtype:
        raise LayoutError(f"zero point {zero_point} of {dtype}: only integer types are quantized")
    low, high = range_of(dtype)
    if not low <= zero_point <= high:
        raise LayoutError(f"zero point {zero_point} is outside {dtype}: {low} to {high}")


def check_pad(pad: PadPolicy, dtype: str) -> None:
    """Raises LayoutError where a pad of `dtype` cannot hold what the policy says."""
    if isinstance(pad, str):
        if pad == "zp" and "f" in dtype:
            raise LayoutError(f"pad = zp needs a quantized element type, but {dtype} has no zero point")
        return
    low, high = range_of(dtype)
    if "f" not in dtype and not (low <= pad <= high and pad == int(pad)):
        raise LayoutError(f"pad = {pad} is no value of {dtype}: integers from {low} to {high}")


def range_of(dtype: str) -> tuple[float, float]:
    """Least and greatest value of an element type."""
    if "f" in dtype:
        return -inf, inf
    bits = 1 if dtype == "i1" else bits_of(dtype)
    if dtype.startswith("u") or dtype == "i1":
        return 0, (1 << bits) - 1
    return -(1 << bits - 1), (1 << bits - 1) - 1
