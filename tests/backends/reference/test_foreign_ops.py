"""Ops of tensor and tosa that move elements, against NumPy; what they cannot do is an error that says so."""

from __future__ import annotations

import re

import numpy as np
import pytest

from layout_ir.api.execute import run
from layout_ir.api.measured_selection import optimize
from layout_ir.api.program_text import parse_program
from layout_ir.errors import LayoutError
from layout_ir.passes.open_layouts import open_layouts

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def _result(ops: str, type: str) -> np.ndarray:
    """%r of a program that has X as the tensor %x, 1 as the index %i and 9 as the number %v."""
    program = f"""
    func.func @main(%x: tensor<3x4xf32>, %i: index, %v: f32) -> {type} {{
      {ops}
      func.return %r : {type}
    }}"""
    return run(parse_program(program, "program.mlir"), [X, np.array(1), np.array(9.0)])[0]


def _with_nine(row: int, column: int) -> np.ndarray:
    changed = X.copy()
    changed[row, column] = 9
    return changed


@pytest.mark.parametrize(
    ("ops", "wanted"),
    [
        ("%r = tensor.extract_slice %x[0, 3][3, 4][1, -1] : tensor<3x4xf32> to tensor<3x4xf32>", X[:, ::-1]),
        ("%r = tensor.extract_slice %x[1, 0][2, 2][0, 3] : tensor<3x4xf32> to tensor<2x2xf32>", X[[1, 1], ::3]),
        ("%r = tensor.extract_slice %x[3, 0][0, 4][1, 1] : tensor<3x4xf32> to tensor<0x4xf32>", X[:0]),
        ("%r = tensor.insert %v into %x[%i, %i] : tensor<3x4xf32>", _with_nine(1, 1)),
        ("%r = tensor.from_elements %v, %v : tensor<2x1xf32>", np.full((2, 1), 9, np.float32)),
        ("%r = arith.constant dense<> : tensor<0x3xf32>", np.zeros((0, 3), np.float32)),
        (
            """%s = tosa.const_shape {values = dense<[4, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
               %r = tosa.reshape %x, %s : (tensor<3x4xf32>, !tosa.shape<2>) -> tensor<4x3xf32>""",
            X.reshape(4, 3),
        ),
    ],
)  # fmt: skip
def test_elements_are_where_numpy_has_them(ops: str, wanted: np.ndarray):
    got = _result(ops, f"tensor<{'x'.join(map(str, wanted.shape))}xf32>")
    assert np.array_equal(got, wanted) and got.shape == wanted.shape


@pytest.mark.parametrize(
    "op",
    [
        "tensor.extract_slice %s[] [] [] : tensor<f32> to tensor<f32>",
        "tensor.insert_slice %s into %s[] [] [] : tensor<f32> into tensor<f32>",
        "tensor.pad %s low[] high[] {\n ^bb0:\n tensor.yield %v : f32\n } : tensor<f32> to tensor<f32>",
        "tensor.cast %s : tensor<f32> to tensor<f32>",
        "linalg.pack %s inner_dims_pos = [] inner_tiles = [] into %s : tensor<f32> -> tensor<f32>",
    ],
)
def test_tensors_without_dims_are_moved_too(op: str):
    # The pad has a constant as its value, all others none.
    seven = "%v = arith.constant 7.0 : f32\n" if "yield" in op else ""
    program = f"""
    func.func @main(%s: tensor<f32>) -> tensor<f32> {{
      {seven}%r = {op}
      func.return %r : tensor<f32>
    }}"""
    (got,) = run(parse_program(program, "program.mlir"), [np.full((), 3, np.float32)])
    assert got.shape == () and got == 3


