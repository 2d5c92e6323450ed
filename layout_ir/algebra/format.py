"""What a layout is, and the text that says it.

A tensor is a function from a logical index to a value. Memory is a row of addresses. A **layout** says at which
address each index lives, and a **Format** is its recipe: it holds no shape, so that one recipe serves every
tensor of its rank. Binding a Format to a shape gives a `layout_ir.algebra.layout.Layout`, which has addresses.

The recipe is an ordered list of *factors*, read like nested loops over memory, outermost first:

    (n, c, h, w) : [n, c, h, w, c:8], pad = zero

The names on the left are the logical dims in the order their op defines; they never change because of a layout.
The list on the right is memory. A factor `c:8` is eight consecutive values of c; a factor without a size is
"the rest" of its dim. A dim that occurs more than once is written in mixed radix, most significant digit first.
So channel 17 of 24 in the list above is digit 2 of the outer `c` and digit 1 of `c:8`. For the shape (2, 17, 5, 4):

    factor   size                 stride, in elements      what it says of the address of (1, 16, 4, 3)
    n        2                    480 = 3*5*4*8            1 * 480
    c        3 = ceil(17 / 8)     160 = 5*4*8              (16 div 8 = 2) * 160
    h        5                     32 = 4*8                4 * 32
    w        4                      8                      3 * 8
    c:8      8                      1                      (16 mod 8 = 0) * 1        sum: 952

Three blocks of eight hold 24 channels, but the tensor has 17: addresses of channels 17 to 23 are *pads*. They
belong to the buffer and to no index, and `pad = zero` says what they hold. Everything else that one meets in
practice is a variation: `h*8` gives a factor a stride of its own (sub-tensors, row pitch), `offset` moves the
first element, `lo` leaves room before it (halos), `size` after it, and a bar splits memory into chunks that may
lie anywhere (`[n, h, w, c | h:8, w:8, c:32]`, a crouton).

Because each dim contributes independently, the address is a sum of one function per dim. That is what makes
equality, slicing, reshaping and the loop nest of a copy decidable in the number of factors, never in the number
of elements. It is also the limit: a layout whose address mixes dims (an arbitrary permutation, a fused group that
does not divide, data-dependent indices, compressed tensors) is no Format. XOR swizzles are kept as one extra step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Integral, Real
from operator import index
from typing import TYPE_CHECKING, cast

from layout_ir.algebra.cached_property import hashed_once
from layout_ir.algebra.factors import MEMORY, Factor
from layout_ir.algebra.pads import NAMED_POLICIES, PadPolicy
from layout_ir.algebra.tag import read_tag
from layout_ir.algebra.text import print_format, read_format
from layout_ir.argument_checks import checked_integer
from layout_ir.errors import LayoutError, public_methods

if TYPE_CHECKING:
    from layout_ir.algebra.layout import Layout

_LIMIT = 1 << 63


@public_methods
@hashed_once
@dataclass(frozen=True)
class Format:
    """The shape-free recipe of a layout: ordered factors, and what fills the gaps.

    Dim names are for the reader and take no part in equality. `factors` runs outermost first; `chunk_factors` is
    the part right of the bar (empty: no bar). `lo` has one entry per dim, or none at all for zeros. `size` is the
    number of elements the buffer has at least (trailing bytes of image rows). `swizzle` is (bits, base, shift):
    address bits [base+shift, base+shift+bits) are XORed into [base, base+bits).

    Raises LayoutError where the factors are no recipe.
    """

    names: tuple[str, ...] = field(compare=False)
    factors: tuple[Factor, ...]
    chunk_factors: tuple[Factor, ...] = ()
    pad: PadPolicy = "undef"
    offset: int = 0
    lo: tuple[int, ...] = ()
    size: int | None = None
    swizzle: tuple[int, int, int] | None = None

    def __post_init__(self):
        _make_plain(self)
        if self.lo and not any(self.lo):
            object.__setattr__(self, "lo", ())
        if not isinstance(self.pad, str):
            object.__setattr__(self, "pad", _number_policy(self.pad))
        check_format(self)
        object.__setattr__(self, "factors", _without_units(self.factors, self.chunk_factors))

    # Making one -----------------------------------------------------------------------------------------------

    @staticmethod
    def parse(text: str) -> Format:
        """The Format that `text` spells, e.g. "(n, c) : [n, c, c:8], pad = zero". Raises LayoutError with a span."""
        _check_text("a format", text)
        return _parsed(text)

    @staticmethod
    def from_tag(tag: str) -> Format:
        """The Format of a oneDNN-style tag: "nchw", "nChw8c", "aBcd8b". Raises LayoutError for anything else."""
        _check_text("a tag", tag)
        return _tagged(tag)

    @staticmethod
    def of(format: Format | str) -> Format:
        """`format` itself, or what its text or tag means."""
        if isinstance(format, Format):
            return format
        _check_text("a format", format)
        return Format.parse(format) if format.lstrip().startswith("(") else Format.from_tag(format)

    @staticmethod
    def row_major(names: Sequence[str]) -> Format:
        """Dense, last dim fastest."""
        return _row_major(tuple(names))

    # Reading one ----------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """How many dims tensors of this Format have."""
        return len(self.names)

    @property
    def all_factors(self) -> tuple[Factor, ...]:
        """Factors on both sides of the bar, outermost first."""
        return self.factors + self.chunk_factors

    def blocks(self) -> tuple[int, ...]:
        """Per dim, the product of its sized factors: extents are padded to a multiple of it where a rest exists."""
        result = [1] * self.rank
        for factor in self.all_factors:
            if factor.size is not None:
                result[factor.dim] *= factor.size
        return tuple(result)

    def bind(self, shape: Sequence[int]) -> Layout:
        """The Layout of a tensor of extents `shape` (elements per dim). Raises LayoutError where it does not fit."""
        try:
            extents = tuple(map(index, shape))
        except TypeError:
            is_row = isinstance(shape, Iterable) and not isinstance(shape, str)  # pyright: ignore[reportUnnecessaryIsInstance]
            given = tuple(shape) if is_row else shape
            raise LayoutError(f"shape {given!r} is no row of integers, as binding {self} needs") from None
        return _bind(self, self.names, extents)

    def with_pad(self, pad: PadPolicy) -> Format:
        """The same addresses, and pads that hold `pad`. Raises LayoutError for what is no policy."""
        return _padded(self, self.names, pad if isinstance(pad, str) else _number_policy(pad))

    def with_names(self, names: Sequence[str]) -> Format:
        """The same Format, equal to this one, whose dims are called `names`, one name per dim. Raises LayoutError for
        more or fewer."""
        if len(names) != self.rank:
            raise LayoutError(
                f"rank mismatch between names ({', '.join(names)}) and format ({', '.join(self.names)}): "
                f"{len(names)} != {self.rank}"
            )
        return replace(self, names=tuple(names))

    def __str__(self) -> str:
        """The notation: what `parse` reads, in its canonical spelling."""
        return print_format(self)

    def __repr__(self) -> str:
        """The notation, which `parse` reads: what one types, sees in IR and in documents is the same text."""
        return str(self)


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise LayoutError(
            f"{what} is written as a str, not as {'None' if text is None else type(text).__name__}"
        )


def _make_plain(format: Format) -> None:
    """Makes tuples of the rows that `format` was given, and integers of Python of its numbers, in place.

    Integers of NumPy would overflow where addresses are added up. Raises LayoutError where something is no row, no
    Factor or no integer.
    """
    for name in ("names", "factors", "chunk_factors", "lo", "swizzle"):
        row = getattr(format, name)
        if type(row) is not tuple and (row is not None or name != "swizzle"):
            if not isinstance(row, Iterable):
                raise LayoutError(f"{name} = {row!r} is no row")
            object.__setattr__(format, name, tuple(cast("Iterable[object]", row)))
    for name in ("factors", "chunk_factors"):
        row = getattr(format, name)
        object.__setattr__(format, name, tuple(map(_plain_factor, row)))
    for name in ("offset", "size"):
        number = getattr(format, name)
        if type(number) is not int and (number is not None or name == "offset"):
            object.__setattr__(format, name, checked_integer(f"{name} =", number))
    for name in ("lo", "swizzle"):
        row = getattr(format, name)
        if row and any(type(number) is not int for number in row):
            object.__setattr__(format, name, tuple(checked_integer(f"{name} =", number) for number in row))


def _plain_factor(factor: object) -> Factor:
    if not isinstance(factor, Factor):
        raise LayoutError(f"a format is made of Factors, not of {factor!r}")
    dim, size, stride = factor.dim, factor.size, factor.stride
    if type(dim) is int and (size is None or type(size) is int) and (stride is None or type(stride) is int):
        return factor
    return Factor(
        checked_integer("dim of a factor =", dim),
        None if size is None else checked_integer("size of a factor =", size),
        None if stride is None else checked_integer("stride of a factor =", stride),
        factor.axis,
    )


def _without_units(factors: tuple[Factor, ...], chunk: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """`factors` less the digits of size 1 that say nothing: one spelling keeps equality simple.

    The last factor of a dim stays, and so does a unit with a stride: the running product goes on from there.
    """
    left = Counter(f.dim for f in (*factors, *chunk))
    result: list[Factor] = []
    for factor in factors:
        if factor.size == 1 and factor.stride is None and left[factor.dim] > 1:
            left[factor.dim] -= 1
        else:
            result.append(factor)
    return tuple(result)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Format:
    fields, span = read_format(text)
    try:
        return Format(**fields)
    except LayoutError as error:
        raise LayoutError(str(error), error.span or span) from None


@lru_cache(maxsize=4096)
def _tagged(tag: str) -> Format:
    names, factors, is_blocked = read_tag(tag)
    return Format(names, factors, pad="zero" if is_blocked else "undef")


def _number_policy(pad: object) -> PadPolicy:
    """The policy of pads that hold a number. Raises LayoutError for what is none.

    0 and "zero" are the same claim, and so are 1 and 1.0; one spelling keeps equality simple.
    """
    if isinstance(pad, bool) or not isinstance(pad, Real):
        raise LayoutError(f"pad policy {pad!r} is none of undef, zero, zp or a number")
    number = int(pad) if isinstance(pad, Integral) else float(pad)
    if number == 0:
        return "zero"
    is_whole = isinstance(number, float) and number.is_integer() and abs(number) < _LIMIT
    return int(number) if is_whole else number


@lru_cache(maxsize=4096)
def _row_major(names: tuple[str, ...]) -> Format:
    return Format(names, tuple(Factor(dim) for dim in range(len(names))))


@lru_cache(maxsize=16384, typed=True)
def _padded(format: Format, names: tuple[str, ...], pad: PadPolicy) -> Format:
    # The names as in `_bind`. Selection asks for the same few Formats with pads of zeros tens of thousands of times.
    return replace(format, pad=pad)


@lru_cache(maxsize=65536)
def _bind(format: Format, names: tuple[str, ...], shape: tuple[int, ...]) -> Layout:
    # Names are part of the key although equality ignores them: a Layout prints with its own names.
    from layout_ir.algebra.binding import bind  # the one circle of the algebra, see `layout_ir.algebra`

    return bind(format, shape)


def bound_format(format: Format, shape: tuple[int, ...]) -> Layout:
    """`Format.bind` for what is known to be a tuple of integers: passes bind some 10^4 times per network.

    Raises LayoutError where the shape does not fit.
    """
    return _bind(format, format.names, shape)


def check_format(format: Format) -> None:
    """Raises LayoutError where the factors of `format` are no recipe. The one place that says so."""
    names, rank = format.names, format.rank
    if rank > 64:
        raise LayoutError(f"format has {rank} dims, at most 64 are supported")
    for k, name in enumerate(names):
        if not (isinstance(name, str) and name.isidentifier() and name.isascii()):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(f"dim name '{name}' is not an identifier")
        if name in names[:k]:
            raise LayoutError(f"dim '{name}' is declared twice in ({', '.join(names)})")
    seen: set[int] = set()
    for factor in format.all_factors:
        if factor.dim >= rank:
            raise LayoutError(f"factor refers to dim {factor.dim}, the format has {rank} dims")
        name = names[factor.dim]
        if factor.size is None and factor.dim in seen:
            raise LayoutError(
                f"factor '{name}' without a size stands behind another factor of '{name}': "
                "only the outermost factor of a dim may be its rest"
            )
        if not (isinstance(factor.axis, str) and factor.axis.isidentifier() and factor.axis.isascii()):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(f"axis '{factor.axis}' is not an identifier")
        _check_number(f"size of factor '{name}'", factor.size)
        _check_number(f"stride of factor '{name}'", factor.stride)
        seen.add(factor.dim)
    missing = [name for dim, name in enumerate(names) if dim not in seen]
    if missing:
        raise LayoutError(
            f"dim '{missing[0]}' has no factor: every dim of ({', '.join(names)}) needs at least one"
        )
    for factor in format.chunk_factors:
        if factor.size is None:
            raise LayoutError(
                f"factor '{names[factor.dim]}' right of the bar has no size: a chunk has a fixed size"
            )
        if factor.stride is not None or factor.axis != MEMORY:
            raise LayoutError(
                f"factor '{names[factor.dim]}:{factor.size}' right of the bar has a stride or an axis: a chunk is dense"
            )
    if isinstance(format.pad, str) and format.pad not in NAMED_POLICIES:
        raise LayoutError(f"pad policy '{format.pad}' is none of undef, zero, zp or a number")
    if isinstance(format.pad, float) and math.isnan(format.pad):
        raise LayoutError("pad = nan promises nothing that can be compared: use pad = undef")
    if format.lo and len(format.lo) != rank:
        raise LayoutError(f"lo has {len(format.lo)} entries, the format has {rank} dims")
    if any(low < 0 for low in format.lo):
        raise LayoutError(
            f"lo = {list(format.lo)} has a negative entry: it counts the pads in front of a dim"
        )
    for low in format.lo:
        _check_number("lo", low)
    _check_number("offset", format.offset)
    _check_number("size", format.size)
    if isinstance(format.pad, int):
        _check_number("pad", None if format.pad == -_LIMIT else format.pad)
    if format.size is not None and format.size < 0:
        raise LayoutError(f"size = {format.size} is negative")
    if format.swizzle is not None:
        if len(format.swizzle) != 3:
            raise LayoutError(f"swizzle = {format.swizzle} is not (bits, base, shift)")
        bits, base, shift = format.swizzle
        if bits < 0 or base < 0 or shift < bits:
            raise LayoutError(
                f"swizzle = ({bits}, {base}, {shift}) is not (bits, base, shift) with shift >= bits >= 0: "
                "the bits that are read and the bits that are changed would overlap"
            )
        if base + shift + bits > 63:
            raise LayoutError(
                f"swizzle = ({bits}, {base}, {shift}) reaches bit {base + shift + bits}, addresses have 63"
            )


def _check_number(what: str, number: int | None) -> None:
    if number is not None and abs(number) >= _LIMIT:
        raise LayoutError(f"{what} is {number}: not below 2^63")
