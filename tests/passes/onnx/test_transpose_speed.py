"""Which Transposes ONNX Runtime moves by runs, and which element by element."""

from __future__ import annotations

from itertools import permutations, product
from math import prod

import pytest

from layout_ir.passes.onnx.orders import Order, identity
from layout_ir.passes.onnx.transpose_speed import ELEMENT_NS, counted_shape, ns_by_element, ns_for_units


def _with_one_run_moved(rank: int) -> set[Order]:
    """All orders in which some dims side by side were taken out and put in elsewhere."""
    dims = [*range(rank)]
    found: set[Order] = set()
    for first, end in product(range(rank), range(rank + 1)):
        run, rest = dims[first:end], dims[:first] + dims[max(first, end) :]
        found.update((*rest[:k], *run, *rest[k:]) for k in range(len(rest) + 1))
    return found


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_elements_move_by_themselves_unless_one_run_of_dims_moves(rank: int):
    extents = (7, 5, 6, 4, 9)[:rank]
    fast = _with_one_run_moved(rank)
    for order in permutations(range(rank)):
        if order[-1] != rank - 1 or order == identity(rank):
            expected = 0 if order in fast else ELEMENT_NS * prod(extents)
            assert ns_by_element(identity(rank), order, extents) == expected


@pytest.mark.parametrize("source", [*permutations(range(4))])
def test_the_dims_of_the_tensor_count_not_those_of_the_value(source: Order):
    extents = (2, 3, 1, 5)
    turned = tuple(extents[dim] for dim in source)
    for target in permutations(range(4)):
        perm = tuple(source.index(dim) for dim in target)
        assert ns_by_element(source, target, extents) == ns_by_element(identity(4), perm, turned)


def test_a_dim_of_one_element_counts_where_it_lies_between_others():
    extents = (1, 256, 3, 4, 96)
    assert ns_by_element(identity(5), (2, 0, 3, 4, 1), extents) == ELEMENT_NS * prod(extents)
    assert ns_by_element(identity(5), (0, 2, 3, 4, 1), extents) == 0
    assert ns_by_element(identity(5), (2, 3, 4, 0, 1), extents) == 0


@pytest.mark.parametrize("unit", range(5))
def test_what_a_transpose_takes_for_a_dim_of_one_element_is_what_it_does_not_take_without(unit: int):
    extents = tuple(1 if dim == unit else (7, 5, 6, 20, 9)[dim] for dim in range(5))
    kept = [dim for dim in range(5) if dim != unit]
    for order in permutations(range(5)):
        bare = tuple(kept.index(dim) for dim in order if dim != unit)
        more = ns_by_element(identity(5), order, extents) - ns_by_element(
            identity(4), bare, tuple(extents[dim] for dim in kept)
        )
        assert ns_for_units(identity(5), order, extents) == max(more, 0)


def test_negative_without_such_a_dim_nothing_is_taken_for_it():
    assert ns_for_units(identity(3), (2, 1, 0), (64, 32, 20)) == 0
    assert ns_by_element(identity(3), (2, 1, 0), (64, 32, 20)) > 0


def test_short_rows_that_stay_behind_are_copied_one_by_one():
    assert ns_by_element(identity(3), (1, 0, 2), (64, 128, 4)) == 9 * 64 * 128
    assert ns_by_element(identity(3), (1, 0, 2), (64, 128, 2)) == ELEMENT_NS * 64 * 128 * 2


@pytest.mark.parametrize("row", [1, 16, 64])
def test_negative_elements_and_long_rows_are_not(row: int):
    assert ns_by_element(identity(3), (1, 0, 2), (64, 128, row)) == 0


def test_extents_that_are_not_known_count_as_in_bytes():
    assert counted_shape(("N", 3, None)) == (64, 3, 64)
