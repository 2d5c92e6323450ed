"""A gather by one constant index is a view: a slice of its operand, without the dim of the index."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from layout_ir.backends.onednn.rewrites.inserted_ops import InsertedOps
from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import ReshapeOp, SliceOp, is_any
from layout_ir.dialects.nn.tensor_types import shape_of


def replace_gathers(module: ModuleOp) -> None:
    """Replaces, in place, the gathers of open layouts that take one slice."""
    for op in list(module.walk()):
        if not isinstance(op, nn.GatherOp) or not is_any(op.result.type):
            continue
        index, shape = op.indices.owner, shape_of(op.x)
        if not isinstance(index, nn.ConstantOp) or literal_array(index).size != 1:
            continue
        number = int(literal_array(index).reshape(-1)[0])
        extent = shape[op.axis]
        if not -extent <= number < extent:
            continue  # whoever runs it says so
        starts = tuple(number % extent if d == op.axis else 0 for d in range(len(shape)))
        sizes = tuple(1 if d == op.axis else size for d, size in enumerate(shape))
        ops = InsertedOps(op)
        ops.replace(ops.insert(ReshapeOp(ops.insert(SliceOp(op.x, starts, sizes)), shape_of(op.result))))
