"""Loops compute what the program computes, in buffers that are freed once each."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import layout_ir as li
from layout_ir.api.program_text import parse_program
from layout_ir.diagnostics import LocatedError
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.elements.numpy_types import Array
from layout_ir.exits.linalg.loop_writer import write_loops
from layout_ir.passes.convert_to_loops import convert_to_loops
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.printing import print_module
from tests.exits.linalg.agreement import assert_agree
from tests.exits.linalg.mlir_tools import execute, mlir_opt
from tests.programs import parse

X = np.random.default_rng(0).standard_normal((2, 17, 5, 4)).astype(np.float32)


def test_a_reorder_is_loops_that_load_and_store():
    module = parse(
        """
        func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32, #layout.tag<ba>> {
          %y = layout.reorder %x : tensor<2x3xf32> -> tensor<2x3xf32, #layout.tag<ba>>
          func.return %y : tensor<2x3xf32, #layout.tag<ba>>
        }
        """
    )
    convert_to_loops(module)
    module.verify()
    names = [op.name for op in module.walk()]
    assert names.count("scf.for") == 2 and names.count("memref.load") == names.count("memref.store") == 1
    assert "memref<3x2xf32>" in str(module) and "tensor<" not in str(module)


def test_buffers_are_freed_unless_they_are_returned():
    module = parse(
        """
        func.func @main(%x: tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32, #layout.tag<nhwc>> {
          %a = nn.relu %x : tensor<2x17x5x4xf32>
          %b = nn.max_pool %a kernel = [3, 3] pads = [1, 1, 1, 1] : (tensor<2x17x5x4xf32>) -> tensor<2x17x5x4xf32>
          %y = layout.reorder %b : tensor<2x17x5x4xf32> -> tensor<2x17x5x4xf32, #layout.tag<nhwc>>
          func.return %y : tensor<2x17x5x4xf32, #layout.tag<nhwc>>
        }
        """
    )
    converted = module.clone()
    convert_to_loops(converted)
    text = str(converted)
    made = set(re.findall(r"(%\w+) = memref\.alloc", text))
    freed = re.findall(r"memref\.dealloc (%\w+)", text)
    (returned,) = re.findall(r"func\.return (%\w+)", text)
    assert sorted([*freed, returned]) == sorted(made)


@pytest.mark.parametrize("returned", ["%x, %w", "%w, %w", "%r, %x"])
def test_what_is_returned_is_never_freed(returned: str, tmp_path: Path):
    """Arguments, constants and views of either too."""
    module = parse(
        f"""
        func.func @main(%x: tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>) {{
          %w = nn.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]]> : tensor<2x6xf32>
          %f = layout.reshape %x : tensor<2x6xf32> -> tensor<12xf32>
          %g = nn.relu %f : tensor<12xf32>
          %r = layout.reshape %g : tensor<12xf32> -> tensor<2x6xf32>
          func.return {returned} : tensor<2x6xf32>, tensor<2x6xf32>
        }}
        """
    )
    assert_agree({"f": (module, [X[0, :2, 0, :3].repeat(2, axis=1)])}, tmp_path, convert=convert_to_loops)


def test_values_that_are_used_again_are_not_overwritten(tmp_path: Path):
    """A sum that starts from a tensor somebody else reads starts from a copy of it."""
    module = li.parse(
        """
        func.func @main(%x: tensor<3x4xf32>, %y: tensor<4x3xf32>, %z: tensor<3x3xf32>)
            -> (tensor<3x3xf32>, tensor<3x3xf32>) {
          %a = linalg.matmul ins(%x, %y : tensor<3x4xf32>, tensor<4x3xf32>)
            outs(%z : tensor<3x3xf32>) -> tensor<3x3xf32>
          %b = linalg.matmul ins(%x, %y : tensor<3x4xf32>, tensor<4x3xf32>)
            outs(%a : tensor<3x3xf32>) -> tensor<3x3xf32>
          %c = arith.addf %a, %z : tensor<3x3xf32>
          func.return %b, %c : tensor<3x3xf32>, tensor<3x3xf32>
        }
        """
    )
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((3, 4), (4, 3), (3, 3))]
    assert_agree({"f": (module, inputs)}, tmp_path, convert=convert_to_loops)


def test_control_flow_carries_buffers(tmp_path: Path):
    text = Path(__file__).parents[3].joinpath("examples", "loop.mlir").read_text()
    module = parse(text)
    optimize(module, "blocked8")
    (function,) = module.body.block.ops
    assert isinstance(function, FuncOp)
    shapes = [tensor_type(type).get_shape() for type in function.function_type.inputs]
    inputs = [np.random.default_rng(2).standard_normal(shape).astype(np.float32) for shape in shapes]
    assert_agree({"f": (module, inputs)}, tmp_path, convert=convert_to_loops)


def test_a_map_has_one_output(tmp_path: Path):
    module = parse_program(
        """
        func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
          %e = tensor.empty() : tensor<2x3xf32>
          %r = linalg.map { arith.subf } ins(%x, %y : tensor<2x3xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3xf32>)
          func.return %r : tensor<2x3xf32>
        }
        """,
        "program.mlir",
    )
    inputs = [np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 2.5, np.float32)]
    assert_agree({"main": (module, inputs)}, tmp_path, convert=convert_to_loops)


def test_negative_an_op_on_tensors_that_is_not_known_is_an_error_that_names_it():
    module = parse(
        """
        func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
          %y = tensor.cast %x : tensor<2x3xf32> to tensor<2x3xf32>
          func.return %y : tensor<2x3xf32>
        }
        """
    )
    with pytest.raises(LocatedError, match=r"tensor\.cast on tensors has no form as loops"):
        write_loops(module)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            """func.func @main(%x: tensor<?x3xf32>, %c: f32) -> tensor<?x3xf32> {
              %y = linalg.fill ins(%c : f32) outs(%x : tensor<?x3xf32>) -> tensor<?x3xf32>
              func.return %y : tensor<?x3xf32>
            }""",
            r"linalg\.fill on dynamic extents has no form as loops",
        ),
        (
            """func.func @main() -> tensor<2xf32> {
              %y = arith.constant dense_resource<far> : tensor<2xf32>
              func.return %y : tensor<2xf32>
            }""",
            r"dense_resource<far.*> : tensor<2xf32> has no form as loops: write its values as dense",
        ),
        (
            """func.func @main(%x: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi8>) {
              %low, %high = arith.mului_extended %x, %x : tensor<4xi8>
              func.return %low, %high : tensor<4xi8>, tensor<4xi8>
            }""",
            r"arith\.mului_extended on tensors has no form as loops",
        ),
    ],
)
def test_negative_what_has_no_loops_is_an_error(text: str, reason: str):
    with pytest.raises(LocatedError, match=reason):
        write_loops(parse(text))


def test_negative_ops_on_buffers_stay_as_they_are():
    module = parse(
        """
        func.func @main(%a: memref<2x3xf32>, %c: f32) {
          linalg.fill ins(%c : f32) outs(%a : memref<2x3xf32>)
          func.return
        }
        """
    )
    write_loops(module)
    assert "linalg.fill" in print_module(module) and "scf.for" not in print_module(module)


def test_broadcasts_concats_splats_and_transpositions_of_scalars_are_loops(tmp_path: Path):
    module = parse_program(
        """
        func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>, %z: tensor<f32>)
            -> (tensor<5x2x7x2xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x1xf32>) {
          %c = tensor.concat dim(1) %x, %y : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
          %e = tensor.empty() : tensor<5x2x7x2xf32>
          %b = linalg.broadcast ins(%c : tensor<2x7xf32>) outs(%e : tensor<5x2x7x2xf32>) dimensions = [0, 3]
          %f = tensor.empty() : tensor<f32>
          %t = linalg.transpose ins(%z : tensor<f32>) outs(%f : tensor<f32>) permutation = []
          %v = tensor.extract %z[] : tensor<f32>
          %s = tensor.splat %v : tensor<2x3xf32>
          %seven = arith.constant 7.0 : f32
          %l = tensor.from_elements %seven, %v : tensor<2x1xf32>
          func.return %b, %t, %s, %l : tensor<5x2x7x2xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x1xf32>
        }
        """,
        "program.mlir",
    )
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (2, 4), ())]
    assert_agree({"moves": (module, inputs)}, tmp_path, convert=convert_to_loops, exact=True)


def test_ops_on_buffers_of_the_program_itself_stay():
    module = parse(
        """
        func.func @main(%x: memref<4xf32>, %y: memref<4x3xf32>, %z: memref<3x4xf32>) {
          linalg.broadcast ins(%x : memref<4xf32>) outs(%y : memref<4x3xf32>) dimensions = [1]
          linalg.transpose ins(%y : memref<4x3xf32>) outs(%z : memref<3x4xf32>) permutation = [1, 0]
          func.return
        }
        """
    )
    before = print_module(module)
    write_loops(module)
    assert print_module(module) == before


# Written in place ---------------------------------------------------------------------------------------------------

_COUNTS = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %seven = arith.constant 7.0 : f32
"""

