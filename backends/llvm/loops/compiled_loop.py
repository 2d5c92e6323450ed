"""A program of loops as machine code: one call with the addresses of its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.loops.loop_calls import argument_row, check_indices
from layout_ir.backends.llvm.loops.loop_emitter import emit_loops
from layout_ir.backends.llvm.loops.loop_program import LoopProgram
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.caches import keeps_kernels

LOOP_SIGNATURE = thread_pool.PART_SIGNATURE
"""The C signature of a loop's machine code: its arguments, 0, a part and the number of parts."""


_SHARED = 64 << 10
"""Bytes of all tensors from which on threads share a call: a part costs microseconds, in which one thread does as
many."""


class CompiledLoop:
    """The code of a program, for `threads` threads. Any number of threads may call it, each with arguments of its own.

    The GIL is released meanwhile.
    """

    def __init__(self, code: Code, program: LoopProgram, threads: int) -> None:
        self.code = code  # kept as long as this
        self.tensors = len(program.tensors)
        """How many addresses a call takes, the result's last."""
        self.has_indices = any(tensor.gathered is not None for tensor in program.tensors)
        """Whether a call may meet an index that is outside of its dim."""
        self.address = code.address("loops")
        """Where the machine code begins: a function of the arguments, 0, a part and the number of parts."""
        sizes = [_nbytes(tensor.offsets, tensor.bytes) for tensor in program.tensors if not tensor.positions]
        threads = thread_pool.available(threads)
        updates = program.tensors[-1].gathered is not None
        self.threads = threads if sum(sizes) >= _SHARED and not updates else 1
        """How many threads a call takes; one that updates chosen elements does so in order."""
        self._no_wake = thread_pool.NO_WAKE * (sum(sizes) < threads * host().profile.wake_bytes)

    def arguments(self) -> NDArray[np.uint64]:
        """A row of numbers for calls, in which the addresses are to be filled in."""
        return argument_row(self.tensors)

    def __call__(self, arguments: int) -> None:
        """Runs on the tensors whose addresses the row at address `arguments` has."""
        if self.threads == 1:
            LOOP_SIGNATURE(self.address)(arguments, 0, 0, 1)
        else:
            thread_pool.ensure(self.threads).parallel(
                self.address, arguments, 0, self.threads + self._no_wake
            )

    def run(self, *arrays: NDArray[Any]) -> None:
        """Runs on arrays, each the buffer of a tensor. Raises LayoutError where an index was outside of its dim."""
        arguments = self.arguments()
        arguments[: self.tensors] = [array.ctypes.data for array in arrays]
        self(int(arguments.ctypes.data))
        check_indices(arguments)


def compile_loop(program: LoopProgram, *, threads: int = 1, target: Machine | None = None) -> CompiledLoop:
    """The code of `program` for this machine; programs of the same code share it.

    Raises LayoutError where there is no code for it.
    """
    machine = target or host()
    text = f'target triple = "{machine.triple}"\n{emit_loops("loops", program, machine)}\n'
    return CompiledLoop(_code(text, machine), program, threads)


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
