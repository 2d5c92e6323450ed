# `lit filecheck`. lit defines the name config.
# ruff: noqa: F821
import os
import sys

from layout_ir.testing import InProcessShTest

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, root)  # not needed where stereo is installed
config.name = "stereo"
config.suffixes = [".mlir"]
config.test_exec_root = os.path.join(root, "build")
config.test_format = InProcessShTest(tools={"stereo-opt": "stereo.opt:main"})
