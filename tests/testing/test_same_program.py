"""Two programs that compute the same, and how the others are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from layout_ir.errors import LayoutError
from layout_ir.testing import assert_same_program
from tests.programs import parse

BEFORE = """\
func.func @main(%x : tensor<2x5xf32>) -> tensor<2x5xf32> {
  %a = nn.relu %x : tensor<2x5xf32>
  %b = nn.neg %a : tensor<2x5xf32>
  %c = nn.abs %b : tensor<2x5xf32>
  func.return %c : tensor<2x5xf32>
}
"""


def message(before: str, after: str, **options: object) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_same_program(before, after, **options)  # pyright: ignore[reportArgumentType]
    return str(caught.value)


def test_moves_between_layouts_change_nothing():
    after = BEFORE.replace(
        "%b = nn.neg %a : tensor<2x5xf32>",
        """%t = layout.reorder %a : tensor<2x5xf32> -> tensor<2x5xf32, #layout.format<(n, c) : [c, n, c:4]>>
        %u = nn.neg %t : tensor<2x5xf32, #layout.format<(n, c) : [c, n, c:4]>>
        %b = layout.reorder %u : tensor<2x5xf32, #layout.format<(n, c) : [c, n, c:4]>> -> tensor<2x5xf32>""",
    )
    assert_same_program(BEFORE, after)


def test_negative_the_first_value_that_differs_is_named_with_its_place():
    inputs = [np.arange(10, dtype=np.float32).reshape(2, 5)]
    # The last two ops hide neither: -(x + x), then |.|.
    after = BEFORE.replace("%b = nn.neg %a : tensor<2x5xf32>", "%b = nn.add %a, %a : tensor<2x5xf32>")
    text = message(BEFORE, after, inputs=inputs)
    assert "result 0 of @main differs at index (0, 1): 2.0 after, 1.0 before (9 of 10 elements" in text
    assert "first value that differs: %b = nn.add at <after>:3:8 in layout (n, c) : [n, c]" in text
    assert "index (0, 1): 2.0 after, -1.0 before" in text


PADDED = """\
#undef = #layout.format<(n, c) : [n, c, c:4]>
#zero = #layout.format<(n, c) : [n, c, c:4], pad = zero>
func.func @main(%x : tensor<2x5xf32>) -> tensor<2xf32> {
  %p = layout.reorder %x : tensor<2x5xf32> -> tensor<2x5xf32, #undef>
  %v = layout.fill_pads %p : tensor<2x5xf32, #undef> -> tensor<2x5xf32, #zero>
  %s = nn.reduce_sum %v axes = [1] keepdims = false : (tensor<2x5xf32, #zero>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}
"""


def test_pads_that_are_filled_before_they_are_read_may_have_held_anything():
    direct = PADDED.replace("%v = layout.fill_pads", "%w = layout.fill_pads").replace(
        "layout.reorder %x : tensor<2x5xf32> -> tensor<2x5xf32, #undef>",
        "layout.reorder %x : tensor<2x5xf32> -> tensor<2x5xf32, #undef>\n"
        "  %v = layout.reorder %x : tensor<2x5xf32> -> tensor<2x5xf32, #zero>",
    )
    assert_same_program(PADDED, direct)


def test_negative_a_pad_that_is_read_without_being_filled_is_nan():
    """What a pass makes that takes pads for zeros; the verifier would refuse the cast, so it is not asked."""
    wrong = parse(PADDED.replace("layout.fill_pads", "layout.cast"), verify=False)
    with pytest.raises(AssertionError) as caught:
        assert_same_program(PADDED, wrong)
    assert "differs at index (0,): nan after" in str(caught.value)
    assert "the first value that differs: %s = nn.reduce_sum" in str(caught.value)
    assert "a pad is read as an element" in str(caught.value)


def test_negative_missing_functions_and_other_types_are_told():
    assert "@main is gone: the functions after are @other" in message(
        BEFORE, BEFORE.replace("@main", "@other")
    )
    two = BEFORE.replace("-> tensor<2x5xf32> {", "-> (tensor<2x5xf32>, tensor<2x5xf32>) {").replace(
        "func.return %c : tensor<2x5xf32>", "func.return %c, %a : tensor<2x5xf32>, tensor<2x5xf32>"
    )
    assert "returns 2 values, it returned 1" in message(BEFORE, two)
    narrow = BEFORE.replace("-> tensor<2x5xf32> {", "-> tensor<5x2xf32> {").replace(
        "func.return %c : tensor<2x5xf32>",
        "%d = layout.permute %c perm = [1, 0] : tensor<2x5xf32> -> tensor<5x2xf32>\n  func.return %d : tensor<5x2xf32>",
    )
    assert "result 0 of @main is 5x2 of float32, it was 2x5 of float32" in message(BEFORE, narrow)


def test_negative_a_comparison_of_nothing_is_an_error():
    dynamic = "func.func @main(%x : tensor<?xf32>) -> tensor<?xf32> {\n  func.return %x : tensor<?xf32>\n}\n"
    with pytest.raises(LayoutError, match=r"nothing was compared: @main: .*needs the extent of dim 0"):
        assert_same_program(dynamic, dynamic)
    with pytest.raises(LayoutError, match="no function with a body"):
        assert_same_program("module {}", "module {}")
    with pytest.raises(LayoutError, match=r"the program after is wrong: .*<after>:1:1"):
        assert_same_program(BEFORE, "}")


def test_an_entry_and_a_tolerance_may_be_given():
    inputs = {"x": np.full((2, 5), 3, np.float32)}
    one, other = (
        f"func.func @f(%x : tensor<2x5xf32>) -> tensor<2x5xf32> {{\n"
        f"  %c = nn.constant dense<{value}> : tensor<f32>\n"
        f"  %y = nn.mul %x, %c : (tensor<2x5xf32>, tensor<f32>) -> tensor<2x5xf32>\n"
        f"  func.return %y : tensor<2x5xf32>\n}}\n"
        for value in ("1.0", "1.01")
    )
    assert_same_program(one, other, inputs, entry="f", tolerance=0.02)
    assert "@f differs at index (0, 0)" in message(one, other, inputs=inputs, entry="f", tolerance=0.001)
    with pytest.raises(LayoutError, match="no function @g"):
        assert_same_program(one, other, entry="g")
