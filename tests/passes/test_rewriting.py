"""Rewrites leave a program that verifies, with the names and places there were."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, with_format
from layout_ir.passes.rewriting import erase_dead, insert_after, replace_op, retype, update_signatures
from tests.programs import parse

X = "tensor<2x3xf32>"


def _program(*lines: str) -> tuple[ModuleOp, FuncOp, list[Operation]]:
    module = parse(f"func.func @f(%x : {X}) -> {X} {{\n" + "\n".join(lines) + "\n}")
    (func,) = module.ops
    assert isinstance(func, FuncOp)
    return module, func, list(func.body.block.ops)


RELU = (f"%a = nn.relu %x : {X}", f"%b = nn.relu %a : {X}", f"func.return %b : {X}")


def test_another_type_keeps_the_name_and_the_uses():
    _, _, (first, second, _) = _program(*RELU)
    type = with_format(first.results[0].type, Format.of("ba"))
    new = retype(first.results[0], type)
    assert new.type == type and new.name_hint == "a" and second.operands[0] is new
    assert retype(new, type) is new


def test_a_literal_repeats_the_type_of_its_result():
    module, _, (literal, _) = _program(f"%a = arith.constant dense<1.0> : {X}", f"func.return %a : {X}")
    retype(literal.results[0], with_format(literal.results[0].type, Format.of("ba")))
    update_signatures(module)
    module.verify()


def test_a_signature_is_that_of_arguments_and_of_what_is_returned():
    module, func, (first, *_) = _program(*RELU)
    type = with_format(func.args[0].type, Format.of("ba"))
    retype(func.args[0], type)
    for op in (first, first.next_op):
        assert op is not None
        retype(op.results[0], type)
    update_signatures(module)
    module.verify()
    assert list(func.function_type.inputs) == list(func.function_type.outputs) == [type]


def test_negative_a_declaration_keeps_its_signature():
    module = parse(f"func.func private @g({X}) -> {X}")
    before = str(module)
    update_signatures(module)
    assert str(module) == before


@pytest.mark.parametrize("where", ["argument", "result"])
def test_an_op_stands_right_behind_the_definition(where: str):
    module, func, (first, second, _) = _program(*RELU)
    first.location = FileLineColLoc(StringAttr("f.mlir"), IntAttr(2), IntAttr(3))
    value = func.args[0] if where == "argument" else first.results[0]
    op = ReorderOp(value, Format.of("ba"))
    insert_after(value, op)
    module.verify()
    assert op.next_op is (first if where == "argument" else second)
    if where == "result":
        assert op.location == first.location


def test_a_value_stands_for_a_result_with_its_name_if_it_has_none():
    module, func, (first, _, end) = _program(*RELU)
    unnamed = nn.ReluOp(func.args[0])
    insert_after(func.args[0], unnamed)
    replace_op(first, unnamed.results[0])
    module.verify()
    assert unnamed.results[0].name_hint == "a" and first.parent is None
    replace_op(unnamed, func.args[0])
    assert func.args[0].name_hint == "x" and end.operands[0].owner is not unnamed


def test_chains_that_nothing_uses_go_and_negative_what_is_used_stays():
    module, func, (first, *_) = _program(RELU[0], f"%c = nn.exp %a : {X}", f"%d = nn.exp %c : {X}", *RELU[1:])
    ops = list(func.body.block.ops)
    assert erase_dead(ops[:4])
    module.verify()
    assert [op.name for op in func.body.block.ops] == ["nn.relu", "nn.relu", "func.return"]
    assert not erase_dead(list(func.body.block.ops)) and first.parent is not None
