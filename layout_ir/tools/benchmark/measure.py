"""One case of the table: its buffers, its contenders, the race, and whether the bytes are right.

The copy bandwidth is that of the faster of a plain and a streaming copy of as many bytes on as many threads. With one
thread the plain copy is the C library's memcpy; with more it is a loop of vector moves that the same workers share.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.layout import Layout
from layout_ir.api.reorder_compilation import ScaledReorder, compile_reorder
from layout_ir.arrays.descriptor import TensorDesc
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.runtime.compiled_plan import Reorder
from layout_ir.backends.llvm.runtime.copy_bandwidth import plain_copy, streaming_copy
from layout_ir.backends.llvm.runtime.dynamic_call import DynamicKernel
from layout_ir.backends.llvm.runtime.thread_pool import available
from layout_ir.backends.llvm.runtime.timing import Interval, Limits, Times, race, touched_bytes
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.elements.element_types import bits_of
from layout_ir.elements.numpy_types import narrow, storage, widen
from layout_ir.errors import LayoutError
from layout_ir.tools.benchmark.cases import Case
from layout_ir.tools.benchmark.cores import apart, uninterrupted
from layout_ir.tools.benchmark.peers import NAMES, Side, peer, write

_PAUSE = 0.004
"""Seconds: OpenMP's threads spin for about as long after their work, on the CPU that the next contender needs."""

_SLICE = 1 << 22
"""Elements whose addresses are held at a time while bytes are compared."""

COPIES = ("memcpy", "stream")
OTHER_BYTES = "writes other bytes"
"""Why a peer that ran takes no part."""

Call = Callable[[], object]


@dataclass(frozen=True)
class Result:
    """What a case came to. Rates count bytes of source and destination, pads included."""

    case: Case
    size: str
    threads: int
    nbytes: int
    times: Times
    equal: bool
    """Whether our bytes are those that the definition of the layouts asks for."""
    absent: dict[str, str] = field(default_factory=dict[str, str])
    """Peers that take no part, and why."""
    plan: Plan | None = None
    """What our kernel does."""

    def joined(self, other: Result) -> Result:
        """Both measurements of one case as one, of the contenders that took part in both."""
        mine, others = self.times.rounds, other.times.rounds
        times = Times(
            {name: [*mine[name], *others[name]] for name in mine if name in others},
            self.times.doubtful + other.times.doubtful,
        )
        return replace(self, times=times, equal=self.equal and other.equal)

    @property
    def peers(self) -> list[str]:
        """Libraries that took part."""
        return [name for name in self.times.rounds if name not in ("ours", *COPIES)]

    def gbps(self, name: str, *, best: bool = False) -> float:
        """GB/s of the median call, or of the best."""
        return self.nbytes / (self.times.best(name) if best else self.times.median(name)) / 1e9

    def fastest(self, names: Sequence[str], *, best: bool = False) -> str | None:
        """The contender of `names` with the highest rate, None where there are no names."""
        return max(names, key=lambda name: self.gbps(name, best=best)) if names else None

    def share(self) -> Interval:
        """Our rate relative to the copy bandwidth."""
        copy = self.fastest(COPIES)
        assert copy is not None
        return self.times.speedup("ours", copy)

    def lead(self, names: Sequence[str]) -> Interval | None:
        """Our rate relative to the fastest of those `names` that took part, None where none did."""
        rival = self.fastest([name for name in names if name in self.times.rounds])
        return None if rival is None else self.times.speedup("ours", rival)


def uncertainty(found: Result) -> float:
    """The larger uncertainty of the share of the copy bandwidth and of the lead over the best peer."""
    lead = found.lead(found.peers)
    return max(found.share().uncertainty, 0.0 if lead is None else lead.uncertainty)


