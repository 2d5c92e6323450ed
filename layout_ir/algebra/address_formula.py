"""The address of an element as a formula over its index, in the syntax of another language.

The digits of a layout are divisions, remainders and products. Those that say nothing on the shape are gone, digits that
continue each other are one, and a remainder is taken only where the quotient can reach it: nChw8c of 2x17x5x4 is

    n * 480 + c / 8 * 160 + h * 32 + w * 8 + c % 8

An XOR swizzle stays an XOR where the language has one. Affine expressions have none: there each bit that the swizzle
changes is the sum of two bits, modulo 2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from layout_ir.algebra.canonical import canonical_digits, dim_steps, position_value, reaching_swizzle
from layout_ir.algebra.steps import fit_phased
from layout_ir.errors import LayoutError

if TYPE_CHECKING:
    from layout_ir.algebra.layout import Layout

Operator = Literal["+", "*", "/", "%", "^", "&", "<<", ">>"]
Syntax = Literal["c", "python", "affine", "llvm"]


@dataclass(frozen=True, slots=True)
class Operation:
    """`left` and `right`, combined: each an operation, the index of a dim as text, or a constant.

    Quotients and remainders are of values that are not negative, where all languages agree on them.
    """

    operator: Operator
    left: Operation | str | int
    right: Operation | str | int


Expression = Operation | str | int


@dataclass(frozen=True, slots=True)
class Addend:
    """`value` times `stride` elements, where `value` runs from 0 to `highest`."""

    stride: int
    value: Expression
    highest: int

    @property
    def expression(self) -> Expression:
        """The product."""
        return self.value if self.stride == 1 else Operation("*", self.value, self.stride)


def address_formula(layout: Layout, names: Sequence[str] | None, syntax: Syntax, result: str) -> str:
    """What `Layout.expression` returns and raises."""
    return _text(_address(layout, _operands(layout, names, syntax), syntax), syntax, result)


def chunk_formulas(
    layout: Layout, names: Sequence[str] | None, syntax: Syntax, result: str
) -> tuple[str, str]:
    """What `Layout.chunk_expression` returns and raises."""
    if not layout.chunk_rank:
        raise LayoutError(f"layout {layout} has no chunks: its format has no bar")
    operands, size = _operands(layout, names, syntax), layout.chunk_size
    constant, addends = _addends(layout, operands)
    outer = [Addend(a.stride // size, a.value, a.highest) for a in addends if a.stride % size == 0]
    inner = [a for a in addends if a.stride % size]
    rest = constant % size
    within = all(a.stride > 0 for a in inner) and rest + sum(a.stride * a.highest for a in inner) < size
    chunk: Expression
    inside: Expression
    if within and reaching_swizzle(layout) is None:
        chunk, inside = _sum(outer, constant // size), _sum(inner, rest)
    else:
        address = _address(layout, operands, syntax)
        chunk, inside = Operation("/", address, size), Operation("%", address, size)
    return _text(chunk, syntax, f"{result}.chunk"), _text(inside, syntax, f"{result}.inside")


# The formula ------------------------------------------------------------------------------------------------------


def _address(layout: Layout, operands: Sequence[str], syntax: Syntax) -> Expression:
    """The address of the index `operands`, in elements."""
    constant, addends = _addends(layout, operands)
    address = _sum(addends, constant)
    swizzle = reaching_swizzle(layout)
    if swizzle is None or 0 in layout.shape:
        return address
    return _affine_swizzle(address, swizzle) if syntax == "affine" else _swizzle(address, swizzle)


def _addends(layout: Layout, operands: Sequence[str]) -> tuple[int, list[Addend]]:
    """The address before the swizzle: a constant, and addends from the longest stride to the shortest."""
    constant, addends = layout.offset, list[Addend]()
    if 0 in layout.shape:
        return constant, addends
    for dim, (operand, extent, low) in enumerate(zip(operands, layout.shape, layout.lo, strict=True)):
        start, terms = 0, canonical_digits(layout.digits[dim], extent)
        if low:
            found = fit_phased(dim_steps(layout, dim))
            assert found is not None  # the digits of the dim are one answer
            start, terms = found
        constant += position_value(
            layout, dim, low
        )  # the part of index 0, less what the addends say of it below
        counts = [coarser // finer for (finer, _), (coarser, _) in pairwise(terms)]
        for (unit, stride), count in zip(terms, (*counts, None), strict=False):
            if stride:
                addend, first = _digit(operand, extent, start, unit, count)
                constant -= first * stride
                addends.append(Addend(stride, addend.value, addend.highest))
    return constant, sorted(addends, key=lambda addend: -abs(addend.stride))


def _digit(operand: str, extent: int, start: int, unit: int, count: int | None) -> tuple[Addend, int]:
    """((x + start) div unit) mod count on [0, extent) up to a constant, and the value of what is returned at x = 0."""
    # What of the start is a whole number of periods, or of units where there is no period, is a constant.
    phase = start % (unit * count) if count else start % unit
    value: Expression = operand if phase == 0 or (unit == 1 and not count) else Operation("+", operand, phase)
    phase = 0 if unit == 1 and not count else phase
    if unit > 1:
        value = Operation("/", value, unit)
    first, last = phase // unit, (phase + extent - 1) // unit
    if count and last >= count:
        value, last = Operation("%", value, count), count - 1
    elif unit == 1 and phase:
        value, first, last = operand, 0, last - phase
    return Addend(1, value, last), first


def _sum(addends: Sequence[Addend], constant: int) -> Expression:
    """The addends in their order, and the constant behind them unless it is 0 and they are something."""
    parts = [addend.expression for addend in addends]
    if constant or not parts:
        parts.append(constant)
    total = parts[0]
    for part in parts[1:]:
        total = Operation("+", total, part)
    return total


def _swizzle(address: Expression, swizzle: tuple[int, int, int]) -> Expression:
    """`address` with `bits` of its bits, from `base` on, combined by XOR with those that are `shift` higher."""
    bits, base, shift = swizzle
    moved: Expression = Operation("&", Operation(">>", address, base + shift), (1 << bits) - 1)
    return Operation("^", address, Operation("<<", moved, base) if base else moved)


def _affine_swizzle(address: Expression, swizzle: tuple[int, int, int]) -> Expression:
    """The same by quotients and remainders: the bits above and below, and each changed bit as a sum modulo 2."""
    bits, base, shift = swizzle
    total: Expression = Operation("*", _quotient(address, 1 << (base + bits)), 1 << (base + bits))
    for bit in reversed(range(base, base + bits)):
        pair = Operation("+", _quotient(address, 1 << bit), _quotient(address, 1 << (bit + shift)))
        total = Operation("+", total, Addend(1 << bit, Operation("%", pair, 2), 1).expression)
    return Operation("+", total, Operation("%", address, 1 << base)) if base else total


def _quotient(value: Expression, divisor: int) -> Expression:
    return value if divisor == 1 else Operation("/", value, divisor)


# Its text ---------------------------------------------------------------------------------------------------------

_SPELLINGS: dict[str, dict[Operator, str]] = {
    "c": {},
    "python": {"/": "//"},
    "affine": {"/": "floordiv", "%": "mod"},
}
"""The operators of each language that are not spelled as `Operator` spells them."""
_INSTRUCTIONS: dict[Operator, str] = {
    "+": "add", "*": "mul", "/": "udiv", "%": "urem", "^": "xor", "&": "and", "<<": "shl", ">>": "lshr",
}  # fmt: skip
_ATOM = re.compile(r"[A-Za-z_]\w*(\[\w*\])*|[0-9]+|\([^()]*\)", re.ASCII)
"""What needs no parentheses in any operation."""


def _operands(layout: Layout, names: Sequence[str] | None, syntax: str) -> list[str]:
    """One operand per dim, as the language writes it. Raises LayoutError where names or syntax are wrong."""
    if syntax not in (*_SPELLINGS, "llvm"):
        raise LayoutError(f"unknown syntax '{syntax}': there are {', '.join((*_SPELLINGS, 'llvm'))}")
    given = list(layout.names if names is None else names)
    if len(given) != layout.rank:
        raise LayoutError(
            f"rank mismatch between index names ({', '.join(map(str, given))}) and shape {layout.shape}: "
            f"{len(given)} != {layout.rank}"
        )
    for name in given:
        if not isinstance(name, str) or not _is_operand(name, syntax):  # pyright: ignore[reportUnnecessaryIsInstance]
            what = "a name" if syntax == "llvm" else f"a name or an expression of {syntax}"
            raise LayoutError(f"{name!r} is no index: expected {what}")
    if syntax == "llvm":
        return [name if name[0] == "%" or name.isdecimal() else f"%{name}" for name in given]
    return [name if _ATOM.fullmatch(name) else f"({name})" for name in given]


_GROUP = re.compile(r"[(\[][^()\[\]]*[)\]]")
_WORDS = re.compile(r"\b(mod|floordiv|ceildiv|and|or|not|if|else|is|in)\b")
"""Operators of affine maps and of Python that are words."""
_ONE_BY_ONE = re.compile(r"\w\s+\w")


def _is_operand(text: str, syntax: str) -> bool:
    """Whether a text may stand for an index: a value of LLVM's, or in other languages what is an expression as far as
    that shows without a parser: parentheses that close, and an operator between any two names."""
    if syntax == "llvm":
        return re.fullmatch(r"%?[\w.$-]+", text, re.ASCII) is not None
    if not text.strip() or not text.isprintable():
        return False
    while (inner := _GROUP.sub("@", text)) != text:
        text = inner
    text = _WORDS.sub("+", text) if syntax in ("python", "affine") else text
    return not set(text) & set("()[];{}") and _ONE_BY_ONE.search(text) is None


def _text(expression: Expression, syntax: str, result: str) -> str:
    if syntax == "llvm":
        return _instructions(expression, result)
    return _infix(expression, _SPELLINGS[syntax])


def _infix(expression: Expression, spelling: dict[Operator, str]) -> str:
    """`expression` with few parentheses: products and quotients bind from the left, and before sums."""
    if not isinstance(expression, Operation):
        return str(expression)
    operator = expression.operator
    left, right = _infix(expression.left, spelling), _infix(expression.right, spelling)
    if operator == "+":
        if isinstance(expression.right, int) and expression.right < 0:
            return f"{left} - {-expression.right}"
        # A bitwise operation binds less than a sum in some of the languages.
        left = left if _binds(expression.left, "+*/%") else f"({left})"
        return f"{left} + {right}"
    allowed = "*/%" if operator in "*/%" else ""
    left = left if _binds(expression.left, allowed) else f"({left})"
    right = right if _binds(expression.right, "") else f"({right})"
    return f"{left} {spelling.get(operator, operator)} {right}"


def _binds(operand: Expression, operators: str) -> bool:
    """Whether `operand` is no operation, or one of these."""
    return not isinstance(operand, Operation) or operand.operator in operators


def _instructions(expression: Expression, result: str) -> str:
    """LLVM instructions on i64, one a line; the last defines `%result`, those before `%result.0`, `%result.1`, ..."""
    lines: list[str] = []
    known: dict[Operation, str] = {}

    def value(part: Expression) -> str:
        if not isinstance(part, Operation):
            return str(part)
        if part not in known:
            operands = value(part.left), value(part.right)
            known[part] = f"%{result}" if part == expression else f"%{result}.{len(lines)}"
            lines.append(f"{known[part]} = {_INSTRUCTIONS[part.operator]} i64 {operands[0]}, {operands[1]}")
        return known[part]

    value(expression if isinstance(expression, Operation) else (expression := Operation("+", expression, 0)))
    return "\n".join(lines)
