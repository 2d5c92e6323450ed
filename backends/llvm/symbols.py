"""Numbers that only the run time knows, as the planner and the emission can calculate with them.

An `Open` is a polynomial in unknowns (extents, and floors and remainders of such polynomials) with integer
coefficients. Arithmetic gives an `Open` again. A comparison is decided where the ranges of the unknowns decide it;
where they do not, the *example*, one possible shape, decides, and the answer becomes a **condition** of whatever is
computed afterwards: for every shape that meets the conditions, the same code would have taken the same way. So an
ordinary planner, handed an example with `Open`s in place of extents, makes a plan for a whole class of shapes.

    C = 17 of an example, c the unknown        c + 1 > c     yes
                                               c < 16        no, on condition that c >= 16

Conditions that nobody needs would make the classes small. So two numbers that happen to be equal in the example are
different: code that takes advantage of equal ones is right, if slower, without. (A rest that is 0 is worth knowing,
and is made a condition.) In functions marked `generic` an order, too, is answered for large extents, without a
condition: a loop is not left out because it has one round. In those marked `free` no order is a condition: they only
choose. Both are for code that is right either way.

Printed, an `Open` is its formula; while code is emitted, it is the register that holds it (`Registers`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

Terms = tuple[tuple[tuple[int, ...], int], ...]
"""Monomials (numbers of unknowns, ascending) with their coefficients, sorted; the empty monomial is the constant."""

_BEYOND = 1 << 62
"""Sizes that no buffer has: whoever calls the code keeps to smaller ones."""

_mode: ContextVar[Literal["strict", "generic", "free"]] = ContextVar("mode", default="strict")

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def _in(mode: Literal["generic", "free"]) -> Generator[None]:
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def generic(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, told how large extents compare: whatever it assumes of them, its results are right for all."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with _in("generic"):
            return function(*args, **kwargs)

    return inside


def free(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, told how the example compares: whatever it chooses is right for all extents."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with _in("free"):
            return function(*args, **kwargs)

    return inside


@contextmanager
def emitting(symbols: Symbols | None) -> Generator[list[str]]:
    """Inside, open numbers print as registers; the list holds the instructions that compute them, afterwards."""
    if symbols is None:
        yield []
        return
    symbols.registers = Registers(symbols)
    try:
        with _in("generic"):
            yield symbols.registers.lines
    finally:
        symbols.registers = None


@dataclass(slots=True)
class Unknown:
    """One unknown: what it is, its range, and its value in the example."""

    kind: Literal["extent", "floor", "rest"]
    of: Terms | int
    """The polynomial that a floor or rest is of; the number of the dim of an extent."""
    by: Terms
    """The divisor, a positive number."""
    name: str
    low: int
    high: int | None
    value: int


@dataclass(frozen=True, slots=True)
class Condition:
    """`terms` is 0 (`zero`) or negative (not `zero`), or, without `holds`, is not."""

    terms: Terms
    zero: bool
    holds: bool


@dataclass(eq=False)
class Symbols:
    """The unknowns of one plan and the conditions made so far."""

    unknowns: list[Unknown] = field(default_factory=list[Unknown])
    conditions: dict[Condition, None] = field(default_factory=dict[Condition, None])
    registers: Registers | None = None

    def extent(self, dim: int, name: str, example: int, low: int = 1) -> Any:
        """The unknown extent of dim number `dim`."""
        return self.unknown("extent", dim, (), name, low, None, example)

    def split(self, extent: Any, by: int, *, whole: bool | None) -> Any:
        """`extent` as `by` times an unknown, plus a rest: 0 (`whole`), or from 1 to by - 1, or (None) to `by`."""
        divisor = _constant(by)
        if whole is None:
            extent = extent - 1
        number = self.unknown("floor", extent.terms, divisor, f"{extent}/{by}", 0, None, extent.value // by)
        rest = self.unknown("rest", extent.terms, divisor, f"{extent}%{by}", 0, by - 1, extent.value % by)
        if whole is None:
            return number * by + rest + 1
        self.conditions[Condition(rest.terms, True, whole)] = None
        if whole:
            self.unknowns[number.terms[0][0][0]].low = 1
            return number * by
        self.unknowns[rest.terms[0][0][0]].low = 1
        return number * by + rest

    def unknown(
        self, kind: Literal["extent", "floor", "rest"], of: Terms | int, by: Terms, name: str,
        low: int, high: int | None, value: int,
    ) -> Open:  # fmt: skip
        """The unknown that is this, a new one where there is none yet."""
        keys = [(known.kind, known.of, known.by) for known in self.unknowns]
        if (kind, of, by) not in keys:
            keys.append((kind, of, by))
            self.unknowns.append(Unknown(kind, of, by, name, low, high, value))
        return Open(self, (((keys.index((kind, of, by)),), 1),))

    # What is known of a polynomial ------------------------------------------------------------------------------

    def value(self, terms: Terms, extents: Sequence[int] | None = None) -> int:
        """The value in the example, or where the dims have `extents`."""
        total = 0
        for monomial, factor in terms:
            for k in monomial:
                factor *= self._value(k, extents)
            total += factor
        return total

    def _value(self, k: int, extents: Sequence[int] | None) -> int:
        unknown = self.unknowns[k]
        if extents is None:
            return unknown.value
        if isinstance(unknown.of, int):
            return extents[unknown.of]
        inner, by = self.value(unknown.of, extents), self.value(unknown.by, extents)
        return inner // by if unknown.kind == "floor" else inner % by

    def least(self, terms: Terms) -> int | None:
        """A lower bound, or None."""
        shifted: dict[tuple[int, ...], int] = {}
        for monomial, factor in terms:
            # An unknown is its lower bound and something that is not negative, k, or, where the term falls with it, its
            # upper bound without something that is not negative, -k - 1.
            parts: dict[tuple[int, ...], int] = {(): factor}
            falls = factor < 0
            for k in monomial:
                unknown = self.unknowns[k]
                if falls and unknown.high is not None:
                    bound, sign, other, falls = unknown.high, -1, -k - 1, False
                else:
                    bound, sign, other = unknown.low, 1, k
                following: dict[tuple[int, ...], int] = {}
                for m, f in parts.items():
                    following[m] = following.get(m, 0) + f * bound
                    further = tuple(sorted((*m, other)))
                    following[further] = following.get(further, 0) + f * sign
                parts = following
            for m, f in parts.items():
                shifted[m] = shifted.get(m, 0) + f
        if any(f < 0 for m, f in shifted.items() if m):
            return None
        return shifted.get((), 0)

    def most(self, terms: Terms) -> int | None:
        """An upper bound, or None."""
        low = self.least(_scaled(terms, -1))
        return None if low is None else -low

    def large(self, terms: Terms) -> bool | None:
        """Whether the polynomial is positive (True) or negative for large unknowns; None where that depends."""
        large = {m: factor for m, factor in terms if m and not self._bounded(m)}
        # What another monomial is a multiple of, but for unknowns that stay small, is small beside it.
        parts = {m: tuple(k for k in m if self.unknowns[k].high is None) for m in large}
        signs = {
            factor > 0
            for m, factor in large.items()
            if not any(parts[m] != part and _divides(parts[m], part) for part in parts.values())
        }
        return signs.pop() if len(signs) == 1 else None

    def _bounded(self, monomial: tuple[int, ...]) -> bool:
        return all(self.unknowns[k].high is not None for k in monomial)

    def _is_rest(self, terms: Terms) -> bool:
        return len(terms) == 1 and len(terms[0][0]) == 1 and self.unknowns[terms[0][0][0]].kind == "rest"

    # Answers ----------------------------------------------------------------------------------------------------

    def is_zero(self, terms: Terms) -> bool:
        low, high = self.least(terms), self.most(terms)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        if low == high == 0:
            return True
        if _mode.get() != "strict" or not self._is_rest(terms):
            return False
        return self.decide(Condition(terms, True, self.value(terms) == 0))

    def is_negative(self, terms: Terms) -> bool:
        low, high = self.least(terms), self.most(terms)
        if low is not None and low >= 0:
            return False
        if high is not None and high < 0:
            return True
        constant = next((factor for monomial, factor in terms if not monomial), 0)
        if abs(constant) >= _BEYOND:
            return constant < 0
        mode = _mode.get()
        if mode != "strict" and (positive := self.large(terms)) is not None:
            return not positive
        if mode == "free":
            return self.value(terms) < 0
        return self.decide(Condition(terms, False, self.value(terms) < 0))

    def decide(self, condition: Condition) -> bool:
        """Makes the condition, and learns from it; returns whether it `holds`."""
        self.conditions[condition] = None
        nonconstant = [(m, f) for m, f in condition.terms if m]
        constant = sum(f for m, f in condition.terms if not m)
        if len(nonconstant) == 1 and len(nonconstant[0][0]) == 1:
            # factor * unknown + constant: the condition is a bound of the unknown.
            (k,), factor = nonconstant[0]
            unknown = self.unknowns[k]
            if condition.zero and condition.holds and constant % factor == 0:
                unknown.low = unknown.high = -constant // factor
            elif condition.zero and not condition.holds and -constant == factor * unknown.low:
                unknown.low += 1
            elif not condition.zero and condition.holds == (factor < 0):
                edge = -constant if not condition.holds else -constant - 1
                unknown.low = max(unknown.low, -(-edge // factor))
            elif not condition.zero:
                edge = -constant if not condition.holds else -constant - 1
                high = edge // factor
                unknown.high = high if unknown.high is None else min(unknown.high, high)
        return condition.holds

    def met(self, extents: Sequence[int]) -> bool:
        """Whether the conditions hold where the dims have `extents`."""
        for condition in self.conditions:
            value = self.value(condition.terms, extents)
            if (value == 0 if condition.zero else value < 0) != condition.holds:
                return False
        return True

    def text(self, terms: Terms) -> str:
        """The formula."""
        parts: list[str] = []
        for monomial, factor in sorted(terms, key=lambda term: (-len(term[0]), term[0])):
            names = [self.unknowns[k].name for k in monomial]
            parts.append("*".join([str(factor)] * (factor != 1 or not names) + names))
        return " + ".join(parts) or "0"

    def conditions_text(self) -> list[str]:
        """The conditions, each as a formula."""
        words = {(True, True): "= 0", (True, False): "!= 0", (False, True): "< 0", (False, False): ">= 0"}
        return [f"{self.text(c.terms)} {words[c.zero, c.holds]}" for c in self.conditions]


def _divides(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    return all(part.count(k) <= whole.count(k) for k in set(part))


def _scaled(terms: Terms, by: int) -> Terms:
    return tuple((monomial, factor * by) for monomial, factor in terms) if by else ()


def _sum(left: Terms, right: Terms) -> Terms:
    result = dict(left)
    for monomial, factor in right:
        result[monomial] = result.get(monomial, 0) + factor
    return tuple(sorted((m, f) for m, f in result.items() if f))


def _product(left: Terms, right: Terms) -> Terms:
    result: dict[tuple[int, ...], int] = {}
    for m, f in left:
        for n, g in right:
            key = tuple(sorted((*m, *n)))
            result[key] = result.get(key, 0) + f * g
    return tuple(sorted((m, f) for m, f in result.items() if f))


def _constant(value: int) -> Terms:
    return (((), value),) if value else ()


class Open:
    """A number that is known at run time only. It has no truth, order or index without consequences: see above."""

    __slots__ = ("symbols", "terms")

    def __init__(self, symbols: Symbols, terms: Terms) -> None:
        self.symbols = symbols
        self.terms = terms

    @property
    def value(self) -> int:
        """Its value in the example."""
        return self.symbols.value(self.terms)

    def _with(self, terms: Terms) -> Any:
        """The number of these terms: an int where they are constant."""
        if not terms:
            return 0
        return terms[0][1] if len(terms) == 1 and not terms[0][0] else Open(self.symbols, terms)

    def _terms(self, other: object) -> Terms | None:
        if isinstance(other, Open):
            return other.terms if other.symbols is self.symbols else None
        return _constant(other) if isinstance(other, int) else None

    # Arithmetic -------------------------------------------------------------------------------------------------

    def __add__(self, other: object) -> Any:
        terms = self._terms(other)
        return NotImplemented if terms is None else self._with(_sum(self.terms, terms))

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        terms = self._terms(other)
        return NotImplemented if terms is None else self._with(_sum(self.terms, _scaled(terms, -1)))

    def __rsub__(self, other: object) -> Any:
        return -self + other

    def __mul__(self, other: object) -> Any:
        terms = self._terms(other)
        return NotImplemented if terms is None else self._with(_product(self.terms, terms))

    __rmul__ = __mul__

    def __or__(self, other: object) -> Any:
        # Numbers that are flags at once; only with 0 is there an answer.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    __ror__ = __or__

    def __neg__(self) -> Any:
        return self._with(_scaled(self.terms, -1))

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __divmod__(self, by: object) -> Any:
        """Floor and rest by a positive number."""
        if isinstance(by, Open):
            return self._divided(self.terms, by.terms)
        if not isinstance(by, int) or by < 1:
            return NotImplemented
        whole: Terms = ()
        rest: Terms = ()
        for monomial, factor in self.terms:
            # Towards zero, except for the constant: what is left then has the sign of the term.
            number = factor // by if not monomial or factor > 0 else -(-factor // by)
            whole = _sum(whole, ((monomial, number),) if number else ())
            rest = _sum(rest, ((monomial, factor - number * by),) if factor != number * by else ())
        low, high = self.symbols.least(rest), self.symbols.most(rest)
        if low is not None and high is not None and low // by == high // by:
            shift = low // by
            return self._with(_sum(whole, _constant(shift))), self._with(_sum(rest, _constant(-shift * by)))
        floor, left = self._divided(rest, _constant(by))
        return self._with(_sum(whole, floor.terms)), left

    def _divided(self, of: Terms, by: Terms) -> tuple[Open, Open]:
        """Floor and rest as unknowns of their own."""
        symbols = self.symbols
        if symbols.is_negative(_sum(by, _constant(-1))):
            raise ZeroDivisionError("a divisor is not positive")
        value, divisor = symbols.value(of), symbols.value(by)
        name = f"({symbols.text(of)})", f"({symbols.text(by)})" if len(by) > 1 else symbols.text(by)
        low, high, least, most = symbols.least(of), symbols.most(of), symbols.least(by), symbols.most(by)
        # A divisor that may be larger brings the quotient closer to 0.
        low = (
            0
            if low is not None and low >= 0 and most is None
            else low // least
            if low is not None and least
            else -_BEYOND
        )
        high = max(high, 0) // least if high is not None and least else None
        return (
            symbols.unknown("floor", of, by, "/".join(name), low, high, value // divisor),
            symbols.unknown(
                "rest", of, by, "%".join(name), 0, None if most is None else most - 1, value % divisor
            ),
        )

    def __floordiv__(self, by: object) -> Any:
        return divmod(self, by)[0] if isinstance(by, int | Open) else NotImplemented

    def __mod__(self, by: object) -> Any:
        return divmod(self, by)[1] if isinstance(by, int | Open) else NotImplemented

    def __rfloordiv__(self, of: object) -> Any:
        return self._divided(_constant(of), self.terms)[0] if isinstance(of, int) else NotImplemented

    def __rmod__(self, of: object) -> Any:
        return self._divided(_constant(of), self.terms)[1] if isinstance(of, int) else NotImplemented

    def __rdivmod__(self, of: object) -> Any:
        return self._divided(_constant(of), self.terms) if isinstance(of, int) else NotImplemented

    # Questions --------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        terms = self._terms(other)
        return terms is not None and self.symbols.is_zero(_sum(self.terms, _scaled(terms, -1)))

    def __hash__(self) -> int:
        return hash((id(self.symbols), self.terms))

    def __lt__(self, other: Any) -> bool:
        return self.symbols.is_negative(
            (self - other).terms if isinstance(self - other, Open) else _constant(self - other)
        )

    def __gt__(self, other: Any) -> bool:
        return self.symbols.is_negative(
            (other - self).terms if isinstance(other - self, Open) else _constant(other - self)
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
        self.symbols.decide(Condition(_sum(self.terms, _constant(-value)), True, True))
        return value

    # Text -------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        if self.symbols.registers is not None:
            return self.symbols.registers.of(self.terms)
        text = self.symbols.text(self.terms)
        return f"({text})" if " + " in text else text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return ("+" if "+" in spec and self.symbols.registers is None else "") + str(self)


def is_open(number: object) -> bool:
    """Whether `number`, of a plan, is known at run time only."""
    return isinstance(number, Open)


class Registers:
    """Instructions that compute numbers from the extents, each once, for the top of a function."""

    def __init__(self, symbols: Symbols, prefix: str = "%n") -> None:
        self.symbols = symbols
        self.lines: list[str] = []
        self._prefix = prefix
        self._known: dict[object, str] = {}

    def _put(self, key: object, text: str) -> str:
        if key not in self._known:
            self._known[key] = f"{self._prefix}{len(self._known)}"
            self.lines.append(f"  {self._known[key]} = {text}")
        return self._known[key]

    def of(self, terms: Terms) -> str:
        """The register that holds the polynomial, or the number itself where it is constant."""
        total = ""
        for monomial, factor in terms:
            if not monomial:
                continue
            product = self._unknown(monomial[0])
            for k in monomial[1:]:
                other = self._unknown(k)
                product = self._put(("mul", product, other), f"mul i64 {product}, {other}")
            if factor != 1:
                product = self._put(("mul", product, factor), f"mul i64 {product}, {factor}")
            total = self._put(("add", total, product), f"add i64 {total}, {product}") if total else product
        constant = sum(factor for monomial, factor in terms if not monomial)
        if not total:
            return str(constant)
        return self._put(("add", total, constant), f"add i64 {total}, {constant}") if constant else total

    def _unknown(self, k: int) -> str:
        unknown = self.symbols.unknowns[k]
        if isinstance(unknown.of, int):
            at = self._put(("at", unknown.of), f"getelementptr i64, ptr %extents, i64 {unknown.of}")
            return self._put(("extent", unknown.of), f"load i64, ptr {at}, align 8")
        inner, by = self.of(unknown.of), self.of(unknown.by)
        if by.startswith("%"):
            # Where an earlier condition fails, a divisor may be 0; the answer is then of no use, but must not trap.
            positive = self._put(("positive", by), f"icmp sgt i64 {by}, 0")
            by = self._put(("divisor", by), f"select i1 {positive}, i64 {by}, i64 1")
        rest = self._put(("srem", inner, by), f"srem i64 {inner}, {by}")
        # Signed division truncates; floors and rests are those of Python.
        below = self._put(("below", rest), f"ashr i64 {rest}, 63")
        if unknown.kind == "rest":
            more = self._put(("and", below, by), f"and i64 {below}, {by}")
            return self._put(("rest", rest), f"add i64 {rest}, {more}")
        whole = self._put(("sdiv", inner, by), f"sdiv i64 {inner}, {by}")
        return self._put(("floor", whole, rest), f"add i64 {whole}, {below}")

    def met(self) -> str:
        """The flag that says whether all conditions hold."""
        flag = "true"
        for condition in self.symbols.conditions:
            relation = {(True, True): "eq", (True, False): "ne", (False, True): "slt", (False, False): "sge"}
            value = self.of(condition.terms)
            each = self._put(condition, f"icmp {relation[condition.zero, condition.holds]} i64 {value}, 0")
            flag = self._put(("both", flag, each), f"and i1 {flag}, {each}")
        return flag
