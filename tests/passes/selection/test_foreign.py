"""Models derived for ops of other dialects: which layouts they run in, and what they do with pads."""

# Programs have long lines.
# ruff: noqa: E501, ISC004

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from layout_ir.diagnostics import PassError
from layout_ir.dialects.layout import FillPadsOp, ReorderOp, format_of, is_any, is_tensor, layout_of
from layout_ir.execute import run
from layout_ir.foreign.structured import Structured, structured
from layout_ir.format import Format
from layout_ir.passes.optimize import optimize
from layout_ir.passes.propagate import solve
from layout_ir.passes.rewriting import PadBehaviour, needed_pad, provided_pad, register_pads
from layout_ir.passes.selection.apply import apply
from layout_ir.passes.selection.build import build
from layout_ir.passes.selection.costs import parse_costs, reorder_ns
from layout_ir.passes.selection.foreign.padding import divisors, neutral, written
from layout_ir.passes.selection.models import options_of
from layout_ir.passes.selection.problem import evaluate
from layout_ir.passes.selection.targets import target_named
from layout_ir.passes.strip import strip
from layout_ir.printing import print_module
from tests.passes.texts import parse

TARGETS = ("avx2", "avx512", "channels-last", "onednn", "htp")
T = "tensor<1x17x5x4xf32, #layout.any>"
ID = "affine_map<(a, b, c, d) -> (a, b, c, d)>"


def _program(body: str, result: str = "1x17x5x4", operands: str = "%x : tensor<1x17x5x4xf32>") -> ModuleOp:
    return parse(f"""
func.func @main({operands}) -> tensor<{result}xf32> {{
{body}
  %out = layout.reorder %r : tensor<{result}xf32, #layout.any> -> tensor<{result}xf32>
  func.return %out : tensor<{result}xf32>
}}""")


def _generic(body: str, ins: str = "%i", types: str = T, maps: str = ID) -> str:
    """A blocked convolution's neighbour: `body` computes %m from %a."""
    return f"""
  %i = layout.reorder %x : tensor<1x17x5x4xf32> -> {T}
  %e = tensor.empty() : {T}
  %r = linalg.generic {{indexing_maps = [{maps}, {ID}], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins({ins} : {types}) outs(%e : {T}) {{
  ^bb0(%a : f32, %b : f32):
    {body}
    linalg.yield %m : f32
  }} -> {T}"""


def _blocked(op_text: str, pad: str = "zero", count: int = 1, element: str = "f32") -> Operation:
    """One op on blocked tensors of 17 channels whose pads hold `pad`."""
    type = f"tensor<1x17x5x4x{element}, #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = {pad}>>"
    args = ", ".join(f"%{k} : {type}" for k in range(count))
    module = parse(f"func.func @main({args}) {{\n{op_text.replace('TYPE', type)}\n func.return }}")
    (func,) = module.ops
    ops = [
        op
        for op in func.regions[0].block.ops
        if op.results and op.name not in ("arith.constant", "tensor.empty")
    ]
    return ops[-1]


def _of(op: Operation) -> Structured:
    s = structured(op)
    assert s is not None
    return s


def _linalg(body: str, element: str = "f32") -> str:
    return f"""%e = tensor.empty() : TYPE
  %r = linalg.generic {{indexing_maps = [{ID}, {ID}], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins(%0 : TYPE) outs(%e : TYPE) {{
  ^bb0(%a : {element}, %b : {element}):
    {body}
    linalg.yield %m : {element}
  }} -> TYPE"""


