"""How an op of ONNX becomes ops of `nn` and `layout`: a `Translation`, which gets a `Builder` and the node.

The builder appends ops to the body of the function, each with the location of its node; constants are written down
where they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import NameLoc, TensorType
from xdsl.ir import Block, Operation, SSAValue

from layout_ir.dialects.layout import AnyAttr
from layout_ir.dialects.nn import ConstantOp, NNOp
from layout_ir.dialects.nn.constant import literal
from layout_ir.dialects.nn.model_names import location, name_hint
from layout_ir.dialects.nn.tensor_types import element_text
from layout_ir.frontends.onnx.constants import Constant, array_bytes, array_of_bytes
from layout_ir.frontends.onnx.import_error import UnsupportedUse, quoted
from layout_ir.frontends.onnx.node import Node
from layout_ir.frontends.onnx.values import Value, element_of, tensor_type


class Builder:
    """Appends ops to `block`, each at `location`, that of the node which is being translated."""

    def __init__(self, block: Block):
        self.block = block
        self.location: NameLoc | None = None
        self._constants: dict[SSAValue, Constant] = {}

    def emit(self, op: Operation) -> SSAValue:
        """Appends `op` and returns its one result. Raises VerifyException where the op is not valid."""
        if self.location is not None:
            op.location = self.location
        op.verify_()
        self.block.add_op(op)
        return op.results[0]

    def operand(self, value: Value) -> SSAValue:
        """`value` as an operand; a constant becomes an nn.constant at its first use.

        Raises OnnxImportError for a constant whose element type the IR does not have.
        """
        if not isinstance(value, Constant):
            return value
        if value.result is None:
            array = value.array
            type = TensorType(
                element_of(array.dtype, f"constant {quoted(value.name)}"), array.shape, AnyAttr()
            )
            data = array_bytes(array)
            op = ConstantOp(literal(type, data), type)
            value.array = array_of_bytes(data, array)  # what was computed is not kept beside what the op has
            op.location = location(value.name)
            self.block.add_op(op)
            op.results[0].name_hint = name_hint(value.name)
            value.result = op.results[0]
            self._constants[value.result] = value
        return value.result

    def apply(self, op: type[NNOp], *operands: Value | None, **attributes: Any) -> SSAValue:
        """Appends an `nn` op on `operands`, without those that are None; the result type is inferred unless given.

        Raises UnsupportedUse where the op does not know an element type, and LayoutError or VerifyException where
        operands and attributes do not fit.
        """
        given = [self.operand(x) for x in operands if x is not None]
        for number, value in enumerate(given):
            element = element_text(tensor_type(value).element_type)
            if element not in op.ALLOWED:
                raise UnsupportedUse(
                    f"element type {element} of operand {number} is not supported by {op.name}, "
                    f"expected one of {', '.join(op.ALLOWED)}"
                )
        return self.emit(op(*given, **attributes))

    def take_back(self, last: Operation | None) -> None:
        """Erases the ops behind `last`, an op of the block or None for its begin; constants stay for later users."""
        for op in reversed(list(self.block.ops)):
            if op is last:
                break
            if not isinstance(op, ConstantOp):
                self.block.erase_op(op)

    def constant_of(self, value: SSAValue) -> Constant | None:
        """The constant of which `operand` made `value`; None where `value` is computed."""
        return self._constants.get(value)


Translate = Callable[[Builder, Node], Value | Sequence[Value | None]]


@dataclass(frozen=True, slots=True)
class Translation:
    """`translate` appends the ops for a node and returns its outputs, None for one that it does not compute.

    With `takes_constants` it also gets nodes whose inputs are all constants, which otherwise are evaluated (`folding`).
    """

    translate: Translate
    takes_constants: bool = False
