"""Pictures: every label is there, and nothing lies on anything that it would hide."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given, settings

from layout_ir.algebra.layout import Index
from layout_ir.drawing.compose import compose
from layout_ir.drawing.memory_view import memory_view
from layout_ir.drawing.picture import Box, Dot, Item, Line, Picture, Text
from layout_ir.drawing.terminal import to_terminal
from tests.drawing.cases import CASES, case
from tests.layouts import random_layout, rngs

Extent = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def extent_of(text: Text) -> Extent:
    return text.left, text.y - 0.76 * text.size, text.left + text.width, text.y + 0.22 * text.size


def apart(a: Extent, b: Extent) -> bool:
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def strokes(item: Item) -> list[Extent]:
    """The straight parts of what is drawn in lines."""
    points: list[tuple[float, float]] = []
    if isinstance(item, Line):
        points = list(item.points)
    elif isinstance(item, Box) and item.fill is None:
        right, bottom = item.x + item.width, item.y + item.height
        points = [(item.x, item.y), (right, item.y), (right, bottom), (item.x, bottom), (item.x, item.y)]
    return [(min(a, c), min(b, d), max(a, c), max(b, d)) for (a, b), (c, d) in pairwise(points)]


def texts(picture: Picture) -> list[Text]:
    return [item for item in picture.items if isinstance(item, Text)]


@pytest.mark.parametrize("name", CASES)
def test_texts_keep_apart(name: str):
    found = sorted(texts(compose(case(name))), key=lambda t: t.y)
    for a, b in combinations(found, 2):
        if b.y - a.y > 40:
            continue
        assert apart(extent_of(a), extent_of(b)), (a, b)


@given(rngs)
@settings(max_examples=40, deadline=None)
def test_texts_keep_apart_whatever_the_layout(rng: Random):
    layout = random_layout(rng, limit=300)
    picture = compose(layout, rows=12)
    found = sorted(texts(picture), key=lambda t: t.y)
    for a, b in combinations(found, 2):
        assert b.y - a.y > 40 or apart(extent_of(a), extent_of(b)), (layout, a, b)
    assert to_terminal(layout, width=40)


@pytest.mark.parametrize("name", CASES)
def test_no_line_crosses_a_text(name: str):
    picture = compose(case(name))
    lines = [stroke for item in picture.items for stroke in strokes(item)]
    for text in texts(picture):
        for stroke in lines:
            assert apart(extent_of(text), stroke), (text, stroke)


@pytest.mark.parametrize("name", CASES)
def test_labels_fit_into_their_cells(name: str):
    picture = compose(case(name))
    boxes = [item for item in picture.items if isinstance(item, Box) and item.fill and item.height > 12]
    for text in texts(picture):
        if text.size != 9.0 or text.anchor != "middle":
            continue
        left, top, right, bottom = extent_of(text)
        around = [b for b in boxes if b.x < text.x < b.x + b.width and b.y < text.y < b.y + b.height]
        for box in around:
            assert (
                box.x <= left and right <= box.x + box.width and box.y <= top and bottom <= box.y + box.height
            )


@pytest.mark.parametrize("name", CASES)
def test_everything_is_on_the_sheet(name: str):
    picture = compose(case(name))
    for item in picture.items:
        match item:
            case Box():
                extent = (item.x, item.y, item.x + item.width, item.y + item.height)
            case Text():
                extent = extent_of(item)
            case Dot():
                extent = (item.x, item.y, item.x, item.y)
            case Line():
                xs, ys = zip(*item.points, strict=True)
                extent = (min(xs), min(ys), max(xs), max(ys))
        assert extent[0] >= 0 and extent[1] >= 0
        assert extent[2] <= picture.width and extent[3] <= picture.height


def test_every_element_of_a_small_layout_is_labelled():
    picture = compose(case("nChw8c"))
    first = [t.text for t in texts(picture) if t.size == 9.0 and t.anchor == "middle"]
    for n in range(2):
        for c in range(17):
            # One label per h and w, and the heads of the plane are no pairs.
            assert first.count(f"{n},{c}") >= 20


def test_the_path_joins_all_cells_of_the_plane():
    picture = compose(case("nChw8c"))
    dots = [item for item in picture.items if isinstance(item, Dot)]
    arrows = [item for item in picture.items if isinstance(item, Line) and item.arrow]
    assert len(dots) == 24 * 4
    assert len(arrows) == 1
    assert arrows[0].points[-1] == (dots[-1].x, dots[-1].y)


def test_chunks_are_framed_and_numbered():
    layout = case("crouton")
    picture = compose(layout)
    shown = {row.chunk for row in memory_view(layout).rows}
    heads = [t.text for t in texts(picture) if t.text.startswith("chunk ")]
    frames = [item for item in picture.items if isinstance(item, Box) and item.fill is None]
    numbers = sorted(chunk for chunk in shown if chunk is not None)
    assert heads == [f"chunk {k}: addresses {2048 * k} to {2048 * k + 2047}" for k in numbers]
    assert len(frames) == len(heads)


def test_a_sampled_picture_says_so():
    words = [t.text for t in texts(compose(case("crouton")))]
    assert any(text.startswith("sampled: ") for text in words)
    assert any("rows of chunks" in text and "left out" in text for text in words)


def test_negative_a_whole_picture_does_not():
    assert not any("sampled" in t.text or "left out" in t.text for t in texts(compose(case("nChw8c"))))


def test_pads_are_hatched_and_holes_are_not():
    halo = [item for item in compose(case("halo")).items if isinstance(item, Box)]
    # 3 planes of 7x6 of which 5x4 are elements, the plane below, and the legend.
    assert sum(box.hatched for box in halo) == 3 * (42 - 20) + (42 - 20) + 1
    sub = [item for item in compose(case("sub-tensor")).items if isinstance(item, Box)]
    assert not any(box.hatched for box in sub)


def test_remarks_tell_what_one_cannot_see():
    def remarks(name: str) -> str:
        return "; ".join(t.text for t in texts(compose(case(name))))

    assert "share an address" in remarks("broadcast")
    assert "swizzled" in remarks("swizzle")
    assert "place on lane" in remarks("places")
    assert "no elements" in remarks("empty")
    assert "share" not in remarks("nchw")


def test_elements_of_one_colour_share_the_index_that_colours():
    layout = case("nchw")
    row = memory_view(layout).rows[0]
    assert all(isinstance(cell.what, Index) and cell.what.index[1] == 0 for cell in row.cells)
    picture = compose(layout)
    fills = [item.fill for item in picture.items if isinstance(item, Box) and item.height == 28]
    assert len(set(fills[: len(row.cells)])) == 1
    assert len(set(fills)) == 16


def test_the_path_is_dashed_where_cells_are_left_out():
    picture = compose(case("huge"))
    solid = [
        item for item in picture.items if isinstance(item, Line) and not item.dashed and len(item.points) == 2
    ]
    lengths = {
        round(max(abs(a - c), abs(b - d)), 3) for line in solid for (a, b), (c, d) in pairwise(line.points)
    }
    # From cell to neighbour, across or down, and the ticks of the ruler; nothing reaches over a gap.
    assert len(lengths) <= 3


def test_addresses_below_zero_are_counted():
    words = [t.text for t in texts(compose(case("backwards")))]
    assert "shape 4x7, 28 addresses from -21 on: 28 elements" in words
