"""What the numbers of an element type are: its range, and how a scale and a zero point map integers to reals.

real = (stored - zero_point) * scale. The zero point is what the pad policy `zp` writes.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from layout_ir.dtypes import bits_of
from layout_ir.errors import LayoutError
from layout_ir.format import PadPolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


def to_real(stored: NDArray[Any], scale: float, zero_point: int) -> NDArray[np.float32]:
    """The real numbers that stored elements stand for, rounded once to f32."""
    import numpy as np

    return ((stored.astype(np.float64) - zero_point) * scale).astype(np.float32)


def to_stored(values: Any, dtype: str, scale: float, zero_point: int) -> NDArray[Any]:
    """Real numbers as elements of `dtype`: scaled and shifted, then rounded once to nearest even, and saturated.

    Floats come as f64, for the caller to store. NaN has no integer; the least value is what oneDNN writes too.
    """
    import numpy as np

    exact = np.asarray(values, np.float64) / scale
    if "f" in dtype:
        return exact
    low, high = range_of(dtype)
    whole = np.clip(np.where(np.isnan(exact), low, np.rint(exact + zero_point)), low, high)
    # The greatest 64-bit integers are no f64; the nearest below is what fits.
    whole = np.minimum(whole, np.nextafter(2.0**63 if low < 0 else 2.0**64, 0))
    return whole.astype(np.int64 if low < 0 else np.uint64)