@pytest.mark.parametrize(
    ("body", "pad", "left"),
    [
        ("%z = arith.constant 0.0 : f32\n %m = arith.maximumf %a, %z : f32", "zero", 0.0),
        ("%m = math.exp %a : f32", "zero", 1.0),
        ("%o = arith.constant 1.0 : f32\n %m = arith.addf %a, %o : f32", "zero", 1.0),
        ("%o = arith.constant 3.0 : f32\n %m = arith.mulf %a, %o : f32", "2", 6.0),
        ("%o = arith.constant 0.0 : f32\n %m = arith.divf %o, %a : f32", "zero", None),
        ("%m = math.log %a : f32", "zero", -math.inf),
        ("%m = math.exp %a : f32", "undef", None),
        ("%m = arith.addf %a, %b : f32", "zero", 0.0),
        ("%p = arith.constant 0.0 : f32\n %c = arith.cmpf oge, %a, %p : f32\n %m = arith.select %c, %a, %p : f32", "zero", 0.0),
    ],
)  # fmt: skip
def test_pads_follow_from_the_body(body: str, pad: str, left: float | None):
    assert written(_of(_blocked(_linalg(body), pad))) == left


@pytest.mark.parametrize(
    ("text", "pad", "left"),
    [
        ("%r = arith.addf %0, %1 : TYPE", "zero", 0.0),
        ("%r = arith.subf %0, %1 : TYPE", "5", 0.0),
        ("%r = arith.divf %0, %1 : TYPE", "zero", None),
        ("%r = math.cos %0 : TYPE", "zero", 1.0),
        ("%r = tosa.add %0, %1 : (TYPE, TYPE) -> TYPE", "2", 4.0),
        ("%r = tosa.reciprocal %0 : (TYPE) -> TYPE", "2", 0.5),
        ("%r = tosa.clamp %0 {min_val = 1.0 : f32, max_val = 6.0 : f32} : (TYPE) -> TYPE", "zero", 1.0),
    ],
)
def test_pads_of_whole_tensor_ops(text: str, pad: str, left: float | None):
    assert written(_of(_blocked(text, pad, 2))) == left


def test_one_type_for_all_promises_only_what_all_hold():
    assert provided_pad(_blocked("%r = math.exp %0 : TYPE")) is None
    assert provided_pad(_blocked("%r = math.sin %0 : TYPE")) == 0.0


def _reduction(body: str, element: str = "f32") -> Structured:
    module = parse(f"""
func.func @main(%x : tensor<4x17x{element}>, %i : tensor<4x{element}>) {{
  %r = linalg.reduce ins(%x : tensor<4x17x{element}>) outs(%i : tensor<4x{element}>) dimensions = [1]
  (%a : {element}, %b : {element}) {{
    {body}
    linalg.yield %m : {element}
  }}
  func.return
}}""")
    return _of(next(op for op in module.walk() if op.name == "linalg.reduce"))


@pytest.mark.parametrize(
    ("body", "element", "number"),
    [
        ("%m = arith.addf %a, %b : f32", "f32", 0.0),
        ("%m = arith.mulf %a, %b : f32", "f32", 1.0),
        ("%m = arith.maximumf %a, %b : f32", "f32", -math.inf),
        ("%m = arith.minimumf %a, %b : f32", "f32", math.inf),
        ("%m = arith.maxsi %a, %b : i32", "i32", -(2.0**31)),
        ("%m = arith.andi %a, %b : i32", "i32", -1.0),
        ("%e = math.exp %a : f32\n %m = arith.addf %e, %b : f32", "f32", -math.inf),
        ("%m = arith.subf %a, %b : f32", "f32", None),
    ],
)
def test_the_neutral_number_is_found(body: str, element: str, number: float | None):
    assert neutral(_reduction(body, element), 1) == number


MATMUL = """
func.func @main(%x : tensor<9x17xf32, #layout.format<(m, k) : [m, k, k:8]>>, %w : tensor<17x6xf32, #layout.format<(k, n) : [k, n, k:8]>>, %i : tensor<9x6xf32>) {
  %r = linalg.matmul ins(%x, %w : tensor<9x17xf32, #layout.format<(m, k) : [m, k, k:8]>>, tensor<17x6xf32, #layout.format<(k, n) : [k, n, k:8]>>) outs(%i : tensor<9x6xf32>) -> tensor<9x6xf32>
  func.return
}"""


