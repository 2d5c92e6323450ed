"""pack and unpack are free where the unpacked tensor lies in tiles; pads of partial tiles are what they have to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.api.program_text import parse_program
from layout_ir.dialects.layout import ReorderOp, format_of
from layout_ir.dialects.upstream.linalg_relayout import RelayoutOp
from layout_ir.passes.selection.options.foreign.relayout_options import (
    packed_image,
    relayout_options,
    unpacked_image,
)
from layout_ir.passes.selection.options.targets import target_named

PACK = """
func.func @f(%x : tensor<{n}x8xf32>, %p : f32) -> tensor<2x8x32xf32> {{
  %c = arith.constant 3.0 : f32
  %d = tensor.empty() : tensor<2x8x32xf32>
  %r = linalg.pack %x padding_value({value} : f32) inner_dims_pos = [0] inner_tiles = [32] into %d
    : tensor<{n}x8xf32> -> tensor<2x8x32xf32>
  func.return %r : tensor<2x8x32xf32>
}}"""


def _pack(n: int, value: str = "%c") -> RelayoutOp:
    module = parse_program(PACK.format(n=n, value=value), "program.mlir")
    return next(op for op in module.walk() if isinstance(op, RelayoutOp))


def _options(op: RelayoutOp, *given: str) -> dict[tuple[Format, Format], int]:
    """Cost per Formats of source and result, where tensors of their rank are offered in `given`."""
    formats = [Format.of(text) for text in given]

    def candidates(value: Any) -> list[Format]:
        return [fmt for fmt in formats if fmt.rank == len(value.type.get_shape())]

    found = relayout_options(op, candidates, target_named("blocked8"))
    return {(option.ins[0], option.outs[0]): option.cost for option in found if option.ins[0] is not None}


def test_in_tiles_it_is_free_and_from_rows_a_copy():
    options = _options(_pack(60))
    rows, packed = Format.of("(a, b) : [a, b]"), Format.of("(a, b, c) : [a, b, c]")
    assert options.pop((Format.of("(a, b) : [a, b, a:32]"), packed)) == 0
    assert options.pop((rows, packed)) > 0
    assert not options


def test_an_order_that_one_side_asks_for_is_taken_to_the_other():
    moved = (Format.of("(a, b) : [b, a, a:32]"), Format.of("(a, b, c) : [b, a, c]"))
    assert _options(_pack(60), str(moved[0]))[moved] == 0
    assert _options(_pack(60), str(moved[1]))[moved] == 0


def test_negative_other_tiles_are_no_relabelling():
    op = _pack(60)
    assert packed_image(op, Format.of("(a, b) : [a, b, a:16]")) is None
    assert unpacked_image(op, Format.of("(a, b, c) : [a, b, c, a:2]")) is None
    assert unpacked_image(op, Format.of("(a, b, c) : [c, b, a]")) is None


@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.parametrize("target", ["blocked8", "avx2"])
def test_truth_values_fill_a_partial_tile(value: str, target: str):
    module = parse_program(
        f"""func.func @main(%x: tensor<5xi1>) -> tensor<2x4xi1> {{
          %k = arith.constant {value}
          %e = tensor.empty() : tensor<2x4xi1>
          %p = linalg.pack %x padding_value(%k : i1) inner_dims_pos = [0] inner_tiles = [4] into %e
            : tensor<5xi1> -> tensor<2x4xi1>
          func.return %p : tensor<2x4xi1>
        }}""",
        "program.mlir",
    )
    x = np.array([True, False, True, True, False])
    rest = np.full(3, value == "true")
    li.open_layouts(module)
    li.optimize(module, target)
    for made in (module, li.to_mlir(module)):
        (found,) = li.run(made, [x])
        np.testing.assert_array_equal(found, np.concatenate([x, rest]).reshape(2, 4))


def test_negative_pads_of_unknown_value_are_no_partial_tile():
    free = Format.of("(a, b) : [a, b, a:32]"), Format.of("(a, b, c) : [a, b, c]")
    assert free not in _options(_pack(60, "%p"))
    assert free in _options(_pack(64, "%p"))  # no pads


# Pads ----------------------------------------------------------------------------------------------------------------

BODIES: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "divsi": ("i32", "%r = arith.divsi %h, %u : {t}", lambda x: 100 // x),
    "divui": ("i32", "%r = arith.divui %h, %u : {t}", lambda x: 100 // x),
    "remsi": ("i32", "%r = arith.remsi %h, %u : {t}", lambda x: 100 % x),
    "remui": ("i32", "%r = arith.remui %h, %u : {t}", lambda x: 100 % x),
    "ceildivui": ("i32", "%r = arith.ceildivui %h, %u : {t}", lambda x: -(-100 // x)),
    "shift by pads": ("i32", "%r = arith.shli %h, %u : {t}", lambda x: 100 << x),
    "shift right by pads": ("i32", "%r = arith.shrsi %h, %u : {t}", lambda x: 100 >> x),
    "divf": ("f32", "%r = arith.divf %h, %u : {t}", lambda x: 100 / x),
    "log": ("f32", "%r = math.log %u : {t}", np.log),
    "rsqrt": ("f32", "%r = math.rsqrt %u : {t}", lambda x: 1 / np.sqrt(x)),
    "named division": (
        "i32",
        "%r = linalg.div_unsigned ins(%h, %u : {t}, {t}) outs(%e : {t}) -> {t}",
        lambda x: 100 // x,
    ),
}


def _unary(name: str, *, packed: bool) -> str:
    """100 op unpack(p), packed again or not; 60 of 64 rows are elements."""
    element, body, _ = BODIES[name]
    there, t = f"tensor<2x8x32x{element}>", f"tensor<60x8x{element}>"
    hundred, padding = ("100.0", "9.0") if element == "f32" else ("100", "9")
    result, back = (there, "%q") if packed else (t, "%r")
    again = f"""
  %c = arith.constant {padding} : {element}
  %d = tensor.empty() : {there}
  %q = linalg.pack %r padding_value(%c : {element}) inner_dims_pos = [0] inner_tiles = [32] into %d : {t} -> {there}"""
    return f"""
