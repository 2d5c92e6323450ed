"""Names of a model in attributes and locations."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FileLineColLoc, IntAttr, StringAttr
from xdsl.utils.test_value import create_ssa_value

from layout_ir.diagnostics import Location, location_of
from layout_ir.dialects import nn
from layout_ir.dialects.nn.model_names import location, name_hint, named, names_at, names_in
from tests.backends.reference.programs import tensor_type


def relu() -> nn.ReluOp:
    return nn.ReluOp(create_ssa_value(tensor_type((2,), "f32")))


def test_names_of_a_signature_are_read_as_they_were_written():
    assert names_in(named(["a/b:0", "17"]), 2) == ["a/b:0", "17"]
    assert names_in(None, 2) == [None, None]
    mixed = ArrayAttr([DictionaryAttr({}), DictionaryAttr({"onnx.name": StringAttr("x")})])
    assert names_in(mixed, 2) == [None, "x"]


def test_names_of_a_node_and_its_values_are_in_its_location():
    op = relu()
    op.location = location("/conv 1", ["out:0"])
    assert names_at(op) == ("/conv 1", "out:0")
    op.location = location("/conv 1")
    assert names_at(op) == ("/conv 1",)


def test_a_message_about_an_op_names_the_node():
    op = relu()
    op.location = location("node", ["value"])
    assert location_of(op) == Location("node")


def test_negative_a_place_in_a_file_has_no_names():
    op = relu()
    op.location = FileLineColLoc(StringAttr("p.mlir"), IntAttr(3), IntAttr(5))
    assert names_at(op) == ()


@pytest.mark.parametrize(
    ("name", "hint"), [("/a/b:0", "_a_b_0"), ("17", "v17"), ("_3", "v_3"), ("", None), ("ü", "_")]
)
def test_a_hint_has_only_characters_that_a_value_may_have(name: str, hint: str | None):
    assert name_hint(name) == hint
    create_ssa_value(tensor_type((2,), "f32")).name_hint = hint
