"""Index expressions: `d1 floordiv 8`, `c // 16 % 4`, and what layout a list of them is.

Affine maps of MLIR and index maps of TVM say where an element is by a formula per physical dim. A formula is a layout
in our sense when it is a sum of digits of single dims: terms `coef * ((x + shift) div unit mod count)`. Such sums are
kept as they are built, so that no formula is ever evaluated at all its indices; division and remainder distribute over
them where the digits allow, and everything else (a remainder across two dims, products of indices) is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.scan import MAX_DEPTH, Scanner, Token
from layout_ir.errors import LayoutError
from layout_ir.notations.decomposition import PhysicalDim, format_of_physical, layout_of


@dataclass(frozen=True, slots=True)
class Term:
    """coef * ((x[dim] + shift) div unit mod count); count None: no remainder is taken."""

    coef: int
    dim: int
    shift: int = 0
    unit: int = 1
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Sum:
    """A constant and terms."""

    const: int
    terms: tuple[Term, ...] = ()

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.const + other.const, self.terms + other.terms)

    def times(self, factor: int) -> Sum:
        """The sum with every coefficient, and the constant, multiplied by `factor`."""
        if factor == 0:
            return Sum(0)
        return Sum(self.const * factor, tuple(replace(t, coef=t.coef * factor) for t in self.terms))

    def _split(self, k: int) -> tuple[Sum, Sum]:
        """What of the sum is a multiple of k, divided by k, and what is not."""
        whole = Sum(
            self.const // k, tuple(replace(t, coef=t.coef // k) for t in self.terms if t.coef % k == 0)
        )
        return whole, Sum(self.const % k, tuple(t for t in self.terms if t.coef % k))

    def _below(self, k: int) -> bool:
        """Whether the value surely lies in [0, k)."""
        if self.const < 0 or any(t.coef < 0 or t.count is None for t in self.terms):
            return False
        return self.const + sum(t.coef * ((t.count or 1) - 1) for t in self.terms) < k

    def _single(self) -> tuple[int, Term] | None:
        """(g, t) with value g * t and t of coefficient 1, where the constant can be taken into the shift."""
        if len(self.terms) != 1:
            return None
        term = self.terms[0]
        g = term.coef
        if g < 1 or self.const % g or (self.const and term.count is not None):
            return None
        return g, replace(term, coef=1, shift=term.shift + self.const // g * term.unit)

    def _phased(self) -> Term | None:
        """The one term of this sum, if it is an index (or its quotient) plus a constant, which becomes its phase."""
        found = self._single() if len(self.terms) == 1 and self.terms[0].count is None else None
        return found[1] if found is not None and found[0] == 1 else None

    def floordiv(self, k: int) -> Sum | None:
        """The quotient by k >= 1, or None where it is no sum of digits."""
        if (term := self._phased()) is not None:
            return Sum(0, (replace(term, unit=term.unit * k),))
        whole, rest = self._split(k)
        if rest._below(k):
            return whole
        found = rest._single()
        if found is None or k % found[0]:
            return None
        step, term = k // found[0], found[1]
        if term.count is None:
            return whole + Sum(0, (replace(term, unit=term.unit * step),))
        if term.count % step:
            return None
        return whole + Sum(0, (replace(term, unit=term.unit * step, count=term.count // step),))

    def mod(self, k: int) -> Sum | None:
        """The remainder by k >= 1, or None where it is no sum of digits."""
        if k > 1 and (term := self._phased()) is not None:
            return Sum(0, (replace(term, count=k),))
        _, rest = self._split(k)
        if rest._below(k):
            return rest
        found = rest._single()
        if found is None or k % found[0]:
            return None
        g, term = found
        step = k // g
        if term.count is not None and term.count % step:
            return None
        return Sum(0, (replace(term, count=step),)).times(g) if step > 1 else Sum(0)


@dataclass(frozen=True, slots=True)
class Operators:
    """How a notation spells division and remainder."""

    div: str
    mod: str


class ExpressionParser:
    """Reads formulas over `names` from `scan`."""

    def __init__(self, scan: Scanner, names: Sequence[str], operators: Operators):
        self.scan = scan
        self.names = {name: dim for dim, name in enumerate(names)}
        self.operators = operators
        self.depth = 0

    def sum(self) -> Sum:
        """Reads a sum of products. Raises LayoutError at the token that is none, and for what is no sum of digits."""
        scan = self.scan
        self.depth += 1
        if self.depth > MAX_DEPTH:
            scan.fail(f"more than {MAX_DEPTH} levels of nesting")
        value = self.product()
        while scan.token.text in ("+", "-"):
            sign = 1 if scan.next().text == "+" else -1
            value = value + self.product().times(sign)
        self.depth -= 1
        return value

    def product(self) -> Sum:
        """Reads a product, quotient or remainder of atoms, from left to right. Raises LayoutError as `sum` does."""
        value = self.atom()
        while self.scan.token.text in ("*", self.operators.div, self.operators.mod, "ceildiv"):
            operator = self.scan.next()
            value = self.apply(operator, value, self.atom())
        return value

    def apply(self, operator: Token, left: Sum, right: Sum) -> Sum:
        """The result of one operator. Raises LayoutError at its token where it is none of indices and constants."""
        if operator.text == "*":
            if left.terms and right.terms:
                self.scan.fail("a product of two indices is no layout", operator)
            return left.times(right.const) if not right.terms else right.times(left.const)
        if right.terms or right.const < 1:
            self.scan.fail(f"'{operator.text}' needs a positive constant on its right", operator)
        if operator.text == "ceildiv":
            left, value = left + Sum(right.const - 1), None
            value = left.floordiv(right.const)
        else:
            value = (
                left.floordiv(right.const) if operator.text == self.operators.div else left.mod(right.const)
            )
        if value is None:
            self.scan.fail(
                f"'{operator.text} {right.const}' of this sum is no sum of digits of single dims", operator
            )
        return value

    def atom(self) -> Sum:
        scan = self.scan
        if scan.accept("-"):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                scan.fail(f"more than {MAX_DEPTH} levels of nesting")
            value = self.atom().times(-1)
            self.depth -= 1
            return value
        if scan.accept("("):
            value = self.sum()
            scan.expect(")")
            return value
        if scan.token.kind == "number":
            return Sum(scan.integer("a number"))
        start = scan.token
        name = scan.word("an index, a number or '('")
        if name not in self.names:
            scan.fail(f"unknown index '{name}': the map has {', '.join(self.names) or 'none'}", start)
        return Sum(0, (Term(1, self.names[name]),))


# From formulas to layouts -----------------------------------------------------------------------------------------


def _phase(terms: Sequence[Term]) -> int | None:
    """A shift that all digits of one dim can be written with; None where there is none.

    A remainder sees its shift modulo its period; a quotient without remainder changes by a constant where the shifts
    differ by multiples of its unit.
    """
    digits = [t for t in terms if (t.unit, t.count) != (1, None)]
    for candidate in sorted({t.shift for t in digits} or {0}, reverse=True):
        if candidate >= 0 and all((t.shift - candidate) % (t.unit * (t.count or 1)) == 0 for t in digits):
            return candidate
    return None


def dense_format(names: Sequence[str], results: Sequence[Sum], chunk: int = 0) -> Format | None:
    """The Format of a map whose results are single digits, the last `chunk` of them a chunk; None for other maps."""
    physical: list[PhysicalDim] = []
    tops: dict[int, int] = {}
    shifted: list[Term] = []
    for at, value in enumerate(results):
        if value == Sum(0):
            continue
        if len(value.terms) != 1:
            return None
        term = value.terms[0]
        if term.coef != 1 or (value.const and (term.unit, term.count) != (1, None)):
            return None
        term = replace(term, shift=term.shift + value.const)
        if term.count is None:
            tops[term.dim] = term.shift
        shifted.append(term)
        physical.append(PhysicalDim(term.dim, term.unit, term.count))
        if at >= len(results) - chunk and term.count is None:
            raise LayoutError("a chunk has a fixed size, but a result right of the separator has none")
    if len({term.dim for term in shifted}) < len(names):
        return None  # a dim that no result depends on has a stride of 0, which a dense format does not say
    lo = tuple(tops.get(dim, 0) for dim in range(len(names)))
    if any(low < 0 for low in lo) or any((t.shift - lo[t.dim]) % (t.unit * (t.count or 1)) for t in shifted):
        return None
    format = format_of_physical(names, physical)
    if chunk:
        count = sum(value != Sum(0) for value in results[len(results) - chunk :])
        inner = format.factors[len(format.factors) - count :]
        if any(f.stride is not None for f in format.factors) or any(f.size is None for f in inner):
            return None
        return replace(
            format, factors=format.factors[: len(format.factors) - count], chunk_factors=inner, lo=lo
        )
    return replace(format, lo=lo)


def bound_layout(names: Sequence[str], results: Sequence[Sum], shape: Sequence[int]) -> Layout:
    """The Layout of a map on `shape`: one result is an address, several are indices of a row-major physical array."""
    lo = [0] * len(names)
    for dim, name in enumerate(names):
        phase = _phase([term for value in results for term in value.terms if term.dim == dim])
        if phase is None:
            raise LayoutError(
                f"dim '{name}' is shifted in several ways: a dim has one phase, which is not negative"
            )
        lo[dim] = phase
    strides = [1] * len(results)
    for at in reversed(range(len(results) - 1)):
        strides[at] = strides[at + 1] * _extent(results[at + 1], shape)
    total = Sum(0)
    for value, stride in zip(results, strides, strict=True):
        total = total + value.times(stride)
    offset = total.const
    chains: list[list[tuple[int, int]]] = []
    for dim, extent in enumerate(shape):
        terms = [t for t in total.terms if t.dim == dim]
        # Quotients without remainder change by a constant when they are written with the dim's phase.
        offset += sum(t.coef * ((t.shift - lo[dim]) // t.unit) for t in terms if t.count is None)
        chains.append(_chain(names[dim], terms, extent + lo[dim]))
    layout = layout_of(shape, chains, offset=offset, lo=tuple(lo), names=names)
    if len(results) > 1 and 0 not in shape:
        size = strides[0] * _extent(results[0], shape)
        if size > layout.extent:
            layout = layout_of(shape, chains, offset=offset, lo=tuple(lo), names=names, size=size)
    return layout


def _extent(value: Sum, shape: Sequence[int]) -> int:
    """One more than the largest value, over the padded box."""
    high = value.const
    for term in value.terms:
        count = (
            term.count if term.count is not None else max(-(-(shape[term.dim] + term.shift) // term.unit), 1)
        )
        if term.coef < 0:
            raise LayoutError(
                "a physical index that falls with an index has no row-major array: write the address instead"
            )
        high += term.coef * (count - 1)
    return max(high, 0) + 1


def _chain(name: str, terms: Sequence[Term], extent: int) -> list[tuple[int, int]]:
    """Digits (count, stride), coarse to fine, of a sum of terms of one dim."""
    cuts = sorted({1, *(t.unit for t in terms), *(t.unit * t.count for t in terms if t.count is not None)})
    for low, high in itertools.pairwise(cuts):
        if high % low:
            raise LayoutError(
                f"dim '{name}' is cut into units of {low} and of {high}, which do not divide each other"
            )
    chain: list[tuple[int, int]] = []
    for at, cut in enumerate(cuts):
        stride = sum(
            t.coef * (cut // t.unit)
            for t in terms
            if t.unit <= cut and (t.count is None or cut < t.unit * t.count)
        )
        count = cuts[at + 1] // cut if at + 1 < len(cuts) else -(-extent // cut)
        chain.append((count, stride))
    if len(chain) > 1 and chain[-1][0] <= 1 and extent > 0:
        chain.pop()  # the map ends below this digit, which the dim does not reach
    return chain[::-1]


# From layouts to formulas -----------------------------------------------------------------------------------------


def digit_text(name: str, operators: Operators, part: PhysicalDim, low: int) -> str:
    """The formula of one digit."""
    if part.unit == 1 and part.size is None:
        return f"{name} + {low}" if low else name
    text = f"({name} + {low})" if low else name
    if part.unit > 1:
        text = f"{text} {operators.div} {part.unit}"
    if part.size is not None:
        text = (
            f"({text}) {operators.mod} {part.size}"
            if part.unit > 1
            else f"{text} {operators.mod} {part.size}"
        )
    return text


def address_text(layout: Layout, names: Sequence[str], operators: Operators) -> str:
    """The formula of the address, in elements."""
    parts: list[str] = []
    for name, digits, low, extent in zip(names, layout.digits, layout.lo, layout.shape, strict=True):
        top = prod(d.count for d in digits)
        for digit in reversed(digits):
            if digit.count == 1 or digit.stride == 0 or extent == 0:
                continue
            last = digit.unit * digit.count == top
            text = digit_text(name, operators, PhysicalDim(0, digit.unit, None if last else digit.count), low)
            if digit.stride != 1:
                text = f"({text}) * {digit.stride}" if " " in text else f"{text} * {digit.stride}"
            parts.append(text)
    if layout.offset or not parts:
        parts.append(str(layout.offset))
    return " + ".join(parts)