_SUM = """linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]
    } ins(%a : tensor<4x9xf32>) outs(%z : tensor<4x9xf32>) {
    ^bb0(%in : f32, %out : f32):
      %sum = arith.addf %in, %out : f32
      linalg.yield %sum : f32
    } -> tensor<4x9xf32>"""

AGAIN = {
    "a sum in a loop": f"""
        func.func @main(%x: tensor<4x9xf32>) -> tensor<4x9xf32> {{
          {_COUNTS}
          %z = tensor.splat %seven : tensor<4x9xf32>
          %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<4x9xf32>) {{
            %t = {_SUM}
            scf.yield %t : tensor<4x9xf32>
          }}
          func.return %r : tensor<4x9xf32>
        }}""",
    "a sum in a branch in a loop": f"""
        func.func @main(%x: tensor<4x9xf32>) -> tensor<4x9xf32> {{
          {_COUNTS}
          %z = tensor.splat %seven : tensor<4x9xf32>
          %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<4x9xf32>) {{
            %b = arith.cmpi ne, %i, %c1 : index
            %q = scf.if %b -> (tensor<4x9xf32>) {{
              %t = {_SUM}
              scf.yield %t : tensor<4x9xf32>
            }} else {{
              scf.yield %a : tensor<4x9xf32>
            }}
            scf.yield %q : tensor<4x9xf32>
          }}
          func.return %r : tensor<4x9xf32>
        }}""",
    "an empty tensor that every iteration writes": f"""
        func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{
          {_COUNTS}
          %e = tensor.empty() : tensor<4x4xf32>
          %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<4x4xf32>) {{
            %t = linalg.transpose ins(%a : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) permutation = [1, 0]
            scf.yield %t : tensor<4x4xf32>
          }}
          func.return %r : tensor<4x4xf32>
        }}""",
    "a slice of what the loop also starts from": f"""
        func.func @main(%x: tensor<1x9xf32>) -> (tensor<4x9xf32>, tensor<4x9xf32>) {{
          {_COUNTS}
          %z = tensor.splat %seven : tensor<4x9xf32>
          %r, %s = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %z, %b = %z)
              -> (tensor<4x9xf32>, tensor<4x9xf32>) {{
            %t = tensor.insert_slice %x into %z[%i, 0] [1, 9] [1, 1] : tensor<1x9xf32> into tensor<4x9xf32>
            scf.yield %b, %t : tensor<4x9xf32>, tensor<4x9xf32>
          }}
          func.return %r, %s : tensor<4x9xf32>, tensor<4x9xf32>
        }}""",
    "an empty tensor in both regions of a while": f"""
        func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{
          {_COUNTS}
          %e = tensor.empty() : tensor<4x4xf32>
          %f = tensor.empty() : tensor<4x4xf32>
          %r, %n = scf.while (%a = %x, %k = %c0) : (tensor<4x4xf32>, index) -> (tensor<4x4xf32>, index) {{
            %t = linalg.transpose ins(%a : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) permutation = [1, 0]
            %s = arith.addf %t, %x : tensor<4x4xf32>
            %p = arith.cmpi slt, %k, %c3 : index
            scf.condition(%p) %s, %k : tensor<4x4xf32>, index
          }} do {{
          ^bb0(%a: tensor<4x4xf32>, %k: index):
            %t = linalg.transpose ins(%a : tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) permutation = [1, 0]
            %m = arith.addi %k, %c1 : index
            scf.yield %t, %m : tensor<4x4xf32>, index
          }}
          func.return %r : tensor<4x4xf32>
        }}""",
    "what a call was given, which may give it back": f"""
        func.func private @same(%x: tensor<4x9xf32>) -> tensor<4x9xf32> {{
          func.return %x : tensor<4x9xf32>
        }}
        func.func @main(%a: tensor<4x9xf32>) -> (tensor<4x9xf32>, tensor<4x9xf32>) {{
          {_COUNTS}
          %z = tensor.splat %seven : tensor<4x9xf32>
          %s = func.call @same(%z) : (tensor<4x9xf32>) -> tensor<4x9xf32>
          %t = {_SUM}
          func.return %s, %t : tensor<4x9xf32>, tensor<4x9xf32>
        }}""",
    "what a branch has handed on": f"""
        func.func @main(%a: tensor<4x9xf32>) -> (tensor<4x9xf32>, tensor<4x9xf32>) {{
          {_COUNTS}
          %p = arith.cmpi slt, %c0, %c1 : index
          %z = tensor.splat %seven : tensor<4x9xf32>
          %s = scf.if %p -> (tensor<4x9xf32>) {{
            scf.yield %z : tensor<4x9xf32>
          }} else {{
            scf.yield %a : tensor<4x9xf32>
          }}
          %t = {_SUM}
          func.return %s, %t : tensor<4x9xf32>, tensor<4x9xf32>
        }}""",
}  # fmt: skip
"""Programs with a start value that is needed again."""


