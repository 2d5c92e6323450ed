"""A program of loops as machine code: one call with the addresses of its tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.loops.loop_emitter import OUTSIDE, LoopProgram, emit_loops
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.caches import keeps_kernels
from layout_ir.errors import LayoutError

_SIGNATURE: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class CompiledLoop:
    """The code of a program, for `threads` threads. Any number of threads may call it, each with arguments of its own.

    The GIL is released meanwhile.
    """

    def __init__(self, code: Code, tensors: int, nbytes: int, threads: int) -> None:
        self._code = code  # keeps the machine code
        self.tensors = tensors
        """How many addresses a call takes, the result's last."""
        self.address = code.address("loops")
        """Where the machine code begins."""
        threads = thread_pool.available(threads)
        no_wake = threads > 1 and nbytes < threads * host().profile.wake_bytes
        self._threads = threads + thread_pool.NO_WAKE if no_wake else threads
        self._call = _SIGNATURE(self.address) if threads == 1 else None

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        return np.zeros(self.tensors + OUTSIDE, np.uint64)

    def __call__(self, arguments: int) -> None:
        """Runs on the tensors whose addresses the row at address `arguments` has."""
        if self._call is not None:
            self._call(arguments, 0, 0, 1)
        else:
            pool = thread_pool.ensure(self._threads % thread_pool.NO_WAKE)
            pool.parallel(self.address, arguments, 0, self._threads)

    def run(self, *arrays: NDArray[Any]) -> None:
        """Runs on arrays, each the buffer of a tensor. Raises LayoutError where an index was outside of its dim."""
        arguments = self.arguments()
        arguments[: self.tensors] = [array.ctypes.data for array in arrays]
        self(int(arguments.ctypes.data))
        check_indices(arguments)


def check_indices(arguments: NDArray[np.uint64], what: str = "the tensor") -> None:
    """Raises LayoutError where the call of these arguments met an index outside of its dim, and forgets it."""
    if arguments[-OUTSIDE]:
        arguments[-OUTSIDE] = 0
        index = int(arguments[-1:].view(np.int64)[0])
        raise LayoutError(f"an index of {what} is outside of the dim that it is of: {index}")


def compile_loop(program: LoopProgram, *, threads: int = 1, target: Machine | None = None) -> CompiledLoop:
    """The code of `program` for this machine; programs of the same code share it.

    Raises LayoutError where there is no code for it.
    """
    machine = target or host()
    text = f'target triple = "{machine.triple}"\n{emit_loops("loops", program, machine)}\n'
    sizes = [_nbytes(tensor.offsets, tensor.bytes) for tensor in program.tensors if not tensor.positions]
    return CompiledLoop(_code(text, machine), len(program.tensors), sum(sizes), threads)


def _nbytes(offsets: Sequence[NDArray[np.int64]], width: int) -> int:
    """Bytes that a tensor has in the index space, each element counted once."""
    total = width
    for each in offsets:
        total *= each.shape[1] if each.any() else 1
    return total


@keeps_kernels
@lru_cache(maxsize=1024)
def _code(text: str, machine: Machine) -> Code:
    return Code(text, machine, ("loops",), key=text)
