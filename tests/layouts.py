"""Random layouts, and what they mean by definition: the oracle that the tests of the algebra compare with.

`address_by_definition` reads the factors of a format right to left, one index at a time, exactly as the text form is
explained. It shares no code with the library beyond the `Factor` values, and it is slow on purpose.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout

EXTENTS = (1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 24)
BLOCKS = (2, 3, 4, 5, 8, 12)
LETTERS = "abcdefgh"

# Tests share the machine with others; how long one example takes says nothing about it.
settings.register_profile("layouts", deadline=None)
settings.load_profile("layouts")

rngs = st.randoms(use_true_random=False)
"""Random generators that hypothesis can shrink and replay."""


def random_shape(rng: Random, rank: int, limit: int = 2000) -> tuple[int, ...]:
    """Extents with a product of at most `limit`."""
    shape: list[int] = []
    for _ in range(rank):
        shape.append(rng.choice([x for x in EXTENTS if x * math.prod(shape) <= limit] or [1]))
    rng.shuffle(shape)
    return tuple(shape)


def random_tag(
    rng: Random, rank: int, sizes: Sequence[int] = (2, 3, 4, 8, 16), most: int = 3
) -> tuple[str, list[int], list[tuple[int, int]]]:
    """A tag in alphabet letters, its outer order and its (size, dim) blocks, of which there are at most `most`."""
    order = list(range(rank))
    rng.shuffle(order)
    blocks = [(rng.choice(sizes), rng.randrange(rank)) for _ in range(rng.randint(0, most))]
    blocked = {dim for _, dim in blocks}
    outer = "".join(chr(97 + d).upper() if d in blocked else chr(97 + d) for d in order)
    return outer + "".join(f"{size}{chr(97 + dim)}" for size, dim in blocks), order, blocks


def random_format(
    rng: Random, rank: int, *,
    strided: bool = False, halo: bool = False, chunked: bool = False, blocks: Sequence[int] = BLOCKS,
) -> Format:  # fmt: skip
    """A format of any kind the options admit; blocks and order of the factors are arbitrary."""
    outer = [Factor(dim) for dim in range(rank)]
    rng.shuffle(outer)
    inner = [Factor(rng.randrange(rank), rng.choice(blocks)) for _ in range(rng.randint(0, 3) if rank else 0)]
    factors, chunk = [*outer, *inner], list[Factor]()
    if strided and rng.random() < 0.7:
        factors = [
            Factor(f.dim, f.size, rng.randint(-6, 40) if rng.random() < 0.4 else None) for f in factors
        ]
    if chunked and inner and rng.random() < 0.5:
        cut = rng.randrange(rank, len(factors))
        factors, chunk = factors[:cut], [Factor(f.dim, f.size) for f in factors[cut:]]
    lo = tuple(rng.choice((0, 0, 1, 3)) for _ in range(rank)) if halo and rng.random() < 0.5 else ()
    pad = rng.choice(("undef", "zero", "zp", 31, -0.5, math.inf))
    offset = rng.choice((0, 0, 7)) if strided else 0
    return Format(tuple(LETTERS[:rank]), tuple(factors), tuple(chunk), pad, offset, lo)


def random_layout(rng: Random, *, rank: int | None = None, limit: int = 2000, wild: bool = True) -> Layout:
    """A bound layout of up to `limit` elements; with `wild` also strided, with halos and chunked."""
    rank = rng.randint(0, 4) if rank is None else rank
    return random_format(rng, rank, strided=wild, halo=wild, chunked=wild).bind(
        random_shape(rng, rank, limit)
    )


def indices(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All indices of `shape` in row-major order."""
    return itertools.product(*map(range, shape))