def _inputs(module: ModuleOp) -> list[Array]:
    """Random arrays for the function `main` of a program."""
    rng = np.random.default_rng(3)
    (main,) = [op for op in module.walk() if isinstance(op, FuncOp) and op.sym_name.data == "main"]
    shapes = [tensor_type(type).get_shape() for type in main.function_type.inputs]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def _copies(module: ModuleOp) -> int:
    """How many stores of a written program store an element just as it was loaded."""
    return sum(
        isinstance(op, memref.StoreOp) and isinstance(op.value.owner, memref.LoadOp) for op in module.walk()
    )


@pytest.mark.parametrize("case", AGAIN)
def test_what_is_needed_again_is_not_written_in_place(case: str, tmp_path: Path):
    module = li.parse(AGAIN[case])
    assert_agree({"f": (module, _inputs(module))}, tmp_path, convert=convert_to_loops)


def test_what_a_loop_of_blocks_needs_again_is_not_written_in_place(tmp_path: Path):
    module = li.parse(
        f"""
        func.func @main(%x: tensor<4x9xf32>) -> tensor<4x9xf32> {{
          {_COUNTS}
          %z = tensor.splat %seven : tensor<4x9xf32>
          cf.br ^head(%x, %c0 : tensor<4x9xf32>, index)
        ^head(%a: tensor<4x9xf32>, %k: index):
          %p = arith.cmpi slt, %k, %c3 : index
          cf.cond_br %p, ^body, ^exit
        ^body:
          %t = {_SUM}
          %m = arith.addi %k, %c1 : index
          cf.br ^head(%t, %m : tensor<4x9xf32>, index)
        ^exit:
          func.return %a : tensor<4x9xf32>
        }}"""
    )
    (x,) = _inputs(module)
    convert_to_loops(module)
    (got,) = execute(module, [x], tmp_path)
    seven = np.float32(7)
    np.testing.assert_array_equal(got, x + seven + seven + seven)


