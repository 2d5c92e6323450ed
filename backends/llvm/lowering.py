"""convert-layout-to-kernel: every reorder becomes a call of a plan, which the module then holds as IR.

Reorders with the same plan share it. What no plan moves stays as it is, with a remark that says why: reorders whose
layout is still to be chosen, or to which the algebra gives no loops. The plan depends on registers and caches, so
`cpu` names the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import SymbolTable

from layout_ir.backends.llvm.call import plan_reorder
from layout_ir.backends.llvm.kernel_ir import plan_op
from layout_ir.backends.llvm.machine import Machine
from layout_ir.backends.llvm.machines import machine_named
from layout_ir.backends.llvm.plan import Plan
from layout_ir.diagnostics import PassError, remark
from layout_ir.dialects.kernel import CallOp, PlanOp
from layout_ir.dialects.layout import ReorderOp, layout_of
from layout_ir.errors import LayoutError
from layout_ir.passes.rewriting import replace_op


def lower(module: ModuleOp, cpu: str = "host") -> None:
    """Lowers in place. Raises LayoutError where `cpu` names no machine."""
    machine = machine_named(cpu)
    names: dict[Plan, str] = {}
    for op in list(module.walk()):
        if not isinstance(op, ReorderOp):
            continue
        try:
            plan = _plan(op, machine)
        except LayoutError as error:
            remark(op, f"reorder stays: {error}")
            continue
        if plan not in names:
            names[plan] = _free_name(module, len(names))
            made = plan_op(plan, names[plan], None if cpu == "host" else cpu)
            made.location = op.location
            Rewriter.insert_op(made, InsertPoint.at_end(module.body.block))
        call = CallOp(names[plan], op.input, op.result.type)
        call.location = op.location
        Rewriter.insert_op(call, InsertPoint.before(op))
        replace_op(op, call.result)


def _plan(op: ReorderOp, machine: Machine) -> Plan:
    source, target = layout_of(op.input.type), layout_of(op.result.type)
    return plan_reorder(source, target, conversion=op.conversion, target=machine)


def _free_name(module: ModuleOp, number: int) -> str:
    name = f"reorder_{number}"
    while SymbolTable.lookup_symbol(module, name) is not None:
        name += "_"
    return name


def plans_in(module: ModuleOp) -> list[PlanOp]:
    """The plans that a module holds."""
    return [op for op in module.walk() if isinstance(op, PlanOp)]


@dataclass(frozen=True)
class ConvertLayoutToKernelPass(ModulePass):
    """Plans instead of reorders. `cpu`: the machine the plans are for, `host` or a name such as `haswell`."""

    name = "convert-layout-to-kernel"

    cpu: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            lower(op, self.cpu)
        except LayoutError as error:
            raise PassError(str(error)) from error
