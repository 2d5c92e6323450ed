"""Rows of memory: every address once, what lies there, and what a sample keeps."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Hole, Index, Pad
from layout_ir.drawing.memory_view import Gap, memory_view
from tests.drawing.cases import CASES, case
from tests.layouts import address_by_definition, indices, random_format, random_shape, rngs


@given(rngs)
@settings(max_examples=150, deadline=None)
def test_rows_and_gaps_cover_every_address_once_in_order(rng: Random):
    layout = random_format(rng, rng.randint(0, 4), strided=True, halo=True, chunked=True)
    bound = layout.bind(random_shape(rng, layout.rank, 600))
    view = memory_view(bound, columns=rng.choice((1, 5, 8, 32)), rows=rng.choice((6, 20, 1000)))
    expected = min(bound.first_address, 0) if bound.span else 0
    for entry in view.entries:
        if isinstance(entry, Gap):
            assert entry.first == expected
            expected = entry.last + 1
        else:
            assert [cell.address for cell in entry.cells] == list(
                range(expected, expected + len(entry.cells))
            )
            expected = entry.cells[-1].address + 1
    assert expected == bound.extent


@given(rngs)
@settings(max_examples=100, deadline=None)
def test_cells_hold_what_the_definition_puts_there(rng: Random):
    format = random_format(rng, rng.randint(1, 3), strided=rng.random() < 0.3, halo=True, chunked=True)
    layout = format.bind(random_shape(rng, format.rank, 300))
    lies_at: dict[int, list[tuple[int, ...]]] = {}
    for position in indices(layout.padded_shape):
        lies_at.setdefault(address_by_definition(format, layout.shape, position), []).append(position)
    for row in memory_view(layout, rows=10_000).rows:
        for cell in row.cells:
            positions = lies_at.get(cell.address, [])
            found = [tuple(y - low for y, low in zip(p, layout.lo, strict=True)) for p in positions]
            inside = [i for i in found if all(0 <= x < n for x, n in zip(i, layout.shape, strict=True))]
            match cell.what:
                case Index(index):
                    assert index in inside
                case Pad(position):
                    assert position in positions and not inside
                case Hole():
                    assert not positions


REFERENCES: list[dict[str, Any]] = [
    entry
    for entry in json.loads((Path(__file__).parents[1] / "cases" / "reference_layouts.json").read_text())[
        "layouts"
    ]
    if entry.get("mem_head")
]


@pytest.mark.parametrize("entry", REFERENCES, ids=lambda entry: entry["id"])
def test_memory_begins_as_the_reference_texts_list_it(entry: dict[str, Any]):
    view = memory_view(Format.parse(entry["expr"]).bind(entry["shape"]))
    cells = {cell.address: cell.what for row in view.rows for cell in row.cells}
    shown = 0
    for address, index in enumerate(entry["mem_head"]):
        if address not in cells:
            continue  # left out of the sample
        shown += 1
        what = cells[address]
        assert (list(what.index) if isinstance(what, Index) else None) == index
    assert shown >= min(20, len(entry["mem_head"]))


@pytest.mark.parametrize("name", ["crouton", "crouton 2x2", "small chunks"])
def test_rows_stay_inside_a_chunk(name: str):
    layout = case(name)
    for entry in memory_view(layout).entries:
        if isinstance(entry, Gap):
            assert entry.chunks == (entry.first // layout.chunk_size, entry.last // layout.chunk_size)
        else:
            assert {cell.address // layout.chunk_size for cell in entry.cells} == {entry.chunk}


def test_blocks_stand_below_each_other():
    view = memory_view(case("nChw8c"))
    assert (view.columns, view.groups, view.total_rows) == (32, (8,), 30)
    assert not view.is_sampled
    assert [len(row.cells) for row in view.rows] == [32] * 30


def test_negative_a_length_that_nothing_divides_breaks_rows_where_the_block_ends():
    view = memory_view(case("prime"), columns=32)
    assert [row.start for row in view.rows] == [0, 25, 50, 75, 97, 122, 147, 172, 194, 219, 244, 269]
    assert [len(row.cells) for row in view.rows] == [25, 25, 25, 22] * 3


def test_a_sample_keeps_the_rows_where_something_begins_or_ends():
    layout = case("crouton")
    view = memory_view(layout)
    shown = {cell.address: cell.what for row in view.rows for cell in row.cells}
    assert view.is_sampled and len(view.rows) <= 50
    for index in [
        (0, 0, 0, 0),
        (1, 8, 19, 49),
        (0, 0, 1, 0),
        (0, 1, 0, 0),
        (0, 8, 0, 0),
        (0, 0, 8, 0),
        (0, 0, 0, 32),
    ]:
        assert shown[layout.address(index)] == Index(index)
    for pad in [(0, 9, 0, 0), (0, 0, 20, 0), (0, 0, 0, 50), (1, 15, 23, 63)]:
        assert shown[layout.position_address(pad)] == Pad(pad)


def test_a_layout_of_2_to_the_45_elements_is_sampled_at_once():
    view = memory_view(case("huge"))
    assert view.total_rows > 1 << 38
    assert len(view.rows) <= 50


def test_negative_small_layouts_are_shown_whole():
    assert not memory_view(Format.from_tag("nchw").bind((1, 2, 3, 4))).is_sampled


def test_negative_nothing_lies_in_the_memory_of_an_empty_tensor():
    assert memory_view(case("empty")).entries == ()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rows", [4, 10, 48])
def test_a_sample_keeps_to_its_budget(name: str, rows: int):
    view = memory_view(case(name), rows=rows)
    # Single rows between two that are shown are shown too.
    assert len(view.rows) <= 2 * rows


def test_the_first_row_holds_the_first_address_where_its_chunk_begins_in_front_of_it():
    layout = Format.parse("(a, b) : [a, b*-1 | b:7], offset = -40").bind((1, 2))
    view = memory_view(layout, columns=2)
    assert layout.first_address == -40
    assert all(row.cells for row in view.rows)
    assert view.rows[0].start == -40
