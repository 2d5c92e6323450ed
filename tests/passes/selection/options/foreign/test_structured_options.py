"""Which layouts ops of other dialects run in: every Format that reaches one of their tensors, carried by the loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from xdsl.ir import Operation, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.diagnostics import PassError
from layout_ir.dialects.layout import ReorderOp, format_of, layout_of
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.selection.costs.cost_model import reorder_ns
from layout_ir.passes.selection.options.models import options_of
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.translation.apply import apply
from layout_ir.passes.selection.translation.from_ir import build
from layout_ir.passes.selection.translation.program_solution import solve_program
from layout_ir.selection.solver.selection_problem import evaluate
from tests.passes.selection.options.foreign.ops import blocked_op, generic, the_op
from tests.programs import parse


def _offered(op: Operation, value: SSAValue, fmt: Format) -> Iterator[LayoutOption]:
    """The options of `op` when `value` is offered in `fmt`, and nothing else in anything."""
    yield from options_of(op, lambda v: (fmt,) if v is value else (), target_named("blocked8"))


def _outs(op: Operation, tag: str, operand: int) -> set[Format]:
    """Formats of the result when operand number `operand` is offered in `tag`, and taken in it."""
    fmt = Format.of(tag)
    return {o.outs[0] for o in _offered(op, op.operands[operand], fmt) if o.ins[operand] == fmt}


def test_a_transposition_relabels_blocks():
    op = the_op(
        "linalg.transpose",
        """
func.func @main(%x : tensor<1x17x5x4xf32>) {
  %e = tensor.empty() : tensor<1x5x4x17xf32>
  %r = linalg.transpose ins(%x:tensor<1x17x5x4xf32>) outs(%e:tensor<1x5x4x17xf32>) permutation = [0, 2, 3, 1]
  func.return
}""",
    )
    assert Format.parse("(a, b, c, d) : [a, d, b, c, d:8], pad = zero") in _outs(op, "nChw8c", 0)


_TURNED = ("affine_map<(a, b, c, d) -> (a, d, b, c)>", "tensor<1x8x5x4xf32>")


def test_a_transposition_costs_nothing_between_formats_of_one_memory_whatever_op_it_is():
    """As frontends of StableHLO write one: a generic that yields what it reads."""
    copy = generic("", "%r", "tensor<1x5x4x8xf32>", ["%x"], of=[_TURNED], yields="%a")
    op = the_op("linalg.generic", f"func.func @main(%x : tensor<1x8x5x4xf32>) {{{copy}\n  func.return\n}}")
    last, plain = Format.of("nhwc"), Format.of("nchw")
    costs = {(o.ins[0], o.outs[0]): o.cost for o in _offered(op, op.operands[0], last)}
    assert costs[last, plain] == 0 < costs[plain, plain]


def test_negative_a_transposition_that_computes_costs_what_it_reads_and_writes():
    body = generic("%m = arith.negf %a : f32", "%r", "tensor<1x5x4x8xf32>", ["%x"], of=[_TURNED])
    op = the_op("linalg.generic", f"func.func @main(%x : tensor<1x8x5x4xf32>) {{{body}\n  func.return\n}}")
    assert all(option.cost > 0 for option in _offered(op, op.operands[0], Format.of("nhwc")))


def test_a_broadcast_restricts_the_map():
    spread = ("affine_map<(a, b, c, d) -> (b)>", "tensor<17xf32>")
    text = generic("", "%r", "TYPE", ["%v"], of=[spread], yields="%a")
    op = blocked_op(f"%v = arith.constant dense<1.0> : tensor<17xf32>\n{text}")
    fmt = Format.of("nChw8c")
    given = _offered(op, op.results[0], fmt)
    assert any(option.outs[0] == fmt and option.ins[0] == Format.of("A8a") for option in given)


def test_negative_windows_are_not_blocked():
    op = the_op(
        "linalg.conv_2d_nchw_fchw",
        """
