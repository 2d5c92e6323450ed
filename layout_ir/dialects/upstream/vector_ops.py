"""Ops of vector that xDSL lacks and that give elements another shape, or make constants.

    %t = vector.transpose %v, [1, 0] : vector<2x4xf32> to vector<4x2xf32>
    %v = vector.from_elements %a, %b : vector<2xf32>

Most forms are declared. Whether shapes fit is checked where an op is a reordering; all else `mlir-opt` verifies.
"""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    StringAttr,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.operand_syntax import parse_vector_type, print_values
from layout_ir.dialects.upstream.word_attributes import PunctuationAttr


def _vector(type: Attribute) -> VectorType[Attribute]:
    return cast("VectorType[Attribute]", type)


# Shapes ---------------------------------------------------------------------------------------------------------------


@irdl_op_definition
class ShapeCastOp(IRDLOperation):
    """The elements in the same order in another shape."""

    name = "vector.shape_cast"

    source = operand_def(VectorType)
    result = result_def(VectorType)

    traits = traits_def(Pure())

    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        source, result = _vector(self.source.type), _vector(self.result.type)
        before, after = (prod(type.get_shape()) for type in (source, result))
        if before != after or source.element_type != result.element_type:
            raise VerifyException(f"{source} and {result} differ in elements: {before} and {after}")


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """The dims in another order."""

    name = "vector.transpose"

    vector = operand_def(VectorType)
    permutation = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType)

    traits = traits_def(Pure())

    assembly_format = "$vector `,` $permutation attr-dict `:` type($vector) `to` type($result)"

    def verify_(self) -> None:
        source, result = _vector(self.vector.type), _vector(self.result.type)
        order = [int(dim) for dim in self.permutation.get_values()]
        extents = source.get_shape()
        if sorted(order) != list(range(len(extents))):
            raise VerifyException(f"{order} is no permutation of the {len(extents)} dims of {source}")
        if result.get_shape() != tuple(extents[dim] for dim in order):
            raise VerifyException(f"{source} in the order {order} is not {result}")


