"""Ops that are missing here and there: of bufferization, complex, quant and tosa.

%m = bufferization.to_buffer %t read_only : tensor<4xf32> to memref<4xf32>
%q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from xdsl.dialects import bufferization
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    I1,
    ComplexType,
    DenseIntElementsAttr,
    IndexType,
    IntegerType,
    MemRefType,
    ShapedType,
    SymbolNameConstraint,
    TensorType,
    UnitAttr,
    UnrankedMemRefType,
    UnrankedTensorType,
    i1,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.operand_syntax import print_values

# bufferization --------------------------------------------------------------------------------------------------------


@irdl_op_definition
class DeallocTensorOp(IRDLOperation):
    """The end of the memory of a tensor."""

    name = "bufferization.dealloc_tensor"

    tensor = operand_def(TensorType)

    assembly_format = "$tensor attr-dict `:` type($tensor)"


@irdl_op_definition
class AllocTensorOp(IRDLOperation):
    """A tensor in memory of its own, of any elements or a copy of another one. Of xDSL's op it has the memory space."""

    name = "bufferization.alloc_tensor"

    T: ClassVar = VarConstraint("T", base(TensorType) | base(UnrankedTensorType))

    dynamic_sizes = var_operand_def(IndexType())
    copy = opt_operand_def(T)
    size_hint = opt_operand_def(IndexType())
    memory_space = opt_prop_def()
    tensor = result_def(T)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())

    assembly_format = (
        "`(` $dynamic_sizes `)` (`copy` `(` $copy^ `)`)? (`size_hint` `=` $size_hint^)? attr-dict "
        "`:` type($tensor)"
    )


@irdl_op_definition
class ToBufferOp(bufferization.ToBufferOp):
    """`bufferization.to_buffer`, whose result may lie in any layout."""

    name = "bufferization.to_buffer"
    assembly_format: ClassVar[str | None] = None  # the form of the base class

    tensor = operand_def()
    memref = result_def(base(MemRefType) | base(UnrankedMemRefType))
    read_only = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """In place of the verifier of the base class, which wants the layout of the tensor, row-major."""
        _check_contents(self.tensor.type, self.memref.type)


def _check_contents(*types: Attribute) -> None:
    """Raises VerifyException where tensors or buffers differ in elements, or in shape as far as that is known."""
    shapes = {
        cast("ShapedType", type).get_shape() for type in types if isinstance(type, TensorType | MemRefType)
    }
    if len({getattr(type, "element_type", None) for type in types}) > 1:
        raise VerifyException(f"{' and '.join(map(str, types))} differ in element type")
    if len(shapes) > 1:
        raise VerifyException(f"{' and '.join(map(str, types))} differ in shape")


@irdl_op_definition
class ToTensorOp(bufferization.ToTensorOp):
    """`bufferization.to_tensor` of a buffer in any layout."""

    name = "bufferization.to_tensor"
    assembly_format: ClassVar[str | None] = None  # the form of the base class

    memref = operand_def(base(MemRefType) | base(UnrankedMemRefType))
    tensor = result_def()
    writable = opt_prop_def(UnitAttr)
    restrict = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """In place of the verifier of the base class, which wants a row-major buffer."""
        _check_contents(self.memref.type, self.tensor.type)


@irdl_op_definition
class MaterializeInDestinationOp(bufferization.MaterializeInDestinationOp):
    """`bufferization.materialize_in_destination`, whose buffer may lie in any layout."""

    name = "bufferization.materialize_in_destination"
    assembly_format: ClassVar[str | None] = None  # the form of the base class

    source = operand_def()
    dest = operand_def()
    result = opt_result_def()
    restrict = opt_prop_def(UnitAttr)
    writable = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """In place of the verifier of the base class, which wants a row-major buffer."""
        _check_contents(self.source.type, self.dest.type, *self.result_types)
        if isinstance(self.dest.type, TensorType | UnrankedTensorType) != (self.result is not None):
            raise VerifyException("a tensor as the destination makes a result, a buffer makes none")


