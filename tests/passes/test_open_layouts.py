"""layout-open gives every tensor of a plain program a layout to choose, and leaves the edges as they were."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def

import layout_ir as li
from layout_ir.api.program_text import parse_program
from layout_ir.dialects.layout import ReorderOp, is_any, is_tensor
from layout_ir.errors import LayoutError
from layout_ir.passes.strip import strip
from layout_ir.printing import print_module

PROGRAM = """
func.func @callee(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = math.exp %x : tensor<4x8xf32>
  func.return %r : tensor<4x8xf32>
}
func.func @f(%x : tensor<4x8xf32>, %y : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = arith.addf %x, %y : tensor<4x8xf32>
  %c = func.call @callee(%s) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = arith.mulf %c, %s : tensor<4x8xf32>
  func.return %r : tensor<4x8xf32>
}
"""


def _parse(text: str = PROGRAM) -> ModuleOp:
    return parse_program(text, "program.mlir")


def _open_values(module: ModuleOp) -> int:
    """The tensors to be chosen that ops other than reorders make."""
    results = [r for op in module.walk() if not isinstance(op, ReorderOp) for r in op.results]
    arguments = [a for op in module.walk() if isinstance(op, FuncOp) for a in op.args]
    return sum(is_tensor(value.type) and is_any(value.type) for value in (*results, *arguments))


def test_what_ops_make_is_opened_and_signatures_stay():
    module, before = _parse(), [op.function_type for op in _parse().walk() if isinstance(op, FuncOp)]
    assert li.open_layouts(module) == 3 == _open_values(module)
    module.verify()
    assert [op.function_type for op in module.walk() if isinstance(op, FuncOp)] == before


@pytest.mark.parametrize("arguments", [False, True])
@pytest.mark.parametrize("results", [False, True])
def test_a_second_run_changes_nothing(arguments: bool, results: bool):
    module = _parse()
    assert li.open_layouts(module, arguments, results) == _open_values(module)
    module.verify()
    text = print_module(module)
    assert li.open_layouts(module, arguments, results) == 0
    assert print_module(module) == text


@pytest.mark.parametrize("arguments", [False, True])
@pytest.mark.parametrize("results", [False, True])
def test_opened_it_strips_to_what_it_was_and_optimized_it_computes_the_same(arguments: bool, results: bool):
    module, plain = _parse(), _parse()
    x, y = np.random.default_rng(0).standard_normal((2, 4, 8)).astype(np.float32)
    want = li.run(plain, [x, y], entry="f", reorders="reference")
    li.open_layouts(module, arguments, results)
    li.optimize(module, "blocked8")
    module.verify()
    np.testing.assert_allclose(li.run(module, [x, y], entry="f", reorders="reference"), want, rtol=1e-6)
    strip(module)
    assert print_module(module) == print_module(plain)


def test_arguments_and_results_are_opened_where_asked():
    module = _parse()
    assert li.open_layouts(module, arguments=True, results=True) == 7
    module.verify()
    for op in module.walk():
        if isinstance(op, FuncOp):
            assert all(is_any(type) for type in (*op.function_type.inputs, *op.function_type.outputs))
    assert not any(isinstance(op, ReorderOp) for op in module.walk())


def test_a_value_has_one_reorder_for_all_its_uses_at_the_edge():
    module = _parse()
    li.open_layouts(module)
    reorders = [op for op in module.walk() if isinstance(op, ReorderOp)]
    assert len({(op.input, op.result.type) for op in reorders}) == len(reorders) == 7


LEFT_ALONE = {
    "a dynamic extent": """
func.func @f(%x : tensor<?x8xf32>) -> tensor<?x8xf32> {
  %r = math.exp %x : tensor<?x8xf32>
  func.return %r : tensor<?x8xf32>
}""",
    "an element type without layouts": """
func.func @f(%x : tensor<4xindex>) -> tensor<4xindex> {
  %r = arith.addi %x, %x : tensor<4xindex>
  func.return %r : tensor<4xindex>
}""",
    "a layout that is given": """
#nc = #layout.tag<ba>
func.func @f(%x : tensor<4x8xf32, #nc>) -> tensor<4x8xf32, #nc> {
  %r = math.exp %x : tensor<4x8xf32, #nc>
  func.return %r : tensor<4x8xf32, #nc>
}""",
    "an op of another dialect": """
func.func @f(%x : tensor<4xf32>) -> tensor<4xf32> {
  %r = "test.op"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}""",
    "regions of tensors": """
func.func @f(%c : tensor<i1>, %x : tensor<4xf32>) -> tensor<4xf32> {
  %r = tosa.cond_if %c : tensor<i1> -> tensor<4xf32> {
    tosa.yield %x : tensor<4xf32>
  } else {
    tosa.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}""",
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_negative_what_has_no_layout_to_choose_is_left_alone(name: str):
    module = _parse(LEFT_ALONE[name])
    text = print_module(module)
    assert li.open_layouts(module) == 0
    assert print_module(module) == text


def test_negative_an_op_with_the_name_of_one_of_ours_is_left_alone():
    class Relu(IRDLOperation):
        name = "nn.relu"
        x = operand_def(TensorType)
        y = result_def(TensorType)

    ctx = li.context(without=["nn"])
    ctx.load_dialect(Dialect("nn", [irdl_op_definition(Relu)]))
    text = """
func.func @f(%x : tensor<4xf32>) -> tensor<4xf32> {
  %r = "nn.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}"""
    assert li.open_layouts(li.parse(text, ctx=ctx)) == 0
    assert li.open_layouts(li.parse(text)) == 1


def test_negative_what_is_no_module_is_an_error():
    function = next(op for op in _parse().walk() if isinstance(op, FuncOp))
    with pytest.raises(LayoutError, match="a program is a ModuleOp of xDSL, not of type FuncOp"):
        li.open_layouts(function)  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [False, True])
def test_what_a_function_without_a_body_takes_stays_as_it_was(arguments: bool):
    module = _parse("""
func.func private @library(tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @f(%x : tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = math.exp %x : tensor<4x8xf32>
  %a, %b = func.call @both(%x, %e) : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  func.return %a : tensor<4x8xf32>
}
func.func private @both(tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
""")
    assert li.open_layouts(module, arguments=arguments) == 1 + arguments
    module.verify()


def test_what_is_open_already_stays_open_in_regions_that_are_not_ours():
    module = _parse("""
!T = tensor<4x8xf32, #layout.any>
func.func @f(%x : tensor<4x8xf32>, %n : index) -> tensor<4x8xf32> {
  %e = math.exp %x : tensor<4x8xf32>
  %p = layout.reorder %e : tensor<4x8xf32> -> !T
  %r = scf.for %i = %n to %n step %n iter_args(%t = %p) -> (!T) {
    %u = nn.exp %t : !T
    scf.yield %u : !T
  }
  %o = layout.reorder %r : !T -> tensor<4x8xf32>
  %s = math.exp %o : tensor<4x8xf32>
  func.return %s : tensor<4x8xf32>
}""")
    assert li.open_layouts(module) == 2
    module.verify()
    assert sum(isinstance(op, ReorderOp) for op in module.walk()) == 5
