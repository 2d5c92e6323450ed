"""Building of the function body: ops with the location of their node, constants where they are first needed."""

from __future__ import annotations

import re
from typing import Any

from xdsl.dialects.builtin import NameLoc, StringAttr, TensorType, UnknownLoc
from xdsl.ir import Block, Operation, SSAValue

from layout_ir.dialects.layout import AnyAttr
from layout_ir.dialects.nn import ConstantOp
from layout_ir.dialects.nn.constant import literal
from layout_ir.frontends.onnx.errors import quoted
from layout_ir.frontends.onnx.values import Constant, Value, array_bytes, element_of


class Builder:
    """Appends to `block`. `location` is that of the node at hand."""

    def __init__(self, block: Block):
        self.block = block
        self.location: NameLoc | None = None
        self._constants: dict[SSAValue, Constant] = {}

    def emit(self, op: Operation) -> SSAValue:
        """Append `op`; its one result. Raises VerifyException if the op is not valid."""
        if self.location is not None:
            op.location = self.location
        op.verify_()
        self.block.add_op(op)
        return op.results[0]

    def operand(self, value: Value) -> SSAValue:
        """`value` for use by an op."""
        if not isinstance(value, Constant):
            return value
        if value.result is None:
            array = value.array
            type = TensorType(
                element_of(array.dtype, f"constant {quoted(value.name)}"), array.shape, AnyAttr()
            )
            op = ConstantOp(literal(type, array_bytes(array)), type)
            op.location = location(value.name)
            self.block.add_op(op)
            op.results[0].name_hint = name_hint(value.name)
            value.result = op.results[0]
            self._constants[value.result] = value
        return value.result

    def apply(self, op: type[Any], *operands: Value | None, **attributes: Any) -> SSAValue:
        """Append an `nn` op on `operands`, without those that are None; a result type is inferred unless given."""
        return self.emit(op(*(self.operand(x) for x in operands if x is not None), **attributes))

    def constant_of(self, value: SSAValue) -> Constant | None:
        """What `operand` was given to make `value`; None if it is computed."""
        return self._constants.get(value)


def location(name: str) -> NameLoc:
    return NameLoc(StringAttr(name), UnknownLoc())


def name_hint(name: str) -> str | None:
    """`name` as the name of an SSA value; None where there is nothing to make one from."""
    text = re.sub(r"[^A-Za-z0-9_.$-]", "_", name)
    # xDSL cuts a number off the end, which must leave something that does not begin with one.
    return (f"v{text}" if re.match(r"\d|_\d+$", text) else text) or None