@irdl_op_definition
class DeallocOp(IRDLOperation):
    """The end of buffers under conditions, but for those of the memory of others that are retained."""

    name = "bufferization.dealloc"

    memrefs = var_operand_def()
    conditions = var_operand_def(I1)
    retained = var_operand_def()
    updatedConditions = var_result_def(I1)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        memrefs = cls._parse_buffers(parser)
        conditions: list[Any] = []
        if parser.parse_optional_keyword("if") is not None:
            conditions = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parser.resolve_operand(parser.parse_unresolved_operand(), i1)
            )
        retained: list[Any] = []
        if parser.parse_optional_keyword("retain") is not None:
            retained = cls._parse_buffers(parser)
        return cls.build(
            operands=[memrefs, conditions, retained],
            result_types=[[i1] * len(retained)],
            attributes=parser.parse_optional_attr_dict(),
        )

    @staticmethod
    def _parse_buffers(parser: Parser) -> list[Any]:
        """`(%a, %b : types)`; none where there is no parenthesis."""
        if parser.parse_optional_punctuation("(") is None:
            return []
        start = parser.pos
        values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation(")")
        return list(parser.resolve_operands(values, types, start))

    def print(self, printer: Printer) -> None:
        self._print_buffers(printer, self.memrefs)
        if self.conditions:
            printer.print_string(" if ")
            print_values(printer, self.conditions, "()")
        if self.retained:
            printer.print_string(" retain")
            self._print_buffers(printer, self.retained)
        printer.print_op_attributes(self.attributes)

    @staticmethod
    def _print_buffers(printer: Printer, values: Any) -> None:
        if values:
            printer.print_string(" (")
            print_values(printer, values)
            printer.print_string(" : ")
            printer.print_list([value.type for value in values], printer.print_attribute)
            printer.print_string(")")

    def verify_(self) -> None:
        if len(self.conditions) != len(self.memrefs):
            raise VerifyException(f"{len(self.conditions)} conditions for {len(self.memrefs)} buffers")
        if len(self.updatedConditions) != len(self.retained):
            raise VerifyException(
                f"{len(self.updatedConditions)} results for {len(self.retained)} retained buffers"
            )


# quant ----------------------------------------------------------------------------------------------------------------


class _QuantizedCastOp(IRDLOperation):
    """A tensor or number as one of quantized elements, or back."""

    input = operand_def()
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"


@irdl_op_definition
class QuantizeCastOp(_QuantizedCastOp):
    """Real numbers quantized."""

    name = "quant.qcast"


@irdl_op_definition
class DequantizeCastOp(_QuantizedCastOp):
    """The real numbers that quantized ones stand for."""

    name = "quant.dcast"


@irdl_op_definition
class StorageCastOp(_QuantizedCastOp):
    """The integers that quantized numbers are stored as, or the other way round."""

    name = "quant.scast"


# tosa -----------------------------------------------------------------------------------------------------------------


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


# complex --------------------------------------------------------------------------------------------------------------


@irdl_op_definition
class PowiOp(IRDLOperation):
    """A complex number to the power of an integer."""

    name = "complex.powi"

    T: ClassVar = VarConstraint("T", base(ComplexType))

    lhs = operand_def(T)
    rhs = operand_def(IntegerType)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    result = result_def(T)

    traits = traits_def(Pure())

    assembly_format = "$lhs `,` $rhs (`fastmath` `` $fastmath^)? attr-dict `:` type($result) `,` type($rhs)"


SINGLE_OPS: dict[str, tuple[type[Operation], ...]] = {
    "bufferization": (
        AllocTensorOp,
        DeallocTensorOp,
        ToBufferOp,
        ToTensorOp,
        MaterializeInDestinationOp,
        DeallocOp,
    ),
    "quant": (QuantizeCastOp, DequantizeCastOp, StorageCastOp),
    "complex": (PowiOp,),
    "tosa": (VariableOp, VariableReadOp, VariableWriteOp),
}
"""The classes by dialect."""
