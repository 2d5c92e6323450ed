"""Ops of the dialect quant, which xDSL lacks.

%q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
"""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure


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


QUANT_OPS: tuple[type[Operation], ...] = (QuantizeCastOp, DequantizeCastOp, StorageCastOp)
