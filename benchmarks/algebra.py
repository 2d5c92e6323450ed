"""What questions about layouts cost, in microseconds, and that they do not cost more for larger tensors.

    python benchmarks/algebra.py [--json] [--repeat N]

Each question is asked of formats of rank 4 to 6 at a small shape and at one of 2^20 times as many elements. The columns
on the right do comparable work on plain strided layouts: NumPy builds a view by stride arithmetic (`as_strided`, then
`transpose` or `reshape`), and evaluates an address as a dot product; `nested` evaluates a shape:stride pair of nested
tuples, as CuTe's Python does. They know no blocks, pads or equality.
"""

from __future__ import annotations

import argparse
import json
import sys
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from layout_ir.algebra.binding import bind
from layout_ir.algebra.format import Format
from layout_ir.algebra.layout import Layout
from layout_ir.algebra.refinement import refine


@dataclass(frozen=True)
class Case:
    """Two formats of one rank, and a shape whose first extents grow."""

    name: str
    src: str
    dst: str
    shape: tuple[int, ...]

    def grown(self) -> tuple[int, ...]:
        """The shape with 2^20 times as many elements."""
        return (self.shape[0] << 10, self.shape[1] << 10, *self.shape[2:])


CASES = (
    Case("rank 4, plain", "nchw", "nhwc", (8, 64, 14, 14)),
    Case("rank 4, blocked", "nchw", "nChw8c", (8, 17, 14, 14)),
    Case("rank 4, two levels", "oihw", "OIhw4i16o4i", (64, 34, 3, 3)),
    Case("rank 5, blocked", "ncdhw", "nCdhw16c", (8, 17, 7, 7, 7)),
    Case("rank 6, blocked", "goidhw", "gOIdhw8i16o2i", (4, 33, 18, 3, 3, 3)),
    Case("8 against 12", "nChw8c", "nChw12c", (8, 50, 7, 7)),
)


@dataclass(frozen=True)
class Row:
    """Microseconds per call; `large` is the same question at the grown shape."""

    case: str
    question: str
    small: float
    large: float
    numpy: float | None = None
    nested: float | None = None


def _time(call: Callable[[], object], repeat: int) -> float:
    """The least of `repeat` measurements, each long enough for the clock, in microseconds."""
    timer = timeit.Timer(call)
    number, spent = 10, 0.0
    while spent < 0.005:
        number *= 2
        spent = timer.timeit(number)
    return min(timer.repeat(repeat, number)) / number * 1e6


def _evaluate(index: Any, shape: Any, stride: Any) -> int:
    """The address of a coordinate in a nested shape:stride pair: an int indexes a tuple column by column."""
    if not isinstance(shape, tuple):
        return index * stride
    shapes, strides = cast("tuple[Any, ...]", shape), cast("tuple[Any, ...]", stride)
    if isinstance(index, tuple):
        indices = cast("tuple[Any, ...]", index)
        return sum(_evaluate(i, s, d) for i, s, d in zip(indices, shapes, strides, strict=True))
    total = 0
    for s, d in zip(shapes, strides, strict=True):
        total += _evaluate(index % s, s, d)
        index //= s
    return total


def _nested(layout: Layout) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """Nested tuples of digit counts and strides per dim, fine to coarse."""
    shape = tuple(tuple(d.count for d in digits) for digits in layout.digits)
    return shape, tuple(tuple(d.stride for d in digits) for digits in layout.digits)


def rows(case: Case, repeat: int) -> list[Row]:
    """All questions of one case."""
    src, dst = Format.from_tag(case.src), Format.from_tag(case.dst)
    shapes = (case.shape, case.grown())

    def both(make: Callable[[tuple[int, ...]], Callable[[], object]]) -> tuple[float, float]:
        small, large = (_time(make(shape), repeat) for shape in shapes)
        return small, large

    index = tuple(x - 1 for x in case.shape)
    strided = src.bind(case.shape)
    strides = np.array([d[-1].stride for d in strided.digits])
    buffer = np.zeros(1, np.int8)
    order = [*range(1, len(case.shape)), 0]
    merged = (*case.shape[:-2], case.shape[-2] * case.shape[-1])
    nested_shape, nested_stride = _nested(dst.bind(case.shape))

    def view() -> NDArray[np.int8]:
        return as_strided(buffer, case.shape, strides)

    base = view()

    def fresh(format: Format, shape: tuple[int, ...]) -> Layout:
        # A copy forgets what the layout remembers, so that the answer is computed again.
        return replace(format.bind(shape))

    def equal(shape: tuple[int, ...]) -> Callable[[], object]:
        return lambda: fresh(src, shape).same_map(fresh(dst, shape))

    def loops(shape: tuple[int, ...]) -> Callable[[], object]:
        return lambda: refine(fresh(src, shape), fresh(dst, shape))

    def addressed(shape: tuple[int, ...]) -> Callable[[], object]:
        layout = dst.bind(shape)
        return lambda: layout.address(index)

    row = np.array(index)
    return [
        Row(case.name, "bind", *both(lambda s: lambda: bind(dst, s)), numpy=_time(view, repeat)),
        Row(case.name, "bind, remembered", *both(lambda s: lambda: dst.bind(s))),
        Row(
            case.name, "address", *both(addressed), numpy=_time(lambda: int(row @ strides), repeat),
            nested=_time(lambda: _evaluate(index, nested_shape, nested_stride), repeat),
        ),
        Row(case.name, "same_map", *both(equal)),
        Row(case.name, "refine", *both(loops)),
        Row(
            case.name, "permute", *both(lambda s: lambda: dst.bind(s).permute(order)),
            numpy=_time(lambda: base.transpose(order), repeat),
        ),
        Row(
            case.name, "reshape", *both(lambda s: lambda: dst.bind(s).reshape((*s[:-2], s[-2] * s[-1]))),
            numpy=_time(lambda: base.reshape(merged), repeat),
        ),
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What questions about layouts cost, in microseconds.")
    parser.add_argument("--json", action="store_true", help="print a list of objects instead of a table")
    parser.add_argument(
        "--repeat", type=int, default=7, help="measurements per figure, of which the least counts"
    )
    options = parser.parse_args(arguments)
    result: list[Row] = []
    for case in CASES:
        if sys.stderr.isatty():
            print(f"\r{case.name:<24}", end="", file=sys.stderr, flush=True)
        result += rows(case, options.repeat)
    if sys.stderr.isatty():
        print("\r" + " " * 24 + "\r", end="", file=sys.stderr)
    if options.json:
        print(json.dumps([asdict(row) for row in result], indent=1))
        return 0
    print(f"{'microseconds per call':<44}{'small':>9}{'x 2^20':>9}{'NumPy':>9}{'nested':>9}")
    for row in result:
        others = "".join(f"{'' if x is None else f'{x:.2f}':>9}" for x in (row.numpy, row.nested))
        print(f"{row.case:<22}{row.question:<22}{row.small:9.2f}{row.large:9.2f}{others}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
