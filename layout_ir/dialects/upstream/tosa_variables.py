"""Variables of tosa: tensors of the whole program, which ops read and write.

tosa.variable @sum = dense<0.0> : tensor<4xf32>
%sum = tosa.variable_read @sum : tensor<4xf32>
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseIntElementsAttr,
    IndexType,
    SymbolNameConstraint,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface


@irdl_op_definition
class VariableOp(IRDLOperation):
    """A tensor of the whole program, which may change."""

    name = "tosa.variable"

    sym_name = prop_def(SymbolNameConstraint())
    var_shape = prop_def(DenseIntElementsAttr)
    type = prop_def()
    initial_value = opt_prop_def()

    traits = traits_def(SymbolOpInterface())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        name = parser.parse_symbol_name()
        attributes = parser.parse_optional_attr_dict()
        start = parser.pos
        value: Attribute | None = None
        if parser.parse_optional_punctuation("=") is not None:
            value = parser.parse_attribute()
            type = getattr(value, "type", None)
        else:
            parser.parse_punctuation(":")
            type = parser.parse_type()
        if not isinstance(type, TensorType):
            parser.raise_error(f"a variable is a tensor, not {type}", start, parser.pos)
        tensor = cast("TensorType[Attribute]", type)
        extents = tensor.get_shape()
        shape = DenseIntElementsAttr.from_list(TensorType(IndexType(), [len(extents)]), extents)
        properties = {"sym_name": name, "var_shape": shape, "type": tensor.element_type}
        if value is not None:
            properties["initial_value"] = value
        return cls.create(properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_op_attributes(self.attributes)
        if self.initial_value is not None:
            printer.print_string(" = ")
            printer.print_attribute(self.initial_value)
        else:
            printer.print_string(" : ")
            printer.print_attribute(TensorType(self.type, self.var_shape.get_values()))


@irdl_op_definition
class VariableReadOp(IRDLOperation):
    """What a variable holds."""

    name = "tosa.variable_read"

    symbol = prop_def(SymbolNameConstraint(), prop_name="name")
    output1 = result_def(TensorType)

    assembly_format = "$name attr-dict `:` type($output1)"


@irdl_op_definition
class VariableWriteOp(IRDLOperation):
    """A variable holds something else from here on."""

    name = "tosa.variable_write"

    symbol = prop_def(SymbolNameConstraint(), prop_name="name")
    input1 = operand_def(TensorType)

    assembly_format = "$name attr-dict `,` $input1 `:` type($input1)"


VARIABLE_OPS: tuple[type[Operation], ...] = (VariableOp, VariableReadOp, VariableWriteOp)
