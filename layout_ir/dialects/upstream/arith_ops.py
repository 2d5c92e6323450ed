"""Ops of arith that MLIR takes on tensors and vectors and xDSL on scalars alone, flags that xDSL lacks, and ops that it
has not.

    %b = arith.cmpf olt, %x, %y : tensor<3x4xf32>        the result is a tensor<3x4xi1>
    %r = arith.select %b, %x, %y : tensor<3x4xi1>, tensor<3x4xf32>
    %i = arith.fptosi %r : tensor<3x4xf32> to tensor<3x4xi32>
    %s = arith.shrsi %i, %i exact : tensor<3x4xi32>

Each class that takes the place of one of xDSL's derives from it, so that passes know it; `known_as` gives that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from layout_ir.dialects.upstream.elementwise_syntax import (
    FLOATS,
    NO_FLAGS,
    bits_of,
    check_bits,
    check_element,
    element_of,
    parse_operands,
    parse_rest,
    print_rest,
)


def known_as(op: Operation) -> type[Operation]:
    """The class of xDSL that the class of an op takes the place of; its own, where it takes none, or where the op says
    how it rounds and that is not to the nearest even number."""
    mode = op.properties.get("roundingmode")
    if isinstance(mode, IntegerAttr) and mode.value.data != _ROUNDING_MODES.index("to_nearest_even"):
        return type(op)
    return _TAKES_PLACE_OF.get(type(op), type(op))


# Comparisons ----------------------------------------------------------------------------------------------------------


def _parse_predicate(parser: Parser, words: Sequence[str]) -> int:
    start = parser.pos
    word = parser.parse_identifier()
    if word not in words:
        parser.raise_error(f"'{word}' is no predicate: {', '.join(words)} are", start, parser.pos)
    parser.parse_punctuation(",")
    return words.index(word)


class Comparison(IRDLOperation):
    """A comparison of elements by a predicate of `WORDS`: the result is an i1 per element."""

    WORDS: ClassVar[Sequence[str]]
    ELEMENTS: ClassVar[tuple[type[Attribute], ...]]
    FLAGS: ClassVar[bool]
    """Whether it has fastmath flags."""

    predicate = prop_def(IntegerAttr)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        predicate = _parse_predicate(parser, cls.WORDS)
        operands = parse_operands(parser, 2)
        flags, attributes, type = parse_rest(parser)
        return cls.create(
            operands=parser.resolve_operands(operands, [type, type], parser.pos),
            result_types=[bits_of(type)],
            properties={
                "predicate": IntegerAttr(predicate, 64),
                **({"fastmath": flags} if cls.FLAGS else {}),
            },
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.WORDS[self.predicate.value.data]}, ")
        printer.print_list(self.operands, printer.print_ssa_value)
        print_rest(printer, self, self.lhs.type)

    def verify_(self) -> None:
        left, right, result = (value.type for value in (*self.operands, *self.results))
        check_element(left, *self.ELEMENTS)
        if left != right:
            raise VerifyException(f"{left} is compared with {right}")
        check_bits(left, result)


@irdl_op_definition
class CompareIntegersOp(Comparison, arith.CmpiOp):
    """`arith.cmpi`"""

    WORDS: ClassVar[Sequence[str]] = arith.CMPI_COMPARISON_OPERATIONS
    ELEMENTS: ClassVar[tuple[type[Attribute], ...]] = (IntegerType, IndexType)
    FLAGS: ClassVar[bool] = False

    name = "arith.cmpi"


@irdl_op_definition
class CompareFloatsOp(Comparison, arith.CmpfOp):
    """`arith.cmpf`"""

    WORDS: ClassVar[Sequence[str]] = arith.CMPF_COMPARISON_OPERATIONS
    ELEMENTS: ClassVar[tuple[type[Attribute], ...]] = FLOATS
    FLAGS: ClassVar[bool] = True

    name = "arith.cmpf"

    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=NO_FLAGS)


@irdl_op_definition
class ChooseOp(arith.SelectOp):
    """`arith.select` by one i1, or by an i1 per element."""

    name = "arith.select"
    assembly_format: ClassVar[str | None] = None

    cond = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        operands = parse_operands(parser, 3)
        _, attributes, type = parse_rest(parser)
        condition: Attribute = i1
        if parser.parse_optional_punctuation(",") is not None:
            condition, type = type, parser.parse_type()
        return cls.create(
            operands=parser.resolve_operands(operands, [condition, type, type], parser.pos),
            result_types=[type],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        condition = () if self.cond.type == i1 else (self.cond.type,)
        print_rest(printer, self, *condition, self.result.type)

    def verify_(self) -> None:
        condition, *types = (value.type for value in (*self.operands, *self.results))
        if len(set(types)) != 1:
            raise VerifyException(f"it chooses one of {types[0]} and {types[1]} as {types[2]}")
        if condition not in (i1, bits_of(types[0])):
            raise VerifyException(
                f"the condition for {types[0]} is i1 or {bits_of(types[0])}, not {condition}"
            )


# Conversions ----------------------------------------------------------------------------------------------------------


def _width(element: Attribute) -> int:
    return getattr(element, "bitwidth", 64)


def _shape(type: Attribute) -> Any:
    """The extents of a tensor or vector; None of a scalar, or where there is no rank."""
    return type.get_shape() if isinstance(type, TensorType | VectorType) else None


def _check_conversion(
    source: tuple[Any, ...], target: tuple[Any, ...], grows: bool | None
) -> Callable[[Operation], None]:
    """Checks that elements of `source` become as many of `target`, wider where `grows`, narrower where it is False."""

    def check(op: Operation) -> None:
        given, made = op.operands[0].type, op.results[0].type
        check_element(given, *source)
        check_element(made, *target)
        if type(given) is not type(made) and (element_of(given) != given or element_of(made) != made):
            raise VerifyException(f"{given} and {made} are not alike")
        if _shape(given) != _shape(made):
            raise VerifyException(f"{given} and {made} differ in shape")
        before, after = element_of(given), element_of(made)
        if isinstance(before, IndexType) and isinstance(after, IndexType):
            raise VerifyException(f"one of {given} and {made} has to be of integers")
        if grows is not None and (_width(after) > _width(before)) != grows:
            raise VerifyException(f"{made} has to be {'wider' if grows else 'narrower'} than {given}")

    return check


def _conversion(
    own: type[Operation], check: Callable[[Operation], None], form: str = "", **fields: Any
) -> type[Operation]:
    """xDSL's conversion `own` on elements of tensors and vectors, too, with flags that `form` writes."""
    return _define(
        own,
        f"$input {form} attr-dict `:` type($input) `to` type($result)",
        input=operand_def(),
        result=result_def(),
        verify_=check,
        **fields,
    )