def measure(
    case: Case, size: str, threads: int, libraries: Sequence[str] = NAMES, limits: Limits | None = None, *,
    tune: bool = False, machine: Machine | None = None, unsettled: Callable[[Result], float] = uncertainty,
) -> Result:  # fmt: skip
    """Measures `case`, compiled for `machine`, else this one, until `unsettled` is below the precision of `limits`.

    Raises LayoutError where it cannot be compiled.
    """
    layouts = case.bound(size)
    kernel = compiled(case, layouts, threads, tune=tune, machine=machine)
    src, dst = sides(case, layouts)
    wanted = expected(src, dst)
    kernel(src.data, dst.data)
    equal = _same(dst.data, wanted)
    contenders: dict[str, Call] = {"ours": partial(kernel, src.data, dst.data)}
    nbytes = src.data.nbytes + dst.data.nbytes
    contenders |= _copies(nbytes // 2, threads)
    absent: dict[str, str] = {}
    for name in libraries:
        try:
            run = peer(name, src, dst, threads)
        except LayoutError as error:
            absent[name] = str(error)
            continue
        _poison(dst, wanted)
        write(name, run, dst)
        if _same(dst.data, wanted):
            contenders[name] = run
        else:
            absent[name] = OTHER_BYTES
    limits = limits or Limits()

    def settled(times: Times) -> float:
        return unsettled(Result(case, size, threads, nbytes, times, equal, absent, kernel.plan))

    if available(threads) < threads:
        limits = replace(limits, patience=0.0)  # there is no CPU to wait for
    if threads > 1:
        times = race(contenders, settled, limits, _PAUSE, partial(apart, threads))
    else:
        limits = replace(limits, patience=min(limits.patience, limits.seconds))
        times = race(contenders, settled, limits, sound=uninterrupted())
    return Result(case, size, threads, nbytes, times, equal, absent, kernel.plan)


def compiled(
    case: Case,
    layouts: tuple[Layout, Layout],
    threads: int,
    *,
    tune: bool = False,
    machine: Machine | None = None,
) -> Reorder | ScaledReorder:
    """The kernel of a case. Raises LayoutError where there is none."""
    descs = [
        TensorDesc(layout.shape, dtype, layout)
        for layout, dtype in zip(layouts, (case.dtype, case.result_dtype), strict=True)
    ]
    for desc in descs:
        if bits_of(desc.dtype) % 8:
            raise LayoutError(
                f"elements of {bits_of(desc.dtype)} bits ({desc.dtype}) are not measured: whole bytes are"
            )
    kernel = compile_reorder(descs[0], descs[1], threads=threads, tune=tune, target=machine)
    assert not isinstance(kernel, DynamicKernel)  # all extents are known
    return kernel


def sides(case: Case, layouts: tuple[Layout, Layout]) -> tuple[Side, Side]:
    """Buffers on pages of their own: numbers that every element type holds exactly, and a poisoned destination."""
    src, dst = layouts
    x, y = _aligned(src.extent, storage(case.dtype)), _aligned(dst.extent, storage(case.result_dtype))
    numbers = np.random.default_rng(0).integers(0, 120, 1 << 16).astype(np.float32)
    for start in range(0, x.size, numbers.size):
        part = x[start : start + numbers.size]
        part[:] = narrow(numbers[: part.size], case.dtype)
    return Side(src, case.dtype, x), Side(dst, case.result_dtype, y)


def _aligned(count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    return touched_bytes(count * dtype.itemsize).view(dtype)


def _poison(side: Side, wanted: NDArray[Any]) -> None:
    """Other bytes than those wanted where elements are; pads already as they should be, for who leaves them."""
    np.copyto(side.data, wanted)
    for part in _parts(side.layout):
        side.data[part.addresses().ravel()] = 0x5A


def expected(src: Side, dst: Side) -> NDArray[Any]:
    """The destination by the definition of the layouts: gathered, converted, scattered."""
    wanted = dst.data.copy()
    pad = TensorDesc(dst.layout.shape, dst.dtype, dst.layout).pad_value
    if pad is not None and dst.layout.padded_shape != dst.layout.shape:
        wanted[dst.layout.addresses(padded=True).ravel()] = narrow(np.array(pad, np.float32), dst.dtype)
    for a, b in zip(_parts(src.layout), _parts(dst.layout), strict=True):
        values = src.data[a.addresses().ravel()]
        if src.dtype != dst.dtype:
            values = narrow(widen(values, src.dtype), dst.dtype)
        wanted[b.addresses().ravel()] = values
    return wanted


def _parts(layout: Layout) -> list[Layout]:
    """The layout in slices along its first dim, so that addresses of all elements are never held at once."""
    if not layout.rank or layout.nelems <= _SLICE:
        return [layout]
    step = max(layout.shape[0] * _SLICE // layout.nelems, 1)
    return [
        layout.slice(
            (start, *(0,) * (layout.rank - 1)), (min(step, layout.shape[0] - start), *layout.shape[1:])
        )
        for start in range(0, layout.shape[0], step)
    ]


def _same(found: NDArray[Any], wanted: NDArray[Any]) -> bool:
    return bool((found.view(np.uint8) == wanted.view(np.uint8)).all())


def _copies(size: int, threads: int) -> dict[str, Call]:
    a, b = touched_bytes(size), touched_bytes(size)
    plain = partial(np.copyto, b, a) if threads == 1 else partial(plain_copy(size, threads), a, b)
    return {"memcpy": plain, "stream": partial(streaming_copy(size, threads), a, b)}


def confine(threads: int) -> None:
    """Leaves this process as many CPUs as it has threads: some libraries take as many as they see."""
    if hasattr(os, "sched_setaffinity"):
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, set(cpus[-threads:]))