def test_both_factors_of_a_product_need_zeros():
    op = next(op for op in parse(MATMUL).walk() if op.name == "linalg.matmul")
    assert [needed_pad(op, k) for k in range(3)] == [0.0, 0.0, None]


def test_integer_division_wants_ones_in_the_divisor():
    text = f"""%e = tensor.empty() : TYPE
  %r = linalg.generic {{indexing_maps = [{ID}, {ID}, {ID}], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins(%0, %1 : TYPE, TYPE) outs(%e : TYPE) {{
  ^bb0(%a : i32, %b : i32, %c : i32):
    %m = arith.divsi %a, %b : i32
    linalg.yield %m : i32
  }} -> TYPE"""
    op = _blocked(text, "zero", 2, "i32")
    assert divisors(_of(op)) == {1}
    assert (needed_pad(op, 0), needed_pad(op, 1)) == (None, 1.0)


def test_negative_one_type_divides_no_integers_on_pads():
    op = _blocked("%r = arith.divsi %0, %1 : TYPE", "zero", 2, "i32")
    blocked = format_of(op.operands[0].type)
    assert blocked is not None
    options = list(options_of(op, lambda value: (blocked,), target_named("avx2")))
    assert options and all(option.outs[0].blocks() == (1, 1, 1, 1) for option in options)


def _outs(op: Operation, tag: str, operand: int) -> set[Format]:
    """Formats of the result when operand number `operand` is offered in `tag`."""
    fmt = Format.of(tag)
    given = options_of(op, lambda v: (fmt,) if v is op.operands[operand] else (), target_named("avx2"))
    return {option.outs[0] for option in given if option.ins[operand] == fmt}


def test_a_transposition_relabels_blocks():
    module = parse("""
func.func @main(%x : tensor<1x17x5x4xf32>) {
  %e = tensor.empty() : tensor<1x5x4x17xf32>
  %r = linalg.transpose ins(%x:tensor<1x17x5x4xf32>) outs(%e:tensor<1x5x4x17xf32>) permutation = [0, 2, 3, 1]
  func.return
}""")
    op = next(op for op in module.walk() if op.name == "linalg.transpose")
    assert Format.parse("(a, b, c, d) : [a, d, b, c, d:8], pad = zero") in _outs(op, "nChw8c", 0)


def test_a_broadcast_restricts_the_map():
    op = _blocked(
        f"""%v = arith.constant dense<1.0> : tensor<17xf32>
  %e = tensor.empty() : TYPE
  %r = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (b)>, {ID}], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins(%v : tensor<17xf32>) outs(%e : TYPE) {{
  ^bb0(%a : f32, %b : f32):
    linalg.yield %a : f32
  }} -> TYPE"""
    )
    fmt = Format.of("nChw8c")
    given = options_of(op, lambda v: (fmt,) if v is op.results[0] else (), target_named("avx2"))
    assert any(option.outs[0] == fmt and option.ins[0] == Format.of("A8a") for option in given)


def test_negative_windows_are_not_blocked():
    module = parse("""
func.func @main(%x : tensor<1x8x18x18xf32>, %w : tensor<16x8x3x3xf32>, %i : tensor<1x16x16x16xf32>) {
  %r = linalg.conv_2d_nchw_fchw {"dilations" = dense<1> : tensor<2xi64>, "strides" = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<1x8x18x18xf32>, tensor<16x8x3x3xf32>) outs(%i : tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32>
  func.return
}""")
    op = next(op for op in module.walk() if op.name == "linalg.conv_2d_nchw_fchw")
    assert _outs(op, "nChw8c", 0)
    assert not _outs(op, "(n, c, h, w) : [n, c, h, w, h:2]", 0)
    assert Format.of("nhwc") in _outs(op, "nhwc", 0)


# Whole programs ------------------------------------------------------------------------------------------------------

