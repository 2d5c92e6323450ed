"""PNG: the same picture in dots."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from layout_ir.drawing.compose import compose
from layout_ir.drawing.picture import Box, Picture, Text
from layout_ir.drawing.png import to_png
from layout_ir.errors import LayoutError
from tests.drawing.cases import CASES, case

Image: Any = pytest.importorskip("PIL.Image", reason="needs the extra 'draw'")


def dots(picture: Picture, scale: int = 1) -> Any:
    return Image.open(io.BytesIO(to_png(picture, scale=scale))).convert("RGB")


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_the_sheet_is_scaled(scale: int):
    picture = Picture("t", "d", 40, 30)
    assert dots(picture, scale).size == (40 * scale, 30 * scale)


def test_boxes_are_where_they_should_be():
    picture = Picture("t", "d", 40, 30)
    picture.add(Box(10, 5, 20, 10, "#ff0000"))
    image = dots(picture)
    assert [image.getpixel(p) for p in ((10, 5), (29, 14))] == [(255, 0, 0)] * 2
    assert [image.getpixel(p) for p in ((9, 5), (30, 14), (10, 15), (10, 4))] == [(255, 255, 255)] * 4


def test_hatching_stays_inside_its_box():
    picture = Picture("t", "d", 60, 60)
    picture.add(Box(10, 20, 30, 15, "#ffffff", hatched=True))
    image = dots(picture, 2)
    dark = [(x, y) for x in range(120) for y in range(120) if image.getpixel((x, y)) != (255, 255, 255)]
    assert len(dark) > 100
    assert all(20 <= x < 80 and 40 <= y < 70 for x, y in dark)


@pytest.mark.parametrize("name", CASES)
def test_texts_are_no_wider_than_the_picture_reckons(name: str):
    from PIL import ImageFont

    for item in compose(case(name)).items:
        if isinstance(item, Text):
            font = ImageFont.load_default(item.size * 2)
            assert font.getlength(item.text) <= 2 * item.width + 2, (
                item
            )  # one pixel, between texts 2 or more apart


def test_texts_leave_dots():
    picture = Picture("t", "d", 60, 20)
    picture.add(Text(5, 15, "1,16", 10, colour="#000000"))
    image = dots(picture, 2)
    columns = {x for x in range(120) for y in range(40) if image.getpixel((x, y)) != (255, 255, 255)}
    assert 8 <= min(columns) <= 14 and 40 <= max(columns) <= 70


def test_negative_without_pillow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(LayoutError, match=r"extra 'draw': pip install 'layout-ir\[draw\]'"):
        to_png(Picture("t", "d", 10, 10))
