"""Sizes that only the run time knows, as planner and emission calculate with them.

A `SymInt` stands for a size of a tensor whose shape is dynamic: a polynomial with integer coefficients in symbols
(extents of dims, and floors and remainders of such polynomials), with a *hint*, its value for one possible shape. The
contract is that of `torch.SymInt`:

  * It is no int, but arithmetic works as on one, and gives a `Size`: a `SymInt`, or an int where the symbols cancel.
  * A comparison gives a `SymBool`. To ask for its truth (`if`, `and`, `not`, `bool`) is to decide: where the ranges of
    the symbols decide, they do. Where they do not, the hint does, and the answer becomes a *guard* of the `ShapeEnv`:
    for every shape that meets the guards, the same code would have taken the same way.
  * To use it as an index (`range`, `operator.index`) is to decide that it is its hint: that, too, is a guard.

So a planner written for ints, handed a shape with `SymInt`s in place of dynamic extents, makes a plan that serves a
whole class of shapes:

    shape (4, 17), with c for the 17           c + 1 > c     true
                                               c < 16        false, with the guard c >= 16

Guards that nobody needs would make the classes small, so there are fewer than in PyTorch. Two sizes that happen to be
equal for the hint count as different: code that takes advantage of equal ones is right, if slower, without. (That a
remainder is 0 is worth knowing, and is guarded.) And orders need no guard in code that is right whatever they are; see
`guarding`.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from layout_ir.symbolic import guarding
from layout_ir.symbolic.polynomials import Terms, constant, plus, scaled, times
from layout_ir.symbolic.shape_env import BEYOND, Guard, ShapeEnv


class SymBool:
    """The answer to a comparison of sizes, not yet asked for: `bool` decides its truth, which may add a guard.

    The guarding policy is that of the place where the sizes were compared, wherever the answer is asked for.
    """

    __slots__ = ("_difference", "_env", "_negated", "_policy", "_zero")

    def __init__(self, env: ShapeEnv, difference: Terms, *, zero: bool, negated: bool = False) -> None:
        """Whether `difference` is zero (`zero`) or negative (not `zero`); the contrary, if `negated`."""
        self._env = env
        self._difference = difference
        self._zero = zero
        self._negated = negated
        self._policy: guarding.Policy = guarding.policy()

    def __bool__(self) -> bool:
        is_so = self._env.is_zero if self._zero else self._env.is_negative
        return is_so(self._difference, self._policy) != self._negated


class SymInt:
    """A symbolic size: an expression over the sizes of one `ShapeEnv`. The contract is at the top of this module."""

    __slots__ = ("shape_env", "terms")

    def __init__(self, shape_env: ShapeEnv, terms: Terms) -> None:
        self.shape_env = shape_env
        self.terms = terms

    @property
    def hint(self) -> int:
        """The value for the shape that the plan is made for. To use it for more than a choice needs a guard."""
        return self.shape_env.hint(self.terms)

    def _size(self, terms: Terms) -> Size:
        """The size of these terms: an int where they are constant."""
        if not terms:
            return 0
        return terms[0][1] if len(terms) == 1 and not terms[0][0] else SymInt(self.shape_env, terms)

    def _terms(self, other: object) -> Terms | None:
        if isinstance(other, SymInt):
            return other.terms if other.shape_env is self.shape_env else None
        return constant(other) if isinstance(other, int) else None

    # Arithmetic -------------------------------------------------------------------------------------------------

    def __add__(self, other: Size) -> Size:
        terms = self._terms(other)
        return NotImplemented if terms is None else self._size(plus(self.terms, terms))

    __radd__ = __add__

    def __sub__(self, other: Size) -> Size:
        terms = self._terms(other)
        return NotImplemented if terms is None else self._size(plus(self.terms, scaled(terms, -1)))

    def __rsub__(self, other: int) -> Size:
        return -self + other

    def __mul__(self, other: Size) -> Size:
        terms = self._terms(other)
        return NotImplemented if terms is None else self._size(times(self.terms, terms))

    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return self._size(scaled(self.terms, -1))

    def __abs__(self) -> Size:
        return -self if self < 0 else self

    def __divmod__(self, by: Size) -> tuple[Size, Size]:
        """Floor and remainder by a positive size. Raises ZeroDivisionError where the hint of `by` is not positive."""
        if isinstance(by, SymInt):
            return self._divided(self.terms, by.terms) if by.shape_env is self.shape_env else NotImplemented
        if not isinstance(by, int) or by < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
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
            return self._size(plus(whole, constant(shift))), self._size(plus(rest, constant(-shift * by)))
        floor, left = self._divided(rest, constant(by))
        return self._size(plus(whole, floor.terms)), left

    def _divided(self, of: Terms, by: Terms) -> tuple[SymInt, SymInt]:
        """Floor and remainder as symbols of their own."""
        env = self.shape_env
        if env.is_negative(plus(by, constant(-1)), guarding.policy()):
            raise ZeroDivisionError("a divisor is not positive")
        value, divisor = env.hint(of), env.hint(by)
        name = f"({env.text(of)})", f"({env.text(by)})" if len(by) > 1 else env.text(by)
        low, high, least, most = env.least(of), env.most(of), env.least(by), env.most(by)
        # A divisor that may be larger brings the quotient closer to 0.
        low = (
            0
            if low is not None and low >= 0 and most is None
            else low // least
            if low is not None and least
            else -BEYOND
        )
        high = max(high, 0) // least if high is not None and least else None
        most = None if most is None else most - 1
        floor = env.symbol("floor", of, by, "/".join(name), low, high, value // divisor)
        return SymInt(env, floor), SymInt(
            env, env.symbol("remainder", of, by, "%".join(name), 0, most, value % divisor)
        )

    def __floordiv__(self, by: Size) -> Size:
        return divmod(self, by)[0]

    def __mod__(self, by: Size) -> Size:
        return divmod(self, by)[1]

    def __rdivmod__(self, of: int) -> tuple[Size, Size]:
        return self._divided(constant(of), self.terms)

    def __rfloordiv__(self, of: int) -> Size:
        return divmod(of, self)[0]

    def __rmod__(self, of: int) -> Size:
        return divmod(of, self)[1]

    # Comparisons ------------------------------------------------------------------------------------------------

    def _compared(self, other: Size, sign: int, *, zero: bool, negated: bool) -> SymBool:
        """Whether `sign` times (self - other) is zero or negative; NotImplemented for what is no size of this plan."""
        terms = self._terms(other)
        if terms is None:
            return NotImplemented
        difference = plus(scaled(self.terms, sign), scaled(terms, -sign))
        return SymBool(self.shape_env, difference, zero=zero, negated=negated)

    def __eq__(self, other: object) -> SymBool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compared(cast(Size, other), 1, zero=True, negated=False)

    def __ne__(self, other: object) -> SymBool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compared(cast(Size, other), 1, zero=True, negated=True)

    def __hash__(self) -> int:
        return hash((id(self.shape_env), self.terms))

    def __lt__(self, other: Size) -> SymBool:
        return self._compared(other, 1, zero=False, negated=False)

    def __gt__(self, other: Size) -> SymBool:
        return self._compared(other, -1, zero=False, negated=False)

    def __le__(self, other: Size) -> SymBool:
        return self._compared(other, -1, zero=False, negated=True)

    def __ge__(self, other: Size) -> SymBool:
        return self._compared(other, 1, zero=False, negated=True)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:
        """The hint, with the guard that this is always it."""
        value = self.hint
        self.shape_env.decide(Guard(plus(self.terms, constant(-value)), True, True))
        return value

    # Text -------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        """The formula, in parentheses where it is a sum."""
        text = self.shape_env.text(self.terms)
        return f"({text})" if " + " in text else text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        """The formula; with a sign in front where `spec` asks ints for theirs."""
        return ("+" if "+" in spec else "") + str(self)


Size = int | SymInt
"""What planning and emission compute with: a size that is known, or one that only the run time knows."""

T = TypeVar("T")


# Making sizes, and taking them out again ------------------------------------------------------------------------------


def dynamic_extent(env: ShapeEnv, dim: int, name: str, hint: int) -> SymInt:
    """The extent of dim number `dim`, at least 1, that is `hint` in the shape the plan is made for."""
    return SymInt(env, env.symbol("extent", dim, (), name, 1, None, hint))


def in_blocks(extent: SymInt, by: int, *, whole: bool | None) -> Size:
    """`extent` written as whole blocks of `by`, and a remainder.

    The remainder is 0 (`whole`), or it is from 1 to by - 1 (not `whole`), and that is a guard. With `whole` None there
    is no guard: the remainder is from 1 to `by`, and the blocks are those before it.
    """
    env, divisor = extent.shape_env, constant(by)
    terms = extent.terms if whole is not None else plus(extent.terms, constant(-1))
    value, name = env.hint(terms), SymInt(env, terms)
    floor = env.symbol("floor", terms, divisor, f"{name}/{by}", 0, None, value // by)
    remainder = env.symbol("remainder", terms, divisor, f"{name}%{by}", 0, by - 1, value % by)
    blocks, rest = SymInt(env, floor) * by, SymInt(env, remainder)
    if whole is None:
        return blocks + rest + 1
    env.guards[Guard(remainder, True, whole)] = None
    env.at_least_one(floor if whole else remainder)
    return blocks if whole else blocks + rest


def hint_of(size: Size) -> int:
    """The hint of a symbolic size; an int is its own."""
    return size.hint if isinstance(size, SymInt) else size


def with_hints(part: T) -> T:
    """A part of a plan (dataclasses and tuples of them) with the hint in place of every symbolic size."""
    if isinstance(part, SymInt):
        return cast(T, part.hint)
    if isinstance(part, tuple):
        return cast(T, tuple(with_hints(x) for x in cast("tuple[object, ...]", part)))
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{x.name: with_hints(getattr(part, x.name)) for x in fields(part)})
    return part


def is_remainder(size: Size) -> bool:
    """Whether a symbolic size is what is left of another after whole blocks, and nothing else."""
    return isinstance(size, SymInt) and size.shape_env.is_remainder(size.terms)
