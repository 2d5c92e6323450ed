"""Programs as plain MLIR, for stock tools."""

from __future__ import annotations

from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from layout_ir.argument_checks import check_program
from layout_ir.backends.llvm.aot.object_file import FixedUnit
from layout_ir.backends.llvm.aot.reorder_library import ReorderLibrary
from layout_ir.backends.llvm.machine.known_cpus import features_needed
from layout_ir.backends.llvm.machine.machine import host
from layout_ir.dialects.layout import ReorderOp
from layout_ir.errors import LayoutError, public
from layout_ir.passes.convert_to_linalg import REORDERS, convert_to_linalg
from layout_ir.passes.convert_to_loops import convert_to_loops
from layout_ir.passes.layout_pass import errors_of_pass


@public
def to_mlir(
    module: ModuleOp,
    *,
    form: Literal["linalg", "loops"] = "linalg",
    reorders: Literal["ops", "pack", "call"] = "ops",
) -> ModuleOp:
    """A program of chosen layouts as one that stock `mlir-opt` takes: a new module, without encodings and ops of ours.

    `form` is "linalg", tensors and named ops or generics of linalg, or "loops", scalar loops over buffers. `reorders`
    is what a reorder becomes in linalg: "ops" (tensor.pad, tensor.expand_shape, linalg.transpose), "pack" (linalg.pack
    and linalg.unpack), or "call": `with_reorder_library` gives the compiled functions too.

    Values are the tensors of their memory: in nChw8c a tensor of five dims, pads being elements of it. Raises
    LayoutError, naming the op, where an op or a layout has no such form.
    """
    check_program(module)
    if form not in ("linalg", "loops"):
        raise LayoutError(f"form = {form} is unknown, expected one of linalg, loops")
    if reorders not in REORDERS:
        raise LayoutError(f"reorders = {reorders} is unknown, expected one of {', '.join(REORDERS)}")
    if form == "loops" and reorders != "ops":
        raise LayoutError(f"reorders = {reorders} is for linalg: as loops, reorders are loops as well")
    module = module.clone()
    with errors_of_pass(f"convert-layout-to-{form}", module):
        if form == "loops":
            convert_to_loops(module)
        else:
            convert_to_linalg(module, reorders)
    return module


def with_reorder_library(module: ModuleOp) -> tuple[ModuleOp, ReorderLibrary | None]:
    """The program in linalg whose reorders are calls, and the functions that it calls, None where there are none.

    They are compiled for this machine. Reorders with quantization parameters per channel stay ops: their
    functions take more arguments. Raises LayoutError as `to_mlir` does, and where a reorder cannot be compiled.
    """
    module = module.clone()
    if not any(isinstance(op, ReorderOp) for op in module.walk()):
        return to_mlir(module), None
    library = ReorderLibrary.of_program(module, host(), needs=features_needed("host"))
    plain = {unit.name for unit in library.units if isinstance(unit, FixedUnit) and not unit.arguments}
    names = {op: name for name, ops in library.uses.items() if name in plain for op in ops}
    with errors_of_pass("convert-layout-to-linalg", module):
        convert_to_linalg(module, "call", names)
    return module, library
