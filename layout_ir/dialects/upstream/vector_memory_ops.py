"""Ops of vector that xDSL lacks and that read or write memory, and `vector.mask`, which runs one op under a mask.

    %g = vector.gather %m[%i] [%v], %k, %p :
      memref<?xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
    vector.compressstore %m[%i], %k, %p : memref<?xf32>, vector<4xi1>, vector<4xf32>
    %r = vector.mask %k { vector.reduction <add>, %p : vector<4xf32> into f32 } : vector<4xi1> -> f32

Their forms alone are stated; whether types fit `mlir-opt` verifies.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    MemRefType,
    TensorType,
    VectorType,
)
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, MemoryReadEffect, MemoryWriteEffect, Pure

from layout_ir.dialects.upstream.linalg_syntax import parse_results, print_results
from layout_ir.dialects.upstream.operand_syntax import print_values

_MASK = base(VectorType)
_BUFFER = base(MemRefType) | base(TensorType)


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


VECTOR_MEMORY_OPS: tuple[type[Operation], ...] = (
    *(GatherOp, ScatterOp, ExpandLoadOp, CompressStoreOp, TypeCastOp, YieldOp, MaskOp),
)
