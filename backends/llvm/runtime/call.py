"""From two layouts to the compiled reorder between them: planned, compiled once, tuned where asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any

from numpy.typing import NDArray

from layout_ir.algebra.layout import Layout
from layout_ir.algebra.pads import pad_after
from layout_ir.argument_checks import check_threads
from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.machine.known_cpus import runnable
from layout_ir.backends.llvm.machine.machine import Machine, host
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.pad_fills import pad_bits
from layout_ir.backends.llvm.planning.planner import candidates, make_plan
from layout_ir.backends.llvm.runtime import thread_pool
from layout_ir.backends.llvm.runtime.compiled_plan import Reorder, load
from layout_ir.backends.llvm.runtime.jit import Code
from layout_ir.backends.llvm.runtime.profile_file import measured_once
from layout_ir.backends.llvm.runtime.tuning import Choice, choose
from layout_ir.caches import keeps_kernels
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.elements.aligned_arrays import aligned_zeros
from layout_ir.elements.element_types import bits_of, canonical_name
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError, shape_text


def plan_reorder(
    src: Layout,
    dst: Layout,
    dtype: str = "f32",
    *,
    conversion: Conversion | None = None,
    threads: int = 1,
    target: Machine | None = None,
    volume: int = 0,
    stream: bool | None = None,
) -> Plan:
    """The plan that `compile_reorder` compiles.

    `conversion` says what becomes of the elements; without it they are, and stay, `dtype`. `threads` share a call at
    most; any plan may be run by any number. `volume` and `stream` are those of `make_plan`.

    Raises LayoutError where there is none, or where a buffer has 2^63 bytes or more, which no address has.
    """
    if conversion is None:
        name = canonical_name(dtype)
        conversion = Conversion(name, name)
    pad = pad_bits(pad_after(dst.pad, conversion), conversion.dst)
    plan = make_plan(
        src, dst, ElementPair.of(conversion), pad, target or host(), threads, stream=stream, volume=volume
    )
    for side, layout, size in (("source", src, plan.src_bytes), ("destination", dst, plan.dst_bytes)):
        if size >= 1 << 63:
            raise LayoutError(
                f"the {side}, {shape_text(layout.shape)} in {layout.format}, has {size} bytes: not below 2^63"
            )
    return plan


def compile_reorder(
    src: Layout,
    dst: Layout,
    dtype: str = "f32",
    *,
    dst_dtype: str | None = None,
    conversion: Conversion | None = None,
    threads: int | None = None,
    target: Machine | str | None = None,
    tune: bool = False,
) -> Reorder:
    """The reorder from `src` to `dst` of elements of `dtype` as machine code; compiled once per plan and CPU.

    Elements become `dst_dtype`, if given, or what `conversion` says, which then names both types (see
    `layout_ir.elements.quantization`). `threads` is how many threads share a call at most (None: as many as there are
    CPUs to run on); small reorders take fewer. `target` is what the code is made for: this machine, or a name such as
    "x86-64-v3". With `tune` a handful of plans is measured and the fastest kept, on disk as well, for every later call
    with `tune`; where elements are converted there is only one plan.

    Raises LayoutError where the shapes differ, the destination keeps two elements at one address, a layout is not a
    matter of plain memory, or the target's code does not run here.
    """
    if threads is not None:
        check_threads(threads)
    if conversion is None:
        name = canonical_name(dtype)
        conversion = Conversion(name, name if dst_dtype is None else canonical_name(dst_dtype))
    if target is None:
        measured_once((src.extent * bits_of(conversion.src) + dst.extent * bits_of(conversion.dst)) // 8)
    machine = runnable(target)
    return prepared(src, dst, conversion, threads or thread_pool.cpus(), machine, tune=tune)


@keeps_kernels
@lru_cache(maxsize=1024)
def prepared(
    src: Layout, dst: Layout, conversion: Conversion, threads: int, machine: Machine, *, tune: bool = False,
    volume: int = 0, stream: bool | None = None,
) -> Reorder:  # fmt: skip
    """The reorder that `compile_reorder` returns; `volume` and `stream` are those of `make_plan`.

    Raises LayoutError where `plan_reorder` does.
    """
    plan = plan_reorder(
        src, dst, conversion=conversion, threads=thread_pool.available(threads), target=machine, volume=volume,
        stream=stream,
    )  # fmt: skip
    if tune and plan.conversion is None:
        plan = choose_plan(src, dst, conversion.src, threads=threads, target=machine).plan
    return load(plan, machine, _threads_for(plan, threads))


def _threads_for(plan: Plan, threads: int) -> int:
    """How many of `threads` a call of `plan` is dispatched to: one where two threads might write one byte."""
    return 1 if plan.shares_bytes else threads_for(index(plan.src_bytes + plan.dst_bytes), threads)


def threads_for(size: int, threads: int) -> int:
    """How many of `threads` share `size` bytes of source and destination, so that dispatching no part costs more."""
    return thread_pool.available(min(threads, max(1, size // host().profile.dispatch_bytes)))


def choose_plan(
    src: Layout, dst: Layout, dtype: str = "f32", *, threads: int | None, target: Machine | None = None,
    measure: bool = True,
) -> Choice:  # fmt: skip
    """The plan that `compile_reorder` compiles with `tune`: remembered, or the fastest of a handful.

    Raises LayoutError where nothing is remembered and `measure` forbids to find out, as for a target that is not here.
    """
    machine, threads = target or host(), thread_pool.available(threads or thread_pool.cpus())
    width = bits_of(dtype) // 8
    plans = candidates(src, dst, ElementPair(width, width), pad_bits(dst.pad, dtype), machine, threads)
    most = _threads_for(plans[0], threads)
    return choose(plans, machine, most, (lambda plan: load(plan, machine, most)) if measure else None)


def compile_many(
    requests: Sequence[tuple[Layout, Layout, str | Conversion]], *, target: Machine | None = None
) -> list[Reorder]:
    """`compile_reorder` for many pairs in one module, which is faster per kernel."""
    machine = target or host()
    plans = [
        plan_reorder(src, dst, what, target=machine)
        if isinstance(what, str)
        else plan_reorder(src, dst, conversion=what, target=machine)
        for src, dst, what in requests
    ]
    names = {plan: f"reorder{k}" for k, plan in enumerate(dict.fromkeys(plans))}
    code = Code(
        emit_module({name: plan for plan, name in names.items()}, machine), machine, tuple(names.values())
    )
    return [Reorder(plan, code, names[plan]) for plan in plans]


def reorder(
    x: NDArray[Any], src: Layout, dst: Layout, dtype: str = "f32", out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Buffer `x` in layout `src` as a buffer in layout `dst` (1-D, `dst.extent` elements).

    A fresh result is zeroed where the reorder does not write; pass `out` to keep what it holds.
    """
    kernel = compile_reorder(src, dst, dtype)
    if out is None:
        out = aligned_zeros((dst.extent,), x.dtype)
    kernel(x, out)
    return out
