"""Ops of vector that xDSL lacks.

    %t = vector.transpose %v, [1, 0] : vector<2x4xf32> to vector<4x2xf32>
    %s = vector.multi_reduction <add>, %v, %acc [1] : vector<2x4xf32> to vector<2xf32>
    %p = vector.contract {indexing_maps = [...], iterator_types = ["parallel", ...], kind = #vector.kind<add>}
      %a, %b, %c : vector<2x4xf32>, vector<4x3xf32> into vector<2x3xf32>

Most forms are declared. Whether shapes fit is checked where an op is a reordering; all else `mlir-opt` verifies.
"""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
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
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.linalg_syntax import parse_results, print_results
from layout_ir.dialects.upstream.operand_syntax import print_values
from layout_ir.dialects.upstream.word_attributes import WordAttr

_MASK = base(VectorType)
_BUFFER = base(MemRefType) | base(TensorType)


def _vector(type: Attribute) -> VectorType[Attribute]:
    return cast("VectorType[Attribute]", type)


def _shape(type: Any) -> tuple[int, ...]:
    """The extents of a vector; none of a number."""
    return type.get_shape() if isinstance(type, VectorType) else ()


def _scalable(type: Any) -> tuple[Any, ...]:
    """Which dims of a vector are scalable; none of a number."""
    return type.scalable_dims.data if isinstance(type, VectorType) else ()


@irdl_attr_definition
class IteratorTypeAttr(WordAttr):
    """What a dim of `vector.contract` is: `parallel` or `reduction`."""

    name = "vector.iterator_type"


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
        type = _parse_vector_type(parser)
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
        type = _parse_vector_type(parser)
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


def _parse_vector_type(parser: Parser) -> VectorType[Attribute]:
    start = parser.pos
    type: Any = parser.parse_type()
    if not isinstance(type, VectorType):
        parser.raise_error(f"expected a vector, not {type}", start, parser.pos)
    return cast("VectorType[Attribute]", type)


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
    """By what the lengths of scalable vectors are multiplied at run time."""

    name = "vector.vscale"

    res = result_def(IndexType())

    traits = traits_def(Pure())

    assembly_format = "attr-dict"


# Sums and products ----------------------------------------------------------------------------------------------------


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
        left = _parse_vector_type(parser)
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


# Memory ---------------------------------------------------------------------------------------------------------------


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Elements at given places, where a mask is true."""

    name = "vector.gather"

    base_ = operand_def(_BUFFER)
    offsets = var_operand_def(IndexType())
    indices = operand_def(VectorType)
    mask = operand_def(_MASK)
    pass_thru = operand_def(VectorType)
    alignment = opt_prop_def(IntegerAttr)
    result = result_def(VectorType)

    traits = traits_def(MemoryReadEffect())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = (
        "$base_ `[` $offsets `]` `[` $indices `]` `,` $mask `,` $pass_thru attr-dict `:` type($base_) `,` "
        "type($indices) `,` type($mask) `,` type($pass_thru) `into` type($result)"
    )


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """Elements written to given places, where a mask is true."""

    name = "vector.scatter"

    base_ = operand_def(MemRefType)
    offsets = var_operand_def(IndexType())
    indices = operand_def(VectorType)
    mask = operand_def(_MASK)
    valueToStore = operand_def(VectorType)
    alignment = opt_prop_def(IntegerAttr)

    traits = traits_def(MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = (
        "$base_ `[` $offsets `]` `[` $indices `]` `,` $mask `,` $valueToStore attr-dict `:` type($base_) `,` "
        "type($indices) `,` type($mask) `,` type($valueToStore)"
    )


@irdl_op_definition
class ExpandLoadOp(IRDLOperation):
    """Elements that lie together in memory, spread to where a mask is true."""

    name = "vector.expandload"

    base_ = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    mask = operand_def(_MASK)
    pass_thru = operand_def(VectorType)
    alignment = opt_prop_def(IntegerAttr)
    result = result_def(VectorType)

    traits = traits_def(MemoryReadEffect())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = (
        "$base_ `[` $indices `]` `,` $mask `,` $pass_thru attr-dict `:` type($base_) `,` type($mask) `,` "
        "type($pass_thru) `into` type($result)"
    )


@irdl_op_definition
class CompressStoreOp(IRDLOperation):
    """Elements where a mask is true, written so that they lie together."""

    name = "vector.compressstore"

    base_ = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    mask = operand_def(_MASK)
    valueToStore = operand_def(VectorType)
    alignment = opt_prop_def(IntegerAttr)

    traits = traits_def(MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = (
        "$base_ `[` $indices `]` `,` $mask `,` $valueToStore attr-dict `:` type($base_) `,` type($mask) `,` "
        "type($valueToStore)"
    )


@irdl_op_definition
class TypeCastOp(IRDLOperation):
    """A buffer of elements as a buffer of one vector."""

    name = "vector.type_cast"

    memref = operand_def(MemRefType)
    result = result_def(MemRefType)

    traits = traits_def(Pure())

    assembly_format = "$memref attr-dict `:` type($memref) `to` type($result)"


# Masks ----------------------------------------------------------------------------------------------------------------


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The end of the region of `vector.mask`."""

    name = "vector.yield"

    arguments = var_operand_def()

    traits = traits_def(IsTerminator(), Pure())

    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


@irdl_op_definition
class MaskOp(IRDLOperation):
    """One op that runs where a mask is true."""

    name = "vector.mask"

    mask = operand_def(_MASK)
    passthru = opt_operand_def()
    maskRegion = region_def("single_block")
    results_ = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        start = parser.pos
        values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        region = parser.parse_region()
        block = region.block
        last = block.last_op
        if last is not None and not isinstance(last, YieldOp):
            block.add_op(YieldOp.create(operands=last.results))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        mask = parser.parse_type()
        types = parse_results(parser)
        return cls.create(
            operands=parser.resolve_operands(values, [mask, *types][: len(values)], start),
            result_types=types,
            regions=[region],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_values(printer, self.operands)
        printer.print_string(" ")
        block = self.maskRegion.block
        masked = block.first_op
        is_implied = masked is not None and block.last_op is masked.next_op
        printer.print_region(self.maskRegion, print_block_terminators=not is_implied)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.mask.type)
        print_results(printer, self.result_types)


VECTOR_OPS: tuple[type[Operation], ...] = (
    *(ShapeCastOp, TransposeOp, ExtractStridedSliceOp, InsertStridedSliceOp, InterleaveOp, DeinterleaveOp),
    *(FromElementsOp, ToElementsOp, ScalableExtractOp, ScalableInsertOp, ConstantMaskOp, StepOp, VScaleOp),
    *(MultiReductionOp, OuterProductOp, ScanOp, ContractionOp, GatherOp, ScatterOp, ExpandLoadOp),
    *(CompressStoreOp, TypeCastOp, YieldOp, MaskOp),
)
