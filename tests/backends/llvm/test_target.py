"""Programs of plans as LLVM IR, for the one machine that their plans name."""

from __future__ import annotations

from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from layout_ir.backends.llvm.machine.host_facts import llvm
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.runtime.jit import object_file
from layout_ir.backends.llvm.target import LLVMIRTarget, llvm_ir
from layout_ir.dialects.kernel.ops import KernelDialect
from layout_ir.errors import LayoutError

PLANS = """
kernel.plan @move cpu "haswell" { width 4 src 64 dst 64 step src 0 dst 0 copy 64 }
kernel.plan @turned cpu "haswell" { width 4 src 64 dst 64 step src 0 dst 0 for 4 src 16 dst 4
  elements 4 for 4 src 4 dst 16 }
kernel.dynamic @any shape <?, 3> from <(a, b) : [a, b]> to <(a, b) : [b, a]>
  elements <f32 to f32> cpu "haswell"
"""


def _module(text: str = "builtin.module {}") -> ModuleOp:
    ctx = Context()
    for dialect in (Builtin, KernelDialect):
        ctx.load_dialect(dialect)
    return Parser(ctx, text).parse_module()


def test_every_plan_is_a_function_of_its_name():
    text = llvm_ir(_module(PLANS))
    module = llvm.parse_assembly(text)
    functions = {function.name for function in module.functions if not function.is_declaration}
    assert {"move", "turned", "any"} <= functions
    assert module.triple == machine_named("haswell").triple
    assert object_file(text, machine_named("haswell"))


def test_the_target_writes_what_the_function_returns():
    output = StringIO()
    LLVMIRTarget().emit(Context(), _module(PLANS), output)
    assert output.getvalue() == llvm_ir(_module(PLANS))


def test_negative_plans_for_two_machines_are_no_module():
    module = _module(
        'kernel.plan @a { width 4 src 0 dst 0 }\nkernel.plan @b cpu "haswell" { width 4 src 0 dst 0 }'
    )
    with pytest.raises(LayoutError, match="plans for haswell and host in one program"):
        llvm_ir(module)


def test_negative_a_program_without_plans_has_no_code():
    with pytest.raises(LayoutError, match="run convert-layout-to-kernel first"):
        llvm_ir(_module())


def test_negative_a_name_that_c_does_not_accept():
    with pytest.raises(LayoutError, match="no name in C"):
        llvm_ir(_module(PLANS.replace("@move", '@"1 2"')))
    with pytest.raises((DiagnosticException, LayoutError), match="no name in C"):
        LLVMIRTarget().emit(Context(), _module(PLANS.replace("@move", '@"1 2"')), StringIO())
