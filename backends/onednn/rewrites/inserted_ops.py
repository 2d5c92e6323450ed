"""Ops that are inserted in front of another, to compute what it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from layout_ir.backends.reference.semantics import literal_array
from layout_ir.dialects import nn
from layout_ir.dialects.layout import AnyAttr, attribute_of, is_any, with_format
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.tensor_types import shape_of
from layout_ir.elements.numpy_types import Array, storage


class InsertedOps:
    """Ops at the place of `op`, which has a result: of its location, their layouts as open as that of the result."""

    def __init__(self, op: Operation) -> None:
        self._op = op
        self._made: list[Operation] = []
        self._builder = Builder(InsertPoint.before(op))
        self._encoding = AnyAttr() if is_any(op.results[0].type) else NoneAttr()

    @property
    def made(self) -> Sequence[Operation]:
        """What was inserted."""
        return self._made

    def type_of(self, dtype: str, shape: Sequence[int]) -> TensorType[Attribute]:
        """The type of such a tensor, its layout as open as that of the result."""
        return TensorType(attribute_of(dtype), shape, self._encoding)

    def insert(self, op: Operation) -> SSAValue:
        """The first result of `op`, which is inserted."""
        [result, *_] = op.results
        wanted = with_format(result.type, self._encoding)
        if result.type != wanted:
            Rewriter.replace_value_with_new_type(result, wanted)
        return self.insert_typed(op)

    def insert_typed(self, op: Operation) -> SSAValue:
        """The first result of `op`, which is inserted with the layout that its type has."""
        op.location = self._op.location
        self._builder.insert(op)
        self._made.append(op)
        op.verify_()
        return op.results[0]

    def apply(self, op: type[nn.NNOp], *operands: SSAValue | None, **attributes: Any) -> SSAValue:
        """The result of an op on those operands that are given."""
        return self.insert(op(*(x for x in operands if x is not None), **attributes))

    def constant(self, values: Array, dtype: str = "f32") -> SSAValue:
        """A constant with elements of `dtype`."""
        type = TensorType(attribute_of(dtype), values.shape)
        data = literal(type, np.ascontiguousarray(values, storage(dtype)).tobytes())
        return self.insert(nn.ConstantOp(data, with_format(type, self._encoding)))

    def replace(self, *made: SSAValue | None) -> None:
        """Puts `made` in place of the results of the op, which is erased; None for one that is not used."""
        for new, old in zip(made, self._op.results, strict=True):
            if new is not None:
                typed = new if new.type == old.type else Rewriter.replace_value_with_new_type(new, old.type)
                old.replace_all_uses_with(typed)
        Rewriter.erase_op(self._op)

    def take_back(self) -> None:
        """Erases what was inserted."""
        for made in reversed(self._made):
            Rewriter.erase_op(made)


def elements_of(value: SSAValue) -> Array | None:
    """The elements of a constant in their shape; None for what is computed."""
    op = value.owner
    if not isinstance(op, nn.ConstantOp):
        return None
    return np.broadcast_to(literal_array(op), shape_of(value))