@pytest.mark.parametrize(
    ("around", "end"),
    [
        ("", ""),
        (
            "%r = scf.if %p -> (tensor<4x9xf32>) {",
            "scf.yield %t : tensor<4x9xf32> } else { scf.yield %x : tensor<4x9xf32> }",
        ),
        ("%r = scf.execute_region -> tensor<4x9xf32> {", "scf.yield %t : tensor<4x9xf32> }"),
        ("cf.cond_br %p, ^then, ^else\n ^then:", "cf.br ^else\n ^else:"),
    ],
    ids=["straight-line code", "branch", "region", "block"],
)
def test_negative_what_runs_once_is_written_in_place(around: str, end: str):
    module = li.parse(
        f"""
        func.func @main(%x: tensor<4x9xf32>, %a: tensor<4x9xf32>, %p: i1) {{
          {_COUNTS}
          %z = tensor.splat %seven : tensor<4x9xf32>
          {around}
          %t = {_SUM}
          {end}
          func.return
        }}"""
    )
    convert_to_loops(module)
    module.verify()
    assert _copies(module) == 0
    assert sum(isinstance(op, memref.AllocOp) for op in module.walk()) == 1


def test_negative_what_a_loop_makes_itself_is_written_in_place():
    module = li.parse(
        f"""
        func.func @main(%x: tensor<4x9xf32>) -> tensor<4x9xf32> {{
          {_COUNTS}
          %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> (tensor<4x9xf32>) {{
            %z = tensor.splat %seven : tensor<4x9xf32>
            %t = {_SUM}
            scf.yield %t : tensor<4x9xf32>
          }}
          func.return %r : tensor<4x9xf32>
        }}"""
    )
    convert_to_loops(module)
    assert _copies(module) == 0


