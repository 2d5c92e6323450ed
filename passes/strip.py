"""layout-strip: erase every reorder, encoding, list of options and name of a chosen one, so that only what the program
computes is left.

Two programs that strip to the same text compute the same thing; that is how the other passes are checked. A reorder
that also converts the element type computes something and stays, on stripped types. Constants that differed
in their encoding alone become one, since packing a constant for two uses must not count as a difference.
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation

from layout_ir.certificate.checking import ATTRIBUTE as CERTIFICATE
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    AnyAttr,
    CastOp,
    FillPadsOp,
    FormatAttr,
    OpaqueAttr,
    ReorderOp,
    is_tensor,
    strip_type,
)
from layout_ir.interfaces import CHOSEN, OPTIONS
from layout_ir.passes.layout_pass import LayoutPass
from layout_ir.passes.rewriting import replace_op, retype, update_signatures
from layout_ir.passes.selection.options.in_place import ATTRIBUTE as IN_PLACE

_LAYOUT_ONLY = (ReorderOp, CastOp, FillPadsOp)


def strip(module: ModuleOp) -> None:
    """Strips in place."""
    module.attributes.pop(CERTIFICATE, None)
    for op in list(module.walk()):
        for attribute in (OPTIONS, CHOSEN, IN_PLACE):
            op.attributes.pop(attribute, None)
        for region in op.regions:
            for block in region.blocks:
                for arg in block.args:
                    retype(arg, _stripped(arg.type))
        for result in op.results:
            retype(result, _stripped(result.type))
    constants: dict[tuple[Block | None, Attribute, Attribute], Operation] = {}
    for op in list(module.walk()):
        changes = isinstance(op, ReorderOp) and not op.keeps_elements
        if isinstance(op, _LAYOUT_ONLY) and op.input.type == op.result.type and not changes:
            replace_op(op, op.input)
        elif isinstance(op, nn.ConstantOp):
            first = constants.setdefault((op.parent, op.value, op.result.type), op)
            if first is not op:
                replace_op(op, first.results[0])
    update_signatures(module)
    _strip_declarations(module)


def _stripped(type: Attribute) -> Attribute:
    if is_tensor(type) and isinstance(type.encoding, FormatAttr | AnyAttr | OpaqueAttr):
        return strip_type(type)
    return type


def _strip_declarations(module: ModuleOp) -> None:
    for op in module.walk():
        if isinstance(op, FuncOp) and not op.body.blocks:
            inputs, outputs = op.function_type.inputs, op.function_type.outputs
            op.function_type = type(op.function_type).from_lists(
                [_stripped(t) for t in inputs], [_stripped(t) for t in outputs]
            )


@dataclass(frozen=True)
class LayoutStripPass(LayoutPass):
    """What is left when every layout is forgotten."""

    name = "layout-strip"

    def rewrite(self, module: ModuleOp) -> None:
        """Strips; never fails."""
        strip(module)
