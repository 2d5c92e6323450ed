"""convert-layout-to-linalg: the program in linalg, tensor and arith, as stock `mlir-opt` takes it.

The values become the tensors of their memory (`convert-layout-to-physical`), and each op of `nn` one op of linalg or a
few: a named op where there is one, else `linalg.generic`. No encoding is left, and no op of ours. Programs of tensors
only go out; what of other dialects is on row-major tensors stays as it is.

    reorders=ops     a reorder is tensor.pad, tensor.expand_shape, linalg.transpose, ..., which stock passes bufferize
    reorders=pack    linalg.pack and linalg.unpack where one of them says it, which tools that know layouts fold and
                     propagate; they are lowered (transform.structured.lower_pack) before bufferization
    reorders=call    a call of a function `void reorder_0(const void *, void *)` per kind of reorder
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from layout_ir.errors import LayoutError
from layout_ir.exits.linalg.named_ops import name_generics
from layout_ir.exits.linalg.pack_ops import pack_reorders
from layout_ir.exits.linalg.program_writer import write_program
from layout_ir.exits.linalg.reorder_calls import pass_buffers
from layout_ir.passes.convert_to_physical import convert_to_physical
from layout_ir.passes.layout_pass import LayoutPass

REORDERS = ("ops", "pack", "call")
"""What a reorder can become."""


def convert_to_linalg(
    module: ModuleOp, reorders: str = "ops", names: Mapping[Operation, str] | None = None
) -> None:
    """Converts in place. With reorders=call, those among the keys of `names` are calls of functions of these names.

    Raises LayoutError for an unknown value of `reorders`, PassError or LocatedError, naming the
    op, where one has no physical form or no form in linalg."""
    _check(reorders)
    convert_to_physical(module, "call" if reorders == "call" else "ops", names, inserts=True)
    if reorders == "pack":
        pack_reorders(module)
    write_program(module)
    name_generics(module)
    if reorders == "call":
        pass_buffers(module)


def _check(reorders: str) -> None:
    if reorders not in REORDERS:
        raise LayoutError(f"reorders = {reorders} is unknown, expected one of {', '.join(REORDERS)}")


@dataclass(frozen=True)
class ConvertLayoutToLinalgPass(LayoutPass):
    """Programs for stock mlir-opt."""

    name = "convert-layout-to-linalg"

    reorders: str = "ops"

    def check_options(self) -> None:
        """Raises LayoutError for an unknown value of `reorders`."""
        _check(self.reorders)

    def rewrite(self, module: ModuleOp) -> None:
        """Converts. Raises what `convert_to_linalg` raises."""
        convert_to_linalg(module, self.reorders)