# Elements that are not written --------------------------------------------------------------------------------------

_MAPS = {
    "(d0, 0)": (9, True),
    "(d0, d0)": (9, True),
    "(d0 * 2, 3)": (4, True),
    "(d0, d1)": (9, False),
    "(d1, d0)": (9, False),
}
"""Per output map into 9x9 elements how far the first loop runs, the second 9, and whether there are other elements."""


def _written(exprs: str, extent: int) -> ModuleOp:
    loops = "(d0, d1)" if "d1" in exprs else "(d0)"
    kinds = '["parallel", "parallel"]' if "d1" in exprs else '["parallel"]'
    return li.parse(
        f"""
        func.func @main(%x: tensor<{extent}xf32>, %y: tensor<9xf32>, %z: tensor<9x9xf32>) -> tensor<9x9xf32> {{
          %r = linalg.generic {{
            indexing_maps = [affine_map<{loops} -> (d0)>, affine_map<{loops} -> ({exprs[1:-1]})>],
            iterator_types = {kinds}
          }} ins(%x : tensor<{extent}xf32>) outs(%z : tensor<9x9xf32>) {{
          ^bb0(%i: f32, %o: f32):
            linalg.yield %i : f32
          }} -> tensor<9x9xf32>
          func.return %r : tensor<9x9xf32>
        }}"""
    )


@pytest.mark.parametrize("exprs", _MAPS)
def test_elements_that_no_loop_writes_are_those_of_the_start_value(exprs: str, tmp_path: Path):
    extent, others = _MAPS[exprs]
    module = _written(exprs, extent)
    inputs = _inputs(module)
    want, loops = inputs[2].copy(), range(9)
    for d0 in range(extent):
        for d1 in loops:
            want[eval(exprs, {"d0": d0, "d1": d1})] = inputs[0][d0]
    convert_to_loops(module)
    assert _copies(module) == (2 if others else 1)
    (got,) = execute(module, inputs, tmp_path)
    np.testing.assert_array_equal(got, want)


def test_a_sum_over_nothing_is_its_start_value(tmp_path: Path):
    """The body, which does not read it, never runs."""
    module = li.parse(
        """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %e = tensor.empty() : tensor<4x0xf32>
          %r = linalg.generic {
            indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
            iterator_types = ["parallel", "reduction"]
          } ins(%e : tensor<4x0xf32>) outs(%x : tensor<4xf32>) {
          ^bb0(%i: f32, %o: f32):
            linalg.yield %i : f32
          } -> tensor<4xf32>
          func.return %r : tensor<4xf32>
        }"""
    )
    (x,) = _inputs(module)
    convert_to_loops(module)
    (got,) = execute(module, [x], tmp_path)
    np.testing.assert_array_equal(got, x)


# Blocks and regions -------------------------------------------------------------------------------------------------


