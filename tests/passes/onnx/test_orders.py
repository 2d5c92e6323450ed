"""Orders of dims, against NumPy."""

from __future__ import annotations

from itertools import permutations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.passes.onnx.orders import (
    Order,
    Shape,
    compose,
    identity,
    inverse,
    reshape_groups,
    reshaped_order,
    same_memory,
    transposition,
    with_dims,
    without,
)


@st.composite
def shapes_and_orders(draw: st.DrawFn, count: int) -> tuple[tuple[int, ...], list[Order]]:
    """A shape of up to four dims, and so many orders of them."""
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    return shape, [tuple(draw(st.permutations(range(len(shape))))) for _ in range(count)]


def _array(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(prod(shape)).reshape(shape)


@given(shapes_and_orders(2))
def test_orders_are_those_of_transposes(drawn: tuple[tuple[int, ...], list[Order]]):
    shape, (first, second) = drawn
    array = _array(shape)
    np.testing.assert_array_equal(array.transpose(first).transpose(inverse(first)), array)
    np.testing.assert_array_equal(
        array.transpose(first).transpose(second), array.transpose(compose(first, second))
    )
    perm = transposition(first, second)
    np.testing.assert_array_equal(array.transpose(first).transpose(perm), array.transpose(second))


@given(shapes_and_orders(2))
def test_the_same_memory_holds_the_same_elements(drawn: tuple[tuple[int, ...], list[Order]]):
    shape, (first, second) = drawn
    array = _array(shape)
    same = np.array_equal(array.transpose(first).ravel(), array.transpose(second).ravel())
    assert same_memory(first, second, shape) == same


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes with as many elements: products of neighbours of the same digits, with dims of one element."""
    digits = draw(st.lists(st.sampled_from((2, 2, 3, 5)), max_size=4))

    def cut() -> tuple[int, ...]:
        shape: list[int] = []
        for digit in digits:
            if shape and draw(st.booleans()):
                shape[-1] *= digit
            else:
                shape.append(digit)
        for _ in range(draw(st.integers(0, max(0, min(2, 5 - len(shape)))))):
            shape.insert(draw(st.integers(0, len(shape))), 1)
        return tuple(shape)

    return cut(), cut()


@given(reshapes())
def test_a_reshaped_order_is_that_of_the_same_memory_and_found_where_there_is_one(
    drawn: tuple[tuple[int, ...], tuple[int, ...]],
):
    source, target = drawn
    value, reshaped = _array(source), _array(target)
    for order in permutations(range(len(source))):
        memory = value.transpose(order).ravel()
        found = reshaped_order(source, target, order)
        if found is not None:
            assert sorted(found) == list(range(len(target)))
            np.testing.assert_array_equal(reshaped.transpose(found).ravel(), memory)
            continue
        others = permutations(range(len(target)))
        assert not any(np.array_equal(reshaped.transpose(o).ravel(), memory) for o in others)


@given(reshapes())
def test_groups_of_a_reshape_have_the_same_elements_on_both_sides(
    drawn: tuple[tuple[int, ...], tuple[int, ...]],
):
    source, target = drawn
    groups = reshape_groups(source, target)
    assert [d for dims, _ in groups for d in dims] == list(range(len(source)))
    assert [d for _, dims in groups for d in dims] == list(range(len(target)))
    for dims, others in groups:
        assert prod(source[d] for d in dims) == prod(target[d] for d in others)


@pytest.mark.parametrize(
    ("source", "target", "order", "wanted"),
    [
        (("N", 4, "H", 6), ("N", 4, "H", 2, 3), (0, 2, 3, 1), (0, 2, 3, 4, 1)),
        (("N", "H", "W", 3), ("N", None, 3), (0, 3, 1, 2), (0, 2, 1)),
        ((None, 3, 4), (None, 12), (0, 1, 2), (0, 1)),
        (("N", 3, "H"), ("N", "H", 3), (0, 1, 2), (0, 1, 2)),
    ],
)
def test_extents_of_the_same_name_are_equal(source: Shape, target: Shape, order: Order, wanted: Order):
    assert reshaped_order(source, target, order) == wanted


@pytest.mark.parametrize(
    ("source", "target", "order"),
    [
        (("N", "H", "W", 3), ("N", None, 3), (0, 2, 1, 3)),
        ((None, None, 3), (None, 3), (1, 0, 2)),
        (("A", "B"), ("B", "A"), (1, 0)),
    ],
)
def test_negative_dims_that_are_joined_do_not_change_places(source: Shape, target: Shape, order: Order):
    assert reshaped_order(source, target, order) is None


@given(shapes_and_orders(1), st.data())
def test_dims_of_one_element_come_and_go(drawn: tuple[tuple[int, ...], list[Order]], data: st.DataObject):
    shape, (order,) = drawn
    dims = sorted(data.draw(st.sets(st.integers(0, len(shape)), max_size=2)))
    dims = tuple([d for d in dims if d < len(shape) + len(dims)])
    larger = np.expand_dims(_array(shape), dims)
    for found in with_dims(order, dims):
        assert without(found, dims) == order
        np.testing.assert_array_equal(larger.transpose(found).ravel(), _array(shape).transpose(order).ravel())
    assert identity(larger.ndim) in with_dims(identity(len(shape)), dims)
