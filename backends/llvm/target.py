"""`-t llvm-ir`: the LLVM IR that is made from the plans of a program, as the JIT compiles it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from layout_ir.backends.llvm.emit import emit_module
from layout_ir.backends.llvm.kernel_ir import plan_of
from layout_ir.backends.llvm.lowering import plans_in
from layout_ir.backends.llvm.machines import machine_named
from layout_ir.errors import LayoutError


def llvm_ir(module: ModuleOp) -> str:
    """One function per `kernel.plan`, for the machine that the plans name.

    Raises LayoutError where there is no plan, or where plans are for different machines.
    """
    plans = plans_in(module)
    cpus = sorted({"host" if op.cpu is None else op.cpu.data for op in plans})
    if not plans:
        raise LayoutError("there is no kernel.plan to make LLVM IR from: run convert-layout-to-kernel first")
    if len(cpus) > 1:
        raise LayoutError(f"plans for {' and '.join(cpus)} in one program: LLVM IR is made for one machine")
    return emit_module({op.sym_name.data: plan_of(op) for op in plans}, machine_named(cpus[0]))


@dataclass(frozen=True)
class LLVMIRTarget(Target):
    """The machine code's last readable form."""

    name = "llvm-ir"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(llvm_ir(module))
