"""Random kernels for dynamic extents, between all element types, against the NumPy reference, between guard pages.

    python -m tests.fuzz --only dynamic-reorders --cases 500 --seed 1

Each kernel has a pair of element types (each in turn), two random formats, some extents open, and half of the time
scales, zero points and beta. It is called with several shapes, empty dims and dims of extent 1 among them, some large
enough for plans of their own. Some strides are negative: shapes that begin below their buffer must be refused. What a
call may touch is what `tests.fuzz.reorders` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from layout_ir.algebra.factors import Factor
from layout_ir.algebra.format import Format
from layout_ir.arrays.protocols import storage_of
from layout_ir.backends.llvm.planning.dynamic_shapes import DynamicPlan, DynamicShape
from layout_ir.backends.llvm.runtime.dynamic_call import DynamicKernel, compile_dynamic
from layout_ir.elements.element_types import bits_of
from layout_ir.elements.quantization import Conversion
from layout_ir.errors import LayoutError, shape_text
from tests.fuzz.reorders import PAIRS, Array, Case, Counted, check, machines, random_conversion

_EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 64, 65, 100, 130, 200)
_LIMITS = (600, 20_000, 20_000, 60_000)
"""Elements that the calls of a kernel have at most."""


@dataclass(frozen=True)
class At:
    """An open kernel at one shape, as `check` calls kernels."""

    kernel: DynamicKernel
    shape: tuple[int, ...]

    @property
    def plan(self) -> Bytes:
        src, dst = self.kernel.buffer_bytes(self.shape)
        return Bytes(src, dst, self.kernel.plan_for(self.shape))

    def run_part(self, src: int, dst: int, part: int, parts: int, values: dict[str, Array]) -> None:
        assert not values
        self.kernel.run_part(src, dst, part, parts, self.shape)


@dataclass(frozen=True)
class Bytes:
    """What both sides have at one shape, and the plan that moves it."""

    src_bytes: int
    dst_bytes: int
    of: DynamicPlan


def _format(rng: Random, rank: int, dtype: str) -> Format:
    outer = [Factor(dim) for dim in range(rank)]
    if rng.random() < 0.6:
        rng.shuffle(outer)
    blocks = rng.choice((0, 0, 1, 1, 2)) if rank else 0
    inner = [Factor(rng.randrange(rank), rng.choice((2, 4, 8, 8, 16, 6))) for _ in range(blocks)]
    pad = rng.choice(("undef", "zero", "zp", 1 if dtype == "i1" or bits_of(dtype) < 8 else 31))
    offset = rng.choice((0, 0, 0, 3))
    if rank in (1, 2) and not inner and rng.random() < 0.5:
        # Strides of either sign, so far apart that no two elements meet.
        steps = rng.sample((1, 2 * max(_EXTENTS)), rank)
        outer = [
            replace(factor, stride=step * rng.choice((1, -1)))
            for factor, step in zip(outer, steps, strict=True)
        ]
        pad, offset = "undef", rng.choice((0, 199, 40_000, 100_000))
    lo = tuple(rng.choice((0, 0, 1, 3, 9)) for _ in range(rank)) if rng.random() < 0.25 else ()
    return Format(tuple("abcd"[:rank]), tuple(outer + inner), (), pad, offset, lo=lo)


def _lowest(format: Format, shape: Sequence[int]) -> int:
    """The lowest address of an element or pad where strides are given, else 0."""
    box = [extent + low for extent, low in zip(shape, format.lo or (0,) * len(shape), strict=True)]
    steps = [(box[factor.dim] - 1) * min(factor.stride or 0, 0) for factor in format.factors]
    return format.offset + sum(steps) if 0 not in box else 0


def _constants(rng: Random, src: str, dst: str) -> Conversion:
    """A conversion without numbers that a call brings along."""
    while True:
        conversion, values = random_conversion(rng, src, dst, ())
        if not values:
            return conversion


def _shape(rng: Random, shape: DynamicShape, limit: int) -> tuple[int, ...]:
    while True:
        found = tuple(rng.choice(_EXTENTS) if x is None else x for x in shape)
        if math.prod(found) <= limit and (0 not in found or rng.random() < 0.1):
            return found


def kernel(seed: int, number: int) -> tuple[DynamicKernel, Random]:
    """Kernel `number` of the sequence that `seed` begins, and where its calls draw from."""
    rng = Random(seed << 32 | number)
    src, dst = PAIRS[(number * 101 + seed) % len(PAIRS)]
    targets = machines()
    while True:
        rank = rng.choice((1, 2, 2, 3, 3, 4))
        formats = _format(rng, rank, src), _format(rng, rank, dst)
        shape = [rng.choice((None, None, rng.choice(_EXTENTS[1:16]))) for _ in range(rank)]
        shape[rng.randrange(rank)] = None
        conversion, target = _constants(rng, src, dst), targets[number % 5 % len(targets)]
        try:
            return compile_dynamic(
                *formats, tuple(shape), conversion=conversion, threads=1, target=target
            ), rng
        except LayoutError as error:
            if not any(
                said in str(error) for said in ("serves all extents", "several elements at one address")
            ):
                raise


def _refused(kernel: DynamicKernel, shape: tuple[int, ...]) -> bool:
    """Whether a kernel says that a shape begins below its buffers."""
    room = [np.zeros(1 << 18, storage_of(dtype)) for dtype in kernel.reorder.dtypes]
    try:
        kernel(*room, shape=shape)
    except LayoutError as error:
        return "below address 0" in str(error)
    return False


def run(count: int, seed: int, *, first: int = 0) -> list[str]:
    """What is wrong with kernels [first, first + count)."""
    wrong: list[str] = []
    for number in range(first, first + count):
        made, rng = kernel(seed, number)
        reorder = made.reorder
        for limit in _LIMITS:
            shape = _shape(rng, reorder.shape, limit)
            if min(_lowest(format, shape) for format in (reorder.src, reorder.dst)) < 0:
                if not _refused(made, shape):
                    wrong.append(f"{reorder.src} to {reorder.dst}: {shape_text(shape)} is not refused")
                continue
            src, dst = reorder.src.bind(shape), reorder.dst.bind(shape)
            case = Case(number, src, dst, reorder.conversion, {})
            problem = check(case, At(made, shape), rng)
            wrong += [f"{shape_text(reorder.shape)}: {problem}"] if problem is not None else []
    return wrong


class DynamicReorders(Counted):
    name = "dynamic-reorders"

    def wrong(self, count: int, seed: int, first: int) -> list[str]:
        return run(count, seed, first=first)