def _define(own: type[Operation], form: str, name: str = "", **fields: Any) -> type[Operation]:
    content: dict[str, Any] = {
        "__doc__": f"`{name or own.name}`",
        "__module__": __name__,
        "__annotations__": {},
        "name": name or own.name,
        "assembly_format": form,
        "parse": Operation.parse,  # in place of those that xDSL made of its own form
        "print": Operation.print,
        **fields,
    }
    made: Any = type(own.__name__, (own,), content)
    return irdl_op_definition(made)


class IndexCastUnsignedOp(IRDLOperation):
    """`arith.index_castui`, which xDSL lacks."""

    name = "arith.index_castui"

    traits = traits_def(Pure())


_INTEGERS = (IntegerType,)
_WHOLE = (IntegerType, IndexType)
_FAST = "(`fastmath` `` $fastmath^)?"


_CONVERSIONS: tuple[type[Operation], ...] = (
    _conversion(arith.ExtSIOp, _check_conversion(_INTEGERS, _INTEGERS, True)),
    _conversion(arith.ExtUIOp, _check_conversion(_INTEGERS, _INTEGERS, True)),
    _conversion(
        arith.TruncIOp,
        _check_conversion(_INTEGERS, _INTEGERS, False),
        "(`overflow` `` $overflowFlags^)?",
        overflowFlags=prop_def(arith.IntegerOverflowAttr, default_value=arith.IntegerOverflowAttr("none")),
    ),
    _conversion(
        arith.ExtFOp,
        _check_conversion(FLOATS, FLOATS, True),
        _FAST,
        fastmath=opt_prop_def(arith.FastMathFlagsAttr),
    ),
    _conversion(arith.SIToFPOp, _check_conversion(_INTEGERS, FLOATS, None)),
    _conversion(arith.UIToFPOp, _check_conversion(_INTEGERS, FLOATS, None)),
    _conversion(arith.FPToSIOp, _check_conversion(FLOATS, _INTEGERS, None)),
    _conversion(arith.FPToUIOp, _check_conversion(FLOATS, _INTEGERS, None)),
    _conversion(arith.IndexCastOp, _check_conversion(_WHOLE, _WHOLE, None)),
    _conversion(IndexCastUnsignedOp, _check_conversion(_WHOLE, _WHOLE, None)),
)


