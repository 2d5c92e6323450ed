"""Compiled reorders of tensors of dynamic shapes, as Python callables.

One kernel holds several plans, each with the guards that say which shapes it serves, and a fallback that serves all. A
call takes the first plan whose guards its shape meets; where none does, the shape becomes the hint of a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import index
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.argument_checks import check_threads
from layout_ir.backends.llvm.emission.emit import module_text
from layout_ir.backends.llvm.machine.known_cpus import runnable
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.dynamic_shapes import (
    DynamicPlan,
    DynamicReorder,
    DynamicShape,
    dynamic_reorder,
)
from layout_ir.backends.llvm.planning.planner import check_addresses
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.call import compile_reorder, threads_for
from layout_ir.backends.llvm.runtime.compiled_plan import check_buffer
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.caches import keeps_kernels
from layout_ir.elements.element_types import bits_of, canonical_name
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError, shape_text
from layout_ir.forking import fork_safe

_MOST_PLANS = 32
"""Plans of one kernel besides the fallback; then the oldest makes room."""

_MOST_SHAPES = 4096
"""Shapes of one kernel whose plans are remembered."""

_LEAST = 4 << 10
"""Bytes of source and destination below which no plan is made: the fallback serves."""

# Held while the plan of a new shape is looked for or made. As for the compiler's lock, a process that forks waits.
_lock = RLock()
fork_safe(_lock)

# The pool calls functions of two pointers, so the arguments of a kernel are put into a block: source, destination,
# extents.
_ENTRY = """\
define void @reorder(ptr %block, ptr %none, i64 %part, i64 %parts) nounwind {
  %at = getelementptr ptr, ptr %block, i64 1
  %extents = getelementptr ptr, ptr %block, i64 2
  %src = load ptr, ptr %block
  %dst = load ptr, ptr %at
  tail call void @body(ptr %src, ptr %dst, i64 %part, i64 %parts, ptr %extents)
  ret void
}"""


class _Compiled:
    """The machine code of one plan."""

    def __init__(self, plan: DynamicPlan) -> None:
        function = plan.function("body")  # first: it may add guards
        self.plan = plan
        text = module_text([function, _ENTRY], plan.machine)
        self.code = Code(text, plan.machine, ["reorder"], key=text)
        self.address = self.code.address("reorder")
        self.call = thread_pool.PART_SIGNATURE(self.address)


class DynamicKernel:
    """A reorder of tensors of many shapes: `kernel(source, destination)`.

    Both are C-contiguous NumPy arrays in the physical shapes of their formats (one axis per factor, outermost first),
    from which the extents are taken; or, with the extents in `shape`, any contiguous arrays of elements as wide as
    the kernel's that are large enough. Machine code is made for the first shape of each class of shapes, its hint, and
    serves the others. Otherwise as `Reorder`.
    """

    def __init__(self, reorder: DynamicReorder, threads: int) -> None:
        self.reorder = reorder
        self.threads = threads
        self._plans: list[_Compiled] = []
        self._fallback = _Compiled(reorder.fallback())
        self._shapes: dict[tuple[int, ...], tuple[_Compiled, int, int, int]] = {}

    @property
    def plans(self) -> tuple[DynamicPlan, ...]:
        """The plans made so far; the last is the fallback, which serves all shapes."""
        return tuple(x.plan for x in (*self._plans, self._fallback))

    def __call__(self, source: Any, destination: Any, shape: Sequence[int] | None = None) -> None:
        x, y = _array(source, "source"), _array(destination, "destination")
        extents = self._extents(x, y) if shape is None else _integers(shape)
        known = self._shapes.get(extents)
        compiled, src_bytes, dst_bytes, threads = known if known is not None else self._prepare(extents)
        plan = compiled.plan.plan
        check_buffer(x, plan, writes=False, size=src_bytes)
        check_buffer(y, plan, writes=True, size=dst_bytes)
        a, b = int(x.ctypes.data), int(y.ctypes.data)
        if a < b + dst_bytes and b < a + src_bytes:
            raise LayoutError("source and destination overlap: a reorder needs two buffers")
        if 0 in extents:
            self._write_pads(a, b, extents)
            return
        block = np.array((a, b, *extents), np.int64)
        if threads == 1:
            compiled.call(block.ctypes.data, 0, 0, 1)
        else:
            thread_pool.ensure(threads).parallel(compiled.address, block.ctypes.data, 0, threads)

    @property
    def address(self) -> int:
        """Raises LayoutError: which machine code runs is decided per shape, so there is no one address of it."""
        raise LayoutError(
            "a kernel of dynamic extents has no address, its code is made as shapes come: compile_object makes "
            "a C function for all of them"
        )

    @property
    def signature(self) -> str:
        """Raises LayoutError, as `address` does."""
        raise LayoutError(
            "a kernel of dynamic extents has no C prototype: compile_object makes a C function for all shapes"
        )

    def run_part(self, src: int, dst: int, part: int, parts: int, shape: Sequence[int]) -> None:
        """Runs part number `part` of `parts` of a call, with the buffers at two addresses, which are trusted."""
        compiled, *_ = self._prepare(tuple(shape))
        if 0 not in shape:
            block = np.array((src, dst, *shape), np.int64)
            compiled.call(block.ctypes.data, 0, part, parts)
        elif part == 0:
            self._write_pads(src, dst, tuple(shape))

    def _write_pads(self, src: int, dst: int, extents: tuple[int, ...]) -> None:
        """Writes the pads of an empty tensor, which has some where its empty dims have pads in front.

        Plans assume extents of 1 at least, so this is a kernel of its own.
        """
        reorder = self.reorder
        source, target = reorder.src.bind(extents), reorder.dst.bind(extents)
        if target.extent and target.pad != "undef":
            machine = self._fallback.plan.machine
            kernel = compile_reorder(source, target, conversion=reorder.conversion, threads=1, target=machine)
            kernel.run_part(src, dst, 0, 1)

    def buffer_bytes(self, shape: Sequence[int]) -> tuple[int, int]:
        """Bytes that source and destination have, pads included."""
        _, src, dst, _ = self._prepare(tuple(shape))
        return src, dst

    def plan_for(self, shape: Sequence[int]) -> DynamicPlan:
        """The plan that a call with tensors of that shape runs."""
        return self._prepare(tuple(shape))[0].plan

    def _prepare(self, extents: tuple[int, ...]) -> tuple[_Compiled, int, int, int]:
        """The code for a shape, bytes of source and destination, threads. Raises LayoutError where it does not fit."""
        reorder = self.reorder
        fits = len(extents) == len(reorder.shape)
        if not fits or any(x not in (None, y) for x, y in zip(reorder.shape, extents, strict=True)):
            raise LayoutError(
                f"a kernel for shapes {shape_text(reorder.shape)} was given {shape_text(extents)}"
            )
        src, dst = reorder.src.bind(extents), reorder.dst.bind(extents)
        check_addresses(src, dst)
        # Plans were made for large extents; whether two elements share an address may depend on how large.
        if dst.is_injective(padded=dst.pad != "undef") is False:
            raise LayoutError(
                f"the destination {dst.format} keeps several elements of {shape_text(extents)} at one address"
            )
        sizes = reorder.pair.src_bytes(src.extent), reorder.pair.dst_bytes(dst.extent)
        threads = 1 if self._fallback.plan.plan.shares_bytes else threads_for(sum(sizes), self.threads)
        with _lock:
            compiled = self._fallback if 0 in extents else self._serving(extents, sum(sizes))
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            return self._shapes.setdefault(extents, (compiled, *sizes, threads))

    def _serving(self, extents: tuple[int, ...], size: int) -> _Compiled:
        """The first plan whose guards the shape meets, else the fallback for small tensors, else a new plan."""
        for compiled in self._plans:
            if compiled.plan.serves(extents):
                return compiled
        if size < _LEAST:
            return self._fallback
        if len(self._plans) >= _MOST_PLANS:
            # The oldest makes room.
            gone = self._plans.pop(0)
            self._shapes = {shape: found for shape, found in self._shapes.items() if found[0] is not gone}
        self._plans.append(_Compiled(self.reorder.specialize(extents)))
        return self._plans[-1]

    def _extents(self, x: NDArray[Any], y: NDArray[Any]) -> tuple[int, ...]:
        """The logical extents, from the physical shapes of both sides."""
        result = list(self.reorder.shape)
        sides = ("source", self.reorder.src, x), ("destination", self.reorder.dst, y)
        for (side, format, array), dtype in zip(sides, self.reorder.dtypes, strict=True):
            if bits_of(dtype) < 8:
                raise LayoutError(f"elements of {dtype} share bytes, so the arrays say no shape: say shape=")
            if array.ndim != len(format.all_factors):
                raise LayoutError(
                    f"the {side} has {array.ndim} axes, {format} has {len(format.all_factors)} factors: "
                    "one axis per factor, or say shape="
                )
            for dim, axes in enumerate(_axes(format)):
                if result[dim] is None and len(axes) == 1:
                    result[dim] = array.shape[axes[0]]
        if None in result:
            name = self.reorder.src.names[result.index(None)]
            raise LayoutError(
                f"dim '{name}' is blocked on both sides, so arrays do not tell its extent: say shape="
            )
        extents = tuple(x for x in result if x is not None)
        for side, format, array in sides:
            wanted = tuple(factor.count for factor in format.bind(extents).factors)
            if array.shape != wanted:
                raise LayoutError(
                    f"the {side} has shape {array.shape}, a tensor of {shape_text(extents)} in {format} has {wanted}"
                )
        return extents


def compile_dynamic(
    src: Format,
    dst: Format,
    shape: DynamicShape,
    dtype: str = "f32",
    *,
    conversion: Conversion | None = None,
    threads: int | None = None,
    target: Machine | str | None = None,
) -> DynamicKernel:
    """The reorder from `src` to `dst` of tensors of `shape`, where None is any extent; otherwise as `compile_reorder`.

    `conversion` says what becomes of the elements; without it they are, and stay, `dtype`. Its numbers are compiled in.
    Raises LayoutError where no kernel serves all extents.
    """
    if threads is not None:
        check_threads(threads)
    machine = runnable(target)
    if conversion is None:
        conversion = Conversion(canonical_name(dtype), canonical_name(dtype))
    return _dynamic_kernel(src, dst, tuple(shape), conversion, threads or thread_pool.cpus(), machine)


@keeps_kernels
@lru_cache(maxsize=1024)
def _dynamic_kernel(
    src: Format, dst: Format, shape: DynamicShape, conversion: Conversion, threads: int, machine: Machine
) -> DynamicKernel:
    return DynamicKernel(dynamic_reorder(src, dst, shape, conversion, machine), threads)


def _array(given: object, side: str) -> Any:
    if not isinstance(given, np.ndarray):
        raise LayoutError(f"the {side} is a {type(given).__name__}, not a NumPy array")
    return given  # pyright: ignore[reportUnknownVariableType]


def _integers(shape: Sequence[int]) -> tuple[int, ...]:
    """`shape` as numbers of Python. Raises LayoutError where it has others than integers."""
    try:
        return tuple(map(index, shape))
    except TypeError as error:
        raise LayoutError(f"shape = {shape!r} is no list of integers: {error}") from error


def _axes(format: Format) -> list[list[int]]:
    """Per dim, the axes of a physical array that its factors are."""
    axes: list[list[int]] = [[] for _ in range(format.rank)]
    for axis, factor in enumerate(format.all_factors):
        axes[factor.dim].append(axis)
    return axes
