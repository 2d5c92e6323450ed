"""Ops of linalg, arith and tensor in blocks compute as linalg.generic on digits what they compute in row-major."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.ops import GenericOp

import layout_ir as li
from layout_ir.diagnostics import PassError
from layout_ir.passes.convert_to_linalg import convert_to_linalg
from layout_ir.passes.convert_to_physical import convert_to_physical
from layout_ir.printing import print_module
from tests.exits.linalg.agreement import assert_agree
from tests.exits.linalg.mlir_tools import execute, mlir_opt

A = "#layout.format<(a, b) : [a, b]>"
BLOCKS = "#layout.format<(a, b) : [a, b, b:8, a:4], pad = zero>"
ANY_PADS = "#layout.format<(a, b) : [b, a, b:8], pad = undef>"


def floats(*shapes: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    """Random numbers in arrays of these shapes, the same whichever tests ran before."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(tuple(shape)).astype(np.float32) for shape in shapes]


def reordered(body: str, shapes: dict[str, str], encodings: dict[str, str], result: str) -> ModuleOp:
    """A function whose arguments are reordered before `body`, and what it calls %r after."""
    arguments = ", ".join(f"%{name}_in: tensor<{shape}xf32>" for name, shape in shapes.items())
    lines = [
        f"%{name} = layout.reorder %{name}_in : tensor<{shape}xf32> -> tensor<{shape}xf32, {encodings[name]}>"
        for name, shape in shapes.items()
    ]
    encoded = f"tensor<{result}xf32, {encodings['r']}>"
    for name, shape in {**shapes, "r": result}.items():
        body = body.replace(f"T{name}", f"tensor<{shape}xf32, {encodings[name]}>")
    return li.parse(
        f"func.func @main({arguments}) -> tensor<{result}xf32> {{\n" + "\n".join(lines) + body +
        f"\n%out = layout.reorder %r : {encoded} -> tensor<{result}xf32>\nfunc.return %out : tensor<{result}xf32> }}"
    )  # fmt: skip


PRODUCT = """
%zero = arith.constant 0.0 : f32
%e = tensor.empty() : Tr
%init = linalg.fill ins(%zero : f32) outs(%e : Tr) -> Tr
%r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
    affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %y : Tx, Ty) outs(%init : Tr) {
^bb0(%a: f32, %b: f32, %c: f32):
  %p = arith.mulf %a, %b : f32
  %s = arith.addf %p, %c : f32
  linalg.yield %s : f32
} -> Tr
"""
INDEXED = """
%e = tensor.empty() : Tr
%r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%x : Tx) outs(%e : Tr) {
^bb0(%a: f32, %c: f32):
  %i = linalg.index 0 : index
  %j = linalg.index 1 : index
  %ij = arith.muli %i, %j : index
  %n = arith.index_cast %ij : index to i32
  %f = arith.sitofp %n : i32 to f32
  %s = arith.addf %a, %f : f32
  linalg.yield %s : f32
} -> Tr
"""
GATHERED = """
%e = tensor.empty() : Tr
%r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%x : Tx) outs(%e : Tr) {
^bb0(%a: f32, %c: f32):
  %j = linalg.index 1 : index
  %b = tensor.extract %y[%j] : Ty
  %s = arith.addf %a, %b : f32
  linalg.yield %s : f32
} -> Tr
"""
SUM = "\n%r = arith.addf %x, %x : Tr\n"

BROADCAST = """
%e = tensor.empty() : Tr
%r = linalg.broadcast ins(%x : Tx) outs(%e : Tr) dimensions = [0]
"""
TOSA_BROADCAST = "\n%r = tosa.sub %x, %y : (Tx, Ty) -> Tr\n"
TOSA_REDUCTION = "\n%r = tosa.reduce_max %x {axis = 1 : i32} : (Tx) -> Tr\n"
PAD = """
%two = arith.constant 2.0 : f32
%r = tensor.pad %x low[4, 8] high[3, 1] {
^bb0(%i: index, %j: index):
  tensor.yield %two : f32
} : Tx to Tr
"""
EXTRACT = "\n%r = tensor.extract_slice %x[4, 8] [5, 9] [1, 1] : Tx to Tr\n"
DYNAMIC_EXTRACT = """
%one = arith.constant 1 : index
%r = tensor.extract_slice %x[%one, 8] [5, 9] [1, 1] : Tx to Tr
"""
INSERT = "\n%r = tensor.insert_slice %x into %y[4, 8] [5, 9] [1, 1] : Tx into Tr\n"
CAST = "\n%r = tensor.cast %x : Tx to Tr\n"
EXPAND = "\n%r = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 4, 16] : Tx into Tr\n"
TILED = "#layout.format<(a, b, c) : [c, a, b, c:8]>"
ROW = "#layout.format<(a) : [a, a:8]>"
ROWS_APART = "#layout.format<(a, b) : [a, b, b:8], pad = undef>"

