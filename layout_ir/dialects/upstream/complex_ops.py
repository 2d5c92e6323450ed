"""Ops of complex that xDSL lacks.

%y = complex.powi %x, %n : complex<f32>, i32
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    ComplexType,
    IntegerType,
)
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure


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


COMPLEX_OPS: tuple[type[Operation], ...] = (PowiOp,)
