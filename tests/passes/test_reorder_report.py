"""What a report counts."""

from __future__ import annotations

import pytest

from layout_ir.api.program_text import context
from layout_ir.errors import LayoutError
from layout_ir.frontends.mlir.locations import LocatedParser
from layout_ir.passes.reorder_report import compare

OPS = """\
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = arith.constant dense<1.0> : tensor<4x8xf32>
  %t = "tosa.const"() <{values = dense<1.0> : tensor<4x8xf32>}> : () -> tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %n = nn.constant dense<1.0> : tensor<4x8xf32>
  %a = arith.addf %x, %c : tensor<4x8xf32>
  %g = linalg.add ins(%a, %t : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = nn.relu %g : tensor<4x8xf32>
  %u = "theirs.op"(%r) ({
    %one = arith.constant 1.0 : f32
    %two = arith.addf %one, %one : f32
    "theirs.yield"(%two) : (f32) -> ()
  }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = layout.reorder %u : tensor<4x8xf32> -> tensor<4x8xf32, #layout.tag<ba>>
  %z = layout.reorder %y : tensor<4x8xf32, #layout.tag<ba>> -> tensor<4x8xf32>
  func.return %z : tensor<4x8xf32>
}
"""


def test_ops_of_every_dialect_are_counted_that_compute_something_of_tensors():
    module = LocatedParser(context(allow_unregistered=True), OPS, "p.mlir").parse_program()
    report, _, _ = compare(module, "blocked8")
    assert report.ops == 4  # arith.addf, linalg.add, nn.relu, theirs.op


def test_negative_an_unknown_target_is_refused_where_nothing_is_to_be_chosen():
    module = LocatedParser(context(), "func.func @main() {\n  func.return\n}\n", "p.mlir").parse_program()
    with pytest.raises(LayoutError, match=r"^unknown target 'nope': targets are host, "):
        compare(module, "nope")