CASES = {
    "product in blocks": (PRODUCT, {"x": "9x16", "y": "16x12"}, {"x": BLOCKS, "y": BLOCKS, "r": BLOCKS}, "9x12"),
    "product of blocks and rows": (PRODUCT, {"x": "8x16", "y": "16x8"}, {"x": BLOCKS, "y": A, "r": BLOCKS}, "8x8"),
    "product of one column in blocks": (PRODUCT, {"x": "9x16", "y": "16x1"}, {"x": A, "y": BLOCKS, "r": A}, "9x1"),
    "product of columns in blocks": (PRODUCT, {"x": "9x16", "y": "16x3"}, {"x": A, "y": BLOCKS, "r": A}, "9x3"),
    "index in blocks": (INDEXED, {"x": "9x17"}, {"x": ANY_PADS, "r": ANY_PADS}, "9x17"),
    "elementwise": (SUM, {"x": "9x17"}, {"x": BLOCKS, "r": BLOCKS}, "9x17"),
    "body that reads a tensor": (GATHERED, {"x": "8x16", "y": "16"}, {"x": BLOCKS, "y": ROW, "r": BLOCKS}, "8x16"),
    "broadcast": (BROADCAST, {"x": "17"}, {"x": ROW, "r": ROWS_APART}, "5x17"),
    "tosa broadcast": (TOSA_BROADCAST, {"x": "1x17", "y": "9x17"}, {"x": ROWS_APART, "y": BLOCKS, "r": BLOCKS}, "9x17"),
    "tosa reduction": (TOSA_REDUCTION, {"x": "9x16"}, {"x": ANY_PADS, "r": A}, "9x1"),
    "pad in whole blocks and in pads": (PAD, {"x": "9x17"}, {"x": BLOCKS, "r": BLOCKS}, "16x26"),
    "slice of whole blocks": (EXTRACT, {"x": "9x17"}, {"x": BLOCKS, "r": BLOCKS}, "5x9"),
    "slice from a place of the run time": (DYNAMIC_EXTRACT, {"x": "9x17"}, {"x": ANY_PADS, "r": ANY_PADS}, "5x9"),
    "slice put into blocks": (INSERT, {"x": "5x9", "y": "9x17"}, {"x": BLOCKS, "y": BLOCKS, "r": BLOCKS}, "9x17"),
    "cast": (CAST, {"x": "9x17"}, {"x": BLOCKS, "r": BLOCKS}, "9x17"),
    "reshape": (EXPAND, {"x": "8x16"}, {"x": ANY_PADS, "r": TILED}, "2x4x16"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_ops_in_blocks_compute_the_same(name: str, tmp_path: Path):
    module = reordered(*CASES[name])
    inputs = floats(*(tuple(map(int, shape.split("x"))) for shape in CASES[name][1].values()))
    physical = module.clone()
    convert_to_physical(physical)
    assert not any("layout.reorder" in op.name for op in physical.walk())
    for got, want in zip(li.run(physical, inputs), li.run(module, inputs, reorders="reference"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert_agree({"f": (module, inputs)}, tmp_path)


def test_loops_are_digits():
    module = reordered(*CASES["product in blocks"])
    convert_to_physical(module)
    (product,) = [op for op in module.walk() if isinstance(op, GenericOp) and len(op.inputs) == 2]
    # m in blocks of 4; n of 8; k, which lies in blocks of 8 and of 4, in three digits.
    assert len(product.iterator_types) == 7


@pytest.mark.parametrize(
    ("body", "shapes", "result", "reason"),
    [
        (
            "\n%r = tensor.extract_slice %x[4, 4] [5, 9] [1, 1] : Tx to Tr\n",
            {"x": "9x17"},
            "5x9",
            "it cuts dim 1 inside a block of 8",
        ),
        (
            PAD.replace("low[4, 8]", "low[2, 8]"),
            {"x": "9x17"},
            "14x26",
            "the 2 elements in front of dim 0 are no whole blocks of 4",
        ),
        (
            PAD.replace("tensor.yield %two", "%n = math.exp %two : f32\n  tensor.yield %n"),
            {"x": "9x17"},
            "16x26",
            "what its pads hold is computed, and not one value",
        ),
    ],
)  # fmt: skip
def test_negative_what_cuts_through_blocks_or_computes_its_pads_is_refused(
    body: str, shapes: dict[str, str], result: str, reason: str
):
    module = reordered(body, shapes, {"x": BLOCKS, "r": BLOCKS}, result)
    with pytest.raises(PassError, match=reason):
        convert_to_physical(module)


def test_negative_an_op_that_is_known_on_whole_tensors_only_is_refused_in_blocks():
    module = li.parse(
        f"""
        func.func @main(%x: tensor<9x17xf32, {BLOCKS}>) -> tensor<9x17xf32, {BLOCKS}> {{
          %r = "theirs.sort"(%x) : (tensor<9x17xf32, {BLOCKS}>) -> tensor<9x17xf32, {BLOCKS}>
          func.return %r : tensor<9x17xf32, {BLOCKS}>
        }}
        """,
        allow_unregistered=True,
    )
    with pytest.raises(
        PassError, match=r"theirs\.sort has no physical form: it is known on its own dims only"
    ):
        convert_to_physical(module)


OWN_WORDS = """
func.func @main(%x: tensor<1x3x4x5xf32>, %c: tensor<1x3x1x1xf32>) -> tensor<1x3x4x5xf32> {
  %0 = tosa.transpose %x {perms = array<i32: 0, 2, 3, 1>} : (tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32>
  %p = tosa.max_pool2d %0 {kernel = array<i64: 2, 2>, pad = array<i64: 0, 1, 0, 1>, stride = array<i64: 1, 1>}
      : (tensor<1x4x5x3xf32>) -> tensor<1x4x5x3xf32>
  %1 = tosa.transpose %p {perms = array<i32: 0, 3, 1, 2>} : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  %2 = tosa.sigmoid %1 : (tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32>
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %3 = tosa.mul %2, %1, %z : (tensor<1x3x4x5xf32>, tensor<1x3x4x5xf32>, tensor<1xi8>) -> tensor<1x3x4x5xf32>
  %g = tosa.greater %3, %c : (tensor<1x3x4x5xf32>, tensor<1x3x1x1xf32>) -> tensor<1x3x4x5xi1>
  %4 = tosa.select %g, %3, %c : (tensor<1x3x4x5xi1>, tensor<1x3x4x5xf32>, tensor<1x3x1x1xf32>)
      -> tensor<1x3x4x5xf32>
  %ten = "tosa.const"() <{values = dense<10.0> : tensor<1x1x1x1xf32>}> : () -> tensor<1x1x1x1xf32>
  %t = tosa.mul %4, %ten, %z : (tensor<1x3x4x5xf32>, tensor<1x1x1x1xf32>, tensor<1xi8>) -> tensor<1x3x4x5xf32>
  %h = tosa.cast %t : (tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xi8>
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<29> : tensor<1xi8>}> : () -> tensor<1xi8>
  %r = tosa.rescale %h, %m, %s, %z, %z {scale32 = true, rounding_mode = SINGLE_ROUND, per_channel = false,
      input_unsigned = false, output_unsigned = false}
      : (tensor<1x3x4x5xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x4x5xi8>
  %f = tosa.cast %r : (tensor<1x3x4x5xi8>) -> tensor<1x3x4x5xf32>
  %5 = tosa.transpose %f {perms = array<i32: 0, 2, 3, 1>} : (tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32>
  %q = tosa.max_pool2d %5 {kernel = array<i64: 2, 2>, pad = array<i64: 0, 1, 0, 1>, stride = array<i64: 1, 1>}
      : (tensor<1x4x5x3xf32>) -> tensor<1x4x5x3xf32>
  %6 = tosa.transpose %q {perms = array<i32: 0, 3, 1, 2>} : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  func.return %6 : tensor<1x3x4x5xf32>
}
"""
FROM_TOSA = (
    "--pass-pipeline=builtin.module(func.func(tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor))"
)


def _executed(module: ModuleOp, inputs: list[np.ndarray[Any, Any]], folder: Path) -> np.ndarray[Any, Any]:
    folder.mkdir()
    lowered = li.parse(mlir_opt(print_module(module), FROM_TOSA))
    (result,) = execute(lowered, inputs, folder)
    return result


def test_ops_of_tosa_in_words_of_their_own_take_the_order_of_the_pools_around_them(tmp_path: Path):
    """Transpositions between a pool and the next are gone; only those at the edges of the program stay."""
    module = li.parse(OWN_WORDS)
    inputs = floats((1, 3, 4, 5), (1, 3, 1, 1))
    want = _executed(module, inputs, tmp_path / "before")
    li.open_layouts(module)
    li.optimize(module, "blocked8")
    plain = li.to_mlir(module)
    assert sum("transpose" in op.name for op in plain.walk()) == 2
    assert len(np.unique(want)) > 5
    np.testing.assert_array_equal(_executed(plain, inputs, tmp_path / "after"), want)


WINDOWS = {
    "named": """
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x{result}x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x{result}x8xf32>) -> tensor<2x{result}x8xf32>
  %n = tensor.empty() : tensor<2x{size}x3xf32>
  %t = linalg.transpose ins(%x : tensor<{first}x2x{last}x3xf32>) outs(%n : tensor<2x{size}x3xf32>)
    permutation = [1, 0, 2, 3]
  %r = linalg.conv_2d_nhwc_hwcf {{strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
    ins(%t, %w : tensor<2x{size}x3xf32>, tensor<3x3x3x8xf32>) outs(%f : tensor<2x{result}x8xf32>)
    -> tensor<2x{result}x8xf32>
  func.return %r : tensor<2x{result}x8xf32>""",
    "nn": """
  %a = layout.permute %x perm = [1, 3, 0, 2] : tensor<{first}x2x{last}x3xf32> -> tensor<2x3x{size}xf32>
  %b = layout.permute %w perm = [3, 2, 0, 1] : tensor<3x3x3x8xf32> -> tensor<8x3x3x3xf32>
  %c = nn.conv %a, %b strides = [2, 2] : (tensor<2x3x{size}xf32>, tensor<8x3x3x3xf32>) -> tensor<2x8x{result}xf32>
  %r = layout.permute %c perm = [0, 2, 3, 1] : tensor<2x8x{result}xf32> -> tensor<2x{result}x8xf32>
  func.return %r : tensor<2x{result}x8xf32>""",
}


@pytest.mark.parametrize("target", ["avx2", "avx512", "blocked8", "channels-last"])
@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize(("size", "result"), [("4x4", "1x1"), ("8x4", "3x1"), ("3x3", "1x1")])
def test_windows_that_do_not_reach_the_end_of_a_dim_are_as_long_as_they_are(
    size: str, result: str, kind: str, target: str, tmp_path: Path
):
    first, last = size.split("x")
    x, y = f"tensor<{first}x2x{last}x3xf32>", f"tensor<2x{result}x8xf32>"
    body = WINDOWS[kind].format(size=size, first=first, last=last, result=result)
    module = li.parse(f"func.func @main(%x: {x}, %w: tensor<3x3x3x8xf32>) -> {y} {{{body}\n}}")
    inputs = floats((int(first), 2, int(last), 3), (3, 3, 3, 8))
    (want,) = li.run(module, inputs)
    li.open_layouts(module)
    li.optimize(module, target)
    (found,) = execute(li.parse(mlir_opt(print_module(li.to_mlir(module)))), inputs, tmp_path)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_an_op_of_tosa_in_words_of_its_own_runs_in_blocks_and_its_pads_are_filled_behind_it(tmp_path: Path):
    body = "\n%r = tosa.sigmoid %x : (Tx) -> Tr\n"
    module = reordered(body, {"x": "9x17"}, {"x": BLOCKS, "r": BLOCKS}, "9x17")
    (x,) = floats((9, 17))
    convert_to_linalg(module)
    (sigmoid,) = [op for op in module.walk() if op.name == "tosa.sigmoid"]
    assert sigmoid.results[0].type.get_shape() == (3, 3, 8, 4)  # pyright: ignore
    np.testing.assert_allclose(_executed(module, [x], tmp_path / "f"), 1 / (1 + np.exp(-x)), rtol=1e-5)
