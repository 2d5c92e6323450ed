"""Programs whose reorders are plans."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.parser import Parser

from layout_ir.algebra.format import Format
from layout_ir.backends.llvm import plan_reorder
from layout_ir.backends.llvm.aot.dynamic_object_file import compile_dynamic_ahead
from layout_ir.backends.llvm.emission.emit import emit_module
from layout_ir.backends.llvm.lowering import kernels_in, lower
from layout_ir.backends.llvm.machine.known_cpus import machine_named
from layout_ir.backends.llvm.target import llvm_ir
from layout_ir.diagnostics import collect
from layout_ir.dialects.kernel.ops import CallOp, KernelDialect, PlanOp
from layout_ir.dialects.layout import LayoutDialect, ReorderOp
from layout_ir.elements.quantization import Conversion

PROGRAM = """
func.func @reorder_0(%x : tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>> {
  %y = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
}
"""


def _module(text: str = PROGRAM) -> ModuleOp:
    ctx = Context()
    for dialect in (Builtin, Func, LayoutDialect, KernelDialect):
        ctx.load_dialect(dialect)
    return Parser(ctx, text).parse_module()


def _plan(module: ModuleOp) -> PlanOp:
    """The one plan that a module holds."""
    (op,) = kernels_in(module)
    assert isinstance(op, PlanOp)
    return op


def test_the_plan_is_the_one_that_is_compiled():
    module = _module()
    lower(module, "haswell")
    module.verify()
    op = _plan(module)
    layouts = [Format.of(name).bind((2, 17, 5, 4)) for name in ("nchw", "nChw8c")]
    plan = plan_reorder(layouts[0], layouts[1], target=machine_named("haswell"))
    assert op.plan.data == plan
    assert llvm_ir(module) == emit_module({op.sym_name.data: plan}, machine_named("haswell"))


def test_a_name_that_is_taken_is_left_alone():
    module = _module()
    lower(module, "haswell")
    (call,) = (op for op in module.walk() if isinstance(op, CallOp))
    assert call.callee.string_value() == "reorder_0_"
    assert call.result.name_hint == "y"


def test_nothing_is_said_where_everything_is_lowered():
    module = _module()
    with collect() as found:
        lower(module)
    assert not found
    assert not any(isinstance(op, ReorderOp) for op in module.walk())
    op = _plan(module)
    assert op.cpu is None


def test_a_reorder_that_converts_says_so_in_its_plan():
    module = _module(PROGRAM.replace("xf32, #layout", "xi8, #layout"))
    with collect() as found:
        lower(module, "haswell")
    module.verify()
    assert not found
    op = _plan(module)
    assert op.plan.data.conversion == Conversion("f32", "i8")
    assert "convert <f32 to i8>" in str(op)
    assert "fptosi" in llvm_ir(module) or "fadd <" in llvm_ir(module)


def test_dynamic_dims_get_the_kernel_that_is_compiled_ahead():
    module = _module(PROGRAM.replace("2x17x5x4", "?x17x?x?"))
    lower(module, "haswell")
    module.verify()
    (op,) = kernels_in(module)
    formats, conversion = (Format.of("nchw"), Format.of("nChw8c")), Conversion("f32", "f32")
    unit = compile_dynamic_ahead(
        *formats, (None, 17, None, None), conversion, machine_named("haswell"), op.sym_name.data
    )
    assert llvm_ir(module) == unit.ir()
    assert "kernel.dynamic @reorder_0_ shape <?, 17, ?, ?>" in str(module)
