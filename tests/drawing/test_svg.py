"""SVG: a document that a reader of XML understands, with every item of the picture."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from layout_ir.drawing.compose import compose
from layout_ir.drawing.picture import Box, Dot, Line, Picture, Text
from layout_ir.drawing.svg import to_svg
from tests.drawing.cases import CASES, case

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", CASES)
def test_every_text_and_dot_of_the_picture_is_there(name: str):
    picture = compose(case(name))
    root = ElementTree.fromstring(to_svg(picture))
    written = sorted(str(element.text) for element in root.iter(f"{SVG}text"))
    assert written == sorted(item.text for item in picture.items if isinstance(item, Text))
    assert len(list(root.iter(f"{SVG}circle"))) == sum(isinstance(item, Dot) for item in picture.items)


def test_boxes_of_one_style_share_a_path():
    picture = Picture("t", "d", 100, 100)
    picture.add(
        Box(0, 0, 10, 10, "#ff0000"),
        Box(20, 0.5, 10, 10, "#ff0000"),
        Box(0, 20, 5, 5, "#00ff00", hatched=True),
    )
    root = ElementTree.fromstring(to_svg(picture))
    paths = [(p.get("fill"), p.get("d")) for p in root.iter(f"{SVG}path") if p.get("fill")]
    assert paths == [
        ("#ff0000", "M0 0h10v10h-10zM20 0.5h10v10h-10z"),
        ("#00ff00", "M0 20h5v5h-5z"),
        ("url(#pad)", "M0 20h5v5h-5z"),
    ]


def test_texts_are_painted_last():
    picture = Picture("t", "d", 100, 100)
    picture.add(Text(1, 1, "word"), Line(((0, 0), (9, 9)), "#000000"), Box(0, 0, 9, 9, "#ffffff"))
    document = to_svg(picture)
    assert document.index("<text") > document.index('stroke="#000000"') > document.index('d="M0 0h9')


def test_a_line_with_an_arrow_ends_in_a_head():
    picture = Picture("t", "d", 100, 100)
    picture.add(Line(((0, 0), (50, 0)), "#000000", arrow=True))
    (head,) = ElementTree.fromstring(to_svg(picture)).iter(f"{SVG}polygon")
    assert head.get("points") == "54,0 45,3.4 45,-3.4"


def test_signs_of_xml_in_names_are_escaped():
    name = 'htp:ChunkedMemoryLayout<2, 0,0, 1,0> & "x"'
    root = ElementTree.fromstring(to_svg(compose(case("vector"), name)))
    assert root.findtext(f"{SVG}title") == name
