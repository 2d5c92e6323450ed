"""Programs with ops of other dialects between convolutions: whatever layouts are chosen, they compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.algebra.format import Format
from layout_ir.api.execute import run
from layout_ir.dialects.layout import FillPadsOp, ReorderOp, format_of, is_any, is_tensor, layout_of
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.selection.costs.cost_table import parse_costs
from layout_ir.passes.strip import strip
from layout_ir.printing import print_module
from tests.passes.selection.options.foreign.ops import generic
from tests.programs import TARGETS, parse

SHAPE, LARGE = (1, 17, 5, 4), (1, 32, 56, 56)

Array = np.ndarray[Any, Any]


def _types(n: int, c: int, h: int, w: int) -> str:
    """Names of the types of a program: !F is row-major, all others are open."""
    shapes = {
        "T": (n, c, h, w),
        "K": (c, c, 3, 3),
        "Last": (n, h, w, c),
        "Flat": (n, c, h * w),
        "One": (1, 1, 1, 1),
        "Plane": (n, 1, h, w),
        "Two": (n, c, 2, w),
        "Three": (n, c, 3, w),
    }
    row_major = f"!F = tensor<{n}x{c}x{h}x{w}xf32>\n"
    lines = (f"!{k} = tensor<{'x'.join(map(str, v))}xf32, #layout.any>\n" for k, v in shapes.items())
    return row_major + "".join(lines)


def _program(between: str, shape: tuple[int, int, int, int] = SHAPE) -> ModuleOp:
    """`between`, which makes %s from %c, between two convolutions."""
    return parse(f"""
{_types(*shape)}
func.func @main(%x : !F) -> !F {{
  %i = layout.reorder %x : !F -> !T
  %w = nn.constant dense<0.03> : !K
  %c = nn.conv %i, %w pads = [1, 1, 1, 1] : (!T, !K) -> !T
  {between}
  %v = nn.constant dense<0.03> : !K
  %r = nn.conv %s, %v pads = [1, 1, 1, 1] : (!T, !K) -> !T
  %out = layout.reorder %r : !T -> !F
  func.return %out : !F
}}""")


def _conv(x: Array) -> Array:
    """Every output channel is the sum of all inputs over 3x3 windows, times 0.03."""
    padded = np.pad(x.sum(axis=1), ((0, 0), (1, 1), (1, 1)))
    total = np.sum([padded[:, i : i + 5, j : j + 4] for i in range(3) for j in range(3)], axis=0)
    return np.repeat(total[:, None], 17, axis=1) * 0.03


def _cut(name: str, type: str, start: int, count: int) -> str:
    """%`name` is `count` rows of %c from row `start` on."""
    return (
        f'%{name} = "tensor.extract_slice"(%c) <{{static_offsets = array<i64: 0, 0, {start}, 0>, '
        f"static_sizes = array<i64: 1, 17, {count}, 4>, static_strides = array<i64: 1, 1, 1, 1>, "
        f"operandSegmentSizes = array<i32: 1, 0, 0, 0>}}> : (!T) -> !{type}\n"
    )


BETWEEN: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "arith": ("%s = arith.addf %c, %c : !T", lambda x: x + x),
    "math": ("%s = math.exp %c : !T", np.exp),
    "tosa": ("%s = tosa.cos %c : (!T) -> !T", np.cos),
    "tosa with a broadcast": (
        """%k = "tosa.const"() {values = dense<2.0> : !One} : () -> !One
  %s = tosa.sub %c, %k : (!T, !One) -> !T""",
        lambda x: x - 2,
    ),
    "constant": ("%k = arith.constant dense<2.0> : !T\n%s = arith.mulf %c, %k : !T", lambda x: x * 2),
    "linalg": ("%e = tensor.empty() : !T\n%s = linalg.exp ins(%c : !T) outs(%e : !T) -> !T", np.exp),
    "generic": (
        generic("%z = arith.constant 0.0 : f32\n %m = arith.maximumf %a, %z : f32", "%s", "!T", ["%c"]),
        lambda x: np.maximum(x, 0),
    ),
    "transposed twice": (
        """%e = tensor.empty() : !Last
  %t = linalg.transpose ins(%c : !T) outs(%e : !Last) permutation = [0, 2, 3, 1]
  %f = tensor.empty() : !T
  %s = linalg.transpose ins(%t : !Last) outs(%f : !T) permutation = [0, 3, 1, 2]""",
        lambda x: x,
    ),
    "reshaped": (
        """%k = tensor.collapse_shape %c [[0], [1], [2, 3]] : !T into !Flat
  %l = math.sin %k : !Flat
  %s = tensor.expand_shape %l [[0], [1], [2, 3]] output_shape [1, 17, 5, 4] : !Flat into !T""",
        np.sin,
    ),
    "cut and joined": (
        _cut("k", "Two", 0, 2)
        + _cut("l", "Three", 2, 3)
        + "%s = tensor.concat dim(2) %l, %k : (!Three, !Two) -> !T",
        lambda x: np.concatenate([x[:, :, 2:], x[:, :, :2]], axis=2),
    ),
    "reduced": (
        """%k = "tosa.reduce_max"(%c) {axis = 1 : i32} : (!T) -> !Plane
  %s = tosa.sub %c, %k : (!T, !Plane) -> !T""",
        lambda x: x - x.max(axis=1, keepdims=True),
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BETWEEN)
def test_programs_compute_the_same_in_chosen_layouts(name: str, target: str):
    text, function = BETWEEN[name]
    module = _program(text)
    original = module.clone()
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    want = _conv(function(_conv(x)))
    np.testing.assert_allclose(run(module, [x], reorders="reference")[0], want, rtol=1e-3, atol=1e-4)
    optimize(module, target)
    module.verify()
    values = [value for op in module.walk() for value in op.results if is_tensor(value.type)]
    assert not any(is_any(value.type) for value in values)
    np.testing.assert_allclose(run(module, [x], reorders="reference")[0], want, rtol=1e-3, atol=1e-4)
    # What is printed reads back as the same program, so no type is lost.
    assert print_module(parse(print_module(module))) == print_module(module)
    strip(module)
    strip(original)
    assert print_module(module) == print_module(original)


@pytest.mark.parametrize(
    "name", ["arith", "math", "tosa", "constant", "linalg", "generic", "transposed twice"]
)
def test_nothing_is_reordered_between_large_convolutions(name: str):
    module = _program(BETWEEN[name][0], LARGE)
    optimize(module, "blocked8")
    moves = [op for op in module.walk() if isinstance(op, ReorderOp | FillPadsOp)]
    assert len(moves) == 2
    assert all(layout_of(op.operands[0].type).format.rank == 4 for op in moves)


def test_negative_an_op_that_nobody_knows_takes_plain_tensors():
    module = _program('%s = "test.op"(%c) : (!T) -> !T')
    optimize(module, "blocked8")
    (op,) = [op for op in module.walk() if op.name == "test.op"]
    assert all(format_of(type) == Format.of("nchw") for type in (op.operands[0].type, op.results[0].type))


def test_conversions_of_tensors_take_blocks():
    module = _program("""
  %h = arith.truncf %c : !T to tensor<1x17x5x4xf16, #layout.any>
  %f = arith.extf %h : tensor<1x17x5x4xf16, #layout.any> to !T
  %s = arith.addf %f, %f : !T""")
    dear = {"name": "nn.conv", "ins": ["nchw", "oihw"], "outs": ["nchw"], "cost": 10**6}
    costs = parse_costs({"op": [dear]}, "test")
    plain = module.clone()
    optimize(module, "blocked8", costs=costs)
    blocked = [
        op for op in module.walk() if op.name.startswith("arith.") and layout_of(op.results[0].type).is_padded
    ]
    assert len(blocked) == 3
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    (ours,), (wanted,) = run(module, [x]), run(plain, [x])
    assert np.allclose(ours, wanted, rtol=1e-2, atol=1e-2 * np.abs(wanted).max())


HALVES = """
    %low = arith.constant 100.0 : f32
    %high = arith.constant 1000.0 : f32
    %half = arith.constant 0.5 : f32
    %c = arith.cmpf ogt, %b, %low : f32
    %d = arith.cmpf olt, %b, %high : f32
    %e = arith.andi %c, %d : i1
    %h = arith.mulf %b, %half : f32
    %s = arith.select %e, %h, %b : f32
    %m = arith.subf %s, %a : f32"""
REDUCTIONS = {
    "sum": "%m = arith.addf %a, %b : f32",
    "maximum": "%m = arith.maximumf %a, %b : f32",
    "greater of two": "%c = arith.cmpf ogt, %a, %b : f32\n %m = arith.select %c, %a, %b : f32",
    "maximum that passes over nans": "%m = arith.maxnumf %a, %b : f32",
    "halves in between": HALVES,
    "negated sum": "%q = arith.negf %a : f32\n %m = arith.addf %q, %b : f32",
    "reciprocals": "%l = arith.constant 1.0 : f32\n %q = arith.divf %l, %a : f32\n %m = arith.minimumf %q, %b : f32",
    "sum of exponentials": "%q = math.exp %a : f32\n %m = arith.addf %q, %b : f32",
}


BLOCKED = "#layout.option<ins = [#layout.tag<nChw8c>], outs = [#layout.tag<nChw8c>], cost = 1>"


def _reducing(body: str, encoding: str) -> str:
    """The 17 channels of %x, negated twice, reduced by `body`."""
    x, r = (f"tensor<{shape}xf32{encoding}>" for shape in ("2x17x3x3", "2x3x3"))
    return f"""
