"""`-t llvm-ir`: the LLVM IR that is made from the plans of a program, as the JIT compiles it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.target import Target

from layout_ir.backends.llvm.aot.dynamic_object_file import compile_dynamic_ahead
from layout_ir.backends.llvm.aot.object_file import check_name
from layout_ir.backends.llvm.emission.emit import emit_function, module_text
from layout_ir.backends.llvm.lowering import kernels_in
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.dialects.kernel.ops import DynamicOp, PlanOp
from layout_ir.errors import LayoutError, unforeseen_as_error
from layout_ir.passes.layout_pass import readable_in_stock_tools


def llvm_ir(module: ModuleOp) -> str:
    """One function per `kernel.plan`, for the machine that the plans name; several for a `kernel.dynamic`.

    Raises LayoutError where there is no plan, or where plans are for different machines.
    """
    kernels = kernels_in(module)
    cpus = sorted({"host" if op.cpu is None else op.cpu.data for op in kernels})
    if not kernels:
        raise LayoutError("there is no kernel.plan to make LLVM IR from: run convert-layout-to-kernel first")
    if len(cpus) > 1:
        raise LayoutError(f"plans for {' and '.join(cpus)} in one program: LLVM IR is made for one machine")
    machine = machine_named(cpus[0])
    functions = [function for op in kernels for function in _functions(op, machine)]
    return module_text(functions, machine)


def _functions(op: PlanOp | DynamicOp, machine: Machine) -> list[str]:
    name = op.sym_name.data
    if isinstance(op, PlanOp):
        check_name(name)
        return [emit_function(name, op.plan.data, machine)]
    formats = op.source.data, op.target.data
    return compile_dynamic_ahead(*formats, op.shape.data, op.elements.data, machine, name).functions()


@dataclass(frozen=True)
class LLVMIRTarget(Target):
    """The machine code's last readable form."""

    name = "llvm-ir"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        with (
            readable_in_stock_tools(),
            unforeseen_as_error(f"target '{self.name}' failed", DiagnosticException),
        ):
            output.write(llvm_ir(module))
