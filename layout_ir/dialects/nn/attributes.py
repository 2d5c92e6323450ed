"""Attributes of `nn` ops: plain Python values to the user, xDSL attributes in the IR.

An op class declares each attribute in one line,

    strides = ints(default=lambda op: (1,) * op.spatial_rank)
    group = integer(default=1)

and gets from it: a typed accessor (`op.strides` is a tuple of int), the IRDL property `strides` (raw access as
`op.strides_attr`), its place in the assembly format, and its default. An attribute that equals its default is
neither stored by the constructor nor printed, so that one program has one spelling.

As in xDSL's own `prop_def`, the declaring functions return a field object but claim the type of the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import AttrConstraint, base
from xdsl.parser import Parser

from layout_ir.errors import LayoutError


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of attribute value: its constraint in the IR, conversion to and from Python, parsing and printing."""

    noun: str
    constraint: AttrConstraint
    encode: Callable[[Any], Attribute]
    decode: Callable[[Any], Any]
    parse: Callable[[Parser], Any]
    show: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Field:
    """One attribute of an op class. `default` may be a function of the op, or REQUIRED where it has to be given."""

    kind: Kind
    default: Any
    choices: tuple[str, ...] = ()

    def default_of(self, op: Any) -> Any:
        """The default of this attribute of `op`, which may depend on the operands."""
        return self.default(op) if callable(self.default) else self.default

    def check(self, name: str, value: Any) -> None:
        """Raises LayoutError where `value` is none of the keywords that the attribute allows."""
        if self.choices and value not in self.choices:
            raise LayoutError(f"{name} = {value} is unknown, expected one of {', '.join(self.choices)}")


class Required:
    """The default of an attribute that has none."""


REQUIRED = Required()


def format_float(value: float) -> str:
    """The shortest decimal literal with a point that reads back as the same number; inf and nan as words."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    for digits in (6, 9, 17):
        text = f"{value:.{digits}g}"
        if float(text) == value:
            break
    else:
        text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + e + exponent


def parse_float(parser: Parser) -> float:
    """A number, or one of `inf`, `-inf`, `nan`."""
    negative = parser.parse_optional_punctuation("-") is not None
    keyword = parser.parse_optional_keyword_in(("inf", "nan"))
    value = float(keyword) if keyword is not None else float(parser.parse_number())
    return -value if negative else value


def _parse_list(parse: Callable[[Parser], Any]) -> Callable[[Parser], tuple[Any, ...]]:
    return lambda parser: tuple(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse(parser))
    )


def _show_list(show: Callable[[Any], str]) -> Callable[[Sequence[Any]], str]:
    return lambda values: f"[{', '.join(map(show, values))}]"


@lru_cache(maxsize=1024)
def _integers(values: tuple[int, ...]) -> Attribute:
    """Layers have the same windows over and over, and to make an attribute takes 20 us."""
    return DenseArrayBase.from_list(i64, values)


_INTS = Kind(
    "a list of integers",
    DenseArrayBase.constr(i64),
    lambda value: _integers(tuple(value)),
    lambda attr: tuple(attr.get_values()),
    _parse_list(lambda parser: parser.parse_integer()),
    _show_list(str),
)
_FLOATS = Kind(
    "a list of numbers",
    DenseArrayBase.constr(f64),
    lambda value: DenseArrayBase.from_list(f64, tuple(map(float, value))),
    lambda attr: tuple(attr.get_values()),
    _parse_list(parse_float),
    _show_list(format_float),
)
_INT = Kind(
    "an integer",
    IntegerAttr.constr(i64),
    lambda value: IntegerAttr(value, i64),
    lambda attr: attr.value.data,
    lambda parser: parser.parse_integer(),
    str,
)
_FLOAT = Kind(
    "a number",
    FloatAttr.constr(base(type(f64))),
    lambda value: FloatAttr(float(value), f64),
    lambda attr: attr.value.data,
    parse_float,
    format_float,
)
_FLAG = Kind(
    "true or false",
    IntegerAttr.constr(i1),
    lambda value: IntegerAttr.from_bool(bool(value)),
    lambda attr: bool(attr.value.data),
    lambda parser: parser.parse_boolean(),
    lambda value: "true" if value else "false",
)
_KEYWORD = Kind(
    "a word",
    base(StringAttr),
    StringAttr,
    lambda attr: attr.data,
    lambda parser: parser.parse_identifier(),
    str,
)

IntDefault = int | Callable[[Any], int] | Required
IntsDefault = tuple[int, ...] | Callable[[Any], tuple[int, ...]] | Required
FloatsDefault = tuple[float, ...] | Required


def ints(default: IntsDefault = REQUIRED) -> tuple[int, ...]:
    """A list of integers."""
    return cast("tuple[int, ...]", Field(_INTS, default))


def floats(default: FloatsDefault = REQUIRED) -> tuple[float, ...]:
    """A list of numbers."""
    return cast("tuple[float, ...]", Field(_FLOATS, default))


def integer(default: IntDefault = REQUIRED) -> int:
    """An integer."""
    return cast(int, Field(_INT, default))


def number(default: float | Required = REQUIRED) -> float:
    """A number, stored in double precision."""
    return cast(float, Field(_FLOAT, default))


def flag(default: bool | Required = REQUIRED) -> bool:
    """True or false."""
    return cast(bool, Field(_FLAG, default))


def keyword(choices: tuple[str, ...]) -> str:
    """One of a few keywords, the first of which is the default. Printed without quotes."""
    return cast(str, Field(_KEYWORD, choices[0], choices))
