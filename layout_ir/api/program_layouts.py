"""What layouts the values of a program have."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.argument_checks import check_program
from layout_ir.dialects.layout import format_of, is_tensor
from layout_ir.dialects.layout import layout_of as layout_of_type
from layout_ir.errors import LayoutError, public


@public
def layout_of(value: SSAValue | Attribute) -> Layout:
    """The Layout of a tensor value, or of a tensor type: where each of its elements is. Row-major without an encoding.

    Raises LayoutError for what is no tensor, where the layout is still `any` or opaque, and where an extent is dynamic.
    """
    if isinstance(value, SSAValue):
        return layout_of_type(value.type)
    if isinstance(value, Attribute):  # pyright: ignore[reportUnnecessaryIsInstance]
        return layout_of_type(value)
    raise LayoutError(
        f"a layout belongs to a value or to a type, not to what is of type {type(value).__name__}"
    )


@public
def formats(module: ModuleOp) -> dict[SSAValue, Format]:
    """The Format of every tensor value in `module`, in the order of the program, arguments of a block before its ops.

    A tensor without an encoding is row-major. Values that have no Format are left out: those whose layout is still
    `any` or opaque, or is said in another dialect's encoding.
    """
    check_program(module)
    found: dict[SSAValue, Format] = {}
    for op in module.walk():
        arguments = (argument for region in op.regions for block in region.blocks for argument in block.args)
        for value in (*op.results, *arguments):
            if is_tensor(value.type) and (format := format_of(value.type)) is not None:
                found[value] = format
    return found
