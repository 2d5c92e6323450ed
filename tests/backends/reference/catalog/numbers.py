"""Numbers as PyTorch has them, and as buffers store them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

# Not imported: few of its types pass a strict checker.
torch: Any = pytest.importorskip("torch", reason="needs the extra 'oracles'")
F: Any = torch.nn.functional

Array = NDArray[Any]
Torch = Any
"""A torch tensor."""

FLOAT_TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
INTEGER_TYPES = {
    "i8": torch.int8,
    "ui8": torch.uint8,
    "i16": torch.int16,
    "ui16": torch.uint16,
    "i32": torch.int32,
    "ui32": torch.uint32,
    "i64": torch.int64,
    "ui64": torch.uint64,
    "i1": torch.bool,
}
WIDE_UNSIGNED = ("ui16", "ui32", "ui64")
"""Types that PyTorch stores and has few functions for: it computes on i64, which is as wide, and wraps at the end."""
TYPES = FLOAT_TYPES | INTEGER_TYPES


def as_stored(tensor: Torch) -> Array:
    """The elements of a tensor as buffers store them: bf16 as bits."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def as_torch(array: Array, dtype: str) -> Torch:
    """Stored elements as a tensor of the same type."""
    if dtype == "bf16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    # NumPy has two types of 64 bits, and a view makes it that which PyTorch knows.
    return torch.from_numpy(array.view(f"{array.dtype.kind}{array.dtype.itemsize}"))


def to_stored(values: Torch, dtype: str) -> Array:
    """`values` as stored elements of `dtype`, rounded by PyTorch."""
    return as_stored(values.to(TYPES[dtype]).contiguous())


def to_torch(array: Array, dtype: str) -> Torch:
    """Stored elements as the same numbers in double precision (integers stay integers, or i64)."""
    tensor = as_torch(np.array(array), dtype)
    if dtype in WIDE_UNSIGNED:
        return tensor.to(torch.int64)
    return tensor.to(torch.float64) if dtype in FLOAT_TYPES else tensor


def to_numbers(array: Array, dtype: str) -> Array:
    """Stored elements as NumPy numbers: double precision, or the integers that they are."""
    return to_torch(array, dtype).numpy()
