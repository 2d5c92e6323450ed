"""What ops see of their operands: pads where they reduce, elements elsewhere, poison where nothing is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from layout_ir.algebra.format import Format
from layout_ir.backends.reference.operands import aligned, contracted, grouped, reduced
from layout_ir.backends.reference.tensor import Tensor


def tensor(values: NDArray[Any], text: str) -> Tensor:
    return Tensor.store(values, Format.of(text).bind(values.shape), "f32")


def numbers(*shape: int) -> NDArray[Any]:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_only_the_reduced_dims_show_their_pads():
    x = tensor(numbers(3, 5), "(a, b) : [a, b, a:4, b:4], pad = 7")
    assert reduced(x, ()).tolist() == numbers(3, 5).tolist()
    assert reduced(x, {1}).tolist() == [[*row, 7, 7, 7] for row in numbers(3, 5).tolist()]
    assert reduced(x, {0}).tolist() == [*numbers(3, 5).tolist(), [7] * 5]


def test_a_sum_of_products_pairs_elements_by_index_whatever_the_pads():
    """A halo of 2 on the left operand, blocks of 4 on the right: positions differ, indices do not."""
    a = tensor(numbers(2, 5), "(a, b) : [a, b], lo = [0, 2], pad = zero")
    b = tensor(numbers(5, 3), "(a, b) : [a, b, a:4], pad = zero")
    left, right = contracted(a, 1, b, 0)
    assert left.shape == (2, 10) and right.shape == (10, 3)
    np.testing.assert_array_equal(left @ right, numbers(2, 5) @ numbers(5, 3))


def test_a_pad_that_only_one_operand_has_counts_as_it_is():
    a = tensor(numbers(2, 5), "(a, b) : [a, b, b:4], pad = 10")
    b = tensor(numbers(5, 3), "ab")
    left, right = contracted(a, 1, b, 0)
    np.testing.assert_array_equal(left @ right, numbers(2, 5) @ numbers(5, 3) + 3 * 10)


def test_each_group_of_channels_meets_the_pads_of_its_weights():
    x = tensor(numbers(1, 6, 2), "abc")
    w = tensor(numbers(4, 3, 1), "(o, i, k) : [o, i, k, i:4], pad = 5")
    channels, weights = grouped(x, w, 2)
    assert weights.shape == (4, 4, 1) and channels.shape == (1, 8, 2)
    assert channels[0, :, 0].tolist() == [1, 3, 5, 1, 7, 9, 11, 1]


def test_an_operand_with_the_box_of_the_result_shows_its_own_pads():
    layout = Format.of("(a, b) : [a, b, b:4], pad = 9").bind((2, 5))
    x = tensor(numbers(2, 5), "(a, b) : [b, a, b:4], pad = 3")
    assert aligned(x, layout)[:, 5:].tolist() == [[3] * 3] * 2


def test_an_operand_with_another_box_shows_poison_where_it_has_no_pad():
    layout = Format.of("(a, b) : [a, b, b:4]").bind((2, 5))
    box = aligned(tensor(numbers(2, 5), "ab"), layout)
    assert box.shape == (2, 8)
    assert box[:, :5].tolist() == numbers(2, 5).tolist() and np.isnan(box[:, 5:]).all()


def test_a_broadcast_element_is_read_and_not_its_pads():
    layout = Format.of("(a, b) : [a, b, b:4]").bind((2, 5))
    x = tensor(np.array([[4.0]], np.float32), "(a, b) : [a, b:4], lo = [0, 2], pad = 3")
    assert aligned(x, layout).tolist() == [[4.0]]
    assert (
        np.broadcast_to(aligned(tensor(numbers(5), "a"), layout), (2, 8))[:, :5].tolist()
        == [numbers(5).tolist()] * 2
    )
