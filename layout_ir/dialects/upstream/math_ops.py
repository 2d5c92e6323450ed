"""Ops of math that xDSL lacks.

%b = math.isnan %x : tensor<3x4xf32>                 the result is a tensor<3x4xi1>
%c = math.clampf %x to [%low, %high] : tensor<3x4xf32>
"""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.dialects import arith, math
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from layout_ir.dialects.upstream.elementwise_syntax import (
    FLOATS,
    NO_FLAGS,
    bits_of,
    check_bits,
    check_element,
    parse_operands,
    parse_rest,
)


@irdl_op_definition
class ErfcOp(math.FloatingPointLikeUnaryMathOperation):
    """1 less the error function."""

    name = "math.erfc"

    traits = traits_def(Pure())


class FloatPredicateOp(IRDLOperation):
    """A question about each element: the result is an i1 per element. MLIR writes its flags among the attributes."""

    operand = operand_def()
    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=NO_FLAGS)
    result = result_def()

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        operands = parse_operands(parser, 1)
        _, attributes, type = parse_rest(parser)
        return cls.create(
            operands=parser.resolve_operands(operands, [type], parser.pos),
            result_types=[bits_of(type)],
            properties={"fastmath": attributes.pop("fastmath", NO_FLAGS)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operand)
        flags = {} if self.fastmath == NO_FLAGS else {"fastmath": self.fastmath}
        printer.print_op_attributes({**flags, **self.attributes})
        printer.print_string(" : ")
        printer.print_attribute(self.operand.type)

    def verify_(self) -> None:
        check_element(self.operand.type, *FLOATS)
        check_bits(self.operand.type, self.result.type)


@irdl_op_definition
class IsFiniteOp(FloatPredicateOp):
    """Whether it is neither infinite nor NaN."""

    name = "math.isfinite"


@irdl_op_definition
class IsInfiniteOp(FloatPredicateOp):
    """Whether it is infinite."""

    name = "math.isinf"


@irdl_op_definition
class IsNaNOp(FloatPredicateOp):
    """Whether it is NaN."""

    name = "math.isnan"


@irdl_op_definition
class IsNormalOp(FloatPredicateOp):
    """Whether it is finite and no subnormal number or zero."""

    name = "math.isnormal"


@irdl_op_definition
class ClampOp(IRDLOperation):
    """A float, not less than the one bound and not more than the other."""

    name = "math.clampf"

    T: ClassVar = VarConstraint("T", math.floatingPointLike)

    value = operand_def(T)
    low = operand_def(T)
    high = operand_def(T)
    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=NO_FLAGS)
    result = result_def(T)

    traits = traits_def(Pure())

    assembly_format = (
        "$value `to` `[` $low `,` $high `]` (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"
    )


@irdl_op_definition
class SineAndCosineOp(IRDLOperation):
    """The sine and the cosine of a float."""

    name = "math.sincos"

    T: ClassVar = VarConstraint("T", math.floatingPointLike)

    operand = operand_def(T)
    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=NO_FLAGS)
    sin = result_def(T)
    cos = result_def(T)

    traits = traits_def(Pure())

    assembly_format = "$operand (`fastmath` `` $fastmath^)? attr-dict `:` type($operand)"


MATH_OPS: tuple[type[Operation], ...] = (
    ErfcOp, IsFiniteOp, IsInfiniteOp, IsNaNOp, IsNormalOp, ClampOp, SineAndCosineOp,
)  # fmt: skip
