"""Numbers that only the run time knows, as the planner and the emission can calculate with them.

A `SymInt` is a polynomial in unknowns (extents, and floors and remainders of such polynomials) with integer
coefficients. Arithmetic gives a `SymInt` again. A comparison is decided where the ranges of the unknowns decide it;
where they do not, the *example*, one possible shape, decides, and the answer becomes a **condition** of whatever is
computed afterwards: for every shape that meets the conditions, the same code would have taken the same way. So an
ordinary planner, handed an example with `SymInt`s in place of extents, makes a plan for a whole class of shapes.

    C = 17 of an example, c the unknown        c + 1 > c     yes
                                               c < 16        no, on condition that c >= 16

Conditions that nobody needs would make the classes small. So two numbers that happen to be equal in the example are
different: code that takes advantage of equal ones is right, if slower, without. (A rest that is 0 is worth knowing,
and is made a condition.) In functions marked `generic` an order, too, is answered for large extents, without a
condition: a loop is not left out because it has one round. In those marked `free` no order is a condition: they only
choose. Both are for code that is right either way.

Printed, an `SymInt` is its formula; while code is emitted, it is the register that holds it (`registers`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, cast

from layout_ir.backends.llvm.symbolic.polynomials import Terms, constant, plus, scaled, times
from layout_ir.backends.llvm.symbolic.shape_env import BEYOND, Guard, Symbol, SymbolTable


@dataclass(eq=False)
class ShapeEnv(SymbolTable):
    """The unknowns of one plan, and the open numbers made of them."""

    register_of: Callable[[Terms], str] | None = None
    """While code is emitted: the register that holds a polynomial."""

    def extent(self, dim: int, name: str, example: int, low: int = 1) -> Any:
        """The unknown extent of dim number `dim`."""
        return self.symbol("extent", dim, (), name, low, None, example)

    def split(self, extent: Any, by: int, *, whole: bool | None) -> Any:
        """`extent` as `by` times an unknown, plus a rest: 0 (`whole`), or from 1 to by - 1, or (None) to `by`."""
        divisor = constant(by)
        if whole is None:
            extent = extent - 1
        number = self.symbol("floor", extent.terms, divisor, f"{extent}/{by}", 0, None, extent.value // by)
        rest = self.symbol("rest", extent.terms, divisor, f"{extent}%{by}", 0, by - 1, extent.value % by)
        if whole is None:
            return number * by + rest + 1
        self.guards[Guard(rest.terms, True, whole)] = None
        if whole:
            self.symbols[number.terms[0][0][0]].low = 1
            return number * by
        self.symbols[rest.terms[0][0][0]].low = 1
        return number * by + rest

    def symbol(
        self, kind: Literal["extent", "floor", "rest"], of: Terms | int, by: Terms, name: str,
        low: int, high: int | None, value: int,
    ) -> SymInt:  # fmt: skip
        """The unknown that is this, a new one where there is none yet."""
        keys = [(known.kind, known.of, known.by) for known in self.symbols]
        if (kind, of, by) not in keys:
            keys.append((kind, of, by))
            self.symbols.append(Symbol(kind, of, by, name, low, high, value))
        return SymInt(self, (((keys.index((kind, of, by)),), 1),))


class SymInt:
    """A number that is known at run time only. It has no truth, order or index without consequences: see above."""

    __slots__ = ("shape_env", "terms")

    def __init__(self, shape_env: ShapeEnv, terms: Terms) -> None:
        self.shape_env = shape_env
        self.terms = terms

    @property
    def value(self) -> int:
        """Its value in the example."""
        return self.shape_env.value(self.terms)

    def _with(self, terms: Terms) -> Any:
        """The number of these terms: an int where they are constant."""
        if not terms:
            return 0
        return terms[0][1] if len(terms) == 1 and not terms[0][0] else SymInt(self.shape_env, terms)

    def _terms(self, other: object) -> Terms | None:
        if isinstance(other, SymInt):
            return other.terms if other.shape_env is self.shape_env else None
        return constant(other) if isinstance(other, int) else None

    # Arithmetic -------------------------------------------------------------------------------------------------

    def __add__(self, other: object) -> Any:
        terms = self._terms(other)
        return NotImplemented if terms is None else self._with(plus(self.terms, terms))

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        terms = self._terms(other)
        return NotImplemented if terms is None else self._with(plus(self.terms, scaled(terms, -1)))

    def __rsub__(self, other: object) -> Any:
        return -self + other

    def __mul__(self, other: object) -> Any:
        terms = self._terms(other)
        return NotImplemented if terms is None else self._with(times(self.terms, terms))

    __rmul__ = __mul__

    def __or__(self, other: object) -> Any:
        # Numbers that are flags at once; only with 0 is there an answer.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    __ror__ = __or__

    def __neg__(self) -> Any:
        return self._with(scaled(self.terms, -1))

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __divmod__(self, by: object) -> Any:
        """Floor and rest by a positive number."""
        if isinstance(by, SymInt):
            return self._divided(self.terms, by.terms)
        if not isinstance(by, int) or by < 1:
            return NotImplemented
        whole: Terms = ()
        rest: Terms = ()
        for monomial, factor in self.terms:
            # Towards zero, except for the constant: what is left then has the sign of the term.
            number = factor // by if not monomial or factor > 0 else -(-factor // by)
            whole = plus(whole, ((monomial, number),) if number else ())
            rest = plus(rest, ((monomial, factor - number * by),) if factor != number * by else ())
        low, high = self.shape_env.least(rest), self.shape_env.most(rest)
        if low is not None and high is not None and low // by == high // by:
            shift = low // by
            return self._with(plus(whole, constant(shift))), self._with(plus(rest, constant(-shift * by)))
        floor, left = self._divided(rest, constant(by))
        return self._with(plus(whole, floor.terms)), left

    def _divided(self, of: Terms, by: Terms) -> tuple[SymInt, SymInt]:
        """Floor and rest as unknowns of their own."""
        shape_env = self.shape_env
        if shape_env.is_negative(plus(by, constant(-1))):
            raise ZeroDivisionError("a divisor is not positive")
        value, divisor = shape_env.value(of), shape_env.value(by)
        name = f"({shape_env.text(of)})", f"({shape_env.text(by)})" if len(by) > 1 else shape_env.text(by)
        low, high, least, most = (
            shape_env.least(of),
            shape_env.most(of),
            shape_env.least(by),
            shape_env.most(by),
        )
        # A divisor that may be larger brings the quotient closer to 0.
        low = (
            0
            if low is not None and low >= 0 and most is None
            else low // least
            if low is not None and least
            else -BEYOND
        )
        high = max(high, 0) // least if high is not None and least else None
        return (
            shape_env.symbol("floor", of, by, "/".join(name), low, high, value // divisor),
            shape_env.symbol(
                "rest", of, by, "%".join(name), 0, None if most is None else most - 1, value % divisor
            ),
        )

    def __floordiv__(self, by: object) -> Any:
        return divmod(self, by)[0] if isinstance(by, int | SymInt) else NotImplemented

    def __mod__(self, by: object) -> Any:
        return divmod(self, by)[1] if isinstance(by, int | SymInt) else NotImplemented

    def __rfloordiv__(self, of: object) -> Any:
        return self._divided(constant(of), self.terms)[0] if isinstance(of, int) else NotImplemented

    def __rmod__(self, of: object) -> Any:
        return self._divided(constant(of), self.terms)[1] if isinstance(of, int) else NotImplemented

    def __rdivmod__(self, of: object) -> Any:
        return self._divided(constant(of), self.terms) if isinstance(of, int) else NotImplemented

    # Questions --------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        terms = self._terms(other)
        return terms is not None and self.shape_env.is_zero(plus(self.terms, scaled(terms, -1)))

    def __hash__(self) -> int:
        return hash((id(self.shape_env), self.terms))

    def __lt__(self, other: Any) -> bool:
        return self.shape_env.is_negative(
            (self - other).terms if isinstance(self - other, SymInt) else constant(self - other)
        )

    def __gt__(self, other: Any) -> bool:
        return self.shape_env.is_negative(
            (other - self).terms if isinstance(other - self, SymInt) else constant(other - self)
        )

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        """The example's value, on condition that it is always that."""
        value = self.value
        self.shape_env.decide(Guard(plus(self.terms, constant(-value)), True, True))
        return value

    # Text -------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        if self.shape_env.register_of is not None:
            return self.shape_env.register_of(self.terms)
        text = self.shape_env.text(self.terms)
        return f"({text})" if " + " in text else text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return ("+" if "+" in spec and self.shape_env.register_of is None else "") + str(self)


def hint_of(value: Any) -> Any:
    """`value`, a part of a plan, with every open number replaced by what it is in the example."""
    if isinstance(value, SymInt):
        return value.value
    if isinstance(value, tuple):
        return tuple(hint_of(x) for x in cast("tuple[Any, ...]", value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{x.name: hint_of(getattr(value, x.name)) for x in fields(value)})
    return value


def is_remainder(number: object) -> bool:
    """Whether `number` is what is left of an open one after whole blocks."""
    return isinstance(number, SymInt) and number.shape_env.is_remainder(number.terms)


def is_symbolic(number: object) -> bool:
    """Whether `number`, of a plan, is known at run time only."""
    return isinstance(number, SymInt)