!X = tensor<1x8x18x18xf32>
!W = tensor<16x8x3x3xf32>
!Y = tensor<1x16x16x16xf32>
func.func @main(%x : !X, %w : !W, %i : !Y) {
  %r = linalg.conv_2d_nchw_fchw {"dilations" = dense<1> : tensor<2xi64>, "strides" = dense<1> : tensor<2xi64>}
    ins(%x, %w : !X, !W) outs(%i : !Y) -> !Y
  func.return
}""",
    )
    assert _outs(op, "nChw8c", 0)
    assert not _outs(op, "(n, c, h, w) : [n, c, h, w, h:2]", 0)
    assert Format.of("nhwc") in _outs(op, "nhwc", 0)


def test_negative_one_type_divides_no_integers_on_pads():
    op = blocked_op("%r = arith.divsi %0, %1 : TYPE", "zero", 2, "i32")
    blocked = format_of(op.operands[0].type)
    assert blocked is not None
    options = list(options_of(op, lambda value: (blocked,), target_named("blocked8")))
    assert options and all(option.outs[0].blocks() == (1, 1, 1, 1) for option in options)


def test_negative_division_of_integers_on_pads_is_an_error_at_the_op():
    module = parse("""
!B = tensor<1x17x5x4xi32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>>
func.func @main(%x : !B) -> tensor<1x17x5x4xi32> {
  %r = arith.divsi %x, %x : !B
  %i = layout.reorder %r : !B -> tensor<1x17x5x4xi32, #layout.any>
  %o = layout.reorder %i : tensor<1x17x5x4xi32, #layout.any> -> tensor<1x17x5x4xi32>
  func.return %o : tensor<1x17x5x4xi32>
}""")
    with pytest.raises(PassError, match=r"arith.divsi needs 1 in the pads of operand 1, which its type"):
        optimize(module, "blocked8")


def test_ops_on_whole_tensors_take_all_of_them_in_one_layout():
    """A tensor that lies in another one is reordered at its price, not behind the back of the selection."""
    module = parse("""
!C = tensor<1x16x8x8xf32, #layout.tag<nchw>>
!L = tensor<1x16x8x8xf32, #layout.tag<nhwc>>
!T = tensor<1x16x8x8xf32, #layout.any>
func.func @main(%x : !L, %z : !C) -> !C {
  %a = layout.reorder %x : !L -> !T
  %b = arith.addf %a, %a : !T
  %c = layout.reorder %z : !C -> !T
  %d = arith.mulf %b, %c : !T
  %y = layout.reorder %d : !T -> !C
  func.return %y : !C
}""")
    selection = build(module, target_named("blocked8"))
    solution = solve_program(selection)
    free = tuple(replace(op, weight=0) for op in selection.problem.ops)
    paid = evaluate(replace(selection.problem, ops=free), solution.choices)
    apply(module, selection, solution.choices)
    moved = [op for op in module.walk() if isinstance(op, ReorderOp)]
    assert paid == sum(
        reorder_ns(layout_of(op.source_type), layout_of(op.result_type), "f32") for op in moved
    )
    assert paid > 0


@pytest.mark.parametrize("target", ["onnx", "megengine-cuda", "ort-nchwc8"])
def test_a_kernel_without_a_name_is_offered_once_at_the_least_cost(target: str):
    """Targets that refine options have them checked: two of one op, alike but for the cost, are an error."""
    op = the_op(
        "linalg.conv_2d_nchw_fchw",
        """
func.func @main(%x : tensor<1x8x9x9xf32>, %w : tensor<4x8x3x3xf32>, %i : tensor<1x4x7x7xf32>) {
  %r = linalg.conv_2d_nchw_fchw {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
    ins(%x, %w : tensor<1x8x9x9xf32>, tensor<4x8x3x3xf32>) outs(%i : tensor<1x4x7x7xf32>) -> tensor<1x4x7x7xf32>
  func.return
}""",
    )
    options = list(options_of(op, lambda v: (), target_named(target)))
    assert options and len({replace(option, cost=0) for option in options}) == len(options)
