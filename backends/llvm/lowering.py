"""convert-layout-to-kernel: every reorder becomes a call of a plan, which the module then holds as IR.

Reorders with the same plan share it. What no plan moves stays as it is, with a remark that says why: reorders whose
layout is still to be chosen, or to which the algebra gives no loops. Tensors with dynamic dims get a kernel for
dynamic shapes, `kernel.dynamic`, whose plans are made with the code. The plan depends on registers and caches, so
`cpu` names the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import SymbolTable

from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.machine.machine import Machine
from layout_ir.backends.llvm.planning.dynamic_shapes import DynamicReorder, dynamic_reorder
from layout_ir.backends.llvm.runtime.call import plan_reorder
from layout_ir.diagnostics import remark
from layout_ir.dialects.kernel.attributes import ConversionAttr
from layout_ir.dialects.kernel.ops import CallOp, DynamicOp, PlanOp
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.dialects.layout import FormatAttr, ReorderOp, format_of, layout_of
from layout_ir.errors import LayoutError
from layout_ir.passes.layout_pass import LayoutPass
from layout_ir.passes.rewriting import replace_op


def lower(module: ModuleOp, cpu: str = "host") -> None:
    """Lowers in place. Raises LayoutError where `cpu` names no machine."""
    machine = machine_named(cpu)
    names: dict[Plan | DynamicReorder, str] = {}
    for op in list(module.walk()):
        if not isinstance(op, ReorderOp):
            continue
        try:
            plan = _dynamic_reorder(op, machine) if op.is_dynamic else _plan(op, machine)
        except LayoutError as error:
            remark(op, f"reorder stays: {error}")
            continue
        if plan not in names:
            names[plan] = _free_name(module, len(names))
            made = _kernel_op(plan, names[plan], None if cpu == "host" else cpu)
            made.location = op.location
            Rewriter.insert_op(made, InsertPoint.at_end(module.body.block))
        call = CallOp(names[plan], op.input, op.result.type)
        call.location = op.location
        Rewriter.insert_op(call, InsertPoint.before(op))
        replace_op(op, call.result)


def _plan(op: ReorderOp, machine: Machine) -> Plan:
    source, target = layout_of(op.input.type), layout_of(op.result.type)
    return plan_reorder(source, target, conversion=op.conversion, target=machine)


def _dynamic_reorder(op: ReorderOp, machine: Machine) -> DynamicReorder:
    """The reorder, for which there is a kernel. Raises LayoutError where there is none."""
    formats = format_of(op.input.type), format_of(op.result.type)
    for side, format in zip((op.source_type, op.result_type), formats, strict=True):
        if format is None:
            raise LayoutError(f"{side} has no layout: its encoding is {side.encoding}")
    assert formats[0] is not None and formats[1] is not None
    shape = tuple(None if extent < 0 else extent for extent in op.source_type.get_shape())
    reorder = dynamic_reorder(formats[0], formats[1], shape, op.conversion, machine)
    reorder.fallback()
    return reorder


def _kernel_op(what: Plan | DynamicReorder, name: str, cpu: str | None) -> PlanOp | DynamicOp:
    if isinstance(what, Plan):
        return PlanOp(name, what, cpu)
    source, target = FormatAttr(what.src), FormatAttr(what.dst)
    return DynamicOp(name, what.shape, source, target, ConversionAttr(what.conversion), cpu)


def _free_name(module: ModuleOp, number: int) -> str:
    name = f"reorder_{number}"
    while SymbolTable.lookup_symbol(module, name) is not None:
        name += "_"
    return name


def kernels_in(module: ModuleOp) -> list[PlanOp | DynamicOp]:
    """The plans that a module holds, and the kernels for dynamic shapes."""
    return [op for op in module.walk() if isinstance(op, PlanOp | DynamicOp)]


@dataclass(frozen=True)
class ConvertLayoutToKernelPass(LayoutPass):
    """Plans instead of reorders. `cpu`: the machine the plans are for, `host` or a name such as `haswell`."""

    name = "convert-layout-to-kernel"

    cpu: str = "host"

    def check_options(self) -> None:
        """Raises LayoutError where `cpu` names no machine."""
        machine_named(self.cpu)

    def rewrite(self, module: ModuleOp) -> None:
        lower(module, self.cpu)
