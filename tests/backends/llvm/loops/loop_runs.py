"""Functions of one or two rows of numbers by compiled loops."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from layout_ir.backends.llvm.loops.compiled_loop import compile_loop
from layout_ir.backends.llvm.loops.expression import Symbolic, SymbolicNumPy
from layout_ir.backends.llvm.loops.loop_program import LoopProgram, LoopTensor
from layout_ir.backends.llvm.loops.vector_numpy import computed_dtype
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.elements.numpy_types import storage

Array = np.ndarray[Any, Any]

Compute = Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
"""A function of NumPy, or what stands for it, and one or two rows."""


def vector(count: int, dtype: str = "f32", step: int = 1) -> LoopTensor:
    """A row of `count` numbers, `step` elements apart."""
    return LoopTensor((np.arange(count, dtype=np.int64)[None] * step,), 0, dtype)


def program_of(compute: Compute, count: int, *dtypes: str, result: str = "f32") -> LoopProgram:
    """The program of a function of NumPy and rows."""
    operands = [Symbolic(computed_dtype(d), operand=k, shape=(count,)) for k, d in enumerate(dtypes)]
    tensors = [vector(count, d) for d in (*dtypes, result)]
    function: Callable[..., Any] = compute
    return LoopProgram(tuple(tensors), function(SymbolicNumPy(count), *operands))


def computed(compute: Compute, *rows: Array, bytes_of_vector: int = 0, dtype: str = "f32") -> Array:
    """A function of f32, or of another type, on registers of so many bytes (0: this machine's)."""
    program = program_of(compute, rows[0].size, *[dtype] * len(rows), result=dtype)
    machine = replace(host(), vector=bytes_of_vector) if bytes_of_vector else host()
    out = np.full(rows[0].size, np.nan, storage(dtype))
    compile_loop(program, target=machine).run(*rows, out)
    return out


def run_parts(address: int, arrays: list[Array], parts: int) -> None:
    """Calls the function at `address` for each of so many parts, the last one first."""
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    arguments = np.array([*(array.ctypes.data for array in arrays), 0, 0], np.uint64)
    for part in reversed(range(parts)):
        signature(address)(arguments.ctypes.data, 0, part, parts)
