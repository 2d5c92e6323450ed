"""A certificate is of the program that carries it: pasted into another, it proves nothing of that one."""

from pathlib import Path

from layout_ir.tools.layout_ir import main
from layout_ir.tools.layout_opt import main as opt

one = """func.func @f(%x : tensor<1x16x4x4xf32, #layout.tag<nchw>>) -> tensor<1x16x4x4xf32, #layout.tag<nhwc>> {
  %0 = layout.reorder %x : tensor<1x16x4x4xf32, #layout.tag<nchw>> -> tensor<1x16x4x4xf32, #layout.any>
  %1 = nn.relu %0 : tensor<1x16x4x4xf32, #layout.any>
  %2 = layout.reorder %1 : tensor<1x16x4x4xf32, #layout.any> -> tensor<1x16x4x4xf32, #layout.tag<nhwc>>
  func.return %2 : tensor<1x16x4x4xf32, #layout.tag<nhwc>>
}
"""
Path("one.mlir").write_text(one)
assert opt(["one.mlir", "-p", "layout-propagate{attach=true}", "-o", "attached.mlir"]) == 0
attached = Path("attached.mlir").read_text()
[head] = [line for line in attached.splitlines() if "layout.certificate" in line]
assert head.startswith("builtin.module attributes {") and head.endswith("{"), head
Path("pasted.mlir").write_text(f"{head}\n}}\n")
assert main(["verify-certificate", "attached.mlir"]) == 0
assert main(["verify-certificate", "pasted.mlir"]) != 0, "a module with nothing but a certificate is proven"
