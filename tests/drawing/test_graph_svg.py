"""Graphs as SVG: everything is there, in its colour, and colours can be told apart."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

from layout_ir.drawing.drawn_graph import DrawnEdge, DrawnGraph, DrawnNode
from layout_ir.drawing.graph_svg import COPY, GROUND, HUES, Palette, graph_svg
from tests.drawing.graphs import SMALL, network
from tests.drawing.svg_reader import SVG

pytest.importorskip("fast_sugiyama", reason="needs the extra 'draw'")


def groups(document: str, attribute: str) -> dict[int, ElementTree.Element]:
    root = ElementTree.fromstring(document)
    return {int(g.get(attribute, "")): g for g in root.iter(f"{SVG}g") if g.get(attribute) is not None}


def texts(group: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in group.iter(f"{SVG}text")]


def title(group: ElementTree.Element) -> str:
    return group.findtext(f"{SVG}title") or ""


def test_every_node_and_edge_is_drawn_once():
    drawn = network(300)
    document = graph_svg(drawn)
    assert sorted(groups(document, "data-n")) == list(range(len(drawn.nodes)))
    assert sorted(groups(document, "data-e")) == list(range(len(drawn.edges)))


def test_copies_show_bytes_and_on_hover_their_reason():
    nodes = groups(graph_svg(SMALL), "data-n")
    big = nodes[SMALL.numbers["big"]]
    assert texts(big)[0] == "2.4 MB" and "nChw16c → nchw" in texts(big)
    assert "the resize needs rows of channels" in title(big) and "2.4 MB" in title(big)
    assert [number for number, node in nodes.items() if "copy" in (node.get("class") or "").split()] == [2, 5]


def test_values_of_one_format_have_one_style_and_others_another():
    styles: dict[str, set[str]] = {}
    for number, group in groups(graph_svg(SMALL), "data-e").items():
        styles.setdefault(SMALL.edges[number].layout, set()).add(group.get("class") or "")
    assert all(len(found) == 1 for found in styles.values())
    assert len({next(iter(found)) for found in styles.values()}) == len(styles) == 4


def test_the_legend_names_every_format_with_its_style():
    root = ElementTree.fromstring(graph_svg(SMALL))
    keys = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "key"]
    assert sorted(filter(None, keys)) == ["copy", "nChw16c", "nc", "nchw", "nhwc"]


def test_formats_beyond_the_styles_share_a_grey_line():
    count = 25
    nodes = tuple(DrawnNode(str(k), "op") for k in range(count + 1))
    drawn = DrawnGraph(nodes, tuple(DrawnEdge(str(k), str(k + 1), layout=f"l{k:02}") for k in range(count)))
    styles = [group.get("class") for _, group in sorted(groups(graph_svg(drawn), "data-e").items())]
    assert len(set(styles)) == 22 and len(set(styles[:21])) == 21 and len(set(styles[21:])) == 1


def test_negative_a_value_without_a_format_has_the_style_of_none():
    assert Palette.of([SMALL]).style("") == Palette.of([SMALL]).style("never seen") == "none"


STRANGE = [
    "</script><script>hacked = 1</script>",
    "\"'<&>]]>{{title}}<!--",
    "a" * 10_000,
    "nul\x00 escape\x1b surrogate\udcff not a character\uffff",
    "two\nlines\tand\rtabs",
    "名前" * 40,
    "\u202eleft",
]


@pytest.mark.parametrize("name", STRANGE)
def test_strange_names_stay_texts(name: str):
    drawn = DrawnGraph(
        (DrawnNode(name, name, "copy", name, name, 1, name), DrawnNode("b", name, "op", name)),
        (DrawnEdge(name, "b", name, name, name, name),),
    )
    document = graph_svg(drawn)
    document.encode("utf-8")
    root = ElementTree.fromstring(document)
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds <= {"svg", "style", "rect", "g", "path", "text", "title"}
    for text in root.iter(f"{SVG}text"):
        assert len(text.text or "") <= 60 and "\n" not in (text.text or "")


def test_of_a_long_name_the_end_is_shown():
    name = "/model/features/features.0/conv/conv.1/Conv"
    (node,) = groups(graph_svg(DrawnGraph((DrawnNode("a", "Conv", name=name),))), "data-n").values()
    shown = texts(node)[1]
    assert shown.startswith("…") and name.endswith(shown[1:]) and len(shown) > 20
    assert name in title(node)


# Colours ---------------------------------------------------------------------------------------------------------

VISION = {
    "normal": np.eye(3),
    "without red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "without green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "without blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""How linear RGB looks, after Machado, Oliveira and Fernandes, 2009 (severity 1)."""

XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colour: str) -> NDArray[np.float64]:
    values = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    t = XYZ @ np.clip(rgb, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("ground", [0, 1])
@pytest.mark.parametrize("vision", VISION)
def test_hues_can_be_told_apart(vision: str, ground: int):
    colours = [pair[ground] for pair in (*HUES, COPY)]
    seen = [lab(VISION[vision] @ linear(colour)) for colour in colours]
    # 2.3 is just noticeable; what is called another colour begins at about 10.
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > (
        12 if vision == "without blue" else 18
    )


@pytest.mark.parametrize("ground", [0, 1])
def test_hues_stand_out_from_the_ground(ground: int):
    def luminance(colour: str) -> float:
        return float(XYZ[1] @ linear(colour))

    for pair in (*HUES, COPY):
        low, high = sorted((luminance(pair[ground]), luminance(GROUND[ground])))
        assert (high + 0.05) / (low + 0.05) > 2.9, pair[ground]


def test_the_style_sheet_has_a_rule_for_every_style():
    document = graph_svg(network(40))
    used = {name for found in re.findall(r'class="e ([a-z0-9]+)"', document) for name in found.split()}
    assert used and all(f".graph .{name} path" in document for name in used)
