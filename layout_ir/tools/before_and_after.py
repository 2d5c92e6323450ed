"""Programs before and after optimization, executed side by side: by oneDNN, or ops by the reference.

Layouts of both programs are chosen already; what is timed is one call with constants packed. By oneDNN the two take
turns, and times are medians. The reference, which is slow, executes each once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from layout_ir.backends.reference.tensor import Tensor

_SECONDS = 3.0
_ROUNDS = 50
_PROFILED = 5


@dataclass(frozen=True)
class Execution:
    """Results of a program, in order, and what a call takes, in milliseconds: in reorders, and in all."""

    results: Sequence[NDArray[Any]]
    reorders_ms: float
    total_ms: float


def executed_by_library(
    programs: Mapping[str, ModuleOp], inputs: Mapping[str, NDArray[Any]]
) -> tuple[str, dict[str, Execution]]:
    """By what programs were executed, in a sentence's words, and each execution by the name of its program.

    Raises LayoutError where oneDNN is not installed, or a program has what it cannot execute.
    """
    from layout_ir.api.compiling import compile
    from layout_ir.backends.llvm.runtime.thread_pool import cpus
    from layout_ir.backends.llvm.runtime.timing import LEAST_SAMPLES, Limits, race
    from layout_ir.backends.onednn.library import library

    threads = cpus()
    compiled = {name: compile(module, threads=threads) for name, module in programs.items()}
    results = {name: executable(inputs) for name, executable in compiled.items()}
    calls: dict[str, Callable[[], object]] = {
        name: lambda executable=executable: executable(inputs) for name, executable in compiled.items()
    }
    limits = Limits(seconds=_SECONDS, precision=0.0, fewest=LEAST_SAMPLES, most=_ROUNDS)
    times = race(calls, lambda _: 1.0, limits)
    found: dict[str, Execution] = {}
    for name, executable in compiled.items():
        steps = executable.profile(inputs, calls=_PROFILED)
        reorders = sum(step.nanoseconds for step in steps if step.implementation == "reorder")
        found[name] = Execution(results[name], reorders / 1e6, times.median(name) * 1e3)
    by = f"by {library()}, {threads} thread{'s' * (threads > 1)}"
    fallbacks = {name: n for executable in compiled.values() for name, n in executable.fallbacks.items()}
    if fallbacks:
        by += f", {', '.join(f'{n} {name}' for name, n in fallbacks.items())} without a kernel"
    return by, found


def executed_by_reference(module: ModuleOp, inputs: Mapping[str, NDArray[Any]]) -> Execution:
    """A program executed with compiled reorders, all other ops by the reference."""
    from layout_ir.api.execute import run
    from layout_ir.dialects.layout import FillPadsOp, ReorderOp

    constants: dict[Operation, Tensor] = {}
    run(module, inputs, constants=constants)
    reorders = 0.0

    def trace(op: Operation, tensors: Sequence[Tensor], seconds: float) -> None:
        nonlocal reorders
        if isinstance(op, ReorderOp | FillPadsOp):
            reorders += seconds

    start = time.perf_counter()
    results = run(module, inputs, constants=constants, trace=trace)
    total = time.perf_counter() - start
    return Execution(results, reorders * 1e3, total * 1e3)
