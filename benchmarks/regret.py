"""How well the planner predicts: the time of its choice over that of the best plan it could have taken.

    python benchmarks/regret.py                      the table of `layout-ir bench` and the cliffs, one thread
    python benchmarks/regret.py --only nhwc --size L3
    python benchmarks/regret.py --cliffs             shapes at powers of two and beside them, time per byte
    python benchmarks/regret.py --rounds 30 -v       every plan, with its rate

All plans of a case, those that the planner weighs (`planning/planner.py`, `candidates`), run in one process and take
turns; of each the least time counts, for whatever else the machine does only adds, and a case with a regret is measured
again. A regret of 1.00 says that no other
plan is faster. Of the cliffs, each line has one reorder at 2^k and at 16 less and more; printed is the rate of each and
the worst over the best.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from math import inf
from operator import index
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.backends.llvm.machine.machine import host, processor_name
from layout_ir.backends.llvm.planning.element_pair import ElementPair
from layout_ir.backends.llvm.planning.pad_fills import pad_bits
from layout_ir.backends.llvm.planning.planner import candidates
from layout_ir.backends.llvm.runtime.compiled_plan import load
from layout_ir.backends.llvm.runtime.profile_file import measured_once
from layout_ir.backends.llvm.runtime.timing import Limits, race, touched_bytes
from layout_ir.dialects.kernel.plan import Plan
from layout_ir.elements.numpy_types import storage
from layout_ir.elements.quantization import Conversion
from layout_ir.tools.benchmark.cases import SIZES, chosen

_WEIGHTS = (
    ("cdba", "ABcd8b16a", "f32", ((2048, 1024, 1, 1), (512, 2048, 1, 1), (1024, 512, 1, 1))),
    ("cdba", "ABcd16b32a", "f32", ((512, 2048, 1, 1), (1024, 1024, 1, 1))),
    ("acdb", "ABcd16a16b", "f32", ((512, 1024, 1, 1), (512, 1088, 1, 1))),
    ("abcd", "ABcd32a16b", "ui8", ((100, 1, 28, 28), (128, 1, 32, 32))),
    ("ab", "ba", "f32", ((1024, 512), (1024, 2048), (2048, 2048))),
    ("ab", "ba", "ui8", ((2048, 2048),)),
)
"""Reorders of weights and matrices that fall off a cliff easily: source, destination, type, shapes."""


_SUSPECT = 1.05
"""The regret from which on a case is measured again."""


def cliffs() -> Iterator[tuple[str, list[tuple[Layout, Layout, str]]]]:
    """A name, and the same reorder at the shape and with its largest extent 16 less and more."""
    for src, dst, dtype, shapes in _WEIGHTS:
        for shape in shapes:
            at = max(range(len(shape)), key=lambda k: shape[k])
            near = [(*shape[:at], shape[at] + by, *shape[at + 1 :]) for by in (0, -16, 16)]
            pairs = [(Format.of(src).bind(x), Format.of(dst).bind(x), dtype) for x in near]
            yield f"{src}->{dst} {'x'.join(map(str, shape))} {dtype}", pairs


def plans_of(src: Layout, dst: Layout, dtype: str, dst_dtype: str = "") -> list[Plan]:
    """What the planner weighs for a move or a conversion on one thread, its choice first."""
    conversion = Conversion(dtype, dst_dtype or dtype)
    return candidates(src, dst, ElementPair.of(conversion), pad_bits(dst.pad, conversion.dst), host())


def seconds(plans: list[Plan], rounds: int) -> list[float]:
    """The least time of a call of each."""
    size = [
        max(index(side) for side in sides)
        for sides in zip(*((p.src_bytes, p.dst_bytes) for p in plans), strict=True)
    ]
    # Arrays, as callers have them: an address takes the long way into a kernel, 3 us, which a small reorder takes, too.
    x, y = (
        touched_bytes(-(-number // width) * width).view(dtype)
        for number, width, dtype in zip(size, plans[0].widths, _dtypes(plans[0]), strict=True)
    )
    calls = {str(k): partial(load(plan, host()), x, y) for k, plan in enumerate(plans)}
    limits = Limits(seconds=inf, fewest=rounds, most=rounds, batch=0.002)
    times = race(calls, lambda _: inf, limits)
    return [times.best(name) for name in calls]


def _dtypes(plan: Plan) -> Iterator[np.dtype[Any]]:
    """The element types of arrays that a plan takes, source and destination."""
    for width, name in zip(plan.widths, plan.elements, strict=True):
        yield np.dtype(f"u{width}") if name is None else storage(name)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="cases whose name contains this")
    parser.add_argument("--size", action="append", default=[], choices=SIZES, help="L2, L3 or DRAM")
    parser.add_argument("--rounds", type=int, default=15, help="turns of every plan")
    parser.add_argument("--cliffs", action="store_true", help="shapes beside powers of two instead")
    parser.add_argument("-v", "--verbose", action="store_true", help="every plan")
    args = parser.parse_args()
    measured_once(host().l2 + 1)  # as the first large reorder does
    print(f"{processor_name()}, profile: {host().profile.source}", flush=True)
    return _cliff_table(args.only, args.rounds) if args.cliffs else _regrets(args)


def _regrets(args: argparse.Namespace) -> int:
    cases = [
        (f"{case.name} {size}", *case.bound(size), case.dtype, case.result_dtype)
        for case, size in chosen([], args.size)
    ]
    if not args.size:
        cases += [
            (name + by, *pair, pair[-1])
            for name, pairs in cliffs()
            for by, pair in zip(("", " -16", " +16"), pairs, strict=True)
        ]
    found: list[float] = []
    for name, src, dst, dtype, dst_dtype in cases:
        if args.only and not any(part in name for part in args.only):
            continue
        plans = plans_of(src, dst, dtype, dst_dtype)
        times = seconds(plans, args.rounds)
        if times[0] > _SUSPECT * min(times):  # a neighbour, or the plan? More rounds tell.
            times = list(map(min, times, seconds(plans, 3 * args.rounds)))
        best = min(range(len(plans)), key=lambda k: times[k])
        found.append(times[0] / times[best])
        size = index(plans[0].src_bytes + plans[0].dst_bytes)
        print(
            f"{name:44}{size / times[0] / 1e9:7.1f} GB/s  regret {found[-1]:5.2f} of {len(plans)}", flush=True
        )
        if args.verbose:
            for plan, time in sorted(zip(plans, times, strict=True), key=lambda x: x[1])[:4]:
                print(f"  {size / time / 1e9:7.1f}", " | ".join(str(plan).splitlines()[1:9]))
    print(
        f"{len(found)} cases: geometric mean {geometric_mean(found or [1.0]):.3f}, worst {max(found, default=1):.2f}"
    )
    return 0


def _cliff_table(only: list[str], rounds: int) -> int:
    print(f"{'GB/s at':44}{'2^k':>8}{'-16':>8}{'+16':>8}   worst over best")
    worst = 1.0
    for name, pairs in cliffs():
        if only and not any(part in name for part in only):
            continue
        plans = [plans_of(*pair)[0] for pair in pairs]
        times = seconds(plans, rounds)
        if max(times) > 1.15 * min(times):
            times = list(map(min, times, seconds(plans, 3 * rounds)))
        rates = [index(p.src_bytes + p.dst_bytes) / t / 1e9 for p, t in zip(plans, times, strict=True)]
        worst = max(worst, max(rates) / min(rates))
        print(
            f"{name:44}" + "".join(f"{rate:8.1f}" for rate in rates) + f"{max(rates) / min(rates):12.2f}",
            flush=True,
        )
    print(f"worst {worst:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
