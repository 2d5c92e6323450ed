"""The layouts of the values of a program are those that its types say."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32

import layout_ir as li

PROGRAM = """\
func.func @main(%x: tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>> {
  %y = layout.reorder %x : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
  func.return %y : tensor<2x17x5x4xf32, #layout.tag<nChw8c>>
}
"""


def test_a_value_lies_where_the_format_of_its_type_says():
    (reorder,) = (op for op in li.parse(PROGRAM).walk() if isinstance(op, li.ir.ReorderOp))
    blocked = li.Format.from_tag("nChw8c").bind((2, 17, 5, 4))
    assert li.layout_of(reorder.result).same_contract(blocked)
    assert li.layout_of(reorder.result.type).same_contract(blocked)
    assert li.layout_of(reorder.input).is_contiguous("nchw")


def test_formats_are_of_all_tensors_in_the_order_of_the_program():
    module = li.parse(PROGRAM)
    found = li.formats(module)
    assert [value.name_hint for value in found] == ["x", "y"]
    assert [str(format) for format in found.values()] == [
        "(n, c, h, w) : [n, c, h, w]",
        str(li.Format.from_tag("nChw8c")),
    ]


def test_negative_what_has_no_format_is_left_out_of_formats_and_has_no_layout():
    module = li.parse(
        "func.func @f(%a: tensor<2x3xf32, #layout.any>, %b: tensor<?x3xf32>, %c: f32) {\n  func.return\n}"
    )
    (function,) = module.body.block.ops
    unchosen, dynamic, scalar = function.regions[0].block.args
    assert [value.name_hint for value in li.formats(module)] == ["b"]
    for value, message in (
        (unchosen, "has no layout"),
        (dynamic, "dynamic extent"),
        (scalar, "not a tensor"),
    ):
        with pytest.raises(li.LayoutError, match=message):
            li.layout_of(value)


def test_negative_what_is_no_program_or_value_is_refused():
    with pytest.raises(li.LayoutError, match="ModuleOp"):
        li.formats("x")  # pyright: ignore[reportArgumentType]
    with pytest.raises(li.LayoutError, match="not to what is of type str"):
        li.layout_of("x")  # pyright: ignore[reportArgumentType]
    assert li.formats(ModuleOp([])) == {}
    assert li.layout_of(TensorType(f32, [2, 3])).shape == (2, 3)
