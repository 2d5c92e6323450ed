"""Opaque ops are evaluated by the reference of the onnx package, whose results are checked against the op's types."""

from __future__ import annotations

import numpy as np
import pytest

import layout_ir as li
from layout_ir.api.program_text import parse_program
from tests.processes import run_python

pytest.importorskip("onnx", reason="needs the extra 'onnx'")


def run(op: str, *inputs: object) -> list[np.ndarray]:
    types = {"f32": "tensor<2x3xf32>", "bf16": "tensor<2x3xbf16>"}
    kind = "bf16" if "bf16" in op else "f32"
    body = f"%y = {op} func.return %y : {types[kind]}"
    text = f"func.func @main(%x: {types[kind]}) -> {types[kind]} {{ {body} }}"
    return li.run(parse_program(text, "text.mlir"), inputs)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_elements():
    (y,) = run('nn.opaque "Sin" opset 7 (%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>', X)
    np.testing.assert_allclose(y, np.sin(X), rtol=1e-6)


def test_bf16_goes_in_and_out_as_its_bits():
    bits = (X.view(np.uint32) >> 16).astype(np.uint16)
    (y,) = run('nn.opaque "Identity" opset 13 (%x) : (tensor<2x3xbf16>) -> tensor<2x3xbf16>', bits)
    np.testing.assert_array_equal(y, bits)


def test_elements_are_gathered_along_dims_of_any_extent():
    x = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    indices = np.array([[99, 0], [-1, 50]])
    text = """func.func @main(%x: tensor<100x3xf32>, %i: tensor<2x2xi64>) -> tensor<2x2xf32> {
        %y = nn.opaque "GatherElements" opset 13 (%x, %i) {axis = 0 : i64}
            : (tensor<100x3xf32>, tensor<2x2xi64>) -> tensor<2x2xf32>
        func.return %y : tensor<2x2xf32> }"""
    (y,) = li.run(parse_program(text, "text.mlir"), (x, indices))
    np.testing.assert_array_equal(y, [[x[99, 0], x[0, 1]], [x[99, 0], x[50, 1]]])


@pytest.mark.parametrize(("mode", "opset"), [("bilinear", 16), ("linear", 20)])
def test_a_grid_is_sampled_under_old_and_new_names(mode: str, opset: int):
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    grid = np.zeros((1, 1, 1, 2), np.float32)  # the middle
    text = f"""func.func @main(%x: tensor<1x1x2x3xf32>, %g: tensor<1x1x1x2xf32>) -> tensor<1x1x1x1xf32> {{
        %y = nn.opaque "GridSample" opset {opset} (%x, %g) {{mode = "{mode}"}}
            : (tensor<1x1x2x3xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x1x1xf32>
        func.return %y : tensor<1x1x1x1xf32> }}"""
    (y,) = li.run(parse_program(text, "text.mlir"), (x, grid))
    assert y.item() == 2.5


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ('"Nothing" opset 7 (%x)', r"nn\.opaque: the onnx package .* has no reference for Nothing"),
        ('"com.microsoft::Gelu" opset 1 (%x)', r"nn\.opaque: .* no reference for com\.microsoft::Gelu"),
        ('"Transpose" opset 13 (%x)', r"gives float32 \(3, 2\) for Transpose, but its type is f32 \(2, 3\)"),
        ('"Not" opset 1 (%x)', "for Not, but its type is f32|fails on Not"),
        (
            '"Concat" opset 13 (%x) {axis = 7 : i64}',
            # Before 1.23 the reference gives the operand more dims.
            "the reference of the onnx package fails on Concat: |for Concat, but its type is f32",
        ),
    ],
)
def test_negative_what_does_not_run(op: str, message: str):
    with pytest.raises(li.LayoutError, match=message):
        run(f"nn.opaque {op} : (tensor<2x3xf32>) -> tensor<2x3xf32>", X)


def test_onnx_is_imported_only_when_such_an_op_runs():
    code = (
        "import sys, numpy as np, layout_ir as li\n"
        "from layout_ir.api.program_text import parse_program\n"
        "m = parse_program('func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {"
        " %y = nn.relu %x : tensor<3xf32> func.return %y : tensor<3xf32> }', 't')\n"
        "li.run(m, [np.zeros(3, np.float32)])\n"
        "assert 'onnx' not in sys.modules\n"
    )
    run_python("-c", code)
