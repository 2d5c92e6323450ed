"""Bodies of functions as a `Builder` writes them, compiled for this machine and called."""

from __future__ import annotations

import ctypes
from typing import Any

from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.emit import module_text
from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import jit

_Function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)


def run(
    b: Builder, src: NDArray[Any], dst: NDArray[Any], part: int = 0, parts: int = 1, *,
    at: tuple[int, int] = (0, 0), machine: Machine | None = None,
) -> None:  # fmt: skip
    """Runs what `b` holds with %src and %dst at `at` bytes of the arrays, and %part of %parts."""
    machine = machine or host()
    body = "\n".join(
        [*b.globals, "define void @f(ptr %src, ptr %dst, i64 %part, i64 %parts) {", "entry:", *b.lines]
    )
    code = jit.Code(module_text([f"{body}\n  ret void\n}}"], machine), machine, ["f"], level=0)
    _Function(code.address("f"))(src.ctypes.data + at[0], dst.ctypes.data + at[1], part, parts)
