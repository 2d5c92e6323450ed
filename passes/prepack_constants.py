"""layout-prepack-constants: reorders of constants happen when the program is built.

A constant is its logical values; its encoding says where they lie. A reorder of it is therefore a constant of
another type, and costs nothing at run time. A constant that is needed in several Formats becomes several constants.
Views of constants are left alone: they cost nothing anyway. So is what nothing used before: a program strips to the
same text before and after, and an unused constant is part of that text.
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from layout_ir.dialects import nn
from layout_ir.dialects.layout import CastOp, FillPadsOp, ReorderOp, is_any
from layout_ir.passes.layout_pass import LayoutPass
from layout_ir.passes.rewriting import erase_dead, insert_after, replace_op


def prepack_constants(module: ModuleOp) -> None:
    """Packs in place. A constant op is followed through chains of reorders, each ending in a constant of its own."""
    packed_elsewhere: list[nn.ConstantOp] = []
    for op in list(module.walk()):
        if isinstance(op, ReorderOp | CastOp | FillPadsOp) and isinstance(op.input.owner, nn.ConstantOp):
            keeps_elements = not isinstance(op, ReorderOp) or op.keeps_elements
            if keeps_elements and op.result.uses and not is_any(op.result_type):
                source = op.input.owner
                packed = nn.ConstantOp.create(
                    result_types=[op.result_type], properties=source.properties, attributes=source.attributes
                )
                packed.result.name_hint = op.input.name_hint
                insert_after(op.input, packed)
                packed_elsewhere.append(source)
                replace_op(op, packed.result)
    erase_dead(packed_elsewhere)


@dataclass(frozen=True)
class LayoutPrepackConstantsPass(LayoutPass):
    """Reorders of constants become constants."""

    name = "layout-prepack-constants"

    def rewrite(self, module: ModuleOp) -> None:
        """Makes a constant of every reorder, cast and fill of one."""
        prepack_constants(module)
