"""Layouts that the tests of drawing look at: one of every kind that a picture treats in its own way."""

from __future__ import annotations

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout

CASES: dict[str, tuple[str, tuple[int, ...]]] = {
    "scalar": ("() : []", ()),
    "vector": ("(a) : [a]", (70,)),
    "prime": ("(a, b) : [a, b]", (3, 97)),
    "empty": ("nchw", (2, 0, 5, 4)),
    "one element": ("nchw", (1, 1, 1, 1)),
    "nchw": ("nchw", (2, 16, 5, 4)),
    "chwn": ("chwn", (2, 16, 5, 4)),
    "nChw8c": ("nChw8c", (2, 17, 5, 4)),
    "weights": ("OIhw4i16o4i", (20, 18, 3, 2)),
    "rank 6": ("abcdef", (2, 3, 2, 3, 2, 3)),
    "sub-tensor": ("(n, c, h, w) : [n, c*64, h*8, w], offset = 19", (2, 16, 5, 4)),
    "backwards": ("(a, b) : [a, b*-1], offset = 6", (4, 7)),
    "halo": ("(n, c, h, w) : [n, c, h:7, w:6], pad = zp, lo = [0, 0, 1, 1]", (1, 3, 5, 4)),
    "broadcast": ("(a, b) : [a*0, b]", (4, 6)),
    "swizzle": ("(a, b) : [a, b], swizzle = (2, 1, 3)", (8, 16)),
    "places": ("(a, b) : [a, b, b:8@lane]", (6, 16)),
    "crouton": ("(n, h, w, c) : [n, h, w, c | h:8, w:8, c:32], pad = 31", (2, 9, 20, 50)),
    "crouton 2x2": ("(n, h, w, c) : [n, h, w, c | h:4, w:4, c:32, h:2, w:2]", (1, 3, 5, 30)),
    "small chunks": ("(a, b) : [a, b | a:2, b:3]", (5, 7)),
    "huge": ("nChw16c", (1 << 12, 1 << 12, 1 << 12, 1000)),
    "trailing": ("(n, h, c, w, v) : [n, h*64, c, w, v], size = 320", (1, 5, 2, 7, 4)),
}


def case(name: str) -> Layout:
    text, shape = CASES[name]
    return Format.of(text).bind(shape)