def address_by_definition(format: Format, shape: Sequence[int], position: Sequence[int]) -> int:
    """Element offset of a position of the padded box (index plus `lo`), by reading the factors right to left."""
    lo = format.lo or (0,) * len(shape)
    sized = [math.prod(f.size or 1 for f in format.all_factors if f.dim == d) for d in range(len(shape))]
    rest = list(position)
    address, chunk, running = 0, 1, 1
    places: dict[str, int] = {}
    groups = [(format.chunk_factors, True), (format.factors, False)]
    for factors, inside in groups:
        running = 1
        for factor in reversed(factors):
            d = factor.dim
            count = factor.size if factor.size is not None else math.ceil((shape[d] + lo[d]) / sized[d])
            rest[d], digit = (rest[d] // count, rest[d] % count) if factor.size is not None else (0, rest[d])
            if factor.axis != "m":
                stride = places.get(factor.axis, 1) if factor.stride is None else factor.stride
                places[factor.axis] = stride * max(count, 1)
                continue
            stride = running if factor.stride is None else factor.stride
            address += digit * stride * chunk
            running = stride * max(count, 1)
        if inside:
            chunk = math.prod(f.size or 1 for f in factors)
    address += format.offset
    if format.swizzle is not None:
        bits, base, shift = format.swizzle
        address ^= ((address >> (base + shift)) % (1 << bits)) << base
    return address


def addresses_by_definition(format: Format, shape: Sequence[int]) -> NDArray[np.int64]:
    """Element offsets of all indices of `shape`."""
    lo = format.lo or (0,) * len(shape)
    values = [
        address_by_definition(format, shape, [x + y for x, y in zip(i, lo, strict=True)])
        for i in indices(shape)
    ]
    return np.array(values, np.int64).reshape(tuple(shape))


def separable(values: NDArray[np.int64]) -> list[list[int]] | None:
    """Per dim the offsets f_d, with values = values[0] + sum of f_d; None where the array is no such sum."""
    first = int(values.flat[0])
    columns: list[list[int]] = []
    total = np.full((1,) * values.ndim, first, np.int64)
    for dim in range(values.ndim):
        line = values[tuple(slice(None) if d == dim else 0 for d in range(values.ndim))] - first
        columns.append([int(v) for v in line])
        total = total + line.reshape((-1,) + (1,) * (values.ndim - 1 - dim))
    return columns if np.array_equal(total, values) else None


def is_digit_list(values: Sequence[int]) -> bool:
    """Whether some chain of divisors 1 | u1 | u2 ... makes x -> values[x] - values[0] linear in each digit.

    By trying every chain: exponential, for a few dozen values.
    """
    return chain_of(values) is not None


def is_phased_list(values: Sequence[int]) -> bool:
    """Whether the values are a window of a digit list, at some phase: by trying every phase and pair of units.

    Digits with one more unit come by the recursion over the block starts; the steps inside a block must agree.
    """
    count = len(values)
    if count <= 2 or is_digit_list(values):
        return True
    for unit in range(2, count):
        for skip in range(unit):
            inner = {values[x + 1] - values[x] for x in range(count - 1) if (x + 1 + skip) % unit}
            if len(inner) > 1:
                continue
            step = inner.pop()
            heads = dict[int, int]()
            for x, value in enumerate(values):
                heads.setdefault((x + skip) // unit, value - (x + skip) % unit * step)
            if len(heads) < count and is_phased_list(list(heads.values())):
                return True
    return False


def is_linear_on(values: Sequence[int], units: Sequence[int]) -> bool:
    """Whether the function is a sum of (digit * constant) for the digits that `units` cut the index into."""
    steps = [values[u] - values[0] if u < len(values) else 0 for u in units]
    for x, value in enumerate(values):
        total, rest = values[0], x
        for unit, step in zip(reversed(units), reversed(steps), strict=True):
            digit, rest = divmod(rest, unit)
            total += digit * step
        if total != value:
            return False
    return True


def chains(extent: int) -> Iterator[tuple[int, ...]]:
    """All chains of units 1 | u1 | u2 ... below `extent`, shorter ones first."""
    level = [(1,)]
    while level:
        yield from level
        level = [(*c, u) for c in level for u in range(2 * c[-1], extent, c[-1])]


def bound_pair(shape: tuple[int, ...], src: str, dst: str) -> tuple[Layout, Layout]:
    """Two layouts of one shape, by tags or by formats as they are written."""
    return Format.of(src).bind(shape), Format.of(dst).bind(shape)


def chain_of(*functions: Sequence[int]) -> tuple[int, ...] | None:
    """The shortest chain on which all functions (of one length) are linear per digit."""
    return next((c for c in chains(len(functions[0])) if all(is_linear_on(f, c) for f in functions)), None)