CONV = """
  %w = nn.constant dense<0.03> : tensor<17x17x3x3xf32, #layout.any>
  %c = nn.conv %r0, %w pads = [1, 1, 1, 1] : (tensor<1x17x5x4xf32, #layout.any>, tensor<17x17x3x3xf32, #layout.any>) -> tensor<1x17x5x4xf32, #layout.any>
"""


def _around(text: str) -> str:
    """`text`, which makes %s from %c, between two convolutions."""
    first = CONV.replace("%r0", "%i")
    second = CONV.replace("%r0", "%s").replace("%w", "%w1").replace("%c ", "%r ")
    return f"  %i = layout.reorder %x : tensor<1x17x5x4xf32> -> {T}\n{first}{text}\n{second}"


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


BETWEEN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "arith": (f"%s = arith.addf %c, %c : {T}", lambda x: x + x),
    "math": (f"%s = math.exp %c : {T}", np.exp),
    "tosa": (f"%s = tosa.cos %c : ({T}) -> {T}", np.cos),
    "tosa with a broadcast": (
        f'%k = "tosa.const"() {{values = dense<2.0> : tensor<1x1x1x1xf32, #layout.any>}} : () -> tensor<1x1x1x1xf32, #layout.any>\n'
        f"%s = tosa.sub %c, %k : ({T}, tensor<1x1x1x1xf32, #layout.any>) -> {T}",
        lambda x: x - 2,
    ),
    "constant": (
        f"%k = arith.constant dense<2.0> : {T}\n%s = arith.mulf %c, %k : {T}",
        lambda x: x * 2,
    ),
    "linalg": (
        f"%e = tensor.empty() : {T}\n%s = linalg.exp ins(%c : {T}) outs(%e : {T}) -> {T}",
        np.exp,
    ),
    "generic": (
        _generic("%z = arith.constant 0.0 : f32\n %m = arith.maximumf %a, %z : f32", "%c").split("\n", 2)[2]
        .replace("%r =", "%s ="),
        _relu,
    ),
    "transposed twice": (
        """%e = tensor.empty() : tensor<1x5x4x17xf32, #layout.any>
  %t = linalg.transpose ins(%c:tensor<1x17x5x4xf32, #layout.any>) outs(%e:tensor<1x5x4x17xf32, #layout.any>) permutation = [0, 2, 3, 1]
  %f = tensor.empty() : tensor<1x17x5x4xf32, #layout.any>
  %s = linalg.transpose ins(%t:tensor<1x5x4x17xf32, #layout.any>) outs(%f:tensor<1x17x5x4xf32, #layout.any>) permutation = [0, 3, 1, 2]""",
        lambda x: x,
    ),
    "reshaped": (
        """%k = tensor.collapse_shape %c [[0], [1], [2, 3]] : tensor<1x17x5x4xf32, #layout.any> into tensor<1x17x20xf32, #layout.any>
  %l = math.sin %k : tensor<1x17x20xf32, #layout.any>
  %s = tensor.expand_shape %l [[0], [1], [2, 3]] output_shape [1, 17, 5, 4] : tensor<1x17x20xf32, #layout.any> into tensor<1x17x5x4xf32, #layout.any>""",
        np.sin,
    ),
    "cut and joined": (
        """%k = "tensor.extract_slice"(%c) <{static_offsets = array<i64: 0, 0, 0, 0>, static_sizes = array<i64: 1, 17, 2, 4>, static_strides = array<i64: 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0>}> : (tensor<1x17x5x4xf32, #layout.any>) -> tensor<1x17x2x4xf32, #layout.any>
  %l = "tensor.extract_slice"(%c) <{static_offsets = array<i64: 0, 0, 2, 0>, static_sizes = array<i64: 1, 17, 3, 4>, static_strides = array<i64: 1, 1, 1, 1>, operandSegmentSizes = array<i32: 1, 0, 0, 0>}> : (tensor<1x17x5x4xf32, #layout.any>) -> tensor<1x17x3x4xf32, #layout.any>
  %s = tensor.concat dim(2) %l, %k : (tensor<1x17x3x4xf32, #layout.any>, tensor<1x17x2x4xf32, #layout.any>) -> tensor<1x17x5x4xf32, #layout.any>""",
        lambda x: np.concatenate([x[:, :, 2:], x[:, :, :2]], axis=2),
    ),
    "reduced": (
        f"""%k = "tosa.reduce_max"(%c) {{axis = 1 : i32}} : ({T}) -> tensor<1x1x5x4xf32, #layout.any>
  %s = tosa.sub %c, %k : ({T}, tensor<1x1x5x4xf32, #layout.any>) -> {T}""",
        lambda x: x - x.max(axis=1, keepdims=True),
    ),
}  # fmt: skip


