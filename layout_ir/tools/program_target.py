"""The default target of `layout-opt`: the program as text, with aliases for its formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.targets.mlir import MLIRTarget

from layout_ir.printing import ProgramPrinter


@dataclass(frozen=True)
class ProgramTarget(MLIRTarget):
    """`-t mlir{elide-constants=N for-irdl=true}`: as xDSL's target of this name, but attributes print as aliases."""

    name = "mlir"

    elide_constants: int | None = None
    """Constants of more elements than this are left out; None prints them all."""
    for_irdl: bool = False
    """Whether to print what `mlir-opt --irdl-file` reads with the definitions of `layout-ir irdl`."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Writes the text of `module`; with colours as xDSL prints it, without aliases."""
        if self.syntax_highlight:
            super().emit(ctx, module, output)
            return
        printer = ProgramPrinter(
            print_generic_format=self.print_generic_format or self.for_irdl,
            print_properties_as_attributes=self.print_properties_as_attributes or self.for_irdl,
            print_debuginfo=self.print_debuginfo,
            is_for_irdl=self.for_irdl,
            elide_above=self.elide_constants,
        )
        output.write(printer.program(module, ctx.loaded_dialects))
