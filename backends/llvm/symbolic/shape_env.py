"""What is known of numbers that only the run time knows, and what was assumed of them.

An unknown is an extent, or the floor or rest of a division of polynomials in other unknowns. It has a range, and a
value in the *example*, one possible shape. From the ranges follow bounds of polynomials, and from these whether one is
zero or negative; where bounds do not say it, the example does, and the answer becomes a **condition** (`guards` says
who else may decide). A condition on a single unknown narrows its range, so that nothing is asked twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from layout_ir.backends.llvm.symbolic import guarding
from layout_ir.backends.llvm.symbolic.polynomials import Terms, divides, scaled

BEYOND = 1 << 62
"""Sizes that no buffer has: whoever calls the code keeps to smaller ones."""


@dataclass(slots=True)
class Symbol:
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
class Guard:
    """`terms` is 0 (`zero`) or negative (not `zero`), or, without `holds`, is not."""

    terms: Terms
    zero: bool
    holds: bool


@dataclass(eq=False)
class SymbolTable:
    """The unknowns of one plan and the conditions made so far."""

    symbols: list[Symbol] = field(default_factory=list[Symbol])
    guards: dict[Guard, None] = field(default_factory=dict[Guard, None])

    # Values and bounds -------------------------------------------------------------------------------------------

    def value(self, terms: Terms, extents: Sequence[int] | None = None) -> int:
        """The value in the example, or where the dims have `extents`."""
        total = 0
        for monomial, factor in terms:
            for k in monomial:
                factor *= self._value(k, extents)
            total += factor
        return total

    def _value(self, k: int, extents: Sequence[int] | None) -> int:
        symbol = self.symbols[k]
        if extents is None:
            return symbol.value
        if isinstance(symbol.of, int):
            return extents[symbol.of]
        inner, by = self.value(symbol.of, extents), self.value(symbol.by, extents)
        return inner // by if symbol.kind == "floor" else inner % by

    def least(self, terms: Terms) -> int | None:
        """A lower bound, or None."""
        shifted: dict[tuple[int, ...], int] = {}
        for monomial, factor in terms:
            # An unknown is its lower bound and something that is not negative, k, or, where the term falls with it, its
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
        """Whether the polynomial is positive (True) or negative for large unknowns; None where that depends."""
        large = {m: factor for m, factor in terms if m and not self._bounded(m)}
        # What another monomial is a multiple of, but for unknowns that stay small, is small beside it.
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
        """Whether it is the rest of a division and nothing else."""
        return len(terms) == 1 and len(terms[0][0]) == 1 and self.symbols[terms[0][0][0]].kind == "rest"

    # Answers ----------------------------------------------------------------------------------------------------

    def is_zero(self, terms: Terms) -> bool:
        low, high = self.least(terms), self.most(terms)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        if low == high == 0:
            return True
        if guarding.mode() != "strict" or not self.is_remainder(terms):
            return False
        return self.decide(Guard(terms, True, self.value(terms) == 0))

    def is_negative(self, terms: Terms) -> bool:
        low, high = self.least(terms), self.most(terms)
        if low is not None and low >= 0:
            return False
        if high is not None and high < 0:
            return True
        constant = next((factor for monomial, factor in terms if not monomial), 0)
        if abs(constant) >= BEYOND:
            return constant < 0
        mode = guarding.mode()
        if mode != "strict" and (positive := self.large(terms)) is not None:
            return not positive
        if mode == "free":
            return self.value(terms) < 0
        return self.decide(Guard(terms, False, self.value(terms) < 0))

    def decide(self, condition: Guard) -> bool:
        """Makes the condition, and learns from it; returns whether it `holds`."""
        self.guards[condition] = None
        nonconstant = [(m, f) for m, f in condition.terms if m]
        constant = sum(f for m, f in condition.terms if not m)
        if len(nonconstant) == 1 and len(nonconstant[0][0]) == 1:
            # factor * unknown + constant: the condition is a bound of the unknown.
            (k,), factor = nonconstant[0]
            symbol = self.symbols[k]
            if condition.zero and condition.holds and constant % factor == 0:
                symbol.low = symbol.high = -constant // factor
            elif condition.zero and not condition.holds and -constant == factor * symbol.low:
                symbol.low += 1
            elif not condition.zero and condition.holds == (factor < 0):
                edge = -constant if not condition.holds else -constant - 1
                symbol.low = max(symbol.low, -(-edge // factor))
            elif not condition.zero:
                edge = -constant if not condition.holds else -constant - 1
                high = edge // factor
                symbol.high = high if symbol.high is None else min(symbol.high, high)
        return condition.holds

    def guards_hold(self, extents: Sequence[int]) -> bool:
        """Whether the conditions hold where the dims have `extents`."""
        for condition in self.guards:
            value = self.value(condition.terms, extents)
            if (value == 0 if condition.zero else value < 0) != condition.holds:
                return False
        return True

    def text(self, terms: Terms) -> str:
        """The formula."""
        parts: list[str] = []
        for monomial, factor in sorted(terms, key=lambda term: (-len(term[0]), term[0])):
            names = [self.symbols[k].name for k in monomial]
            parts.append("*".join([str(factor)] * (factor != 1 or not names) + names))
        return " + ".join(parts) or "0"

    def guards_text(self) -> list[str]:
        """The conditions, each as a relation of two formulas without differences."""
        return list(map(self._relation, self.guards))

    def _relation(self, condition: Guard) -> str:
        left = tuple(term for term in condition.terms if term[1] > 0)
        right = scaled(tuple(term for term in condition.terms if term[1] < 0), -1)
        words = ("=", "!=") if condition.zero else ("<", ">=")
        if any(monomial for monomial, _ in right) and not any(monomial for monomial, _ in left):
            left, right = right, left
            words = ("=", "!=") if condition.zero else (">", "<=")
        return f"{self.text(left)} {words[not condition.holds]} {self.text(right)}"
