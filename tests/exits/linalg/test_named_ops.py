"""Generics that are named ops are written as these, with the strides and dilations that their maps have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.passes.convert_to_linalg import convert_to_linalg
from tests.exits.linalg.agreement import assert_agree
from tests.exits.linalg.mlir_tools import mlir_opt
from tests.programs import parse

CASES = {
    "matmul": ("nn.matmul %x, %y", "3x4", "4x5", "3x5", ""),
    "batch_matmul": ("nn.matmul %x, %y", "2x3x4", "2x4x5", "2x3x5", ""),
    "conv_1d_ncw_fcw": ("nn.conv %x, %y strides = [2]", "2x4x9", "6x4x3", "2x6x4", "strides = dense<2>"),
    "conv_2d_nchw_fchw": (
        "nn.conv %x, %y strides = [2, 1] dilations = [1, 2]", "2x4x9x8", "6x4x3x2", "2x6x4x6",
        "dilations = dense<[1, 2]> : tensor<2xi64>, strides = dense<[2, 1]>",
    ),
    "conv_3d_ncdhw_fcdhw": ("nn.conv %x, %y", "2x4x5x6x7", "3x4x2x3x1", "2x3x4x4x7", ""),
    "conv_2d_ngchw_gfchw": ("nn.conv %x, %y group = 2", "2x4x9x8", "6x2x3x2", "2x6x7x7", ""),
    "depthwise_conv_2d_nchw_chw": ("nn.conv %x, %y group = 4", "2x4x9x8", "4x1x3x2", "2x4x7x7", ""),
}  # fmt: skip


def program(text: str, x: str, y: str, result: str, dtype: str = "f32") -> ModuleOp:
    """A function of one op."""
    types = [f"tensor<{shape}x{dtype}>" for shape in (x, y, result)]
    return parse(
        f"func.func @main(%x: {types[0]}, %y: {types[1]}) -> {types[2]} {{\n"
        f"%z = {text} : ({types[0]}, {types[1]}) -> {types[2]}\nfunc.return %z : {types[2]} }}"
    )


def names(module: ModuleOp) -> list[str]:
    """The ops of linalg."""
    return [op.name for op in module.walk() if op.name.startswith("linalg.") and op.name != "linalg.yield"]


@pytest.mark.parametrize("name", CASES)
def test_ops_are_named_and_compute_the_same(name: str, tmp_path: Path):
    text, x, y, result, factors = CASES[name]
    module = program(text, x, y, result)
    converted = module.clone()
    convert_to_linalg(converted)
    assert names(converted) == ["linalg.fill", f"linalg.{name}"]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(tuple(map(int, s.split("x")))).astype(np.float32) for s in (x, y)]
    assert_agree({"main_of": (module, inputs)}, tmp_path)
    # Stock tools say the factors in their own words.
    assert factors in mlir_opt(str(converted), "--canonicalize")


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_are_summed_up_in_single_precision_by_named_ops_too(dtype: str):
    module = program("nn.matmul %x, %y", "3x4", "4x5", "3x5", dtype)
    convert_to_linalg(module)
    assert names(module) == ["linalg.fill", "linalg.matmul", "linalg.generic"]
    (matmul,) = [op for op in module.walk() if op.name == "linalg.matmul"]
    assert str(matmul.results[0].type) == "tensor<3x5xf32>"


def test_channels_last_and_pools_are_named():
    module = parse(
        """
        #nhwc = #layout.tag<nhwc>
        func.func @main(%x: tensor<2x4x9x8xf32, #nhwc>, %w: tensor<6x4x3x3xf32, #layout.tag<hwio>>)
            -> tensor<2x6x3x3xf32, #nhwc> {
          %y = nn.conv %x, %w
            : (tensor<2x4x9x8xf32, #nhwc>, tensor<6x4x3x3xf32, #layout.tag<hwio>>) -> tensor<2x6x7x6xf32, #nhwc>
          %z = nn.max_pool %y kernel = [3, 2] strides = [2, 2]
            : (tensor<2x6x7x6xf32, #nhwc>) -> tensor<2x6x3x3xf32, #nhwc>
          func.return %z : tensor<2x6x3x3xf32, #nhwc>
        }
        """
    )
    convert_to_linalg(module)
    assert [n for n in names(module) if n != "linalg.fill"] == [
        "linalg.conv_2d_nhwc_hwcf",
        "linalg.pooling_nhwc_max",
    ]


@pytest.mark.parametrize(
    ("text", "x", "y", "result"),
    [
        ("nn.gemm %x, %y trans_b = true", "3x4", "5x4", "3x5"),  # a transposed matrix
        ("nn.matmul %x, %y", "2x3x4", "4x5", "2x3x5"),  # a batch times one matrix
    ],
)
def test_negative_what_no_named_op_says_stays_generic(text: str, x: str, y: str, result: str):
    module = program(text, x, y, result)
    convert_to_linalg(module)
    assert names(module) == ["linalg.fill", "linalg.generic"]


def test_negative_another_body_is_no_named_op():
    module = parse(
        """
        func.func @main(%x: tensor<3x4xf32>, %y: tensor<4x5xf32>, %z: tensor<3x5xf32>) -> tensor<3x5xf32> {
          %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
              affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
              ins(%x, %y : tensor<3x4xf32>, tensor<4x5xf32>) outs(%z : tensor<3x5xf32>) {
          ^bb0(%a: f32, %b: f32, %c: f32):
            %p = arith.mulf %a, %b : f32
            %s = arith.subf %p, %c : f32
            linalg.yield %s : f32
          } -> tensor<3x5xf32>
          func.return %r : tensor<3x5xf32>
        }
        """
    )
    convert_to_linalg(module)
    assert names(module) == ["linalg.generic"]


def test_negative_one_number_beside_three_dims_is_no_pool():
    """Its maps are those of a pool whose window has one tap, also of one on unsigned integers."""
    module = program("nn.add %x, %y", "2x3x4", "1", "2x3x4")
    convert_to_linalg(module)
    assert names(module) == ["linalg.generic"]
