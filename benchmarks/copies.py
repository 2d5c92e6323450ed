"""Copies of arrays into another order of memory, beside NumPy and torch, in one process and in turns.

    python benchmarks/copies.py [--threads 1] [--seconds 0.5] [--most 64M] [--only 3d] [--json FILE]

Two kinds of calls are compared. *Fresh* ones return a new array: `li.ascontiguousarray(a)`, `np.ascontiguousarray(a)`
and torch's `a.contiguous()`, where `a` is a transposed view; the memory that the system hands out for the result is
part of what they cost. *Written* ones have a destination: `copyto` and torch's `copy_`. Of each case are printed the
medians in microseconds, and how many times as fast ours is as NumPy and as torch: the median over rounds in which all
took turns, with the interval that holds the true median in 95 of 100 cases.

Cases are square matrices of 8 bytes to 64 MiB (a second time with sides that are no powers of two), and transposes of
three and four dims as networks have them, of elements of 1, 2, 4, 8 and 16 bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, isqrt
from pathlib import Path
from statistics import geometric_mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import layout_ir as li
from layout_ir.api.compiled_functions import TAKEOVER
from layout_ir.backends.llvm.runtime.timing import Interval, Limits, Times, race
from layout_ir.tools.benchmark.measure import confine
from layout_ir.tools.benchmark.summary import machine_lines

DTYPES = {1: "u1", 2: "i2", 4: "f4", 8: "f8", 16: "c16"}
"""The elements by their bytes."""

TURNED = (
    ("3d pixels to planes", (0, 0, 3), (2, 0, 1)),
    ("3d planes to pixels", (3, 0, 0), (1, 2, 0)),
    ("3d batch of matrices", (32, 0, 0), (0, 2, 1)),
    ("3d reversed", (0, 0, 0), (2, 1, 0)),
    ("3d first two", (0, 0, 48), (1, 0, 2)),
    ("4d nchw to nhwc", (2, 64, 0, 0), (0, 2, 3, 1)),
    ("4d nhwc to nchw", (2, 0, 0, 64), (0, 3, 1, 2)),
    ("4d heads", (2, 0, 12, 64), (0, 2, 1, 3)),
)
"""Name, shape (0: as large as the size says, equal ones) and axes."""

FRESH = ("ascontiguousarray", "np.ascontiguousarray", "torch.contiguous")
WRITTEN = ("copyto", "np.copyto", "torch.copy_")


@dataclass(frozen=True)
class Case:
    """A transposed view: the shape in memory, the axes, the bytes of an element."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    width: int

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return int(np.prod(self.shape)) * self.width

    def __str__(self) -> str:
        return f"{self.name:22} {self.width:2} B  {'x'.join(map(str, self.shape)):16}"


