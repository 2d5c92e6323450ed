"""layout-ir: memory layouts of tensors as a language.

    import layout_ir as li
    li.Format.from_tag("nChw8c").bind((2, 17, 5, 4)).address((1, 16, 4, 3))      # 952

`layout_ir.algebra.format` explains what a layout is. Names below are loaded on first use, so that importing the package
brings little but a lock, and the algebra never needs a compiler.
"""

from __future__ import annotations

from importlib import import_module

from layout_ir.forking import loading  # not on first use: nothing would hold a fork meanwhile

TYPE_CHECKING = False  # that of `typing`, whose import would take longer than all else here
if TYPE_CHECKING:
    from typing import Any

    from layout_ir import extend as extend
    from layout_ir import ir as ir
    from layout_ir.algebra.concat import compose, concat, split
    from layout_ir.algebra.factors import Factor
    from layout_ir.algebra.format import Format
    from layout_ir.algebra.layout import HOLE, Index, Layout, Pad
    from layout_ir.algebra.refinement import Nest, peel, refine
    from layout_ir.api.ahead_of_time import compile_object
    from layout_ir.api.array_copies import ascontiguousarray, copyto, transpose_copy
    from layout_ir.api.compiling import compile as compile
    from layout_ir.api.executable import Executable, load_executable
    from layout_ir.api.execute import run
    from layout_ir.api.measured_selection import optimize
    from layout_ir.api.memory import NONE, Memory
    from layout_ir.api.mlir_export import to_mlir
    from layout_ir.api.onnx_export import to_onnx
    from layout_ir.api.optimizing import optimize_onnx
    from layout_ir.api.prepacking import WeightPacking, compile_prepack, prepack
    from layout_ir.api.program_layouts import formats, layout_of
    from layout_ir.api.program_text import ProgramError, context, parse, to_text
    from layout_ir.api.program_text import print as print
    from layout_ir.api.reorder_compilation import compile_reorder
    from layout_ir.api.reordering import reorder
    from layout_ir.arrays.descriptor import TensorDesc
    from layout_ir.diagnostics import collect_remarks
    from layout_ir.errors import LayoutError, UnforeseenError
    from layout_ir.frontends.onnx import OnnxImportError, from_onnx
    from layout_ir.passes.explain_reorders import explain
    from layout_ir.passes.open_layouts import open_layouts
    from layout_ir.version import __version__ as __version__

_WHERE = {
    "__version__": "version",
    "HOLE": "algebra.layout",
    "NONE": "api.memory",
    "Executable": "api.executable",
    "Factor": "algebra.factors",
    "Format": "algebra.format",
    "Index": "algebra.layout",
    "Layout": "algebra.layout",
    "LayoutError": "errors",
    "Memory": "api.memory",
    "Nest": "algebra.refinement",
    "OnnxImportError": "frontends.onnx.import_error",
    "Pad": "algebra.layout",
    "ProgramError": "api.program_text",
    "TensorDesc": "arrays.descriptor",
    "UnforeseenError": "errors",
    "ascontiguousarray": "api.array_copies",
    "WeightPacking": "api.prepacking",
    "collect_remarks": "diagnostics",
    "compile": "api.compiling",
    "compile_object": "api.ahead_of_time",
    "compile_prepack": "api.prepacking",
    "compile_reorder": "api.reorder_compilation",
    "compose": "algebra.concat",
    "concat": "algebra.concat",
    "context": "api.program_text",
    "copyto": "api.array_copies",
    "explain": "passes.explain_reorders",
    "formats": "api.program_layouts",
    "from_onnx": "frontends.onnx",
    "layout_of": "api.program_layouts",
    "load_executable": "api.executable",
    "open_layouts": "passes.open_layouts",
    "optimize": "api.measured_selection",
    "optimize_onnx": "api.optimizing",
    "parse": "api.program_text",
    "peel": "algebra.refinement",
    "prepack": "api.prepacking",
    "print": "api.program_text",
    "refine": "algebra.refinement",
    "reorder": "api.reordering",
    "run": "api.execute",
    "split": "algebra.concat",
    "to_mlir": "api.mlir_export",
    "to_onnx": "api.onnx_export",
    "to_text": "api.program_text",
    "transpose_copy": "api.array_copies",
}
"""Every public name, and the module that defines it."""

_MODULES = ("extend", "ir")
"""Public modules."""

# Without `compile` and `print`, which are public too: `from layout_ir import *` leaves the builtins alone.
__all__ = [
    "HOLE",
    "NONE",
    "Executable",
    "Factor",
    "Format",
    "Index",
    "Layout",
    "LayoutError",
    "Memory",
    "Nest",
    "OnnxImportError",
    "Pad",
    "ProgramError",
    "TensorDesc",
    "UnforeseenError",
    "WeightPacking",
    "ascontiguousarray",
    "collect_remarks",
    "compile_object",
    "compile_prepack",
    "compile_reorder",
    "compose",
    "concat",
    "context",
    "copyto",
    "explain",
    "extend",
    "formats",
    "from_onnx",
    "ir",
    "layout_of",
    "load_executable",
    "open_layouts",
    "optimize",
    "optimize_onnx",
    "parse",
    "peel",
    "prepack",
    "refine",
    "reorder",
    "run",
    "split",
    "to_mlir",
    "to_onnx",
    "to_text",
    "transpose_copy",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE and name not in _MODULES:
        raise AttributeError(f"module 'layout_ir' has no attribute '{name}'")
    with loading:
        from layout_ir.gc_pause import gc_paused

        with gc_paused():  # of modules nothing is garbage
            if name in _MODULES:
                return import_module(f"layout_ir.{name}")
            value = getattr(import_module(f"layout_ir.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_WHERE, *_MODULES])
