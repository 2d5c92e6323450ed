"""A tensor holds each element where its layout says, poison or policy elsewhere, and copies only where it must."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import HOLE, Index, Layout
from layout_ir.backends.reference.tensor import Tensor, interior, is_row_major, policy_element
from layout_ir.elements.numpy_types import poison
from layout_ir.errors import LayoutError
from tests.backends.reference.formats import roomy_format
from tests.layouts import random_shape


def random_layout(rng: Random) -> Layout:
    shape = random_shape(rng, rng.randint(0, 4), 300)
    return roomy_format(rng, [shape]).with_pad(rng.choice(("undef", "zero", "zp", 31, -2))).bind(shape)


def numbers(shape: tuple[int, ...]) -> NDArray[Any]:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.int32).reshape(shape)


@pytest.mark.parametrize("seed", range(150))
def test_every_address_holds_what_the_layout_says_of_it(seed: int):
    layout = random_layout(Random(seed))
    values = numbers(layout.shape)
    tensor = Tensor.store(values, layout, "i32")
    assert len(tensor.buffer) >= layout.extent
    for address, held in enumerate(tensor.buffer.tolist()):
        match layout.inverse(address):
            case Index(index):
                assert held == values[index]
            case place if place is HOLE:
                assert held == poison("i32")
            case _:
                assert held == policy_element(layout, "i32")


@pytest.mark.parametrize("seed", range(100))
def test_box_and_logical_read_back_what_was_stored(seed: int):
    layout = random_layout(Random(seed))
    values = numbers(layout.shape)
    tensor = Tensor.store(values, layout, "i32")
    np.testing.assert_array_equal(tensor.logical(), values)
    np.testing.assert_array_equal(tensor.box(), tensor.buffer[layout.addresses(padded=True)])
    again = Tensor.store_box(tensor.box(), layout, "i32")
    np.testing.assert_array_equal(again.buffer, tensor.buffer)


def test_dense_row_major_tensors_are_not_copied():
    values = numbers((4, 5))
    tensor = Tensor.store(values, Format.from_tag("ab").bind((4, 5)), "i32")
    assert np.shares_memory(tensor.buffer, values)
    assert np.shares_memory(tensor.logical(), values)


def test_plain_permuted_tensors_are_read_without_a_copy():
    layout = Format.from_tag("nhwc").bind((2, 3, 4, 5))
    tensor = Tensor.store(numbers((2, 3, 4, 5)), layout, "i32")
    assert np.shares_memory(tensor.logical(), tensor.buffer)


def test_one_element_may_stand_for_all():
    layout = Format.from_tag("nhwc").bind((2, 3, 4, 5))
    tensor = Tensor(np.broadcast_to(np.float32(7), (layout.extent,)), layout, "f32")
    assert tensor.logical().shape == (2, 3, 4, 5)
    assert (tensor.logical() == 7).all()
    assert tensor.logical().strides == (0, 0, 0, 0)


def test_elements_that_share_an_address_are_stored_if_they_agree():
    layout = Format.parse("(a, b) : [a*1, b*0]").bind((2, 3))
    tensor = Tensor.store(np.array([[1, 1, 1], [2, 2, 2]], np.int32), layout, "i32")
    np.testing.assert_array_equal(tensor.logical(), [[1, 1, 1], [2, 2, 2]])


def test_negative_elements_that_share_an_address_but_differ():
    layout = Format.parse("(a, b) : [a*1, b*0]").bind((2, 3))
    with pytest.raises(
        LayoutError, match="keeps several elements at one address, and the values there differ"
    ):
        Tensor.store(numbers((2, 3)), layout, "i32")


def test_elements_win_over_pads_at_the_same_address():
    """Rows of 5 every 6 elements, padded to 8: the last pads of a row are the first elements of the next."""
    layout = Format.parse("(a, b) : [a*6, b*4, b:4*1]").bind((2, 5))
    assert layout.padded_shape == (2, 8)
    tensor = Tensor.store(numbers((2, 5)), layout, "i32")
    np.testing.assert_array_equal(tensor.logical(), numbers((2, 5)))


def test_empty_tensors_and_scalars_have_buffers():
    empty = Tensor.store(np.zeros((0, 3), np.float32), Format.from_tag("ab").bind((0, 3)), "f32")
    assert empty.logical().shape == (0, 3)
    scalar = Tensor.store(np.array(5.0, np.float32), Format.row_major(()).bind(()), "f32")
    assert scalar.buffer.tolist() == [5.0] and scalar.logical().shape == ()


def test_pads_hold_what_the_caller_says_unless_the_policy_is_undef():
    values = np.ones(5, np.float32)
    claimed = Format.parse("(a) : [a, a:4], pad = zero").bind((5,))
    assert Tensor.store(values, claimed, "f32", np.float32(3)).buffer.tolist() == [1] * 5 + [3] * 3
    silent = Format.parse("(a) : [a, a:4]").bind((5,))
    assert np.isnan(Tensor.store(values, silent, "f32", np.float32(3)).buffer[5:]).all()


def test_interior_starts_behind_the_low_pads():
    layout = Format.parse("(h) : [h, h:4], lo = [3]").bind((5,))
    assert interior(layout) == (slice(3, 8),)


@pytest.mark.parametrize(
    ("text", "row_major"),
    [
        ("(a, b) : [a, b]", True),
        ("(a, b) : [a, b:2, b:3]", True),
        ("(a, b) : [a, b, b:4]", True),
        ("(a, b) : [b, a]", False),
        ("(a, b) : [a*8, b]", False),
        ("(a, b) : [a, b], offset = 1", False),
        ("(a, b) : [a, b], size = 31", False),
    ],
)
def test_row_major_means_that_the_buffer_is_the_padded_box(text: str, row_major: bool):
    layout = Format.parse(text).bind((4, 6))
    assert is_row_major(layout) is row_major
    values = numbers((4, 6))
    if row_major:
        tensor = Tensor.store(values, layout, "i32")
        np.testing.assert_array_equal(tensor.buffer.reshape(layout.padded_shape)[:, :6], values)


def test_negative_a_buffer_that_is_too_short():
    with pytest.raises(LayoutError, match=r"uses addresses 0 to 11, the buffer has 11 elements"):
        Tensor(np.zeros(11, np.float32), Format.from_tag("ab").bind((3, 4)), "f32")


def test_negative_addresses_below_the_buffer():
    with pytest.raises(LayoutError, match=r"uses addresses -3 to 0"):
        Tensor(np.zeros(11, np.float32), Format.parse("(a) : [a*-1]").bind((4,)), "f32")


def test_negative_a_buffer_of_another_type():
    with pytest.raises(LayoutError, match="a buffer of bf16 is a row of uint16, not 1-dimensional float32"):
        Tensor(np.zeros(12, np.float32), Format.from_tag("ab").bind((3, 4)), "bf16")


def test_negative_an_array_of_another_shape():
    with pytest.raises(LayoutError, match=r"shape mismatch between array and layout: \(4, 3\) != \(3, 4\)"):
        Tensor.store(np.zeros((4, 3), np.float32), Format.from_tag("ab").bind((3, 4)), "f32")


def test_negative_places_are_no_memory():
    with pytest.raises(LayoutError, match="has places on other axes than memory"):
        Tensor.poisoned(Format.parse("(a, b) : [a, b@lane]").bind((3, 4)), "f32")
