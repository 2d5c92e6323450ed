"""What is no regular file is written to and not replaced: a device, a pipe, a link."""

import os
import stat
import sys
from pathlib import Path

from layout_ir.tools.layout_ir import main
from layout_ir.tools.layout_opt import main as opt

text = "func.func @f(%x : tensor<4x4xf32, #layout.any>) -> tensor<4x4xf32, #layout.any> {\n"
text += "  func.return %x : tensor<4x4xf32, #layout.any>\n}\n"
Path("device.mlir").write_text(text)
Path("real.json").write_text("old")
for name in ("link.json", "link2.json"):
    Path(name).unlink(missing_ok=True)
    os.symlink("real.json", name)
assert main(["optimize", "device.mlir", "--certificate", "link.json"]) == 0
assert os.path.islink("link.json") and Path("real.json").read_text() != "old"
Path("real.json").write_text("old")
assert opt(["device.mlir", "-p", 'layout-propagate{report="link2.json"}']) == 0
assert os.path.islink("link2.json") and Path("real.json").read_text() != "old"
# As root the device would be gone: a name of our own for it, where the system allows that.
try:
    os.mknod("null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    Path("null").write_text("x")
except OSError:
    sys.exit(0)
assert main(["optimize", "device.mlir", "--certificate", "null"]) == 0
assert opt(["device.mlir", "-p", 'layout-propagate{report="null"}']) == 0
assert stat.S_ISCHR(os.stat("null").st_mode)
