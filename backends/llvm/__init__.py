"""Compiled reorders: from two layouts to machine code.

planner     two layouts -> a plan (`plan`): boxes, loops, micro-kernels, every choice in it
far         what the second-level cache does not hold: the order of reads, prefetches; `streaming`: stores past caches
variants    other choices for the same plan, to be measured
emit        a plan -> LLVM IR in its final form; `kernels` hold the micro-kernels
jit, call   LLVM IR -> machine code -> a callable on buffers
"""

from __future__ import annotations

from layout_ir.backends.llvm.call import Reorder, compile_many, compile_reorder, forget, plan_reorder, reorder

__all__ = ["Reorder", "compile_many", "compile_reorder", "forget", "plan_reorder", "reorder"]
