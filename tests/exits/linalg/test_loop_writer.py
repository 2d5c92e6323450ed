"""Loops compute what the program computes, in buffers that are freed once each."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import layout_ir as li
from layout_ir.api.program_text import parse_program
from layout_ir.diagnostics import LocatedError
from layout_ir.dialects.layout.types import tensor_type
from layout_ir.exits.linalg.loop_writer import write_loops
from layout_ir.passes.convert_to_loops import convert_to_loops
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.printing import print_module
from tests.exits.linalg.agreement import assert_agree
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