@irdl_op_definition
class ExtractStridedSliceOp(IRDLOperation):
    """A part of a vector."""

    name = "vector.extract_strided_slice"

    source = operand_def(VectorType)
    offsets = prop_def(ArrayAttr)
    sizes = prop_def(ArrayAttr)
    strides = prop_def(ArrayAttr)
    result = result_def(VectorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"


@irdl_op_definition
class InsertStridedSliceOp(IRDLOperation):
    """A vector with a part of it replaced."""

    name = "vector.insert_strided_slice"

    T: ClassVar = VarConstraint("T", base(VectorType))

    valueToStore = operand_def(VectorType)
    dest = operand_def(T)
    offsets = prop_def(ArrayAttr)
    strides = prop_def(ArrayAttr)
    res = result_def(T)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = "$valueToStore `,` $dest attr-dict `:` type($valueToStore) `into` type($dest)"


@irdl_op_definition
class InterleaveOp(IRDLOperation):
    """The elements of two vectors by turns."""

    name = "vector.interleave"

    T: ClassVar = VarConstraint("T", base(VectorType))

    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(VectorType)

    traits = traits_def(Pure())

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"


@irdl_op_definition
class DeinterleaveOp(IRDLOperation):
    """The elements at even places, and those at odd ones."""

    name = "vector.deinterleave"

    T: ClassVar = VarConstraint("T", base(VectorType))

    source = operand_def(VectorType)
    res1 = result_def(T)
    res2 = result_def(T)

    traits = traits_def(Pure())

    assembly_format = "$source attr-dict `:` type($source) `->` type($res1)"


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    """The vector of given elements."""

    name = "vector.from_elements"

    elements = var_operand_def()
    dest = result_def(VectorType)

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parse_vector_type(parser)
        operands = parser.resolve_operands(values, [type.element_type] * len(values), start)
        return cls.create(operands=operands, result_types=[type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_values(printer, self.elements)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.dest.type)

    def verify_(self) -> None:
        _check_elements(_vector(self.dest.type), self.operand_types)


@irdl_op_definition
class ToElementsOp(IRDLOperation):
    """The elements of a vector, one by one."""

    name = "vector.to_elements"

    source = operand_def(VectorType)
    elements = var_result_def()

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        value = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parse_vector_type(parser)
        return cls.create(
            operands=[parser.resolve_operand(value, type)],
            result_types=[type.element_type] * prod(type.get_shape()),
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)

    def verify_(self) -> None:
        _check_elements(_vector(self.source.type), self.result_types)


def _check_elements(type: VectorType[Attribute], elements: Any) -> None:
    count = prod(type.get_shape())
    if len(elements) != count or set(elements) - {type.element_type}:
        raise VerifyException(
            f"{len(elements)} elements for {type}, which has {count} of {type.element_type}"
        )


@irdl_op_definition
class ScalableExtractOp(IRDLOperation):
    """A part of fixed length of a scalable vector."""

    name = "vector.scalable.extract"

    source = operand_def(VectorType)
    pos = prop_def(IntegerAttr.constr(i64))
    res = result_def(VectorType)

    traits = traits_def(Pure())

    assembly_format = "$source `[` $pos `]` attr-dict `:` type($res) `from` type($source)"


@irdl_op_definition
class ScalableInsertOp(IRDLOperation):
    """A scalable vector with a part of fixed length replaced."""

    name = "vector.scalable.insert"

    T: ClassVar = VarConstraint("T", base(VectorType))

    valueToStore = operand_def(VectorType)
    dest = operand_def(T)
    pos = prop_def(IntegerAttr.constr(i64))
    res = result_def(T)

    traits = traits_def(Pure())

    assembly_format = (
        "$valueToStore `,` $dest `[` $pos `]` attr-dict `:` type($valueToStore) `into` type($dest)"
    )


# Constants ------------------------------------------------------------------------------------------------------------


@irdl_op_definition
class ConstantMaskOp(IRDLOperation):
    """A mask that is true in a box at the origin."""

    name = "vector.constant_mask"

    mask_dim_sizes = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType)

    traits = traits_def(Pure())

    assembly_format = "$mask_dim_sizes attr-dict `:` type(results)"

    def verify_(self) -> None:
        sizes, type = self.mask_dim_sizes.get_values(), _vector(self.result.type)
        extents = type.get_shape()
        if len(sizes) != max(len(extents), 1) or any(
            not 0 <= size <= extent for size, extent in zip(sizes, extents, strict=False)
        ):
            raise VerifyException(f"a box of {list(sizes)} does not lie in {type}")


@irdl_op_definition
class StepOp(IRDLOperation):
    """The vector of 0, 1, 2 and so on."""

    name = "vector.step"

    result = result_def(VectorType)

    traits = traits_def(Pure())

    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class VScaleOp(IRDLOperation):
    """The number by which the lengths of scalable vectors are multiplied at run time."""

    name = "vector.vscale"

    res = result_def(IndexType())

    traits = traits_def(Pure())

    assembly_format = "attr-dict"


@irdl_op_definition
class PrintOp(IRDLOperation):
    """Prints a value or a text, and something behind it."""

    name = "vector.print"

    source = opt_operand_def()
    stringLiteral = opt_prop_def(StringAttr)
    punctuation = prop_def(PunctuationAttr, default_value=PunctuationAttr("newline"))

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        operands: list[SSAValue] = []
        if (source := parser.parse_optional_unresolved_operand()) is not None:
            parser.parse_punctuation(":")
            operands = [parser.resolve_operand(source, parser.parse_type())]
        properties: dict[str, Attribute] = {"punctuation": PunctuationAttr("newline")}
        if parser.parse_optional_keyword("str") is not None:
            properties["stringLiteral"] = StringAttr(parser.parse_str_literal())
        if parser.parse_optional_keyword("punctuation") is not None:
            properties["punctuation"] = PunctuationAttr(PunctuationAttr.parse_parameter(parser))
        return cls.create(
            operands=operands, properties=properties, attributes=parser.parse_optional_attr_dict()
        )

    def print(self, printer: Printer) -> None:
        if self.source is not None:
            printer.print_string(" ")
            printer.print_ssa_value(self.source)
            printer.print_string(" : ")
            printer.print_attribute(self.source.type)
        if self.stringLiteral is not None:
            printer.print_string(" str ")
            printer.print_string_literal(self.stringLiteral.data)
        if self.punctuation.data != "newline":
            printer.print_string(" punctuation ")
            self.punctuation.print_parameter(printer)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if self.source is not None and self.stringLiteral is not None:
            raise VerifyException("a value and a text are printed by two ops, not by one")


VECTOR_OPS: tuple[type[Operation], ...] = (
    *(ShapeCastOp, TransposeOp, ExtractStridedSliceOp, InsertStridedSliceOp, InterleaveOp, DeinterleaveOp),
    *(
        FromElementsOp,
        ToElementsOp,
        ScalableExtractOp,
        ScalableInsertOp,
        ConstantMaskOp,
        StepOp,
        VScaleOp,
        PrintOp,
    ),
)