def test_buffers_live_as_long_as_blocks_use_them(tmp_path: Path):
    """Blocks may be written in any order; `%t` is read in two of them, the view in one that not every way leads to."""
    module = li.parse(
        """
        func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) {
          %c0 = arith.constant 0 : index
          %zero = arith.constant 0.0 : f32
          cf.br ^first
        ^last(%s: tensor<2x2xf32>):
          %u = arith.addf %t, %x : tensor<4xf32>
          func.return %u, %s : tensor<4xf32>, tensor<2x2xf32>
        ^first:
          %t = math.sin %x : tensor<4xf32>
          %w = math.cos %x : tensor<4xf32>
          %v = tensor.expand_shape %w [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
          %y = tensor.expand_shape %x [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
          %e = tensor.extract %x[%c0] : tensor<4xf32>
          %p = arith.cmpf olt, %e, %zero : f32
          cf.cond_br %p, ^then, ^last(%y : tensor<2x2xf32>)
        ^then:
          %d = arith.addf %v, %y : tensor<2x2xf32>
          cf.br ^last(%d : tensor<2x2xf32>)
        }"""
    )
    x = np.array([1.0, -2.0, 3.0, 0.5], np.float32)
    convert_to_loops(module)
    module.verify()
    for inputs in (x, -x):
        first, second = execute(module, [inputs], tmp_path)
        np.testing.assert_allclose(first, np.sin(inputs) + inputs, rtol=1e-5)
        added = np.cos(inputs) if inputs[0] < 0 else 0
        np.testing.assert_allclose(second, (inputs + added).reshape(2, 2), rtol=1e-5)


def test_regions_that_run_once_are_kept(tmp_path: Path):
    module = li.parse(
        """
        func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %r = scf.execute_region -> tensor<4xf32> {
            %t = math.absf %x : tensor<4xf32>
            cf.br ^next
          ^next:
            %u = arith.addf %t, %x : tensor<4xf32>
            scf.yield %u : tensor<4xf32>
          }
          %e = scf.index_switch %c1 -> f32
          case 1 {
            %t = arith.negf %x : tensor<4xf32>
            %e = tensor.extract %t[%c0] : tensor<4xf32>
            scf.yield %e : f32
          }
          default {
            %e = tensor.extract %x[%c1] : tensor<4xf32>
            scf.yield %e : f32
          }
          %s = tensor.splat %e : tensor<4xf32>
          func.return %r, %s : tensor<4xf32>, tensor<4xf32>
        }"""
    )
    (x,) = _inputs(module)
    convert_to_loops(module)
    module.verify()
    freed = [op for op in module.walk() if isinstance(op, memref.DeallocOp)]
    assert len(freed) == 2
    got = execute(module, [x], tmp_path)
    np.testing.assert_array_equal(got[0], np.abs(x) + x)
    np.testing.assert_array_equal(got[1], np.full(4, -x[0]))


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (
            """scf.parallel (%i) = (%n) to (%n) step (%n) {
                 %e = tensor.extract %x[%i] : tensor<4xf32>
                 memref.store %e, %m[%i] : memref<4xf32>
                 scf.reduce
               }""",
            r"tensor\.extract on tensors in scf\.parallel has no form as loops",
        ),
        (
            """%r = affine.for %i = 0 to 3 iter_args(%a = %x) -> (tensor<4xf32>) {
                 affine.yield %a : tensor<4xf32>
               }""",
            r"affine\.for on tensors has no form as loops",
        ),
        (
            """%r = memref.alloca_scope -> (f32) {
                 %e = tensor.extract %x[%n] : tensor<4xf32>
                 memref.alloca_scope.return %e : f32
               }""",
            r"tensor\.extract on tensors in memref\.alloca_scope has no form as loops",
        ),
        (
            """linalg.generic {
                 indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]
               } outs(%m : memref<4xf32>) {
               ^bb0(%o: f32):
                 %e = tensor.extract %x[%n] : tensor<4xf32>
                 linalg.yield %e : f32
               }""",
            r"tensor\.extract on tensors in linalg\.generic has no form as loops",
        ),
        (
            """%r = linalg.generic {
                 indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]
               } outs(%x : tensor<4xf32>) {
               ^bb0(%o: f32):
                 %e = scf.if %p -> (f32) {
                   %e = tensor.extract %x[%n] : tensor<4xf32>
                   scf.yield %e : f32
                 } else {
                   scf.yield %o : f32
                 }
                 linalg.yield %e : f32
               } -> tensor<4xf32>""",
            r"tensor\.extract on tensors in scf\.if has no form as loops",
        ),
        (
            "%f = func.constant @main : (tensor<4xf32>, memref<4xf32>, index, i1) -> ()",
            r"func\.constant on tensors has no form as loops",
        ),
    ],
)  # fmt: skip
def test_negative_tensors_in_regions_of_other_ops_are_an_error(ops: str, reason: str):
    module = li.parse(
        f"""
        func.func @main(%x: tensor<4xf32>, %m: memref<4xf32>, %n: index, %p: i1) {{
          {ops}
          func.return
        }}"""
    )
    with pytest.raises(LocatedError, match=reason):
        write_loops(module)


