"""Constants during import: NumPy arrays until an op uses them.

A splat, a constant that is one element everywhere, is a broadcast view of that element (all strides 0): it takes no
memory, and ops on it are evaluated on the one element. To evaluate nodes of constants takes no IR, so nothing here
imports it: models are optimized without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from layout_ir.frontends.onnx.tensor_protos import check_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.ir import SSAValue


@dataclass(eq=False)
class Constant:
    """A value known at import, its name in the model, and the result of its nn.constant, None before its first use."""

    array: NDArray[Any]
    name: str
    result: SSAValue | None = None


def splat(element: Any, shape: Sequence[int]) -> NDArray[Any]:
    """A splat of `shape` from `element`, an array of one element. Raises OnnxImportError for an impossible shape."""
    array = np.asarray(element).reshape(())
    return np.broadcast_to(array, check_shape(shape, array.dtype, "the result"))


def is_splat(array: NDArray[Any]) -> bool:
    """Whether `array` is a broadcast view of one element; False for equal elements that each take memory."""
    return array.size > 0 and all(
        stride == 0 or extent == 1 for stride, extent in zip(array.strides, array.shape, strict=True)
    )


def collapsed(array: NDArray[Any]) -> NDArray[Any]:
    """The one element of a splat as a scalar; any other array unchanged."""
    return array[(0,) * array.ndim] if is_splat(array) else array


def array_bytes(array: NDArray[Any]) -> bytes:
    """The elements as little-endian bytes in row-major order; one element for a splat."""
    array = np.asarray(collapsed(array))
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    whole: Any = array
    while isinstance(whole, np.ndarray):
        whole = whole.base
    if isinstance(whole, bytes) and array.flags.c_contiguous and array.nbytes == len(whole):
        return whole  # of a weight as the file has it, which needs no second copy
    return array.tobytes()


def array_of_bytes(data: bytes, array: NDArray[Any]) -> NDArray[Any]:
    """The same elements as `array`, in `data`, which `array_bytes` made of it; a splat is left as it is."""
    if is_splat(array) or not array.size:
        return array
    dtype = array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype
    return np.frombuffer(data, dtype).reshape(array.shape)
