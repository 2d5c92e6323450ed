"""Every notation has a line in the table: a text, or the reason why there is none."""

from __future__ import annotations

from layout_ir.algebra.format import Format
from layout_ir.notations import NOTATIONS
from layout_ir.tools.commands.notation_table import Entry, notation_table, table_lines

LAYOUT = Format.from_tag("nChw8c").bind((2, 17, 5, 4))


def test_every_notation_has_a_text_or_a_reason():
    table = notation_table(LAYOUT, "f32")
    assert [entry.notation for entry in table] == list(NOTATIONS)
    assert all((entry.text is None) == bool(entry.reason) for entry in table)


def test_texts_are_those_of_the_notations_and_read_back():
    found = {entry.notation: entry.text for entry in notation_table(LAYOUT, "f32")}
    assert found["cute"] == "(2,(8,3),5,4):(480,(1,160),32,8)"
    assert found["onnxruntime"] == "NCHWc/8"
    assert NOTATIONS["tag"].parse(found["tag"] or "") == Format.from_tag("nChw8c")


def test_negative_a_notation_of_strides_has_no_text_for_blocks():
    found = {entry.notation: entry for entry in notation_table(LAYOUT, "f32")}
    assert found["torch"].text is None
    assert "one stride per dim" in found["torch"].reason


def test_a_format_without_a_shape_has_no_text_in_a_notation_of_numbers():
    found = {entry.notation: entry for entry in notation_table(Format.from_tag("nhwc"), "f32")}
    assert found["numpy"].reason == "its numbers depend on the shape: give one"
    assert found["tag"].text == "nhwc"


def test_notations_that_count_dims_take_the_order_of_the_indices():
    named = Format.from_tag("nchw").bind((1, 2, 3, 4))
    indexed = named.permute((0, 2, 3, 1))
    found = {entry.notation: entry.text for entry in notation_table(named, "f32", indexed)}
    assert found["numpy"] == NOTATIONS["numpy"].print(indexed, "f32")
    assert found["tag"] == NOTATIONS["tag"].print(named, "f32")


def test_refused_notations_stand_below_the_texts():
    lines = table_lines([Entry("b", None, "no words"), Entry("long", "text")])
    assert lines == ["long  text", "", "not in", "b     no words"]
