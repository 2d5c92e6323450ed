"""Graphs to draw, and the texts in them."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_ir.drawing.drawn_graph import DrawnEdge, DrawnGraph, DrawnNode, bytes_text, printable
from tests.drawing.graphs import SMALL


def test_copies_come_by_their_bytes():
    assert [node.id for node in SMALL.copies] == ["big", "small"]
    unknown = DrawnNode("unknown", "reorder", "copy")
    assert [node.id for node in DrawnGraph((unknown, *SMALL.nodes)).copies] == ["big", "small", "unknown"]


def test_ends_are_places_of_nodes():
    assert [(SMALL.nodes[a].id, SMALL.nodes[b].id) for a, b in SMALL.ends] == [
        (edge.source, edge.target) for edge in SMALL.edges
    ]


def test_negative_an_id_that_stands_twice():
    with pytest.raises(ValueError, match="two nodes have the id 'a'"):
        DrawnGraph((DrawnNode("a", "x"), DrawnNode("b", "x"), DrawnNode("a", "y")))


def test_negative_an_edge_to_a_node_that_is_not_there():
    with pytest.raises(ValueError, match="'a' -> 'b': no node has the id 'b'"):
        DrawnGraph((DrawnNode("a", "x"),), (DrawnEdge("a", "b"),))


@given(st.text(st.characters(codec=None), max_size=50))
def test_printable_text_can_be_written_as_xml_and_utf8(text: str):
    shown = printable(text)
    shown.encode("utf-8")
    read = ElementTree.fromstring(f"<t>{escape(shown)}</t>").text or ""
    assert read == shown.replace("\r\n", "\n").replace("\r", "\n")
    assert len(shown) == len(text)


def test_negative_printable_leaves_what_can_be_written():
    text = "layer/1 <&> \"'\t\n ü 漢 😀"
    assert printable(text) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (2_400_000, "2.4 MB"),
        (3 * 10**9, "3.0 GB"),
        (None, "? B"),
    ],
)
def test_bytes_have_a_unit(nbytes: int | None, text: str):
    assert bytes_text(nbytes) == text
