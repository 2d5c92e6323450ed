"""Ops of tensor, tosa and memref that xDSL has, but verifies more strictly than MLIR does.

Each class derives from xDSL's, so that passes know it, and states the fields again that are too strict there: unranked
operands, quantized elements, static results of dynamic pads, attributes that newer versions of MLIR have.
"""

from __future__ import annotations

from typing import ClassVar, cast

from xdsl.dialects import memref, tensor, tosa
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BoolAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.dialects.utils.reshape_ops_utils import ContiguousArrayOfIntArray
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.layout.types import tensor_type


@irdl_op_definition
class WiderPadOp(tensor.PadOp):
    """`tensor.pad`, whose result may be static where source or pads are dynamic."""

    name = "tensor.pad"
    assembly_format: ClassVar[str | None] = None  # the form of the base class

    source = operand_def()
    low = var_operand_def(IndexType)
    high = var_operand_def(IndexType)
    static_low = prop_def(DenseArrayBase.constr(i64))
    static_high = prop_def(DenseArrayBase.constr(i64))
    nofold = opt_prop_def(UnitAttr)
    region = region_def("single_block")
    result = result_def()

    def verify_(self) -> None:
        source, result = (tensor_type(value.type).get_shape() for value in (self.source, self.result))
        low, high = self.static_low.get_values(), self.static_high.get_values()
        if not len(source) == len(low) == len(high) == len(result) == len(self.region.block.args):
            raise VerifyException(
                f"a tensor of rank {len(source)} needs {len(source)} low pads, high pads, dims of the result and "
                f"arguments of the region, not {len(low)}, {len(high)}, {len(result)} and "
                f"{len(self.region.block.args)}"
            )
        for dim, (extent, before, behind, padded) in enumerate(zip(source, low, high, result, strict=True)):
            known = DYNAMIC_INDEX not in (extent, before, behind, padded)
            if known and extent + before + behind != padded:
                raise VerifyException(
                    f"dim {dim} of {extent} with pads of {before} and {behind} has {extent + before + behind} "
                    f"elements, not {padded}"
                )


@irdl_op_definition
class WiderReshapeOp(tensor.ReshapeOp):
    """`tensor.reshape` of unranked tensors too."""

    name = "tensor.reshape"
    assembly_format: ClassVar[str | None] = None  # the form of the base class

    source = operand_def()
    shape = operand_def()
    result = result_def()

    def verify_(self) -> None:
        """Leaves out the verifier of the base class."""


@irdl_op_definition
class WiderExpandShapeOp(tensor.ExpandShapeOp):
    """`tensor.expand_shape` of a tensor without dims too, whose reassociation is empty."""

    name = "tensor.expand_shape"

    src = operand_def(TensorType)
    dynamic_output_shape = var_operand_def(IndexType)
    reassociation = prop_def(ContiguousArrayOfIntArray())
    static_output_shape = prop_def(DenseArrayBase.constr(i64))
    result = result_def(TensorType[Attribute])

    def verify_(self) -> None:
        if tensor_type(self.src.type).get_shape() or self.reassociation.data:
            super().verify_()
        elif any(extent != 1 for extent in self.result.type.get_shape()):
            raise VerifyException(f"{self.src.type} has one element, {self.result.type} has not")


@irdl_op_definition
class RankOp(IRDLOperation):
    """The rank of a tensor."""

    name = "tensor.rank"

    tensor = operand_def()
    result = result_def(IndexType())

    traits = traits_def(Pure())

    assembly_format = "$tensor attr-dict `:` type($tensor)"


@irdl_op_definition
class WiderMulOp(tosa.MulOp):
    """`tosa.mul` of unranked tensors too."""

    name = "tosa.mul"
    assembly_format: ClassVar[str | None] = None  # the form of the base class

    input1 = operand_def()
    input2 = operand_def()
    shift = operand_def()
    output = result_def()

    def verify_(self) -> None:
        types = [value.type for value in (*self.operands[:2], *self.results)]
        if all(isinstance(type, TensorType) for type in types) and not tosa.are_tosa_broadcastable(*types):
            raise VerifyException(f"{types[0]} and {types[1]} do not broadcast to {types[2]}")


