"""Tensors that must be spelled alike are, by ops that move nothing where the bytes are the same."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.layout import CastOp, ReorderOp
from layout_ir.passes.selection.options.foreign.conform import bound_types, conform
from tests.programs import parse

PIXEL = "tensor<1x8x1x1xf32, #layout.tag<{}>>"
LARGE = "tensor<1x8x4x4xf32, #layout.tag<{}>>"


def _added(type: str, left: str, right: str, result: str) -> ModuleOp:
    """A sum of tensors in three formats, as its op may not be."""
    a, b, r = (type.format(tag) for tag in (left, right, result))
    text = f"""func.func @f(%a : {a}, %b : {b}) {{
      %r = "arith.addf"(%a, %b) <{{fastmath = #arith.fastmath<none>}}> : ({a}, {b}) -> {r}
      func.return }}"""
    return parse(text, verify=False)


def _conformed(module: ModuleOp) -> list[type]:
    (add,) = [op for op in module.walk() if op.name == "arith.addf"]
    conform([add])
    module.verify()
    made = [operand.owner for operand in add.operands if isinstance(operand.owner, Operation)]
    assert all(op.is_before_in_block(add) for op in made)
    return [type(op) for op in module.walk() if isinstance(op, CastOp | ReorderOp)]


def test_operands_of_the_same_bytes_are_cast_to_the_type_of_the_result():
    module = _added(PIXEL, "nhwc", "nchw", "nchw")
    with pytest.raises(VerifyException):
        module.verify()
    assert _conformed(module) == [CastOp]
    assert _conformed(_added(PIXEL, "nhwc", "nhwc", "nchw")) == [CastOp, CastOp]


def test_operands_of_other_bytes_are_reordered():
    assert _conformed(_added(LARGE, "nchw", "nhwc", "nchw")) == [ReorderOp]


def test_negative_operands_of_the_type_stay_as_they_are():
    assert _conformed(_added(LARGE, "nhwc", "nhwc", "nhwc")) == []


def test_negative_ops_that_take_tensors_of_any_type_are_bound_to_none():
    x = LARGE.format("nhwc")
    module = parse(f"func.func @f(%a : {x}) {{\n%r = nn.relu %a : {x}\nfunc.return }}")
    assert not [bound for op in module.walk() if op.results for bound in bound_types(op)]


def test_all_tensors_of_whole_tensor_arithmetic_have_the_type_of_its_result():
    module = _added(LARGE, "nhwc", "nchw", "nhwc")
    (op,) = [op for op in module.walk() if op.name == "arith.addf"]
    assert list(bound_types(op)) == [(0, op.results[0].type), (1, op.results[0].type)]
