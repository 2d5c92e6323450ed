"""The target `onnx`: what it offers can be written, and what ONNX operators do not take is not offered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import layout_ir as li
from layout_ir.algebra.format import Format
from layout_ir.algebra.physical import physical_tensor
from layout_ir.dialects import nn
from layout_ir.dialects.layout import has_layout, layout_of
from layout_ir.interfaces import LayoutOption
from layout_ir.passes.convert_to_physical import convert_to_physical
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.selection.options.models import options_of
from layout_ir.passes.selection.options.targets import target_named
from layout_ir.passes.selection.options.tensor_formats import bound
from tests.passes.programs import random_program
from tests.programs import parse

TARGET = target_named("onnx")


def offered(op: str, *formats: str) -> set[tuple[str | None, ...]]:
    """The formats of operands and result of `op` on values %x, for which `formats` are known."""
    text = f"func.func @main(%x: tensor<2x8x6x4xf32, #layout.any>) {{ {op} func.return }}"
    module = parse(text, verify=False)
    (found,) = [op for op in module.walk() if isinstance(op, nn.NNOp) and not isinstance(op, nn.ConstantOp)]
    known = [Format.from_tag(tag) for tag in formats]
    options = options_of(found, lambda value: [fmt for fmt in known if bound(fmt, value)], TARGET)
    return {tuple(_tag(fmt) for fmt in (*option.ins, *option.outs)) for option in options}


def _tag(fmt: Format | None) -> str | None:
    return None if fmt is None else str(fmt).partition(" : ")[2]


ANY = "tensor<2x8x6x4xf32, #layout.any>"
CHANNELS = "tensor<8xf32, #layout.any>"
VECTOR = f"%s = nn.constant dense<1.0> : {CHANNELS} "
WEIGHTS = "%w = nn.constant dense<1.0> : tensor<8x3x1x1xf32> "
INDICES = "%i = nn.constant dense<[1, -1]> : tensor<2xi64> "


@pytest.mark.parametrize(
    "op",
    [
        f"%y = nn.relu %x : {ANY}",
        f"%y = nn.softmax %x axis = 1 : {ANY}",
        f"%y = nn.concat %x, %x axis = 1 : ({ANY}, {ANY}) -> tensor<2x16x6x4xf32, #layout.any>",
        f"%y = nn.reduce_mean %x axes = [1] : ({ANY}) -> tensor<2x1x6x4xf32, #layout.any>",
        f"%y = nn.pad %x pads = [0, 1, 0, 0, 0, 0, 0, 0] : ({ANY}) -> tensor<2x9x6x4xf32, #layout.any>",
        f"%y = nn.cum_sum %x axis = 1 : {ANY}",
        f"%y = nn.tile %x repeats = [1, 2, 1, 1] : ({ANY}) -> tensor<2x16x6x4xf32, #layout.any>",
        f"%y = nn.arg_max %x axis = 1 : ({ANY}) -> tensor<2x1x6x4xi64, #layout.any>",
        INDICES
        + f"%y = nn.gather %x, %i axis = 1 : ({ANY}, tensor<2xi64>) -> tensor<2x2x6x4xf32, #layout.any>",
    ],
)
def test_ops_along_axes_run_in_every_order_of_dims(op: str):
    assert {option[0] for option in offered(op, "nhwc", "chwn")} == {
        "[n, c, h, w]",
        "[n, h, w, c]",
        "[c, h, w, n]",
    }


@pytest.mark.parametrize(
    "op",
    [
        f"%y = nn.max_pool %x kernel = [2, 2] : ({ANY}) -> tensor<2x8x5x3xf32, #layout.any>",
        f"%y = nn.global_avg_pool %x : ({ANY}) -> tensor<2x8x1x1xf32, #layout.any>",
        f"%y = nn.lrn %x size = 3 : {ANY}",
        f"%y = nn.resize %x scales = [1.0, 1.0, 2.0, 2.0] : ({ANY}) -> tensor<2x8x12x8xf32, #layout.any>",
        VECTOR + f"%y = nn.group_norm %x, %s, %s groups = 2 : ({ANY}, {CHANNELS}, {CHANNELS}) -> {ANY}",
        WEIGHTS
        + f"%y = nn.conv_transpose %x, %w : ({ANY}, tensor<8x3x1x1xf32>) -> tensor<2x3x6x4xf32, #layout.any>",
    ],
)
def test_negative_ops_that_know_dims_by_position_run_in_row_major_only(op: str):
    assert {option[0] for option in offered(op, "nhwc")} == {"[n, c, h, w]"}


@pytest.mark.parametrize(
    ("op", "factors", "expected"),
    [
        ("layer_norm", "8x1x1", {"[n, c, h, w]", "[n, h, w, c]"}),
        ("rms_norm", "8x1x1", {"[n, c, h, w]", "[n, h, w, c]"}),
        ("layer_norm axes = [3]", "4", {"[n, c, h, w]", "[c, n, h, w]"}),
        ("layer_norm axes = [2, 3]", "6x4", {"[n, c, h, w]", "[c, n, h, w]"}),
    ],
)
def test_a_normalization_has_its_axes_innermost_or_is_row_major(op: str, factors: str, expected: set[str]):
    name, _, axes = op.partition(" ")
    vector = f"tensor<{factors}xf32>"
    norm = f"%y = nn.{name} %x, %s {axes or 'axes = [1]'} : ({ANY}, {vector}) -> {ANY}"
    formats = offered(
        f"%s = nn.constant dense<1.0> : {vector} {norm}", "nhwc", "chwn", "cnhw", "nchw", "ncwh"
    )
    assert {option[0] for option in formats} == expected


def test_negative_no_blocks():
    assert offered(f"%y = nn.relu %x : {ANY}", "nChw4c", "nhwc") == {
        ("[n, c, h, w]",) * 2,
        ("[n, h, w, c]",) * 2,
    }


@pytest.mark.parametrize("seed", range(30))
def test_what_is_chosen_can_be_written(seed: int):
    module, shape = random_program(7000 + seed, 14)
    optimize(module, "onnx")
    for op in module.walk():
        for value in op.results:
            if has_layout(value.type):
                tensor = physical_tensor(layout_of(value.type))
                assert np.prod(tensor.shape) == np.prod(value.type.get_shape())
                assert all(len(tensor.places(dim)) <= 1 for dim in range(len(tensor.extents)))
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    want = li.run(module, [x], reorders="reference")
    convert_to_physical(module)
    assert not any(op.name.startswith("linalg.") for op in module.walk())
    for got, expected in zip(li.run(module, [x]), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_a_reduction_that_drops_dims_keeps_the_order_of_the_others():
    op = f"%y = nn.reduce_mean %x axes = [2, 3] keepdims = false : ({ANY}) -> tensor<2x8xf32, #layout.any>"
    assert offered(op, "nhwc", "chwn") == {
        ("[n, c, h, w]", "[n, c]"),
        ("[n, h, w, c]", "[n, c]"),
        ("[c, h, w, n]", "[c, n]"),
    }


def test_a_transposed_matrix_is_a_flag_and_a_transposed_result_is_none():
    known = [Format.parse("(n, c) : [c, n]")]
    text = """
    !A = tensor<3x5xf32, #layout.any>
    !B = tensor<5x7xf32, #layout.any>
    func.func @main(%a: !A, %b: !B) {
      %y = nn.matmul %a, %b : (!A, !B) -> tensor<3x7xf32, #layout.any>
      func.return
    }
    """
    (op,) = [op for op in parse(text).walk() if isinstance(op, nn.MatmulOp)]
    options: list[Any] = list(options_of(op, lambda value: known, TARGET))
    assert all(isinstance(option, LayoutOption) for option in options)
    assert {tuple(_tag(fmt) for fmt in option.ins) for option in options} == {
        (a, b) for a in ("[n, c]", "[c, n]") for b in ("[n, c]", "[c, n]")
    }
    assert {_tag(option.outs[0]) for option in options} == {"[n, c]"}