@pytest.mark.parametrize(
    ("ops", "type", "reason"),
    [
        (
            "%r = tensor.extract_slice %x[2, 0][2, 4][1, 1] : tensor<3x4xf32> to tensor<2x4xf32>",
            "tensor<2x4xf32>",
            "tensor.extract_slice: the slice reaches index 3 of dim 0, whose extent is 3",
        ),
        (
            "%r = tensor.insert_slice %x into %x[0, 1][3, 4][1, 1] : tensor<3x4xf32> into tensor<3x4xf32>",
            "tensor<3x4xf32>",
            "tensor.insert_slice: the slice reaches index 4 of dim 1, whose extent is 4",
        ),
        (
            """%n = arith.constant -1 : index
               %r = tensor.insert %v into %x[%i, %n] : tensor<3x4xf32>""",
            "tensor<3x4xf32>",
            "tensor.insert: there is no element [1, -1] of 3x4",
        ),
        (
            """%n = arith.constant 2 : index
               %d = tensor.dim %x, %n : tensor<3x4xf32>
               %r = tensor.splat %v : tensor<2xf32>""",
            "tensor<2xf32>",
            "tensor.dim: there is no dim 2 of 3x4",
        ),
        (
            """%r = tensor.pad %x low[-1, 0] high[0, 0] {
               ^bb0(%a: index, %b: index):
                 %z = arith.constant 0.0 : f32
                 tensor.yield %z : f32
               } : tensor<3x4xf32> to tensor<2x4xf32>""",
            "tensor<2x4xf32>",
            "tensor.pad: pads of [-1, 0] in front and [0, 0] behind: fewer than none have no meaning",
        ),
        (
            "%r = arith.constant dense_resource<far> : tensor<2xf32>",
            "tensor<2xf32>",
            "in a resource of the file, which is not read: write them as dense<...>",
        ),
        (
            """%c = arith.constant true
               cf.assert %c, "no"
               %r = tensor.splat %v : tensor<2xf32>""",
            "tensor<2xf32>",
            "cf.assert has no reference semantics",
        ),
    ],
)  # fmt: skip
def test_negative_what_cannot_be_computed_is_an_error_that_names_the_op(ops: str, type: str, reason: str):
    with pytest.raises(LayoutError, match=re.escape(reason)):
        _result(ops, type)


GATHER = """%e = tensor.empty() : tensor<2x4xf32>
      %r = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>],
          iterator_types = ["parallel", "parallel"]}} outs(%e : tensor<2x4xf32>) {{
      ^bb0(%out: f32):
        %d0 = linalg.index 0 : index
        %d1 = linalg.index 1 : index
        %row = arith.{op} %d0, %i : index
        %a = tensor.extract %x[%row, %d1] : tensor<3x4xf32>
        %b = arith.mulf %a, %v : f32
        linalg.yield %b : f32
      }} -> tensor<2x4xf32>"""


_PADDED = """%r = tensor.pad %x low[1, 0] high[0, 2] {{
  ^bb0(%a: index, %b: index):
    {}
    tensor.yield %e : f32
  }} : tensor<3x4xf32> to tensor<4x6xf32>"""


_ROWS, _COLUMNS = np.indices((4, 6))


@pytest.mark.parametrize(
    ("body", "pads"),
    [
        ("%e = arith.addf %v, %v : f32", np.full((4, 6), 18)),
        (
            """%s = arith.muli %a, %b : index
               %k = arith.index_cast %s : index to i32
               %e = arith.sitofp %k : i32 to f32""",
            _ROWS * _COLUMNS,
        ),
    ],
)
def test_what_pads_may_depend_on_a_number_and_on_the_place(body: str, pads: np.ndarray):
    wanted = pads.astype(np.float32)
    wanted[1:, :4] = X
    assert np.array_equal(_result(_PADDED.format(body), "tensor<4x6xf32>"), wanted)


def test_constants_of_bf16_are_rounded_as_they_are_written():
    ops = """%c = arith.constant dense<[0.5, 1.00390625]> : tensor<2xbf16>
             %r = arith.extf %c : tensor<2xbf16> to tensor<2xf32>"""
    assert np.array_equal(_result(ops, "tensor<2xf32>"), np.array([0.5, 1.0], np.float32))


