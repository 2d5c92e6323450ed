"""Many reorders in one native call: a list of tasks that threads take from until there is none left.

A task is a part of a reorder and, where weights have compensation sums, the sums of what it has just written. In
memory the list is a row of 64-bit numbers: a counter, the number of tasks, and `_FIELDS` for each. The function that
runs it is itself a kernel of the thread pool: each of its parts takes tasks by counting up, so that no thread waits
while there is work, however unequal the tasks are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.backends.llvm.machine.machine import host
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.compiled_plan import Reorder
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.elements.quantization import PARAMETERS

_FIELDS = ("kernel", "src", "dst", "part", "parts", "sums", "weights", "shifted", "zero")
"""The fields of a task: the kernel and its arguments; the function of its sums, or 0, and its arguments."""

_SRC, _DST, _WEIGHTS, _SHIFTED, _ZERO = map(_FIELDS.index, ("src", "dst", "weights", "shifted", "zero"))

_HEAD = 8
"""Numbers before the first task: the counter, the number of tasks, the rest of their line."""

_BLOCK = 2 + len(PARAMETERS)
"""Addresses in the block of arguments of a kernel that takes runtime parameters."""

_NONE = -1


@dataclass(frozen=True, eq=False)
class Task:
    """Part number `part` of `parts` of a reorder. Offsets count bytes from the beginning of its pair of buffers."""

    pair: int
    """The number of its source and destination among those of a call."""
    kernel: Reorder
    src: int = 0
    dst: int = 0
    part: int = 0
    parts: int = 1
    parameters: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    """The runtime parameters of the kernel, by name, in the type in which they act."""
    sums: Code | None = None
    """What `emit_channel_sums` has made, under the name `sums`: sums of the weights at `dst`."""
    shifted: int | None = None
    """The offset in the destination at which sums times -128 are written."""
    zero: int | None = None
    """The offset in the destination at which sums times -1 are written."""


class TaskList:
    """Tasks that are run together, on up to `threads` threads."""

    def __init__(self, tasks: Sequence[Task], threads: int) -> None:
        self.tasks = tuple(tasks)
        self._code = _code()  # kept: where threads come first at the same time, the cache keeps that of one
        self.threads = thread_pool.available(min(threads, len(self.tasks)))
        self._pairs = np.array([task.pair for task in tasks], np.intp)
        offsets = [
            [task.src, task.dst, *(_NONE if x is None else x for x in (task.shifted, task.zero))]
            for task in tasks
        ]
        self._offsets = np.array(offsets, np.int64).reshape(len(offsets), 4)
        rows = [
            (
                task.kernel.address, 0, 0, task.part, task.parts,
                0 if task.sums is None else task.sums.address("sums"), 0, 0, 0,
            )
            for task in tasks
        ]  # fmt: skip
        self._rows = np.array(rows, np.uint64).reshape(len(rows), len(_FIELDS))
        self._parametrized = np.array([k for k, task in enumerate(tasks) if task.parameters], np.intp)
        blocks = [_parameter_addresses(task) for task in tasks if task.parameters]
        self._blocks = np.array(blocks, np.uint64).reshape(len(blocks), _BLOCK)

    def run(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        """Runs all tasks, in any order and at the same time, between buffers at trusted addresses."""
        if not self.tasks:
            return
        memory = np.zeros(_HEAD + self._rows.size, np.uint64)
        memory[1] = len(self.tasks)
        rows = memory[_HEAD:].reshape(self._rows.shape)
        rows[:] = self._rows
        source, destination = (np.array(x, np.uint64)[self._pairs] for x in (sources, destinations))
        src, dst, shifted, zero = (self._offsets[:, k] for k in range(4))
        rows[:, _SRC] = source + src.astype(np.uint64)
        rows[:, _DST] = rows[:, _WEIGHTS] = destination + dst.astype(np.uint64)
        for column, offset in ((_SHIFTED, shifted), (_ZERO, zero)):
            rows[:, column] = np.where(offset == _NONE, np.uint64(0), destination + offset.astype(np.uint64))
        blocks = self._blocks.copy()
        blocks[:, :2] = rows[self._parametrized, _SRC : _DST + 1]
        starts = np.uint64(blocks.ctypes.data) + np.uint64(8 * _BLOCK) * np.arange(
            len(blocks), dtype=np.uint64
        )
        rows[self._parametrized, _SRC] = starts
        address = self._code.address("run")
        if self.threads > 1:
            thread_pool.ensure(self.threads).parallel(address, int(memory.ctypes.data), 0, self.threads)
        else:
            thread_pool.PART_SIGNATURE(address)(int(memory.ctypes.data), 0, 0, 1)


def _parameter_addresses(task: Task) -> list[int]:
    """The block of arguments, where source and destination are still to be filled in."""
    given = task.parameters
    return [0, 0, *(int(given[name].ctypes.data) if name in given else 0 for name in PARAMETERS)]


def _source() -> str:
    loads = "\n".join(
        f"  %{name}.at = getelementptr i8, ptr %task, i64 {8 * k}\n"
        f"  %{name} = load {'i64' if name in ('part', 'parts') else 'ptr'}, ptr %{name}.at, align 8"
        for k, name in enumerate(_FIELDS)
    )
    return f"""\
target triple = "{host().triple}"
define void @run(ptr %list, ptr %unused, i64 %thread, i64 %threads) nounwind {{
entry:
  %count.at = getelementptr i8, ptr %list, i64 8
  %count = load i64, ptr %count.at, align 8
  %tasks = getelementptr i8, ptr %list, i64 {8 * _HEAD}
  br label %take
take:
  %number = atomicrmw add ptr %list, i64 1 monotonic
  %open = icmp ult i64 %number, %count
  br i1 %open, label %do, label %done
do:
  %offset = mul i64 %number, {8 * len(_FIELDS)}
  %task = getelementptr i8, ptr %tasks, i64 %offset
{loads}
  call void %kernel(ptr %src, ptr %dst, i64 %part, i64 %parts)
  %has = icmp ne ptr %sums, null
  br i1 %has, label %add, label %take
add:
  call void %sums(ptr %weights, ptr %shifted, ptr %zero)
  br label %take
done:
  ret void
}}
"""


@cache
def _code() -> Code:
    return Code(_source(), host(), ("run",), level=0, key=_source())
