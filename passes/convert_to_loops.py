"""convert-layout-to-loops: the program as scalar loops over buffers, in scf and memref.

The values become the tensors of their memory (`convert-layout-to-physical`), these become memrefs, and each op becomes
loops that load, compute and store one element at a time: what a layout means, written out. For code that is to be
fast, `convert-layout-to-linalg` leaves the loops to MLIR.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from layout_ir.exits.linalg.loop_writer import write_loops
from layout_ir.exits.linalg.program_writer import write_program
from layout_ir.passes.convert_to_physical import convert_to_physical
from layout_ir.passes.layout_pass import LayoutPass


def convert_to_loops(module: ModuleOp) -> None:
    """Converts in place. Raises PassError or LocatedError, naming the op, where one has no form as loops."""
    convert_to_physical(module, inserts=True)
    write_program(module)
    write_loops(module)


@dataclass(frozen=True)
class ConvertLayoutToLoopsPass(LayoutPass):
    """Programs as loops."""

    name = "convert-layout-to-loops"

    def rewrite(self, module: ModuleOp) -> None:
        """Converts. Raises what `convert_to_loops` raises."""
        convert_to_loops(module)