def test_a_body_takes_tensors_and_numbers_from_outside():
    assert np.array_equal(_result(GATHER.format(op="addi"), "tensor<2x4xf32>"), 9 * X[1:])


def test_negative_a_body_takes_no_element_from_beyond_a_tensor():
    with pytest.raises(LayoutError, match=r"tensor.extract outside of dim 0, whose extent is 3"):
        _result(GATHER.format(op="subi"), "tensor<2x4xf32>")


def test_a_whole_power_is_that_of_numpy():
    body = """%e = tensor.empty() : tensor<3x4xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) {
      ^bb0(%a: f32, %out: f32):
        %three = arith.constant 3 : i64
        %p = math.fpowi %a, %three : f32, i64
        linalg.yield %p : f32
      } -> tensor<3x4xf32>"""
    assert np.array_equal(_result(body, "tensor<3x4xf32>"), X**3)


INDEXED = """
func.func @main(%x: tensor<4x3xf32>, %at: tensor<2x1xi64>) -> (tensor<4x3xf32>, tensor<2x3xf32>, tensor<4x3xf32>) {
  %first = arith.constant 0 : index
  %z = tensor.extract %x[%first, %first] : tensor<4x3xf32>
  %made = tensor.generate {
  ^bb0(%i: index, %j: index):
    %sum = arith.addi %i, %j : index
    %whole = arith.index_cast %sum : index to i32
    %number = arith.sitofp %whole : i32 to f32
    %shifted = arith.subf %number, %z : f32
    tensor.yield %shifted : f32
  } : tensor<4x3xf32>
  %rows = tensor.gather %x[%at] gather_dims([0]) unique : (tensor<4x3xf32>, tensor<2x1xi64>) -> tensor<2x3xf32>
  %turned = arith.negf %rows : tensor<2x3xf32>
  %all = tensor.scatter %turned into %x[%at] scatter_dims([0]) unique
    : (tensor<2x3xf32>, tensor<4x3xf32>, tensor<2x1xi64>) -> tensor<4x3xf32>
  func.return %made, %rows, %all : tensor<4x3xf32>, tensor<2x3xf32>, tensor<4x3xf32>
}
"""


def test_slices_at_coordinates_and_generated_elements_are_those_of_numpy():
    x, at = np.random.default_rng(0).random((4, 3), np.float32), np.array([[3], [1]])
    made, rows, all = run(parse_program(INDEXED, "program.mlir"), [x, at])
    assert np.array_equal(made, np.add.outer(np.arange(4), np.arange(3)).astype(np.float32) - x[0, 0])
    assert np.array_equal(rows, x[[3, 1]])
    assert np.array_equal(all, np.where(np.isin(np.arange(4), at)[:, None], -x, x))


def test_dims_that_are_gathered_may_stay_as_extents_of_1():
    ops = """%at = arith.constant dense<[[2], [0]]> : tensor<2x1xi64>
      %r = tensor.gather %x[%at] gather_dims([1]) : (tensor<3x4xf32>, tensor<2x1xi64>) -> tensor<2x3x1xf32>"""
    assert np.array_equal(_result(ops, "tensor<2x3x1xf32>"), X.T[[2, 0]][..., None])


def test_negative_no_slice_is_taken_from_beyond_a_tensor():
    ops = """%at = arith.constant dense<[[2], [4]]> : tensor<2x1xi64>
      %r = tensor.gather %x[%at] gather_dims([1]) : (tensor<3x4xf32>, tensor<2x1xi64>) -> tensor<2x3xf32>"""
    with pytest.raises(LayoutError, match=r"no index 4 of dim 1, whose extent is 4"):
        _result(ops, "tensor<2x3xf32>")