def cases(most: int) -> Iterator[Case]:
    """All cases of at most `most` bytes."""
    for width in DTYPES:
        sizes = [8, 64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26]
        for size in sizes:
            side = max(isqrt(size // width), 1)
            for name, rows in (("2d", side), ("2d odd", side + 3)):
                if size <= most:
                    yield Case(name, (rows, side), (1, 0), width)
        for name, pattern, axes in TURNED:
            for size in (1 << 12, 1 << 18, 1 << 22, 1 << 25):
                free = pattern.count(0)
                rest = size // width // int(np.prod([n for n in pattern if n]))
                side = round(rest ** (1 / free)) if rest > 0 else 0
                if size <= most and side > 1:
                    yield Case(name, tuple(n or side for n in pattern), axes, width)


def contenders(case: Case, torch: Any) -> dict[str, Callable[[], object]]:
    """The calls, by name; torch's where it is there and has the type."""
    dtype = np.dtype(DTYPES[case.width])
    values = np.random.default_rng(0).integers(0, 100, case.shape)
    a = values.astype(dtype).transpose(case.axes)
    out = np.zeros(a.shape, dtype)
    found: dict[str, Callable[[], object]] = {
        "ascontiguousarray": lambda: li.ascontiguousarray(a),
        "np.ascontiguousarray": lambda: np.ascontiguousarray(a),
        "copyto": lambda: li.copyto(out, a),
        "np.copyto": lambda: np.copyto(out, a),
    }
    assert li.ascontiguousarray(a).tobytes() == a.tobytes()
    li.copyto(out, a)
    assert out.tobytes() == a.tobytes()
    if torch is not None:
        t, u = torch.from_numpy(a), torch.from_numpy(out)
        found |= {"torch.contiguous": t.contiguous, "torch.copy_": lambda: u.copy_(t)}
    return found


def measured(case: Case, torch: Any, seconds: float) -> Times:
    """Times of all contenders."""
    batch = min(0.002, seconds / 100)
    return race(
        contenders(case, torch), lambda _: inf, Limits(seconds=seconds, fewest=9, most=60, batch=batch)
    )


def ahead(times: Times, group: tuple[str, ...]) -> list[tuple[str, Interval]]:
    """How many times as fast ours, the first of the group, is as each of the others."""
    return [(name, times.speedup(group[0], name)) for name in group[1:] if name in times.rounds]


SPANS = (
    ("below 1 KiB", 0, 1 << 10),
    ("1 KiB to 1 MiB", 1 << 10, 1 << 20),
    ("from 1 MiB on", 1 << 20, 1 << 62),
)
"""Sizes that are summed up together, in bytes of the array."""


def summary(found: list[tuple[Case, Times]]) -> Iterator[str]:
    """Of each span of sizes the geometric means of the ratios to each peer, and the least ratio.

    `mean` is that of the medians; `best` that of the least times of both, which others on the machine disturb least.
    """
    for span, low, high in SPANS:
        here = [(case, times) for case, times in found if low <= case.nbytes < high]
        for group in (FRESH, WRITTEN):
            for peer in group[1:]:
                pairs = [(case, times) for case, times in here if peer in times.rounds]
                if not pairs:
                    continue
                ratios = [(times.speedup(group[0], peer), case) for case, times in pairs]
                mean = geometric_mean([r.middle for r, _ in ratios])
                best = geometric_mean([times.best(peer) / times.best(group[0]) for _, times in pairs])
                worst, case = min(ratios, key=lambda pair: pair[0].middle)
                slower = sum(r.high < 0.95 for r, _ in ratios)
                yield (
                    f"{span:14} {group[0]:18} against {peer:21} {len(ratios):3} cases  mean {mean:5.2f}  "
                    f"best {best:5.2f}  least {worst} ({' '.join(str(case).split())})  surely below 0.95: {slower}"
                )


def bytes_of(text: str) -> int:
    """The number that a text such as 64M or 16K says."""
    unit = {"K": 10, "M": 20}.get(text[-1:].upper())
    return int(text) if unit is None else int(text[:-1]) << unit


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each case at most, after nine rounds")
    parser.add_argument("--most", type=bytes_of, default=1 << 26, help="bytes of the largest case, as 64M")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--json", type=Path, help="a file for all times")
    args = parser.parse_args()
    confine(args.threads)
    try:
        import torch
    except ImportError:
        torch = None
    else:
        torch.set_num_threads(args.threads)
    if not TAKEOVER.load():
        sys.exit("the compiled copies do not serve here: there would be nothing to compare")
    print("\n".join(machine_lines(["torch"])), f"\n{args.threads} thread(s), microseconds", flush=True)
    found: list[tuple[Case, Times]] = []
    for case in cases(args.most):
        if not case.name.startswith(args.only):
            continue
        times = measured(case, torch, args.seconds)
        found.append((case, times))
        parts: list[str] = []
        for group in (FRESH, WRITTEN):
            parts.append(f"{group[0]} {1e6 * times.median(group[0]):9.2f}")
            parts += [f"{name.partition('.')[0]} x{ratio}" for name, ratio in ahead(times, group)]
        print(case, " ".join(parts), flush=True)
    print("\n".join(summary(found)))
    if args.json:
        rows = [
            {"case": str(case), "bytes": case.nbytes, "seconds": dict(times.rounds)} for case, times in found
        ]
        args.json.write_text(json.dumps({"machine": machine_lines(["torch"]), "cases": rows}))


if __name__ == "__main__":
    main()
