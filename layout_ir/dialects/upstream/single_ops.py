"""Ops that are missing here and there: of func, cf, bufferization, quant, ml_program and tosa.

%g = func.constant @f : (f32) -> f32
%y = func.call_indirect %g(%x) : (f32) -> f32
cf.cond_br %c weights([9, 1]), ^likely, ^unlikely
%q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from xdsl.dialects import bufferization, cf
from xdsl.dialects.builtin import (
    I1,
    DenseArrayBase,
    DenseIntElementsAttr,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    UnrankedMemRefType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.operand_syntax import print_values
from layout_ir.dialects.upstream.verbatim_attributes import TokenType

# func and cf ----------------------------------------------------------------------------------------------------------


@irdl_op_definition
class FunctionConstantOp(IRDLOperation):
    """A function as a value."""

    name = "func.constant"

    value = prop_def(SymbolRefAttr)
    result = result_def(FunctionType)

    traits = traits_def(Pure(), ConstantLike())

    assembly_format = "attr-dict $value `:` type(results)"


@irdl_op_definition
class CallIndirectOp(IRDLOperation):
    """A call of a function that is a value."""

    name = "func.call_indirect"

    callee = operand_def(FunctionType)
    callee_operands = var_operand_def()
    results_ = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        callee = parser.parse_unresolved_operand()
        start = parser.pos
        values = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_function_type()
        arguments = parser.resolve_operands(values, type.inputs.data, start)
        return cls.create(
            operands=[parser.resolve_operand(callee, type), *arguments],
            result_types=type.outputs.data,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.callee)
        print_values(printer, self.callee_operands, "()")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.callee.type)

    def verify_(self) -> None:
        type = cast("FunctionType", self.callee.type)
        if (type.inputs.data, type.outputs.data) != (self.callee_operands.types, self.results_.types):
            raise VerifyException(f"operands and results are not those of {type}")


@irdl_op_definition
class ConditionalBranchOp(cf.ConditionalBranchOp):
    """`cf.cond_br`, which may say how likely each branch is."""

    name = "cf.cond_br"

    cond = operand_def(IntegerType(1))
    then_arguments = var_operand_def()
    else_arguments = var_operand_def()
    branch_weights = opt_prop_def(DenseArrayBase.constr(i32))
    then_block = successor_def()
    else_block = successor_def()

    # In place of those that xDSL made of its own form.
    parse = Operation.parse  # pyright: ignore[reportAssignmentType]
    print = Operation.print

    assembly_format = """
    $cond (`weights` `(` $branch_weights^ `)`)? `,`
    $then_block (`(` $then_arguments^ `:` type($then_arguments) `)`)? `,`
    $else_block (`(` $else_arguments^ `:` type($else_arguments) `)`)?
    attr-dict
    """

    def verify_(self) -> None:
        """In place of the verifier of the base class, which knows no weights."""
        for block, given in ((self.then_block, self.then_arguments), (self.else_block, self.else_arguments)):
            if tuple(block.arg_types) != given.types:
                raise VerifyException(
                    f"a block of {len(block.args)} arguments is not given {len(given)} of their types"
                )
        if self.branch_weights is not None and len(self.branch_weights) != 2:
            raise VerifyException(f"{len(self.branch_weights)} weights for 2 branches")


# bufferization --------------------------------------------------------------------------------------------------------


@irdl_op_definition
class DeallocTensorOp(IRDLOperation):
    """The end of the memory of a tensor."""

    name = "bufferization.dealloc_tensor"

    tensor = operand_def(TensorType)

    assembly_format = "$tensor attr-dict `:` type($tensor)"


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
        given, made = self.tensor.type, self.memref.type
        if getattr(given, "element_type", None) != getattr(made, "element_type", None):
            raise VerifyException(f"{given} and {made} differ in element type")
        shapes = [type.get_shape() for type in (given, made) if isinstance(type, TensorType | MemRefType)]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            raise VerifyException(f"{given} and {made} differ in shape")


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


# ml_program -----------------------------------------------------------------------------------------------------------


@irdl_op_definition
class GlobalLoadOp(IRDLOperation):
    """What a global holds."""

    name = "ml_program.global_load"

    global_ = prop_def(SymbolRefAttr, prop_name="global")
    result = result_def()

    assembly_format = "$global `:` type($result) attr-dict"


@irdl_op_definition
class GlobalStoreOp(IRDLOperation):
    """A global holds something else from here on."""

    name = "ml_program.global_store"

    global_ = prop_def(SymbolRefAttr, prop_name="global")
    value = operand_def()

    assembly_format = "$global `=` $value `:` type($value) attr-dict"


@irdl_op_definition
class GlobalLoadConstantOp(IRDLOperation):
    """What a global holds that never changes. xDSL's class asks for a property of another name than MLIR's."""

    name = "ml_program.global_load_const"

    global_ = prop_def(SymbolRefAttr, prop_name="global")
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = "$global `:` type($result) attr-dict"


@irdl_op_definition
class TokenOp(IRDLOperation):
    """The first token of a graph."""

    name = "ml_program.token"

    token = result_def(TokenType)

    traits = traits_def(Pure())

    assembly_format = "attr-dict"


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


SINGLE_OPS: dict[str, tuple[type[Operation], ...]] = {
    "func": (FunctionConstantOp, CallIndirectOp),
    "cf": (ConditionalBranchOp,),
    "bufferization": (DeallocTensorOp, ToBufferOp, DeallocOp),
    "quant": (QuantizeCastOp, DequantizeCastOp, StorageCastOp),
    "ml_program": (GlobalLoadOp, GlobalLoadConstantOp, GlobalStoreOp, TokenOp),
    "tosa": (VariableOp, VariableReadOp, VariableWriteOp),
}
"""The classes by dialect."""
