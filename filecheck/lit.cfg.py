"""Configuration of the text tests: `lit filecheck`, from the root of a checkout, installed or not."""

# lit runs this file with two names of its own.
# ruff: noqa: F821

import os
import shutil
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(here)
sys.path.insert(0, root)

from layout_ir.testing import InProcessShTest, stand_ins  # noqa: E402

TOOLS = {
    "layout-opt": "layout_ir.tools.layout_opt:main",
    "layout-ir": "layout_ir.tools.layout_ir:main",
}

config.name = "layout-ir"
config.test_source_root = here
# Nothing is written beside the tests.
config.test_exec_root = os.path.join(root, "build", "lit")
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_format = InProcessShTest(TOOLS)

# The tools of the environment that lit itself runs in, activated or not.
programs = os.path.dirname(sys.executable)
path = [programs, os.environ.get("PATH", "")]
if not os.path.exists(os.path.join(programs, "layout-opt")):
    # A checkout that is not installed.
    path.insert(0, stand_ins(TOOLS, os.path.join(config.test_exec_root, "bin"), [root]))
config.environment["PATH"] = os.pathsep.join(path)
# Plans are those of the built-in profiles, in the lit workers and in processes that they start.
config.environment["LAYOUT_IR_CALIBRATE"] = os.environ["LAYOUT_IR_CALIBRATE"] = "off"

for package in ("onnx", "onnxruntime"):
    if find_spec(package):
        config.available_features.add(package)
if shutil.which("mlir-opt"):
    config.available_features.add("mlir-opt")
# xDSL's own tool knows our dialects only through the entry point of the installed package.
is_installed = any(entry.name == "layout_ir" for entry in entry_points(group="xdsl.universe"))
if is_installed and shutil.which("xdsl-opt", path=config.environment["PATH"]):
    config.available_features.add("xdsl-opt")