def test_negative_a_number_is_rounded_to_the_nearest_even_one_alone():
    ops = "%d = arith.extf %x : tensor<3x4xf32> to tensor<3x4xf64>\n"
    ops += "%r = arith.truncf %d {} : tensor<3x4xf64> to tensor<3x4xf32>"
    assert np.array_equal(_result(ops.format("to_nearest_even"), "tensor<3x4xf32>"), X)
    with pytest.raises(LayoutError, match=r"arith.truncf is known to the nearest even number alone"):
        _result(ops.format("downward"), "tensor<3x4xf32>")


def test_a_map_knows_where_it_is_in_any_layout():
    text = """
    func.func @main(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
      %o = tensor.empty() : tensor<16x16xf32>
      %r = linalg.map ins(%x : tensor<16x16xf32>) outs(%o : tensor<16x16xf32>) (%a: f32, %b: f32) {
        %i = linalg.index 0 : index
        %q = arith.index_cast %i : index to i32
        %f = arith.sitofp %q : i32 to f32
        %g = arith.addf %a, %f : f32
        linalg.yield %g : f32
      }
      %t = linalg.transpose ins(%r : tensor<16x16xf32>) outs(%o : tensor<16x16xf32>) permutation = [1, 0]
      func.return %t : tensor<16x16xf32>
    }"""
    module = parse_program(text, "program.mlir")
    x = np.random.default_rng(0).random((16, 16), np.float32)
    wanted = (x + np.arange(16, dtype=np.float32)[:, None]).T
    (given,) = run(module, [x])
    open_layouts(module)
    optimize(module, "blocked8")
    (chosen,) = run(module, [x])
    assert np.array_equal(given, wanted) and np.array_equal(chosen, wanted)


def test_negative_iterations_in_any_order_would_write_one_element():
    text = """
    #id = affine_map<(i, j) -> (i, j)>
    func.func @main(%x: tensor<3x4xf32>, %s: tensor<4xf32>) -> tensor<4xf32> {
      %r = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (j)>], iterator_types = ["parallel", "parallel"]}
          ins(%x : tensor<3x4xf32>) outs(%s : tensor<4xf32>) {
      ^bb0(%a: f32, %b: f32):
        linalg.yield %a : f32
      } -> tensor<4xf32>
      func.return %r : tensor<4xf32>
    }"""
    with pytest.raises(
        LayoutError, match=r"result 0 is indexed by the loops \[1\], the parallel ones are \[0, 1\]"
    ):
        run(parse_program(text, "program.mlir"), [X, np.zeros(4, np.float32)])


def _written_at(place: str, extent: int, rows: int) -> str:
    """A program that writes %x to a place of %z."""
    return f"""
    func.func @main(%x: tensor<{extent}xf32>, %z: tensor<{rows}x4xf32>) -> tensor<{rows}x4xf32> {{
      %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ({place})>],
          iterator_types = ["parallel"]}} ins(%x : tensor<{extent}xf32>) outs(%z : tensor<{rows}x4xf32>) {{
      ^bb0(%a: f32, %b: f32):
        linalg.yield %a : f32
      }} -> tensor<{rows}x4xf32>
      func.return %r : tensor<{rows}x4xf32>
    }}"""


@pytest.mark.parametrize("target", [None, "blocked8"])
@pytest.mark.parametrize("row", [0, 2])
def test_what_no_iteration_writes_stays_as_it_was(row: int, target: str | None):
    module = parse_program(_written_at(f"{row}, i", 4, 3), "program.mlir")
    if target is not None:
        open_layouts(module)
        optimize(module, target)
    wanted = -X
    wanted[row] = [9, 8, 7, 6]
    (got,) = run(module, [np.array([9, 8, 7, 6], np.float32), -X])
    assert np.array_equal(got, wanted)


def test_negative_no_result_is_written_at_a_multiple_of_a_loop():
    with pytest.raises(LayoutError, match=r"result 0 is indexed by d0, .*3.*: only loops and numbers are"):
        run(parse_program(_written_at("i, i * 3", 2, 2), "program.mlir"), [X[0, :2], X[:2]])
