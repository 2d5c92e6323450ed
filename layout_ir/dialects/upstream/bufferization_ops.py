"""Ops of bufferization, with the flags and operands that MLIR has and xDSL lacks.

%m = bufferization.to_buffer %t read_only : tensor<4xf32> to memref<4xf32>
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from xdsl.dialects import bufferization
from xdsl.dialects.builtin import (
    I1,
    IndexType,
    MemRefType,
    ShapedType,
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
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.operand_syntax import print_values


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


BUFFERIZATION_OPS: tuple[type[Operation], ...] = (
    AllocTensorOp,
    DeallocTensorOp,
    ToBufferOp,
    ToTensorOp,
    MaterializeInDestinationOp,
    DeallocOp,
)
