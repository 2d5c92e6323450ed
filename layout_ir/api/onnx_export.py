"""Programs as ONNX models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, NoneAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.algebra.format import Format
from layout_ir.algebra.tag import names_for
from layout_ir.api.program_arguments import entry_point
from layout_ir.argument_checks import check_program
from layout_ir.diagnostics import LocatedError, location_of, name_of_op
from layout_ir.dialects import nn
from layout_ir.dialects.layout import (
    ReorderOp,
    format_of,
    has_layout,
    is_any,
    is_tensor,
    layout_of,
    strip_type,
    with_format,
)
from layout_ir.errors import public
from layout_ir.exits.onnx import model_of
from layout_ir.passes.convert_to_physical import convert_to_physical
from layout_ir.passes.layout_pass import errors_of_pass
from layout_ir.passes.reorder_report import format_name
from layout_ir.passes.rewriting import erase_dead, insert_after, retype, update_signatures
from layout_ir.passes.strip import strip

if TYPE_CHECKING:
    import onnx


@public
def to_onnx(module: ModuleOp, *, entry: str = "main") -> onnx.ModelProto:
    """Function `entry` of a program as an ONNX model, in which every value is as it lies in memory.

    A value in nhwc is a tensor with its dims in that order, a reorder is a Transpose. Inputs and outputs keep their
    shapes: one that the program takes or gives in another layout is reordered at the boundary. A program in which a
    layout is still `any` goes out as what it computes, without a layout. The module stays as it is.

    Operators are of the version of the model that came in, or of the first that has all that is needed. Raises
    LayoutError where an op or a layout has no form in ONNX, where the model would be larger than 2 GB, and without the
    onnx package.
    """
    check_program(module)
    given, module = module, module.clone()
    types = [value.type for op in module.walk() for value in (*op.operands, *op.results)]
    if any(is_tensor(type) and is_any(type) for type in types):
        strip(module)
    elif any(is_tensor(type) and not isinstance(type.encoding, NoneAttr) for type in types):
        keep_boundary(entry_point(module, entry))
        with errors_of_pass("convert-layout-to-physical", module):
            convert_to_physical(module)
    erase_dead(list(module.walk()))
    try:
        return model_of(module, entry_point(module, entry))
    except LocatedError as error:
        raise _about_program(error, given) from error


def _about_program(error: LocatedError, module: ModuleOp) -> LocatedError:
    """An error about an op of the physical program, said of the op of `module` that it was made of."""
    ops = (op for op in module.walk() if location_of(op) == error.location)
    op = next((op for op in ops if isinstance(op, nn.NNOp)), None)
    if error.location is None or op is None or str(error).startswith(name_of_op(op)):
        return error
    ins, outs = (", ".join(map(format_name, values)) for values in (op.operands, op.results))
    return LocatedError(
        f"{name_of_op(op)} has no form in ONNX in the layouts {ins} -> {outs}: target 'onnx' chooses such as have one",
        op,
    )


def keep_boundary(function: FuncOp) -> None:
    """Makes `function` take and give row-major tensors, in place, by reorders behind arguments and before results."""
    for argument in function.args:
        if _is_elsewhere(argument.type):
            old = argument.type
            plain = retype(argument, _plain(old))
            uses = list(plain.uses)
            reorder = ReorderOp(plain, layout_of(old).format)
            insert_after(plain, reorder)
            moved = retype(reorder.result, old)
            for use in uses:
                use.operation.operands[use.index] = moved
    for block in function.body.blocks:
        end = block.last_op
        for number, value in enumerate(end.operands if isinstance(end, ReturnOp) else ()):
            if end is not None and _is_elsewhere(value.type):
                reorder = ReorderOp(value, format_of(_plain(value.type)))
                reorder.location = end.location
                Rewriter.insert_op(reorder, InsertPoint.before(end))
                end.operands[number] = reorder.result
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    update_signatures(module)


def _is_elsewhere(type: Attribute) -> bool:
    """Whether a tensor of this type has its elements at other addresses than in row-major order, or has pads."""
    if not is_tensor(type) or not has_layout(type):
        return False
    layout, plain = layout_of(type), layout_of(strip_type(type))
    return not layout.same_map(plain) or layout.extent != plain.extent


def _plain(type: Attribute) -> TensorType[Attribute]:
    tensor = strip_type(type)
    return with_format(tensor, Format.row_major(names_for(len(tensor.get_shape()))))
