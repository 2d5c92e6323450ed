"""What is known of the sizes of a dynamic shape, and what was assumed of them.

A symbol is an extent, or the floor or remainder of a division of polynomials in other symbols. It has a range, and a
*hint*: its value for one possible shape, the one that a plan is made for. From the ranges follow bounds of polynomials,
and from these whether one is zero or negative. Where bounds do not say it, the hint does, and the answer becomes a
**guard** (`guarding` says where not). A guard on a single symbol narrows its range, so that nothing is asked twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from layout_ir.symbolic.guarding import Policy
from layout_ir.symbolic.polynomials import Terms, divides, scaled

BEYOND = 1 << 62
"""Sizes that no buffer has: whoever calls the code keeps to smaller ones."""

Kind = Literal["extent", "floor", "remainder"]


@dataclass(slots=True)
class Symbol:
    """One symbol: what it stands for, its range, and its hint."""

    kind: Kind
    of: Terms | int
    """The polynomial that a floor or remainder is of; the number of the dim of an extent."""
    by: Terms
    """The divisor, a positive number."""
    name: str
    low: int
    high: int | None
    hint: int


@dataclass(frozen=True, slots=True)
class Guard:
    """`terms` is 0 (`zero`) or negative (not `zero`), or, without `holds`, is not."""

    terms: Terms
    zero: bool
    holds: bool


@dataclass(eq=False)
class ShapeEnv:
    """The symbols of one plan, by number, and the guards made so far, in their order."""

    symbols: list[Symbol] = field(default_factory=list[Symbol])
    guards: dict[Guard, None] = field(default_factory=dict[Guard, None])

    def symbol(
        self, kind: Kind, of: Terms | int, by: Terms, name: str, low: int, high: int | None, hint: int
    ) -> Terms:
        """The symbol that stands for this, as a polynomial; a new one where there is none yet."""
        for number, known in enumerate(self.symbols):
            if (known.kind, known.of, known.by) == (kind, of, by):
                return (((number,), 1),)
        self.symbols.append(Symbol(kind, of, by, name, low, high, hint))
        return (((len(self.symbols) - 1,), 1),)

    def at_least_one(self, symbol: Terms) -> None:
        """Says of a symbol, as `symbol` returns it, that it is never 0."""
        self.symbols[symbol[0][0][0]].low = 1

    # Values and bounds -------------------------------------------------------------------------------------------

    def hint(self, terms: Terms) -> int:
        """The value of a polynomial for the shape that the plan is made for."""
        return self._value(terms, None)

    def value(self, terms: Terms, extents: Sequence[int]) -> int:
        """The value of a polynomial where the dims have `extents`."""
        return self._value(terms, extents)

    def _value(self, terms: Terms, extents: Sequence[int] | None) -> int:
        total = 0
        for monomial, factor in terms:
            for k in monomial:
                factor *= self._value_of_symbol(k, extents)
            total += factor
        return total

    def _value_of_symbol(self, k: int, extents: Sequence[int] | None) -> int:
        symbol = self.symbols[k]
        if extents is None:
            return symbol.hint
        if isinstance(symbol.of, int):
            return extents[symbol.of]
        inner, by = self._value(symbol.of, extents), self._value(symbol.by, extents)
        return inner // by if symbol.kind == "floor" else inner % by

    def least(self, terms: Terms) -> int | None:
        """A lower bound of a polynomial, or None where its symbols have ranges that give none."""
        shifted: dict[tuple[int, ...], int] = {}
        for monomial, factor in terms:
            # A symbol is its lower bound and something that is not negative, k, or, where the term falls with it, its
            # upper bound without something that is not negative, -k - 1.
            parts: dict[tuple[int, ...], int] = {(): factor}
            falls = factor < 0
            for k in monomial:
                symbol = self.symbols[k]
                if falls and symbol.high is not None:
                    bound, sign, other, falls = symbol.high, -1, -k - 1, False
                else:
                    bound, sign, other = symbol.low, 1, k
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
        low = self.least(scaled(terms, -1))
        return None if low is None else -low

    def large(self, terms: Terms) -> bool | None:
        """Whether the polynomial is positive (True) or negative (False) for large symbols; None where that depends."""
        large = {m: factor for m, factor in terms if m and not self._bounded(m)}
        # What another monomial is a multiple of, but for symbols that stay small, is small beside it.
        parts = {m: tuple(k for k in m if self.symbols[k].high is None) for m in large}
        signs = {
            factor > 0
            for m, factor in large.items()
            if not any(parts[m] != part and divides(parts[m], part) for part in parts.values())
        }
        return signs.pop() if len(signs) == 1 else None

    def _bounded(self, monomial: tuple[int, ...]) -> bool:
        return all(self.symbols[k].high is not None for k in monomial)

    def is_remainder(self, terms: Terms) -> bool:
        """Whether a polynomial is a multiple of one symbol, the remainder of a division, and nothing else."""
        return len(terms) == 1 and len(terms[0][0]) == 1 and self.symbols[terms[0][0][0]].kind == "remainder"

    # Answers ----------------------------------------------------------------------------------------------------

    def is_zero(self, terms: Terms, policy: Policy) -> bool:
        """Whether a polynomial is 0, as `policy` decides it; the answer for a remainder may become a guard."""
        low, high = self.least(terms), self.most(terms)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        if low == high == 0:
            return True
        if policy != "guarding" or not self.is_remainder(terms):
            return False
        return self.decide(Guard(terms, True, self.hint(terms) == 0))

    def is_negative(self, terms: Terms, policy: Policy) -> bool:
        """Whether a polynomial is negative, as `policy` decides it; the answer may become a guard."""
        low, high = self.least(terms), self.most(terms)
        if low is not None and low >= 0:
            return False
        if high is not None and high < 0:
            return True
        constant = next((factor for monomial, factor in terms if not monomial), 0)
        if abs(constant) >= BEYOND:
            return constant < 0
        if policy != "guarding" and (positive := self.large(terms)) is not None:
            return not positive
        if policy == "unguarded":
            return self.hint(terms) < 0
        return self.decide(Guard(terms, False, self.hint(terms) < 0))

    def decide(self, guard: Guard) -> bool:
        """Adds the guard, and narrows the range of its symbol where it has one; returns whether it `holds`."""
        self.guards[guard] = None
        nonconstant = [(m, f) for m, f in guard.terms if m]
        constant = sum(f for m, f in guard.terms if not m)
        if len(nonconstant) == 1 and len(nonconstant[0][0]) == 1:
            # factor * symbol + constant: the guard is a bound of the symbol.
            (k,), factor = nonconstant[0]
            symbol = self.symbols[k]
            if guard.zero and guard.holds and constant % factor == 0:
                symbol.low = symbol.high = -constant // factor
            elif guard.zero and not guard.holds and -constant == factor * symbol.low:
                symbol.low += 1
            elif not guard.zero and guard.holds == (factor < 0):
                edge = -constant if not guard.holds else -constant - 1
                symbol.low = max(symbol.low, -(-edge // factor))
            elif not guard.zero:
                edge = -constant if not guard.holds else -constant - 1
                high = edge // factor
                symbol.high = high if symbol.high is None else min(symbol.high, high)
        return guard.holds

    def guards_hold(self, extents: Sequence[int]) -> bool:
        """Whether all guards hold where the dims have `extents`."""
        for guard in self.guards:
            value = self.value(guard.terms, extents)
            if (value == 0 if guard.zero else value < 0) != guard.holds:
                return False
        return True

    def text(self, terms: Terms) -> str:
        """A polynomial as a formula."""
        parts: list[str] = []
        for monomial, factor in sorted(terms, key=lambda term: (-len(term[0]), term[0])):
            names = [self.symbols[k].name for k in monomial]
            parts.append("*".join([str(factor)] * (factor != 1 or not names) + names))
        return " + ".join(parts) or "0"

    def guards_text(self) -> list[str]:
        """The guards, each as a relation of two formulas without differences: `h*w >= 16`."""
        return list(map(self._relation, self.guards))

    def _relation(self, guard: Guard) -> str:
        left = tuple(term for term in guard.terms if term[1] > 0)
        right = scaled(tuple(term for term in guard.terms if term[1] < 0), -1)
        words = ("=", "!=") if guard.zero else ("<", ">=")
        if any(monomial for monomial, _ in right) and not any(monomial for monomial, _ in left):
            left, right = right, left
            words = ("=", "!=") if guard.zero else (">", "<=")
        return f"{self.text(left)} {words[not guard.holds]} {self.text(right)}"