func.func @f(%p : {there}) -> {result} {{
  %e = tensor.empty() : {t}
  %h = arith.constant dense<{hundred}> : {t}
  %u = linalg.unpack %p inner_dims_pos = [0] inner_tiles = [32] into %e : {there} -> {t}
  {body.format(t=t)}{again if packed else ""}
  func.return {back} : {result}
}}"""


def _tiles(element: str, inside: Any, pads: Any) -> np.ndarray[Any, Any]:
    """2x8x32 tiles of 60 rows that hold `inside`; `pads` stands behind them."""
    kind = np.float32 if element == "f32" else np.int32
    rows = np.full((64, 8), pads, kind)
    rows[:60] = inside
    return rows.reshape(2, 32, 8).transpose(0, 2, 1).copy()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("target", ["blocked8", "channels-last"])
@pytest.mark.parametrize("name", BODIES)
def test_pads_of_tiles_end_no_program_and_reach_no_element(name: str, target: str, packed: bool):
    element, _, compute = BODIES[name]
    module = parse_program(_unary(name, packed=packed), "program.mlir")
    li.open_layouts(module)
    li.optimize(module, target)
    module.verify()
    rows = 1 + np.arange(60 * 8).reshape(60, 8) % 7
    # What pads hold is nobody's: zero divides, a negative number has no logarithm, 200 shifts too far.
    for pads in (0, -1, 200):
        (got,) = li.run(module, [_tiles(element, rows, pads)], entry="f", reorders="reference")
        want = compute(rows)
        np.testing.assert_allclose(got, _tiles(element, want, 9) if packed else want, rtol=1e-5)


def test_a_hundred_by_ones_prints_a_hundred_everywhere():
    module = parse_program(_unary("divsi", packed=False), "program.mlir")
    li.open_layouts(module)
    li.optimize(module, "blocked8")
    (got,) = li.run(module, [_tiles("i32", 1, 0)], entry="f", reorders="reference")
    np.testing.assert_array_equal(got, np.full((60, 8), 100))


@pytest.mark.parametrize(
    ("reduction", "worst"), [("maximumf", 1000.0), ("minimumf", -1000.0), ("addf", 1000.0)]
)
def test_a_reduction_over_partial_tiles_does_not_see_their_pads(reduction: str, worst: float):
    start = {"maximumf": "0xFF800000", "minimumf": "0x7F800000", "addf": "0.0"}[reduction]
    module = parse_program(
        f"""
func.func @f(%p : tensor<2x8x32xf32>) -> tensor<8xf32> {{
  %e = tensor.empty() : tensor<60x8xf32>
  %u = linalg.unpack %p inner_dims_pos = [0] inner_tiles = [32] into %e : tensor<2x8x32xf32> -> tensor<60x8xf32>
  %c = arith.constant {start} : f32
  %s = tensor.empty() : tensor<8xf32>
  %z = linalg.fill ins(%c : f32) outs(%s : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.reduce {{ arith.{reduction} }} ins(%u : tensor<60x8xf32>) outs(%z : tensor<8xf32>) dimensions = [0]
  func.return %r : tensor<8xf32>
}}""",
        "program.mlir",
    )
    li.open_layouts(module)
    li.optimize(module, "blocked8")
    rows = -1.0 - np.arange(60 * 8, dtype=np.float32).reshape(60, 8)
    (got,) = li.run(module, [_tiles("f32", rows, worst)], entry="f", reorders="reference")
    want = {"maximumf": rows.max(0), "minimumf": rows.min(0), "addf": rows.sum(0)}[reduction]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_what_is_packed_for_an_op_in_tiles_is_not_copied():
    module = parse_program(
        """
func.func @f(%p : tensor<2x8x32xf32>) -> tensor<2x8x32xf32> {
  %e = tensor.empty() : tensor<64x8xf32>
  %u = linalg.unpack %p inner_dims_pos = [0] inner_tiles = [32] into %e : tensor<2x8x32xf32> -> tensor<64x8xf32>
  %r = math.exp %u : tensor<64x8xf32>
  %d = tensor.empty() : tensor<2x8x32xf32>
  %q = linalg.pack %r inner_dims_pos = [0] inner_tiles = [32] into %d : tensor<64x8xf32> -> tensor<2x8x32xf32>
  func.return %q : tensor<2x8x32xf32>
}""",
        "program.mlir",
    )
    li.open_layouts(module)
    solution = li.optimize(module, "blocked8")
    assert solution is not None
    assert not any(isinstance(op, ReorderOp) for op in module.walk())
    tiled = Format.of("(a, b) : [a, b, a:32]")
    for op in module.walk():
        if isinstance(op, RelayoutOp):
            assert format_without_pad(op.unpacked_type) == tiled


def format_without_pad(type: Any) -> Format | None:
    """The Format of a tensor type, without what it says of pads."""
    fmt = format_of(type)
    return None if fmt is None else fmt.with_pad("undef")
