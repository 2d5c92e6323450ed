"""Sums and products of vectors that xDSL lacks.

    %s = vector.multi_reduction <add>, %v, %acc [1] : vector<2x4xf32> to vector<2xf32>
    %p = vector.contract {indexing_maps = [...], iterator_types = ["parallel", ...], kind = #vector.kind<add>}
      %a, %b, %c : vector<2x4xf32>, vector<4x3xf32> into vector<2x3xf32>

Whether shapes fit `mlir-opt` verifies.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    VectorType,
    i64,
)
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from layout_ir.dialects.upstream.operand_syntax import parse_vector_type, print_values
from layout_ir.dialects.upstream.word_attributes import WordAttr


@irdl_attr_definition
class IteratorTypeAttr(WordAttr):
    """What a dim of `vector.contract` is: `parallel` or `reduction`."""

    name = "vector.iterator_type"


@irdl_op_definition
class MultiReductionOp(IRDLOperation):
    """A vector reduced along some of its dims."""

    name = "vector.multi_reduction"

    T: ClassVar = VarConstraint("T", AnyAttr())

    kind = prop_def(CombiningKindAttr)
    source = operand_def(VectorType)
    acc = operand_def(T)
    reduction_dims = prop_def(DenseArrayBase.constr(i64))
    dest = result_def(T)

    traits = traits_def(Pure())

    assembly_format = (
        "$kind `,` $source `,` $acc attr-dict $reduction_dims `:` type($source) `to` type($dest)"
    )


@irdl_op_definition
class OuterProductOp(IRDLOperation):
    """The products of each element of one vector with those of another, or with a number."""

    name = "vector.outerproduct"

    lhs = operand_def(VectorType)
    rhs = operand_def()
    acc = opt_operand_def(VectorType)
    kind = prop_def(CombiningKindAttr, default_value=CombiningKindAttr(CombiningKindFlag.ADD))
    result = result_def(VectorType)

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        kind = attributes.pop("kind", CombiningKindAttr(CombiningKindFlag.ADD))
        parser.parse_punctuation(":")
        left = parse_vector_type(parser)
        parser.parse_punctuation(",")
        right = parser.parse_type()
        result = VectorType(
            left.element_type,
            [*_shape(left), *_shape(right)],
            ArrayAttr([*_scalable(left), *_scalable(right)]),
        )
        types: list[Any] = [left, right, result]
        return cls.create(
            operands=parser.resolve_operands(values, types[: max(len(values), 2)], start),
            result_types=[result],
            properties={"kind": kind},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_values(printer, self.operands)
        kind = {} if self.kind.data == CombiningKindFlag.ADD else {"kind": self.kind}
        printer.print_op_attributes({**kind, **self.attributes})
        printer.print_string(" : ")
        printer.print_list([self.lhs.type, self.rhs.type], printer.print_attribute)


@irdl_op_definition
class ScanOp(IRDLOperation):
    """The partial sums along a dim, and the whole one."""

    name = "vector.scan"

    T: ClassVar = VarConstraint("T", base(VectorType))
    U: ClassVar = VarConstraint("U", base(VectorType))

    kind = prop_def(CombiningKindAttr)
    source = operand_def(T)
    initial_value = operand_def(U)
    reduction_dim = prop_def(IntegerAttr)
    inclusive = prop_def(BoolAttr)
    dest = result_def(T)
    accumulated_value = result_def(U)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = (
        "$kind `,` $source `,` $initial_value attr-dict `:` type($source) `,` type($initial_value)"
    )


@irdl_op_definition
class ContractionOp(IRDLOperation):
    """A product of two vectors summed along dims, each read by an affine map."""

    name = "vector.contract"

    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    acc = operand_def()
    indexing_maps = prop_def(ArrayAttr)
    iterator_types = prop_def(ArrayAttr)
    kind = prop_def(CombiningKindAttr, default_value=CombiningKindAttr(CombiningKindFlag.ADD))
    fastmath = opt_prop_def()
    result = result_def()

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        properties = parser.parse_optional_attr_dict()
        iterators = properties.get("iterator_types")
        if isinstance(iterators, ArrayAttr):
            words = cast("ArrayAttr[Attribute]", iterators)
            properties["iterator_types"] = ArrayAttr(
                IteratorTypeAttr(word.data) if isinstance(word, StringAttr) else word for word in words
            )
        start = parser.pos
        values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        left = parser.parse_type()
        parser.parse_punctuation(",")
        right = parser.parse_type()
        parser.parse_keyword("into")
        result = parser.parse_type()
        return cls.create(
            operands=parser.resolve_operands(values, [left, right, result], start),
            result_types=[result],
            properties=properties,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        words = [
            StringAttr(each.data) if isinstance(each, IteratorTypeAttr) else each
            for each in self.iterator_types
        ]
        printer.print_op_attributes({**self.properties, "iterator_types": ArrayAttr(words)})
        printer.print_string(" ")
        print_values(printer, self.operands)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([self.lhs.type, self.rhs.type], printer.print_attribute)
        printer.print_string(" into ")
        printer.print_attribute(self.result.type)


def _shape(type: Any) -> tuple[int, ...]:
    """The extents of a vector; none of a number."""
    return type.get_shape() if isinstance(type, VectorType) else ()


def _scalable(type: Any) -> tuple[Any, ...]:
    """Which dims of a vector are scalable; none of a number."""
    return type.scalable_dims.data if isinstance(type, VectorType) else ()


VECTOR_PRODUCTS: tuple[type[Operation], ...] = (MultiReductionOp, OuterProductOp, ScanOp, ContractionOp)
