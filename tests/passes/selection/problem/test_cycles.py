"""Cycles of values: refused where they are, at any depth, and not seen where they are not."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from layout_ir.api.program_text import context
from layout_ir.diagnostics import PassError
from layout_ir.passes.selection.problem.cycles import check_acyclic


def _check(text: str) -> None:
    check_acyclic(Parser(context(), text).parse_module(True))


CYCLES = {
    "itself": """
%a = "test.op"(%a) : (f32) -> f32""",
    "two": """
%a = "test.op"(%b) : (f32) -> f32
%b = "test.op"(%a) : (f32) -> f32""",
    "behind a chain": """
%x = "test.op"(%c) : (f32) -> f32
%a = "test.op"(%c) : (f32) -> f32
%b = "test.op"(%a) : (f32) -> f32
%c = "test.op"(%b) : (f32) -> f32""",
    "through a region": """
%a = "test.op"() ({
  %i = "test.op"(%b) : (f32) -> f32
}) : () -> f32
%b = "test.op"(%a) : (f32) -> f32""",
    "inside a region": """
%a = "test.op"() ({
  %i = "test.op"(%j) : (f32) -> f32
  %j = "test.op"(%i) : (f32) -> f32
}) : () -> f32""",
}
NONE = {
    "a later result": """
%b = "test.op"(%a) : (f32) -> f32
%a = "test.op"() : () -> f32""",
    "one source on two ways": """
%d = "test.op"(%b, %c) : (f32, f32) -> f32
%b = "test.op"(%a) : (f32) -> f32
%c = "test.op"(%a) : (f32) -> f32
%a = "test.op"() : () -> f32""",
    "a loop: what it yields comes back by its argument": """
func.func @f(%x : f32, %n : index) -> f32 {
  %r = scf.for %i = %n to %n step %n iter_args(%a = %x) -> (f32) {
    %b = "test.op"(%a) : (f32) -> f32
    scf.yield %b : f32
  }
  func.return %r : f32
}""",
}


@pytest.mark.parametrize("name", CYCLES)
def test_a_cycle_is_refused(name: str) -> None:
    with pytest.raises(PassError, match=r"depends on its own result: no layout can be chosen in a cycle$"):
        _check(CYCLES[name].replace("f32", "tensor<2xf32, #layout.any>"))


@pytest.mark.parametrize("name", CYCLES)
def test_negative_a_cycle_without_layouts_to_choose_is_no_concern(name: str) -> None:
    _check(CYCLES[name])
    _check(
        CYCLES[name].replace("f32", "tensor<2xf32>")
        + """
%o = "test.op"() : () -> tensor<2xf32, #layout.any>
%p = "test.op"(%o) : (tensor<2xf32, #layout.any>) -> f32"""
    )


@pytest.mark.parametrize("name", NONE)
def test_negative_no_cycle(name: str) -> None:
    _check(NONE[name])


def test_a_long_chain_written_backwards_takes_no_recursion() -> None:
    n = 5000
    lines = [f'%v{k} = "test.op"(%v{k + 1}) : (f32) -> f32' for k in range(n)]
    _check("\n".join([*lines, f'%v{n} = "test.op"() : () -> f32']))
