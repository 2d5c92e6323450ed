"""Translation validation notices what a wrong pass would do."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from layout_ir.api.program_text import context
from layout_ir.diagnostics import Location
from layout_ir.dialects import nn
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.rewriting import replace_op
from layout_ir.tools.validation import Validator, compare_runs, relative_difference
from tests.passes.programs import random_program

PLACE = Location("test.mlir")


def _program() -> ModuleOp:
    module, _ = random_program(11, 10)
    return module


@pytest.mark.parametrize("mode", ["strip", "execute"])
def test_a_right_pass_passes(mode: str):
    module = _program()
    validator = Validator("execute" if mode == "execute" else "strip", PLACE)
    validator.before("layout-optimize", module)
    optimize(module, "blocked8")
    assert validator.after("layout-optimize", module) is None


def test_negative_a_dropped_op_is_noticed_in_the_text():
    module = _program()
    validator = Validator("strip", PLACE)
    validator.before("layout-fold-reorders", module)
    dropped = next(op for op in module.walk() if isinstance(op, nn.UnaryOp))
    replace_op(dropped, dropped.operands[0])
    wrong = validator.after("layout-fold-reorders", module)
    assert wrong is not None and "changed what the program computes" in wrong.message


def test_negative_another_result_is_noticed_by_running():
    before = _program()
    after = before.clone()
    constant = [op for op in after.walk() if isinstance(op, nn.ConstantOp)][-1]  # weights of the last product
    doubled = np.frombuffer(constant.literal.data.data, np.float32) * 2
    constant.properties["value"] = nn.constant.literal(constant.literal.type, doubled.tobytes())  # pyright: ignore
    assert "differs by" in str(compare_runs(before, after))
    assert compare_runs(before, before.clone()) is None


@pytest.mark.parametrize("name", ["layout-strip", "convert-layout-to-linalg", "convert-layout-to-loops"])
def test_negative_what_leaves_layouts_behind_is_not_compared_with_what_had_them(name: str):
    module = _program()
    validator = Validator("strip", PLACE)
    validator.before(name, module)
    assert validator.after(name, ModuleOp([])) is None


def test_a_nan_on_one_side_alone_is_an_infinite_difference():
    assert relative_difference(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == float("inf")
    assert relative_difference(np.array([np.nan]), np.array([np.nan])) == 0.0


def test_infinities_differ_from_each_other_and_from_nan():
    assert relative_difference(np.array([np.inf, 1.0]), np.array([np.nan, 1.0])) == float("inf")
    assert relative_difference(np.array([np.inf, 1.0]), np.array([-np.inf, 1.0])) == float("inf")
    assert relative_difference(np.array([np.inf, 1.0]), np.array([np.inf, 1.0])) == 0.0


def _parsed(text: str) -> ModuleOp:
    return Parser(context(), text).parse_module()


_BRANCHES = """
func.func @main(%p : i1, %n : index, %x : tensor<4xf32>) -> tensor<4xf32> {
  %r = scf.if %p -> (tensor<4xf32>) {
    %a = nn.relu %x : tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  } else {
    %a = nn.OTHER %x : tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  }
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %y = scf.for %i = %zero to %n step %one iter_args(%a = %r) -> (tensor<4xf32>) {
    %b = nn.abs %a : tensor<4xf32>
    scf.yield %b : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
"""


def test_functions_with_conditions_and_counts_run_both_ways():
    before = _parsed(_BRANCHES.replace("OTHER", "exp"))
    assert compare_runs(before, before.clone()) is None
    for wrong in (
        _BRANCHES.replace("OTHER", "tanh"),
        _BRANCHES.replace("OTHER", "exp").replace("relu", "tanh"),
    ):
        assert "result 0 of @main differs by" in str(compare_runs(before, _parsed(wrong)))


def test_arguments_that_divide_are_not_zero():
    text = """
    func.func @main(%x : tensor<64xi32>, %y : tensor<64xi32>) -> tensor<64xi32> {
      %r = arith.OP %x, %y : tensor<64xi32>
      func.return %r : tensor<64xi32>
    }
    """
    before = _parsed(text.replace("OP", "divsi"))
    assert compare_runs(before, before.clone()) is None
    assert "differs by" in str(compare_runs(before, _parsed(text.replace("OP", "remsi"))))


def test_results_in_bf16_are_compared_as_numbers():
    def scaled(k: float) -> ModuleOp:
        return _parsed(
            f"""
            func.func @main(%x : tensor<64xbf16>) -> tensor<64xbf16> {{
              %k = nn.constant dense<{k}> : tensor<1xbf16>
              %y = nn.mul %x, %k : (tensor<64xbf16>, tensor<1xbf16>) -> tensor<64xbf16>
              func.return %y : tensor<64xbf16>
            }}
            """
        )

    near, other, far = scaled(0.0), scaled(-0.0), scaled(1.5)
    assert compare_runs(near, other) is None
    assert "differs by" in str(compare_runs(near, far))


def test_options_that_an_op_carries_are_no_part_of_what_a_program_computes():
    module = _parsed(
        """
        #nchw = #layout.tag<nchw>
        func.func @main(%x : tensor<1x8x4x4xf32, #nchw>) -> tensor<1x8x4x4xf32, #nchw> {
          %a = nn.relu %x {layout.options = [#layout.option<ins = [#nchw], outs = [#nchw], cost = 3>]}
            : (tensor<1x8x4x4xf32, #nchw>) -> tensor<1x8x4x4xf32, #layout.any>
          %b = nn.exp %a {layout.options = [
              #layout.option<ins = [#nchw], outs = [#nchw], cost = 3, in_place = [0 -> 0]>]}
            : (tensor<1x8x4x4xf32, #layout.any>) -> tensor<1x8x4x4xf32, #layout.any>
          %y = layout.reorder %b : tensor<1x8x4x4xf32, #layout.any> -> tensor<1x8x4x4xf32, #nchw>
          func.return %y : tensor<1x8x4x4xf32, #nchw>
        }
        """
    )
    validator = Validator("execute", PLACE)
    validator.before("layout-optimize", module)
    optimize(module, "blocked8")
    assert validator.after("layout-optimize", module) is None


def test_a_constant_that_nothing_uses_may_go():
    module = _parsed(
        """
        func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
          %k = nn.constant dense<0.5> : tensor<4xf32, #layout.any>
          %y = nn.relu %x : tensor<4xf32>
          func.return %y : tensor<4xf32>
        }
        """
    )
    validator = Validator("strip", PLACE)
    validator.before("layout-optimize", module)
    [constant] = (op for op in module.walk() if isinstance(op, nn.ConstantOp))
    constant.detach()
    constant.erase()
    assert validator.after("layout-optimize", module) is None


_DEAD = """
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  {dead}
  %r = "nn.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  {kept}
  func.return %r : tensor<2x3xf32>
}}
"""


_TO_BYTES = "%a = layout.reorder %x : tensor<2x3xf32> -> tensor<2x3xi8>\n"
_BACK = "%b = layout.reorder %a : tensor<2x3xi8> -> tensor<2x3xf32>\n"


def _validated(before: str, after: str, name: str = "layout-fold-reorders") -> str | None:
    validator = Validator("strip", PLACE)
    validator.before(name, Parser(context(), before).parse_module())
    wrong = validator.after(name, Parser(context(), after).parse_module())
    return None if wrong is None else wrong.message


@pytest.mark.parametrize(
    "dead",
    [
        _TO_BYTES,
        f'{_TO_BYTES}{_BACK}%c = "nn.relu"(%b) : (tensor<2x3xf32>) -> tensor<2x3xf32>',
        '%b = "nn.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>',
    ],
)
def test_an_op_that_nothing_observes_may_go_and_may_stay(dead: str):
    with_it, without = _DEAD.format(dead=dead, kept=""), _DEAD.format(dead="", kept="")
    assert _validated(with_it, without) is None and _validated(without, with_it) is None


@pytest.mark.parametrize(
    "kept",
    [
        "func.call @g(%x) : (tensor<2x3xf32>) -> ()",
        '"nn.unheard"(%x) : (tensor<2x3xf32>) -> ()',
        "%a = func.call @h(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>",
    ],
)
def test_negative_an_op_that_may_have_an_effect_does_not_go(kept: str):
    calls = (
        "\nfunc.func private @g(tensor<2x3xf32>)\nfunc.func private @h(tensor<2x3xf32>) -> tensor<2x3xf32>\n"
    )
    parser = context()
    parser.allow_unregistered = True
    with_it, without = (
        Parser(parser, _DEAD.format(dead="", kept=text) + calls).parse_module() for text in (kept, "")
    )
    validator = Validator("strip", PLACE)
    validator.before("layout-optimize", with_it)
    wrong = validator.after("layout-optimize", without)
    assert wrong is not None and "changed what the program computes" in wrong.message


def test_negative_a_converting_reorder_that_is_used_does_not_go():
    used = _DEAD.format(dead=_TO_BYTES + _BACK, kept="").replace('"nn.relu"(%x)', '"nn.relu"(%b)')
    assert "changed what the program computes" in str(_validated(used, _DEAD.format(dead="", kept="")))
