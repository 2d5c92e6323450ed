"""Random kernels for open extents, between all element types, against the NumPy reference, between guard pages.

    python -m tests.fuzz_open_reorders --kernels 500 --seed 1

Each kernel has a pair of element types (each in turn), two random formats, some extents open, and half of the time
scales, zero points and beta. It is called with several shapes, empty dims and dims of extent 1 among them, some large
enough for plans of their own. What a call may touch is what `tests.fuzz_reorders` says.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from random import Random

from layout_ir.backends.llvm.dynamic import Extents, OpenPlan
from layout_ir.backends.llvm.open_call import OpenKernel, compile_open
from layout_ir.dtypes import bits_of
from layout_ir.errors import LayoutError, shape_text
from layout_ir.format import Factor, Format
from layout_ir.quantization import Conversion
from tests.fuzz_reorders import PAIRS, Array, Case, check, machines, random_conversion

_EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 64, 65, 100, 130, 200)
_LIMITS = (600, 20_000, 20_000, 60_000)
"""Elements that the calls of a kernel have at most."""


@dataclass(frozen=True)
class At:
    """An open kernel at one shape, as `check` calls kernels."""

    kernel: OpenKernel
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
    of: OpenPlan


def _format(rng: Random, rank: int, dtype: str) -> Format:
    outer = [Factor(dim) for dim in range(rank)]
    if rng.random() < 0.6:
        rng.shuffle(outer)
    blocks = rng.choice((0, 0, 1, 1, 2)) if rank else 0
    inner = [Factor(rng.randrange(rank), rng.choice((2, 4, 8, 8, 16, 6))) for _ in range(blocks)]
    pad = rng.choice(("undef", "zero", "zp", 1 if dtype == "i1" or bits_of(dtype) < 8 else 31))
    return Format(tuple("abcd"[:rank]), tuple(outer + inner), (), pad, rng.choice((0, 0, 0, 3)))


def _constants(rng: Random, src: str, dst: str) -> Conversion:
    """A conversion without numbers that a call brings along."""
    while True:
        conversion, values = random_conversion(rng, src, dst, ())
        if not values:
            return conversion


def _shape(rng: Random, shape: Extents, limit: int) -> tuple[int, ...]:
    while True:
        found = tuple(rng.choice(_EXTENTS) if x is None else x for x in shape)
        if math.prod(found) <= limit and (0 not in found or rng.random() < 0.1):
            return found


def kernel(seed: int, number: int) -> tuple[OpenKernel, Random]:
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
            return compile_open(*formats, tuple(shape), conversion=conversion, threads=1, target=target), rng
        except LayoutError as error:
            if "serves all extents" not in str(error):
                raise


def run(count: int, seed: int, *, first: int = 0, progress: bool = False) -> list[str]:
    """What is wrong with kernels [first, first + count)."""
    wrong: list[str] = []
    for number in range(first, first + count):
        made, rng = kernel(seed, number)
        reorder = made.reorder
        if progress:
            print(f"\rkernel {number} of {first + count}, {len(wrong)} wrong ", end="", file=sys.stderr)
        for limit in _LIMITS:
            shape = _shape(rng, reorder.shape, limit)
            src, dst = reorder.src.bind(shape), reorder.dst.bind(shape)
            case = Case(number, src, dst, reorder.conversion, {})
            problem = check(case, At(made, shape), rng)
            wrong += [f"{shape_text(reorder.shape)}: {problem}"] if problem is not None else []
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    begin = time.perf_counter()
    wrong = run(args.kernels, args.seed, first=args.first, progress=sys.stderr.isatty())
    print("\n\n".join(wrong[:20]))
    seconds = time.perf_counter() - begin
    print(f"{args.kernels} kernels, seed {args.seed}: {len(wrong)} wrong, {seconds:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
