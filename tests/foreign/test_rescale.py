"""tosa.rescale per channel computes what TOSA's specification says, in whole numbers, in every format."""

from __future__ import annotations

import numpy as np
import pytest

import layout_ir as li
from layout_ir.elements.numpy_types import Array
from layout_ir.foreign.rescale import rescale_body
from layout_ir.foreign.structured import structured

MULTIPLIERS = (1073741824, 1518500250, 2000000000)
SHIFTS = (33, 31, 38)
WIDTHS = {"i8": 8, "i16": 16, "i32": 32}


def program(
    source: str, result: str, mode: str, signs: tuple[bool, bool], fmt: str = "#layout.tag<abcd>", **more: str
) -> str:
    """A rescale of 2x5x4x3 between two reorders; the zero points of i8 are 3, all others 0."""
    flags = {"per_channel": "true", "scale32": "true", "rounding_mode": mode, **more}
    flags |= {
        name: str(sign).lower()
        for name, sign in zip(("input_unsigned", "output_unsigned"), signs, strict=True)
    }
    text = ", ".join(f"{name} = {value}" for name, value in flags.items())
    x, y = (f"tensor<2x5x4x3x{dtype}, {fmt}>" for dtype in (source, result))
    open_x, open_y = (f"tensor<2x5x4x3x{dtype}, #layout.any>" for dtype in (source, result))
    return f"""
    func.func @main(%x: {x}) -> {y} {{
      %m = "tosa.const"() <{{values = dense<{list(MULTIPLIERS)}> : tensor<3xi32>}}> : () -> tensor<3xi32>
      %s = "tosa.const"() <{{values = dense<{list(SHIFTS)}> : tensor<3xi8>}}> : () -> tensor<3xi8>
      %i = "tosa.const"() <{{values = dense<{_zero(source)}> : tensor<1x{source}>}}> : () -> tensor<1x{source}>
      %o = "tosa.const"() <{{values = dense<{_zero(result)}> : tensor<1x{result}>}}> : () -> tensor<1x{result}>
      %a = layout.reorder %x : {x} -> {open_x}
      %r = tosa.rescale %a, %m, %s, %i, %o {{{text}}} : ({open_x}, tensor<3xi32>, tensor<3xi8>, tensor<1x{source}>,
        tensor<1x{result}>) -> {open_y}
      %y = layout.reorder %r : {open_y} -> {y}
      func.return %y : {y}
    }}"""


def _zero(dtype: str) -> int:
    return 3 if dtype == "i8" else 0


def specified(x: int, channel: int, source: str, result: str, mode: str, signs: tuple[bool, bool]) -> int:
    """The bits of one element, from TOSA's apply_scale_32, as a signed number."""
    width = WIDTHS[result]
    value = (x % (1 << WIDTHS[source]) if signs[0] else x) - _zero(source)
    shift = SHIFTS[channel]
    total = value * MULTIPLIERS[channel] + (1 << (shift - 1))
    if mode == "DOUBLE_ROUND" and shift > 31:
        total += (1 << 30) if value >= 0 else -(1 << 30)
    low, high = (0, (1 << width) - 1) if signs[1] else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    found = min(max((total >> shift) + _zero(result), low), high)
    return (found + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))


def operand(source: str) -> Array:
    """Elements of all magnitudes, the least and the greatest among them, but none that overflows 32 bits scaled."""
    width = min(WIDTHS[source], 30)
    draw = np.random.default_rng(0).integers(-(1 << (width - 1)), 1 << (width - 1), (2, 5, 4, 3))
    draw.reshape(-1)[:7] = (-(1 << (width - 1)), (1 << (width - 1)) - 1, 0, 1, -1, 2, -2)
    return draw.astype(f"int{WIDTHS[source]}")


@pytest.mark.parametrize("mode", ["SINGLE_ROUND", "DOUBLE_ROUND", "INEXACT_ROUND"])
@pytest.mark.parametrize(("source", "result"), [("i32", "i8"), ("i8", "i32"), ("i16", "i8"), ("i8", "i8")])
def test_each_element_is_scaled_rounded_and_clamped_as_specified(source: str, result: str, mode: str):
    x = operand(source)
    unsigned = [(False, True) if dtype != "i32" else (False,) for dtype in (source, result)]
    for signs in ((first, last) for first in unsigned[0] for last in unsigned[1]):
        module = li.parse(program(source, result, mode, signs))
        (found,) = li.run(module, [x])
        expected = [
            specified(int(e), k % 3, source, result, mode, signs) for k, e in enumerate(x.reshape(-1))
        ]
        assert np.array_equal(found.reshape(-1), expected), signs


FORMATS = ("[n, c, h, w]", "[c, w, n, h]", "[n, c, h, w, c:2]", "[n, c, w, h, w:2], pad = 1")


@pytest.mark.parametrize("fmt", FORMATS)
def test_it_takes_the_format_that_reaches_it(fmt: str):
    text = program("i32", "i8", "DOUBLE_ROUND", (False, False), f"#layout.format<(n, h, w, c) : {fmt}>")
    module, x = li.parse(text), operand("i32")
    (before,) = li.run(module, [x])
    li.optimize(module, "blocked8")
    assert not any(op.name == "layout.reorder" for op in module.walk())
    assert np.array_equal(li.run(module, [x])[0], before)
    assert "tosa.rescale" not in {op.name for op in li.to_mlir(module).walk()}


def test_alike_ops_share_one_body():
    module = li.parse(program("i32", "i8", "SINGLE_ROUND", (False, False)))
    (op,) = [op for op in module.walk() if op.name == "tosa.rescale"]
    assert rescale_body(op) is rescale_body(op.clone()) is not None


def test_negative_there_are_no_unsigned_numbers_of_32_bits():
    module = li.parse(program("i8", "i32", "SINGLE_ROUND", (False, True)))
    (op,) = [op for op in module.walk() if op.name == "tosa.rescale"]
    assert structured(op) is None


@pytest.mark.parametrize("more", [{"per_channel": "false"}, {}])
def test_negative_what_is_not_per_channel_or_not_of_integers_is_no_loops(more: dict[str, str]):
    text = program("i32", "i8" if more else "f32", "SINGLE_ROUND", (False, False), **more).replace(
        "dense<3> : tensor<1xf32>", "dense<3.0> : tensor<1xf32>"
    )
    module = li.parse(text.replace("dense<[1073741824, 1518500250, 2000000000]>", "dense<[1, 2, 3]>"))
    (op,) = [op for op in module.walk() if op.name == "tosa.rescale"]
    assert structured(op) is None
