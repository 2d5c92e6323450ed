"""Polynomials with integer coefficients in numbered symbols.

    2 a b + 3, with a and b the symbols 0 and 1          (((), 3), ((0, 1), 2))

There is one spelling of every polynomial, so equal ones compare and hash equal. What a symbol stands for, and
what values it may have, is kept in a `shape_env.ShapeEnv`.
"""

from __future__ import annotations

Terms = tuple[tuple[tuple[int, ...], int], ...]
"""Monomials (numbers of symbols, ascending) with their coefficients, sorted; the empty monomial is the constant."""


def constant(value: int) -> Terms:
    """The polynomial that is `value` everywhere."""
    return (((), value),) if value else ()


def scaled(terms: Terms, by: int) -> Terms:
    """`by` times `terms`."""
    return tuple((monomial, factor * by) for monomial, factor in terms) if by else ()


def plus(left: Terms, right: Terms) -> Terms:
    """The sum of two polynomials."""
    result = dict(left)
    for monomial, factor in right:
        result[monomial] = result.get(monomial, 0) + factor
    return tuple(sorted((m, f) for m, f in result.items() if f))


def times(left: Terms, right: Terms) -> Terms:
    """The product of two polynomials."""
    result: dict[tuple[int, ...], int] = {}
    for m, f in left:
        for n, g in right:
            key = tuple(sorted((*m, *n)))
            result[key] = result.get(key, 0) + f * g
    return tuple(sorted((m, f) for m, f in result.items() if f))


def divides(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether monomial `whole` is a multiple of monomial `part`."""
    return all(part.count(k) <= whole.count(k) for k in set(part))
