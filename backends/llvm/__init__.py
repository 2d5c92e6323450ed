"""Compiled reorders: from two layouts to machine code.

planning    two layouts -> a plan, the value of `layout_ir.dialects.kernel.plan`: index sets, loops, micro-kernels,
            every choice in it; `out_of_cache`: the order of reads and prefetches where L2 does not hold the tensors;
            `nontemporal`: stores that bypass the caches; `access_cost`: which of several orders (`loop_blocking`) is
            expected to be the fastest, from how they go through both sides (`walks`); `variants`: other choices for
            the same plan, to be measured
emission    a plan -> LLVM IR in its final form; `kernels` hold the micro-kernels
machine     what the code is made for, as LLVM says (`host_facts`), and the profile of its memory (`profile`)
runtime     LLVM IR -> machine code (`jit`, `object_linker`) -> a callable on buffers (`call`)
aot         LLVM IR -> an object file with a C interface
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from layout_ir.caches import forget

if TYPE_CHECKING:
    from layout_ir.backends.llvm.runtime.call import compile_many, compile_reorder, plan_reorder, reorder
    from layout_ir.backends.llvm.runtime.compiled_plan import Reorder

__all__ = ["Reorder", "compile_many", "compile_reorder", "forget", "plan_reorder", "reorder"]


def __getattr__(name: str) -> Any:
    """What compiles is imported when it is asked for: a process that runs saved networks needs the rooms alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = "compiled_plan" if name == "Reorder" else "call"
    value = globals()[name] = getattr(import_module(f"{__name__}.runtime.{room}"), name)
    return value
