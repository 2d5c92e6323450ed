"""Running the machine code of a loop in parts, on a result that nothing around may be written of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from layout_ir.backends.llvm.loops.compiled_loop import LOOP_SIGNATURE

Array = np.ndarray[Any, Any]

_CANARY = 77
_AROUND = 64


class Kernel(Protocol):
    """Code of a loop, and the memory for its arguments."""

    @property
    def address(self) -> int: ...

    def arguments(self) -> Array: ...


def run_guarded(
    kernel: Kernel, sources: Sequence[Array], shape: tuple[int, ...], dtype: DTypeLike, parts: int = 1
) -> Array:
    """The result, computed in parts as threads do; nothing around it is written."""
    memory = np.full(int(np.prod(shape)) + 2 * _AROUND, _CANARY, dtype)
    inside = memory[_AROUND:-_AROUND]
    arguments = kernel.arguments()
    tensors = (*sources, inside)
    arguments[: len(tensors)] = [array.ctypes.data for array in tensors]
    for part in range(parts):
        LOOP_SIGNATURE(kernel.address)(int(arguments.ctypes.data), 0, part, parts)
    assert (memory[:_AROUND] == _CANARY).all() and (memory[-_AROUND:] == _CANARY).all()
    return inside.reshape(shape)
