"""The one list of what layout-ir adds to xDSL: dialects, passes, targets.

`layout_ir.universe` hands it to every xDSL tool, `layout-opt` takes it from here. Names map to callables without
arguments that import the module only when asked, so that reading this list imports nothing: not NumPy, not
llvmlite, not even xDSL.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from layout_ir.forking import loading

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass
    from xdsl.utils.target import Target


def lazy(module: str, name: str) -> Callable[[], Any]:
    """The callable that imports `module` and returns its `name`."""

    def load() -> Any:
        return getattr(import_module(module), name)

    return load


DIALECTS: dict[str, Callable[[], Dialect]] = {
    "kernel": lazy("layout_ir.dialects.kernel.ops", "KernelDialect"),
    "layout": lazy("layout_ir.dialects.layout", "LayoutDialect"),
    "nn": lazy("layout_ir.dialects.nn", "NN"),
}

_INCOMPLETE = (
    *("affine", "arith", "bufferization", "cf", "complex", "func", "gpu", "linalg", "math", "memref"),
    *("ml_program", "scf", "tensor", "tosa", "vector"),
)
"""Dialects of xDSL that lack ops or attributes of MLIR; `layout_ir.dialects.upstream` has these."""

_LACKING = ("index", "quant", "shape", "sparse_tensor")
"""Dialects of MLIR that xDSL has not at all."""


def _nothing_of(name: str) -> Callable[[], Dialect]:
    def load() -> Dialect:
        return import_module("xdsl.ir").Dialect(name)

    return load


LACKING: dict[str, Callable[[], Dialect]] = {name: _nothing_of(name) for name in _LACKING}
"""Name of a dialect that xDSL lacks -> what loads it, empty, for `with_additions`."""


def with_additions(name: str, load: Callable[[], Dialect]) -> Callable[[], Dialect]:
    """The callable that loads dialect `name`, which `load` returns, with the ops of MLIR that it lacks."""

    def load_whole() -> Dialect:
        with loading:
            if name not in _INCOMPLETE and name not in _LACKING:
                return load()
            return import_module("layout_ir.dialects.upstream").with_additions(name, load)

    return load_whole


_PASSES = (
    ("open", "open_layouts", "make every tensor of a plain program #layout.any, with reorders at the edges"),
    ("propagate", "propagate", "choose a format for every #layout.any, insert the reorders that are left"),
    ("fold-reorders", "fold_reorders", "remove, merge, share and move reorders; never makes a program worse"),
    ("prepack-constants", "prepack_constants", "reorder constants at compile time"),
    (
        "legalize-pads",
        "legalize_pads",
        "fill pads where a consumer needs them and they are not already right",
    ),
    (
        "explain",
        "explain_reorders",
        "a remark per remaining reorder: bytes, the ops that force it, what would remove it",
    ),
    ("strip", "strip", "erase every reorder and encoding: what is left is what the program computes"),
    ("optimize", "optimize_pipeline", "the pipeline of the above"),
)
"""The passes in the order of a pipeline: name behind `layout-`, module in `passes/`, and what it does, in one line.
The class of `layout-fold-reorders` is `LayoutFoldReordersPass`."""


def _class_name(name: str) -> str:
    return "Layout" + "".join(word.capitalize() for word in name.split("-")) + "Pass"


PASSES: dict[str, Callable[[], type[ModulePass]]] = {
    f"layout-{name}": lazy(f"layout_ir.passes.{module}", _class_name(name)) for name, module, _ in _PASSES
}
PASSES["convert-layout-to-physical"] = lazy(
    "layout_ir.passes.convert_to_physical", "ConvertLayoutToPhysicalPass"
)
PASSES["convert-layout-to-linalg"] = lazy("layout_ir.passes.convert_to_linalg", "ConvertLayoutToLinalgPass")
PASSES["convert-layout-to-loops"] = lazy("layout_ir.passes.convert_to_loops", "ConvertLayoutToLoopsPass")
PASSES["convert-layout-to-kernel"] = lazy("layout_ir.backends.llvm.lowering", "ConvertLayoutToKernelPass")

SUMMARIES: dict[str, str] = {f"layout-{name}": summary for name, _, summary in _PASSES}
"""What each pass does, in one line, for help texts: asking the pass itself would import it."""
SUMMARIES["convert-layout-to-physical"] = (
    "each value the tensor of its memory, without encoding; reorders as transpose, reshape, pad, slice"
)
SUMMARIES["convert-layout-to-linalg"] = (
    "linalg, tensor and arith without encodings, for stock mlir-opt; reorders as ops, pack and unpack, or calls"
)
SUMMARIES["convert-layout-to-loops"] = "scalar loops over buffers, in scf and memref"
SUMMARIES["convert-layout-to-kernel"] = "each reorder as the plan that is compiled: loops and micro-kernels"

TARGETS: dict[str, Callable[[], type[Target]]] = {
    "llvm-ir": lazy("layout_ir.backends.llvm.target", "LLVMIRTarget"),
}
