"""cuDNN and cuBLASLt: the names of `cudnnTensorFormat_t` and of the interleaved orders of cuBLASLt.

`CUDNN_TENSOR_NCHW_VECT_C` means vectors of 4 or 32 channels, by element type (int8x4, int8x32). It has no rounding:
the number of channels is a multiple of the vector. Of cuBLASLt the row, column and 32-column
orders are here, over the dims rows and columns; the composite tile of COL32_2R_4R4 has digits whose memory order
contradicts their significance.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

from layout_ir.algebra.format import Format
from layout_ir.notations.named import NamedNotation

_4D, _5D, _2D = "(n, c, h, w) : ", "(n, c, d, h, w) : ", "(r, c) : "
_TEXTS: dict[str, tuple[str, ...]] = {
    "CUDNN_TENSOR_NCHW": (_4D + "[n, c, h, w]", _5D + "[n, c, d, h, w]"),
    "CUDNN_TENSOR_NHWC": (_4D + "[n, h, w, c]", _5D + "[n, d, h, w, c]"),
    "CUDNN_TENSOR_NCHW_VECT_C/int8x4": (_4D + "[n, c, h, w, c:4]",),
    "CUDNN_TENSOR_NCHW_VECT_C/int8x32": (_4D + "[n, c, h, w, c:32]",),
    "CUBLASLT_ORDER_ROW": (_2D + "[r, c]",),
    "CUBLASLT_ORDER_COL": (_2D + "[c, r]",),
    "CUBLASLT_ORDER_COL32": (_2D + "[c, r, c:32]",),
    "CUBLASLT_ORDER_COL32_2R_4R4": (_2D + "[c, r*1024, r:4*64, r:4*256, r:2, c:32]",),
}


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[Format, ...]]:
    return {name: tuple(Format.parse(text) for text in texts) for name, texts in _TEXTS.items()}


class CudnnNotation(NamedNotation):
    """`CUDNN_TENSOR_NHWC`."""

    name: ClassVar[str] = "cudnn"
    about: ClassVar[str] = "cuDNN tensor formats and cuBLASLt orders"
    order: ClassVar[str] = "as cudnnSetTensor4dDescriptor takes them: n, c, h, w; rows, columns for cuBLASLt"
    by_index: ClassVar[bool] = False
    example: ClassVar[str] = "CUDNN_TENSOR_NCHW_VECT_C/int8x32"

    def table(self, dtype: str | None) -> Mapping[str, tuple[Format, ...]]:
        """The tensor formats of cuDNN; they do not depend on `dtype`."""
        return _table()
