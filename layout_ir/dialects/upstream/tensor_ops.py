"""Ops of tensor that xDSL lacks.

%t = tensor.generate %n {
^bb0(%i: index, %j: index):
  tensor.yield %v : f32
} : tensor<?x3xf32>
%g = tensor.gather %t[%at] gather_dims([0]) : (tensor<?x3xf32>, tensor<4x1xindex>) -> tensor<4x3xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    IntegerType,
    TensorType,
    UnitAttr,
    UnrankedTensorType,
    i64,
)
from xdsl.dialects.utils import DynamicIndexList, verify_dynamic_index_list
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.layout.types import tensor_type

_COORDINATES = TensorType.constr(base(IndexType) | base(IntegerType))


@irdl_op_definition
class GenerateOp(IRDLOperation):
    """A tensor of what the body computes of the indices of each element."""

    name = "tensor.generate"

    dynamic_extents = var_operand_def(IndexType)
    body = region_def("single_block")
    result = result_def(TensorType)

    traits = traits_def(RecursiveMemoryEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        extents = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.build(
            operands=[[parser.resolve_operand(each, IndexType()) for each in extents or ()]],
            regions=[body],
            result_types=[parser.parse_type()],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        if self.dynamic_extents:
            printer.print_string(" ")
            printer.print_list(self.dynamic_extents, printer.print_ssa_value)
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        type = tensor_type(self.result.type)
        dynamic = type.get_shape().count(DYNAMIC_INDEX)
        if dynamic != len(self.dynamic_extents):
            raise VerifyException(
                f"{len(self.dynamic_extents)} extents for the {dynamic} dynamic dims of {type}"
            )
        block = self.body.block
        if tuple(block.arg_types) != (IndexType(),) * type.get_num_dims():
            raise VerifyException(
                f"the body takes an index for each of the {type.get_num_dims()} dims of {type}"
            )
        end = block.last_op
        if not isinstance(end, tensor.YieldOp) or end.operand_types != (type.element_type,):
            raise VerifyException(f"the body has to end in tensor.yield of one {type.element_type}")


class _IndexedOp(IRDLOperation):
    """What gather and scatter have in common: tuples of coordinates along some dims of a tensor."""

    def _check(
        self, kind: str, tensor: TensorType[Attribute], indices: TensorType[Attribute], dims: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes that the slices may have: with the indexed dims as extents of 1, and without them."""
        rank = tensor.get_num_dims()
        if not dims or list(dims) != sorted(set(dims)) or not 0 <= dims[0] <= dims[-1] < rank:
            raise VerifyException(
                f"{kind} = {list(dims)} has to name dims of {tensor}, in increasing order, each at most once"
            )
        lead, end = indices.get_shape()[:-1], indices.get_shape()[-1:]
        if end != (len(dims),):
            raise VerifyException(f"the last dim of {indices} has to be the number of {kind}, {len(dims)}")
        extents = tensor.get_shape()
        whole = tuple(1 if dim in dims else extent for dim, extent in enumerate(extents))
        return (*lead, *whole), (*lead, *(extents[dim] for dim in range(rank) if dim not in dims))

    def _check_slices(self, slices: Attribute, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        given = tensor_type(slices).get_shape()
        if given not in shapes:
            raise VerifyException(
                f"{slices} has to be of shape {list(shapes[0])}, or {list(shapes[1])} without the indexed dims"
            )


@irdl_op_definition
class GatherOp(_IndexedOp):
    """The slices of a tensor at given coordinates along some of its dims."""

    name = "tensor.gather"

    source = operand_def(TensorType)
    indices = operand_def(_COORDINATES)
    gather_dims = prop_def(DenseArrayBase.constr(i64))
    unique = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `[` $indices `]` `gather_dims` `(` $gather_dims `)` (`unique` $unique^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def verify_(self) -> None:
        source = tensor_type(self.source.type)
        dims = [int(dim) for dim in self.gather_dims.get_values()]
        shapes = self._check("gather_dims", source, tensor_type(self.indices.type), dims)
        self._check_slices(self.result.type, shapes)
        if tensor_type(self.result.type).element_type != source.element_type:
            raise VerifyException(f"{self.result.type} has not the elements of {source}")


@irdl_op_definition
class ScatterOp(_IndexedOp):
    """A tensor with slices replaced at given coordinates along some of its dims."""

    name = "tensor.scatter"

    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    indices = operand_def(_COORDINATES)
    scatter_dims = prop_def(DenseArrayBase.constr(i64))
    unique = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `into` $dest `[` $indices `]` `scatter_dims` `(` $scatter_dims `)` (`unique` $unique^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def verify_(self) -> None:
        dest = tensor_type(self.dest.type)
        dims = [int(dim) for dim in self.scatter_dims.get_values()]
        shapes = self._check("scatter_dims", dest, tensor_type(self.indices.type), dims)
        self._check_slices(self.source.type, shapes)
        if self.unique is None:
            raise VerifyException(
                "tensor.scatter has to be 'unique': of two writes to one place none would win"
            )
        if self.result.type != dest:
            raise VerifyException(f"the result is {self.result.type}, but the destination {dest}")


@irdl_op_definition
class BitcastOp(IRDLOperation):
    """The bits of each element as another type of the same width."""

    name = "tensor.bitcast"

    source = operand_def(base(TensorType) | base(UnrankedTensorType))
    dest = result_def(base(TensorType) | base(UnrankedTensorType))

    traits = traits_def(Pure())

    assembly_format = "$source attr-dict `:` type($source) `to` type($dest)"

    def verify_(self) -> None:
        source, dest = self.source.type, self.dest.type
        widths = [getattr(getattr(type, "element_type", None), "bitwidth", None) for type in (source, dest)]
        if widths[0] != widths[1]:
            raise VerifyException(
                f"elements of {source} and {dest} differ in width: {widths[0]} != {widths[1]} bits"
            )


@irdl_op_definition
class ParallelInsertSliceOp(IRDLOperation):
    """The slice that one iteration of `scf.forall` writes of a tensor that all of them share."""

    name = "tensor.parallel_insert_slice"

    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    offsets = var_operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    static_offsets = prop_def(DenseArrayBase.constr(i64))
    static_sizes = prop_def(DenseArrayBase.constr(i64))
    static_strides = prop_def(DenseArrayBase.constr(i64))

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    assembly_format = (
        "$source `into` $dest ``"
        "custom<DynamicIndexList>($offsets, $static_offsets)"
        "custom<DynamicIndexList>($sizes, $static_sizes)"
        "custom<DynamicIndexList>($strides, $static_strides)"
        "attr-dict `:` type($source) `into` type($dest)"
    )

    custom_directives = (DynamicIndexList,)

    def verify_(self) -> None:
        rank = tensor_type(self.dest.type).get_num_dims()
        for word, static, dynamic in (
            ("offset", self.static_offsets, self.offsets),
            ("size", self.static_sizes, self.sizes),
            ("stride", self.static_strides, self.strides),
        ):
            verify_dynamic_index_list(
                static.get_values(), dynamic, DYNAMIC_INDEX, f" in the {word} arguments"
            )
            if len(static) != rank:
                raise VerifyException(f"{len(static)} {word}s for {self.dest.type} of rank {rank}")


TENSOR_OPS: tuple[type[Operation], ...] = (GenerateOp, GatherOp, ScatterOp, BitcastOp, ParallelInsertSliceOp)
