"""Reads the memory view of a picture back from its SVG, by where things stand, as an eye does.

It shares nothing with what draws: boxes and texts are found in the XML; a number at the left of a row is the address of
its first cell, the lines of text inside a cell are an index, a hatched cell is a pad and an outlined one a hole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Rectangle:
    """A filled or outlined box, in pixels."""

    x: float
    y: float
    width: float
    height: float

    def holds(self, x: float, y: float) -> bool:
        return self.x <= x <= self.x + self.width and self.y <= y <= self.y + self.height


@dataclass(frozen=True)
class Label:
    """A text, its size and anchor, and where its baseline begins, ends or has its middle."""

    x: float
    y: float
    text: str
    size: float
    anchor: str


@dataclass(frozen=True)
class DrawnCell:
    """What a cell says: the index that is written in it, or that it is hatched (a pad) or empty (a hole)."""

    kind: Literal["element", "pad", "hole"]
    index: tuple[int, ...] | None = None


def read_memory(document: str) -> dict[int, DrawnCell]:
    """What the cells of the memory view say, by address. Asserts that no address is drawn twice."""
    root = ElementTree.fromstring(document)
    boxes = [(path, box) for path in root.iter(f"{SVG}path") for box in _rectangles(path)]
    hatched = {box for path, box in boxes if path.get("fill") == "url(#pad)"}
    filled = [box for path, box in boxes if path.get("fill") not in ("none", "url(#pad)")]
    outlined = {box for path, box in boxes if path.get("stroke") is not None}
    labels = _labels(root)
    cells: dict[int, DrawnCell] = {}
    for label in labels:
        if label.anchor != "end" or label.size != 10 or not re.fullmatch(r"-?\d+", label.text):
            continue
        row = [box for box in filled if box.x > label.x and box.y <= label.y <= box.y + box.height]
        for column, box in enumerate(sorted(row, key=lambda box: box.x)):
            inside = sorted((text for text in labels if box.holds(text.x, text.y)), key=lambda text: text.y)
            assert int(label.text) + column not in cells
            cells[int(label.text) + column] = _cell(box, [text.text for text in inside], hatched, outlined)
    return cells


def _cell(box: Rectangle, lines: list[str], hatched: set[Rectangle], outlined: set[Rectangle]) -> DrawnCell:
    if box in hatched or box in outlined:
        assert not lines, f"{lines} stands in a cell that holds no element"
        return DrawnCell("pad" if box in hatched else "hole")
    numbers = ",".join(lines)
    return DrawnCell("element", () if numbers == "()" else tuple(map(int, numbers.split(","))))


def _rectangles(path: ElementTree.Element) -> list[Rectangle]:
    found = re.findall(r"M(\S+) (\S+)h([\d.]+)v([\d.]+)h-[\d.]+z", path.get("d", ""))
    return [Rectangle(*map(float, numbers)) for numbers in found]


def _labels(root: ElementTree.Element) -> list[Label]:
    result: list[Label] = []
    for group in root.iter(f"{SVG}g"):
        for text in group.findall(f"{SVG}text"):
            x, y = float(text.get("x", "")), float(text.get("y", ""))
            result.append(
                Label(
                    x,
                    y,
                    text.text or "",
                    float(group.get("font-size", "0")),
                    group.get("text-anchor", "start"),
                )
            )
    return result