def _check_indices(op: memref.LoadOp | memref.StoreOp) -> None:
    rank = len(op.memref.type.get_shape())  # pyright: ignore
    if rank != len(op.indices):
        raise VerifyException(f"{len(op.indices)} indices into {op.memref.type} of rank {rank}")


@irdl_op_definition
class WiderLoadOp(memref.LoadOp):
    """`memref.load` with an alignment."""

    name = "memref.load"
    assembly_format: ClassVar[str | None] = None  # the form of the base class

    T: ClassVar = VarConstraint("T", AnyAttr())

    nontemporal = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    alignment = opt_prop_def(IntegerAttr)
    memref = operand_def(MemRefType.constr(T))
    indices = var_operand_def(IndexType())
    res = result_def(T)

    def verify_(self) -> None:
        _check_indices(self)


@irdl_op_definition
class WiderStoreOp(memref.StoreOp):
    """`memref.store` with an alignment."""

    name = "memref.store"
    assembly_format: ClassVar[str | None] = None  # the form of the base class

    T: ClassVar = VarConstraint("T", AnyAttr())

    nontemporal = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    alignment = opt_prop_def(IntegerAttr)
    value = operand_def(T)
    memref = operand_def(MemRefType.constr(T))
    indices = var_operand_def(IndexType())

    def verify_(self) -> None:
        _check_indices(self)


@irdl_op_definition
class WiderReinterpretCastOp(memref.ReinterpretCastOp):
    """`memref.reinterpret_cast`, whose result may say less than its sizes do."""

    name = "memref.reinterpret_cast"
    assembly_format: ClassVar[str | None] = None  # the form of the base class

    source = operand_def()
    offsets = var_operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    static_offsets = prop_def(DenseArrayBase.constr(i64))
    static_sizes = prop_def(DenseArrayBase.constr(i64))
    static_strides = prop_def(DenseArrayBase.constr(i64))
    result = result_def(MemRefType)

    def verify_(self) -> None:
        extents = self.result.type.get_shape()  # pyright: ignore
        sizes = self.static_sizes.get_values()
        if len(extents) != len(sizes):
            raise VerifyException(f"{len(sizes)} sizes for {self.result.type} of rank {len(extents)}")
        for dim, (extent, size) in enumerate(zip(extents, sizes, strict=True)):
            if DYNAMIC_INDEX not in (extent, size) and extent != size:
                raise VerifyException(f"size {size} of dim {dim} differs from that of {self.result.type}")


@irdl_op_definition
class CopyOp(memref.CopyOp):
    """`memref.copy`, with a custom form."""

    name = "memref.copy"

    source = operand_def(MemRefType)
    destination = operand_def(MemRefType)

    assembly_format = "$source `,` $destination attr-dict `:` type($source) `to` type($destination)"

    def verify_(self) -> None:
        ours, theirs = (value.type for value in self.operands)
        ours, theirs = cast("MemRefType[Attribute]", ours), cast("MemRefType[Attribute]", theirs)
        if ours.element_type != theirs.element_type or len(ours.shape) != len(theirs.shape):
            raise VerifyException(f"{ours} and {theirs} differ in rank or element type")


@irdl_op_definition
class CastOp(memref.CastOp):
    """`memref.cast`, with a custom form."""

    name = "memref.cast"

    source = operand_def()
    dest = result_def()

    assembly_format = "$source attr-dict `:` type($source) `to` type($dest)"

    def verify_(self) -> None:
        """Leaves out the verifier of the base class."""


@irdl_op_definition
class MemorySpaceCastOp(memref.MemorySpaceCastOp):
    """`memref.memory_space_cast`, with a custom form."""

    name = "memref.memory_space_cast"

    source = operand_def()
    dest = result_def()

    assembly_format = "$source attr-dict `:` type($source) `to` type($dest)"

    def verify_(self) -> None:
        """Leaves out the verifier of the base class."""


WIDER_OPS: dict[str, tuple[type[Operation], ...]] = {
    "tensor": (WiderPadOp, WiderReshapeOp, WiderExpandShapeOp, RankOp),
    "tosa": (WiderMulOp,),
    "memref": (WiderLoadOp, WiderStoreOp, WiderReinterpretCastOp, CopyOp, CastOp, MemorySpaceCastOp),
}
"""The classes by dialect."""