def _conv(x: Any) -> Any:
    """Every output channel is the sum of all inputs over 3x3 windows, times 0.03."""
    padded = np.pad(x.sum(axis=1), ((0, 0), (1, 1), (1, 1)))
    total = np.sum([padded[:, i : i + 5, j : j + 4] for i in range(3) for j in range(3)], axis=0)
    return np.repeat(total[:, None], 17, axis=1) * 0.03


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BETWEEN)
def test_programs_compute_the_same_in_chosen_layouts(name: str, target: str):
    text, function = BETWEEN[name]
    module = _program(_around(text))
    original = module.clone()
    x = np.random.default_rng(0).standard_normal((1, 17, 5, 4)).astype(np.float32)
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


BIG = [
    ("1x17x5x4", "1x32x56x56"),
    ("17x17", "32x32"),
    ("17", "32"),
    ("5, 4]", "56, 56]"),
    ("1x5x4x", "1x56x56x"),
]


@pytest.mark.parametrize(
    "name", ["arith", "math", "tosa", "constant", "linalg", "generic", "transposed twice"]
)
def test_nothing_is_reordered_between_large_convolutions(name: str):
    text = _around(BETWEEN[name][0])
    for old, new in BIG:
        text = text.replace(old, new)
    module = _program(text, "1x32x56x56", "%x : tensor<1x32x56x56xf32>")
    optimize(module, "avx2")
    moves = [op for op in module.walk() if isinstance(op, ReorderOp | FillPadsOp)]
    assert len(moves) == 2
    assert all(layout_of(op.operands[0].type).format.rank == 4 for op in moves)


def test_negative_an_op_that_nobody_knows_takes_plain_tensors():
    text = _around(f'%s = "test.op"(%c) : ({T}) -> {T}')
    module = _program(text)
    optimize(module, "avx2")
    (op,) = [op for op in module.walk() if op.name == "test.op"]
    assert all(format_of(type) == Format.of("nchw") for type in (op.operands[0].type, op.results[0].type))


def test_negative_division_of_integers_on_pads_is_an_error_at_the_op():
    blocked = "tensor<1x17x5x4xi32, #layout.format<(n, c, h, w) : [n, c, h, w, c:8], pad = zero>>"
    module = parse(f"""
func.func @main(%x : {blocked}) -> tensor<1x17x5x4xi32> {{
  %r = arith.divsi %x, %x : {blocked}
  %i = layout.reorder %r : {blocked} -> tensor<1x17x5x4xi32, #layout.any>
  %o = layout.reorder %i : tensor<1x17x5x4xi32, #layout.any> -> tensor<1x17x5x4xi32>
  func.return %o : tensor<1x17x5x4xi32>
}}""")
    with pytest.raises(PassError, match=r"arith.divsi has no option on target avx2 for tensor<1x17x5x4xi32"):
        optimize(module, "avx2")


def test_padding_behaviour_can_be_registered():
    from xdsl.dialects.test import TestOp

    op = _blocked('%r = "test.op"(%0) : (TYPE) -> TYPE')
    assert isinstance(op, TestOp)
    assert provided_pad(op) is None
    register_pads(TestOp, PadBehaviour(leaves=lambda op: 7.0))
    try:
        assert provided_pad(op) == 7.0
    finally:
        register_pads(TestOp, PadBehaviour())


