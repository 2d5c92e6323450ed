"""The function of a loop: its code, what a call of it is given, and what it says of it when it is over."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.emission.llvm_builder import Builder
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.caches import keeps_kernels
from layout_ir.errors import LayoutError

OUTSIDE = 2
"""Numbers behind the addresses: 1 where an index was outside of its dim, and that index."""


_COMPUTED = 1 << 40
"""What is as far below 0 is a place made of several indices one of which is outside, and says nothing to a reader."""


def loop_function(name: str, body: Builder, machine: Machine) -> str:
    """The function of this name as LLVM IR, with its tables: it takes a row of numbers, and which part of how many."""
    tables = [line.replace("@table", f"@{name}.table") for line in body.globals]
    lines = "\n".join(body.lines).replace("@table", f"@{name}.table")
    parameters = "ptr noalias %arguments, ptr %unused, i64 %part, i64 %parts"
    head = f"define void @{name}({parameters}) {machine.attributes}"
    return "\n".join([*tables, f"{head} {{\nentry:\n{lines}\n  ret void\n}}"])


class LoopEmitter(Protocol):
    """What writes the code of a loop, for one machine. Hashable: those that are equal write the same."""

    @property
    def machine(self) -> Machine:
        """The machine that the code is for."""
        ...

    def text(self) -> str:
        """The code as LLVM IR, with the function `loops`."""
        ...


@keeps_kernels
@lru_cache(maxsize=1024)
def loop_code(emitter: LoopEmitter) -> Code:
    """The code of an emitter, written once for all that are equal."""
    text = emitter.text()
    return Code(text, emitter.machine, ("loops",), key=text)


def argument_row(tensors: int) -> NDArray[np.uint64]:
    """A row of numbers for calls of a loop on so many tensors, in which the addresses are to be filled in."""
    return np.zeros(tensors + OUTSIDE, np.uint64)


def index_note(arguments: NDArray[np.uint64]) -> int:
    """The address of the word that is not 0 where a call of these arguments met an index outside of its dim."""
    return arguments.ctypes.data + (len(arguments) - OUTSIDE) * arguments.itemsize


def check_indices(arguments: NDArray[np.uint64], what: str = "the tensor") -> None:
    """Raises LayoutError where the call of these arguments met an index outside of its dim, and forgets it."""
    if arguments[-OUTSIDE]:
        arguments[-OUTSIDE] = 0
        index = int(arguments[-1:].view(np.int64)[0])
        which = f"index {index}" if index > -_COMPUTED else "an index"
        raise LayoutError(f"{which} of {what} is outside of its dim")
