"""The formats that programs use, by number, and what pads in them hold after the ops of `nn` that programs use."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from xdsl.ir import Operation

from layout_ir.algebra.format import Format
from layout_ir.dialects import nn

SHAPE = (3, 5)
ANY = "tensor<3x5xf32, #layout.any>"
MAPS = (
    *("[a, b]", "[b, a]", "[a, b, b:4]", "[b, a, a:2]", "[a, b, b:8]", "[b, a, b:2]"),
    *("[a, b, b:2]", "[a, b, b:3]", "[a, b, a:2]", "[b, a, b:3]", "[b, a, b:4]"),
    *("[a, b, a:2, b:2]", "[a, b, b:2, a:2]", "[b, a, a:2, b:2]", "[b, a, b:2, a:2]"),
    *("[a, b, a:2, b:3]", "[a, b, b:3, a:2]", "[b, a, a:2, b:3]", "[b, a, b:3, a:2]"),
    *("[a, b, a:2, b:4]", "[a, b, b:4, a:2]", "[b, a, a:2, b:4]", "[b, a, b:4, a:2]"),
)
FEW = 6
"""The maps that small programs use."""

SAME = {4: 2, 7: 6, 16: 12}
"""Spellings of the same bytes at this shape: one format."""
FUNCTIONS: dict[type[Operation], Callable[..., Any]] = {
    nn.ReluOp: partial(np.maximum, 0.0),
    nn.NegOp: np.negative,
    nn.ExpOp: np.exp,
    nn.AddOp: np.add,
    nn.SubOp: np.subtract,
    nn.MulOp: np.multiply,
}

PadValue = float | None
"""What pads hold; None: anything."""
State = tuple[int, PadValue]
"""A map, by its number in MAPS, and what the pads hold."""

_FORMATS = [Format.parse(f"(a, b) : {text}") for text in MAPS]
PADDED = [fmt.bind(SHAPE).padded_shape != SHAPE for fmt in _FORMATS]
"""Whether a map has pads at this shape."""


def format_body(map: int, held: PadValue = None) -> str:
    pad = "" if held is None else f", pad = {held:g}"
    return f"(a, b) : {MAPS[map]}{pad}"


def format_text(map: int, held: PadValue = None) -> str:
    return f"#layout.format<{format_body(map, held)}>"


def typed(map: int, held: PadValue) -> str:
    """The type of a tensor that lies in this format."""
    return f"tensor<3x5xf32, {format_text(map, held)}>"


@lru_cache(maxsize=256)
def _addresses(fmt: Format) -> bytes:
    return fmt.bind(SHAPE).addresses().tobytes()


def map_of(fmt: Format) -> int:
    """The number of the map that puts every element where `fmt` does."""
    return next(k for k in range(len(MAPS)) if _addresses(_FORMATS[k]) == _addresses(fmt))


def state_of(fmt: Format) -> State:
    known = map_of(fmt)
    held = {"undef": None, "zero": 0.0}.get(fmt.pad, fmt.pad) if isinstance(fmt.pad, str) else float(fmt.pad)
    return known, held if PADDED[known] else None  # pyright: ignore
