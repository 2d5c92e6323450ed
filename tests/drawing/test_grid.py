"""The plane of indices: addresses, order, and which indices of a long dim are kept."""

from __future__ import annotations

import pytest

from layout_ir.algebra.format import Format
from layout_ir.drawing.grid import grid_of
from tests.drawing.cases import CASES, case


@pytest.mark.parametrize("name", CASES)
def test_cells_hold_the_addresses_of_their_indices(name: str):
    layout = case(name)
    grid = grid_of(layout)
    for place in grid.places if grid else ():
        index = grid.index(place) if grid else ()
        inside = all(0 <= x < n for x, n in zip(index, layout.shape, strict=True))
        assert place.is_pad != inside
        if inside:
            assert place.address == layout.address(index)


@pytest.mark.parametrize("name", CASES)
def test_places_run_in_address_order(name: str):
    grid = grid_of(case(name))
    if grid is not None:
        assert [p.address for p in grid.places] == sorted(p.address for p in grid.places)
        assert len({(p.row, p.column) for p in grid.places}) == len(grid.rows) * len(grid.columns)


def test_the_plane_is_spanned_by_the_dims_that_lie_innermost():
    grid = grid_of(case("nChw8c"))
    assert grid is not None
    assert [grid.layout.names[d] for d in (grid.down or 0, grid.across)] == ["w", "c"]
    assert grid.fixed() == "n = 0, h = 0"
    assert [p.address for p in grid.places][:9] == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_a_sample_keeps_block_borders_and_the_begin_of_padding():
    grid = grid_of(case("crouton"), rows=16, columns=20)
    assert grid is not None and grid.is_sampled
    assert {0, 1, 31, 32, 33, 49, 50, 63} <= set(grid.columns)
    assert {0, 1, 7, 8, 9, 19, 20, 23} <= set(grid.rows)
    assert grid.full == (24, 64)


def test_order_counts_the_cells_that_are_not_shown():
    grid = grid_of(Format.from_tag("ab").bind((2, 100)), columns=10)
    assert grid is not None
    by_index = {grid.index(p): p.order for p in grid.places}
    assert by_index[0, 99] == 99
    assert by_index[1, 0] == 100


def test_negative_small_planes_are_whole():
    grid = grid_of(case("nchw"))
    assert grid is not None and not grid.is_sampled
    assert grid.full == (5, 4) == (len(grid.rows), len(grid.columns))


@pytest.mark.parametrize("name", ["scalar", "empty", "one element"])
def test_negative_there_is_no_plane_without_two_elements(name: str):
    assert grid_of(case(name)) is None
