"""Matrix products: which operands they take as they are, and that what they make of them is right."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from layout_ir.api.execute import run
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReorderOp, format_of, layout_of
from layout_ir.passes.optimize_pipeline import optimize
from layout_ir.passes.reorder_report import traffic
from tests.programs import parse


def _product(a: str, b: str, y: str, op: str, constant: bool = False) -> ModuleOp:
    """A product of (6, 8) and (8, 20), stored as the texts say."""
    given = "%w = nn.constant dense<0.5> : tensor<8x20xf32, #layout.any>"
    free = "layout.reorder %b : tensor<8x20xf32, " + b + "> -> tensor<8x20xf32, #layout.any>"
    return parse(f"""
    func.func @main(%a : tensor<6x8xf32, {a}>, %b : tensor<8x20xf32, {b}>) -> tensor<6x20xf32, {y}> {{
      %x = layout.reorder %a : tensor<6x8xf32, {a}> -> tensor<6x8xf32, #layout.any>
      {given if constant else "%w = " + free}
      %y = {op} %x, %w : (tensor<6x8xf32, #layout.any>, tensor<8x20xf32, #layout.any>) -> tensor<6x20xf32, #layout.any>
      %z = layout.reorder %y : tensor<6x20xf32, #layout.any> -> tensor<6x20xf32, {y}>
      func.return %z : tensor<6x20xf32, {y}>
    }}""")


ROWS = "#layout.format<(a, b) : [a, b]>"
COLUMNS = "#layout.format<(a, b) : [b, a]>"
BLOCKS = "#layout.format<(a, b) : [a, b, a:2]>"


@pytest.mark.parametrize("op", ["nn.matmul", "nn.gemm"])
@pytest.mark.parametrize("y", [ROWS, COLUMNS])
@pytest.mark.parametrize("b", [ROWS, COLUMNS])
@pytest.mark.parametrize("a", [ROWS, COLUMNS])
def test_operands_and_result_may_be_transposed(a: str, b: str, y: str, op: str):
    module = _product(a, b, y, op)
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(shape).astype(np.float32) for shape in ((6, 8), (8, 20))]
    optimize(module, "blocked8")
    module.verify()
    assert traffic(module).count == 0
    np.testing.assert_allclose(
        run(module, data, reorders="reference")[0], data[0] @ data[1], rtol=1e-4, atol=1e-5
    )


def test_negative_rows_in_blocks_are_moved():
    module = _product(BLOCKS, ROWS, ROWS, "nn.matmul")
    optimize(module, "blocked8")
    assert [type(op) for op in module.walk() if isinstance(op, ReorderOp)] == [ReorderOp]


@pytest.mark.parametrize(("target", "panel"), [("blocked8", 16), ("blocked16", 32)])
def test_constants_are_packed_in_panels(target: str, panel: int):
    module = _product(ROWS, ROWS, ROWS, "nn.matmul", constant=True)
    optimize(module, target)
    (op,) = [op for op in module.walk() if isinstance(op, nn.MatmulOp)]
    fmt = format_of(op.b.type)
    assert fmt is not None and fmt.blocks() == (1, panel)
    assert layout_of(op.b.type).padded_shape == (8, -(-20 // panel) * panel)
    assert traffic(module).count == 0
    x = np.random.default_rng(1).standard_normal((6, 8)).astype(np.float32)
    want = x @ np.full((8, 20), 0.5, np.float32)
    got = run(module, [x, np.zeros((8, 20), np.float32)], reorders="reference")[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_negative_what_is_made_at_run_time_is_not_packed_ahead():
    """The kernel packs it while it multiplies, at the same cost and without another buffer."""
    module = _product(ROWS, ROWS, ROWS, "nn.matmul")
    optimize(module, "blocked8")
    (op,) = [op for op in module.walk() if isinstance(op, nn.MatmulOp)]
    assert layout_of(op.b.type).is_dense() and not layout_of(op.b.type).is_padded


def test_negative_libraries_without_packed_products_take_constants_as_they_are():
    module = _product(ROWS, ROWS, ROWS, "nn.matmul", constant=True)
    optimize(module, "channels-last")
    (op,) = [op for op in module.walk() if isinstance(op, nn.MatmulOp)]
    assert not layout_of(op.b.type).is_padded