def test_ops_on_whole_tensors_take_all_of_them_in_one_layout():
    """A tensor that lies in another one is reordered at its price, not behind the back of the selection."""
    module = parse("""
func.func @main(%x : tensor<1x16x8x8xf32, #layout.tag<nhwc>>, %z : tensor<1x16x8x8xf32, #layout.tag<nchw>>) -> tensor<1x16x8x8xf32, #layout.tag<nchw>> {
  %a = layout.reorder %x : tensor<1x16x8x8xf32, #layout.tag<nhwc>> -> tensor<1x16x8x8xf32, #layout.any>
  %b = arith.addf %a, %a : tensor<1x16x8x8xf32, #layout.any>
  %c = layout.reorder %z : tensor<1x16x8x8xf32, #layout.tag<nchw>> -> tensor<1x16x8x8xf32, #layout.any>
  %d = arith.mulf %b, %c : tensor<1x16x8x8xf32, #layout.any>
  %y = layout.reorder %d : tensor<1x16x8x8xf32, #layout.any> -> tensor<1x16x8x8xf32, #layout.tag<nchw>>
  func.return %y : tensor<1x16x8x8xf32, #layout.tag<nchw>>
}""")
    selection = build(module, target_named("avx2"))
    solution = solve(selection)
    paid = evaluate(
        replace(selection.problem, ops=tuple(replace(op, weight=0) for op in selection.problem.ops)),
        solution.choices,
    )
    apply(module, selection, solution.choices)
    moved = [op for op in module.walk() if isinstance(op, ReorderOp)]
    assert (
        paid
        == sum(reorder_ns(layout_of(op.source_type), layout_of(op.result_type), "f32") for op in moved)
        > 0
    )


def test_conversions_of_tensors_take_blocks():
    body = f"""
  %i = layout.reorder %x : tensor<1x17x5x4xf32> -> {T}
  %w = nn.constant dense<0.5> : tensor<17x17x3x3xf32, #layout.any>
  %a = nn.conv %i, %w pads = [1, 1, 1, 1] : ({T}, tensor<17x17x3x3xf32, #layout.any>) -> {T}
  %h = arith.truncf %a : {T} to tensor<1x17x5x4xf16, #layout.any>
  %f = arith.extf %h : tensor<1x17x5x4xf16, #layout.any> to {T}
  %s = arith.addf %f, %f : {T}
  %r = nn.conv %s, %w pads = [1, 1, 1, 1] : ({T}, tensor<17x17x3x3xf32, #layout.any>) -> {T}"""
    module = _program(body)
    dear = {"name": "nn.conv", "ins": ["nchw", "oihw"], "outs": ["nchw"], "cost": 10**6}
    costs = parse_costs({"op": [dear]}, "test")
    plain = module.clone()
    optimize(module, "avx2", costs=costs)
    blocked = [
        op for op in module.walk() if op.name.startswith("arith.") and layout_of(op.results[0].type).is_padded
    ]
    assert len(blocked) == 3
    x = np.random.default_rng(0).standard_normal((1, 17, 5, 4)).astype(np.float32)
    (ours,), (wanted,) = run(module, [x]), run(plain, [x])
    assert np.allclose(ours, wanted, rtol=1e-2, atol=1e-2 * np.abs(wanted).max())


def test_scalar_comparisons_of_a_program_run():
    module = parse("""
func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %n, %r = scf.while (%i = %zero, %a = %x) : (index, tensor<4xf32>) -> (index, tensor<4xf32>) {
    %c = arith.cmpi ult, %i, %three : index
    scf.condition(%c) %i, %a : index, tensor<4xf32>
  } do {
  ^bb0(%j : index, %b : tensor<4xf32>):
    %k = arith.addi %j, %one : index
    %d = nn.add %b, %b : tensor<4xf32>
    scf.yield %k, %d : index, tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}""")
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(run(module, [x])[0], 8 * x)