def test_negative_tensors_in_functions_of_other_dialects_are_an_error():
    module = li.parse(
        """
        ml_program.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          ml_program.return %x : tensor<4xf32>
        }"""
    )
    with pytest.raises(LocatedError, match=r"ml_program\.func on tensors has no form as loops"):
        write_loops(module)


def test_regions_of_other_ops_without_tensors_stay():
    module = li.parse(
        """
        func.func @main(%m: memref<4xf32>, %n: index, %e: f32) {
          scf.parallel (%i) = (%n) to (%n) step (%n) {
            memref.store %e, %m[%i] : memref<4xf32>
            scf.reduce
          }
          func.return
        }"""
    )
    before = print_module(module)
    write_loops(module)
    assert print_module(module) == before


# Constants, slices, pads --------------------------------------------------------------------------------------------


def test_a_constant_is_declared_where_its_function_sees_it_by_a_name_of_its_own():
    module = li.parse(
        """
        module {
          ml_program.global private @constant_0(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
          func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
            %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
            func.return %w : tensor<4xf32>
          }
          module @inner {
            func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
              %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
              func.return %w : tensor<4xf32>
            }
          }
        }"""
    )
    write_loops(module)
    text = print_module(module)
    assert "constant" in mlir_opt(text)
    assert print_module(li.parse(text)) == text


def test_slices_with_steps_of_the_run_time_are_loops(tmp_path: Path):
    module = li.parse(
        """
        func.func @main(%x: tensor<7xf32>, %z: tensor<8xf32>) -> (tensor<3xf32>, tensor<8xf32>) {
          %c1 = arith.constant 1 : index
          %c2 = arith.addi %c1, %c1 : index
          %s = tensor.extract_slice %x[%c1] [3] [%c2] : tensor<7xf32> to tensor<3xf32>
          %t = tensor.insert_slice %s into %z[%c2] [3] [%c2] : tensor<3xf32> into tensor<8xf32>
          func.return %s, %t : tensor<3xf32>, tensor<8xf32>
        }"""
    )
    x, z = _inputs(module)
    want = z.copy()
    want[2:8:2] = x[1:7:2]
    convert_to_loops(module)
    got = execute(module, [x, z], tmp_path)
    np.testing.assert_array_equal(got[0], x[1:7:2])
    np.testing.assert_array_equal(got[1], want)


@pytest.mark.parametrize(
    ("low", "high", "element", "reason"),
    [
        ("-1", "3", "%c", "a pad by less than nothing, or by what only the run time knows"),
        ("3", "-1", "%c", "a pad by less than nothing, or by what only the run time knows"),
        ("%n", "%n", "%c", "a pad by less than nothing, or by what only the run time knows"),
        ("1", "1", "%i", "a pad of more than one number"),
    ],
)
def test_negative_pads_of_other_amounts_or_elements_are_an_error(
    low: str, high: str, element: str, reason: str
):
    module = li.parse(
        f"""
        func.func @main(%x: tensor<4xindex>, %c: index, %n: index) -> tensor<6xindex> {{
          %y = tensor.pad %x low[{low}] high[{high}] {{
          ^bb0(%i: index):
            tensor.yield {element} : index
          }} : tensor<4xindex> to tensor<6xindex>
          func.return %y : tensor<6xindex>
        }}"""
    )
    with pytest.raises(LocatedError, match=reason):
        write_loops(module)