_ROUNDING_MODES = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")
"""The modes of `arith.truncf`, each at its number."""


def _parse_rounding_mode(parser: Parser) -> Attribute | None:
    word = parser.parse_optional_keyword_in(set(_ROUNDING_MODES))
    return None if word is None else IntegerAttr(_ROUNDING_MODES.index(word), 32)


def _print_rounding_mode(printer: Printer, op: Operation) -> None:
    mode = op.properties.get("roundingmode")
    if isinstance(mode, IntegerAttr):
        printer.print_string(f" {_ROUNDING_MODES[mode.value.data]}")


def _check_rounding_mode(op: Operation) -> None:
    mode = op.properties.get("roundingmode")
    if isinstance(mode, IntegerAttr) and not 0 <= mode.value.data < len(_ROUNDING_MODES):
        raise VerifyException(
            f"{mode.value.data} is no rounding mode, 0 to {len(_ROUNDING_MODES) - 1} are: "
            f"{', '.join(_ROUNDING_MODES)}"
        )


@irdl_op_definition
class TruncateFloatsOp(arith.TruncFOp):
    """`arith.truncf`"""

    name = "arith.truncf"
    assembly_format: ClassVar[str | None] = None

    input = operand_def()
    roundingmode = opt_prop_def(IntegerAttr)
    fastmath = opt_prop_def(arith.FastMathFlagsAttr)
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        operands = parse_operands(parser, 1)
        mode = _parse_rounding_mode(parser)
        flags, attributes, type = parse_rest(parser)
        parser.parse_keyword("to")
        found = {"roundingmode": mode, "fastmath": None if flags == NO_FLAGS else flags}
        return cls.create(
            operands=parser.resolve_operands(operands, [type], parser.pos),
            result_types=[parser.parse_type()],
            properties={name: value for name, value in found.items() if value is not None},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.input)
        _print_rounding_mode(printer, self)
        print_rest(printer, self, self.input.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        _check_conversion(FLOATS, FLOATS, False)(self)
        _check_rounding_mode(self)


# Exact shifts and divisions, and what xDSL has not --------------------------------------------------------------------


def _no_check(op: Operation) -> None:
    """In place of the verifier of a base class, which asks for its own fields."""


_ONE = VarConstraint("T", arith.signlessIntegerLike)

_EXACT: tuple[type[Operation], ...] = tuple(
    _define(
        own,
        "$lhs `,` $rhs (`exact` $isExact^)? attr-dict `:` type($result)",
        lhs=operand_def(_ONE),
        rhs=operand_def(_ONE),
        result=result_def(_ONE),
        isExact=opt_prop_def(UnitAttr),
        verify_=_no_check,
    )
    for own in (arith.ShRSIOp, arith.ShRUIOp, arith.DivSIOp, arith.DivUIOp)
)


@irdl_op_definition
class RemainderOp(arith.FloatingPointLikeBinaryOperation):
    """The remainder of a quotient that is rounded towards 0; it has the sign of the dividend."""

    name = "arith.remf"

    traits = traits_def(Pure())


ARITH_OPS: tuple[type[Operation], ...] = (
    CompareIntegersOp, CompareFloatsOp, ChooseOp, *_CONVERSIONS, TruncateFloatsOp, *_EXACT, RemainderOp,
)  # fmt: skip

_TAKES_PLACE_OF: dict[type[Operation], type[Operation]] = {
    op: op.__bases__[-1]
    for op in (CompareIntegersOp, CompareFloatsOp, ChooseOp, *_CONVERSIONS, TruncateFloatsOp, *_EXACT)
}