func.func @main(%x : tensor<2x17x3x3xf32>, %start : tensor<2x3x3xf32>) -> tensor<2x3x3xf32> {{
  %b = layout.reorder %x : tensor<2x17x3x3xf32> -> {x}
  %n = nn.neg %b : {x}
  %p = nn.relu %n {{layout.options = [{BLOCKED}]}} : {x}
  %o = nn.neg %p : {x}
  %i = layout.reorder %start : tensor<2x3x3xf32> -> {r if "any" in encoding else "tensor<2x3x3xf32>"}
  %r = linalg.reduce ins(%o : {x}) outs(%i : {r if "any" in encoding else "tensor<2x3x3xf32>"}) dimensions = [1]
  (%a : f32, %b0 : f32) {{
    {body.replace("%b", "%b0")}
    linalg.yield %m : f32
  }}
  %y = layout.reorder %r : {r if "any" in encoding else "tensor<2x3x3xf32>"} -> tensor<2x3x3xf32>
  func.return %y : tensor<2x3x3xf32>
}}"""


@pytest.mark.parametrize("body", REDUCTIONS.values(), ids=REDUCTIONS)
def test_reductions_over_blocks_compute_what_they_do_without_pads(body: str):
    """The negation in front costs nothing in blocks and something elsewhere, so blocks are chosen where they may be."""
    module, plain = (parse(_reducing(body, encoding)) for encoding in (", #layout.any", ""))
    optimize(module, "blocked8")
    module.verify()
    x = np.linspace(-9, 90, 2 * 17 * 9, dtype=np.float32).reshape(2, 17, 3, 3)
    x[0, 3, 1] = 0
    x[:, 16] = -300
    x[1, :, 2, 2] = np.nan
    start = np.linspace(-200, 900, 18, dtype=np.float32).reshape(2, 3, 3)
    np.testing.assert_array_equal(run(module, [x, start])[0], run(plain, [x, start])[0])
